"""From what the tables say of a call to what it does with the arguments at hand."""

from typing import TYPE_CHECKING, Any

from humanlayer_agent.shell.languages.behaviour import Act
from humanlayer_agent.shell.languages.python.library import process_environment, subprocesses, tables
from humanlayer_agent.shell.languages.python.library.tables import INSTANCE, Effect, Operand
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, File
from humanlayer_agent.shell.languages.python.syntax import calls, imports
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers, files, path_values
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks, execution
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    DATA,
    NONE,
    PLAIN,
    Atom,
    Below,
    Const,
    Function,
    Instance,
    Lib,
    Mark,
    Prefix,
    Thing,
    Type,
    Value,
    const,
    operands,
    texts,
    truth,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_PATHS = frozenset({"read", "write", "append", "delete", "move", "metadata"})


def perform(engine: "Engine", does: tables.Does, args: Args, origin: str, *, instance: Value | None = None) -> None:
    """Do all that `does` says. `instance` is what the object stands for, for methods."""
    for effect in does:
        if _applies(effect, args):
            _perform(engine, effect, args, origin, instance)


def _perform(engine: "Engine", effect: Effect, args: Args, origin: str, instance: Value | None) -> None:  # noqa: C901
    if effect.kind in ("call", "words"):
        _call(engine, effect, args) if effect.kind == "call" else _command_line(engine, effect, args, origin)
        return
    value = _operand(engine, effect, args, instance)
    if value is None:
        return
    if effect.like is not None or effect.excluded:
        value = _chosen(effect, value)
        if not value:
            return
    kind = effect.kind
    if kind == "doubt":
        engine.doubt(f"what {origin} does can't be told")
    elif kind == "open":
        files.opened(engine, effect, value, args, origin)
    elif kind == "directory":
        engine.unit.directories += operands(value)
        if engine.path is None:  # modules are looked for in the working directory
            engine.act("execute", value, origin, role="import-path")
    elif kind == "import":
        imports.by_name(engine, value, origin)
    elif kind == "module":
        imports.run(engine, value, origin)
    elif kind == "python":
        execution.run(engine, value, args, origin)
    elif kind in ("shell", "program"):
        subprocesses.start(engine, effect, value, args, origin)
    elif kind == "template":
        execution.template(engine, value, origin)
    elif kind == "configure":
        imports.configuration(engine, value, origin)
    elif kind in ("remote", "remote-write", "database"):
        remote(engine, kind, value, origin)
    elif kind == "docstrings":
        shown = effect.operand is not None and (DATA in value or any(">>>" in text for text in texts(value)))
        if shown or engine.holds(">>>"):
            engine.doubt("examples in docstrings are run")
    elif kind == "environment":
        _environment(engine, effect, value, args, origin)
    elif kind in _PATHS:
        files.touched(engine, kind, path_like(engine, value), origin, role=effect.role, recursive=effect.recursive)
    else:
        engine.act(kind, path_like(engine, value), origin, role=effect.role, recursive=effect.recursive)


def remote(engine: "Engine", kind: str, value: Value, origin: str) -> None:
    """A path is read or written, or the host of a URL contacted: the text tells which."""
    doing = "read" if kind == "remote" else "write"
    for atom in value:
        text = atom if isinstance(atom, str) else atom.text if isinstance(atom, Prefix) else None
        one = frozenset({atom})
        if isinstance(atom, (Thing, Container, File, Instance, Class, Closure)) and not (
            isinstance(atom, Thing) and atom.module == "pathlib"
        ):
            continue
        if text is not None and "://" in text:
            _url(engine, kind, atom, text, origin)
        elif kind == "database":
            if not isinstance(atom, (Lib, Const)) and atom is not ANY:
                engine.act("network", one, origin)
        else:
            files.touched(engine, doing, one, origin)
            if text is None and isinstance(atom, Mark):
                engine.act("network", one, origin)


def _url(engine: "Engine", kind: str, atom: Atom, text: str, origin: str) -> None:
    scheme, _, rest = text.partition("://")
    if kind == "database" and scheme.partition("+")[0] == "sqlite":
        path = rest.removeprefix("/").partition("?")[0]
        if path and path != ":memory:":
            engine.act("write", frozenset({path if isinstance(atom, str) else Prefix(path)}), origin)
    elif scheme == "file":
        engine.act(
            "write" if kind != "remote" else "read",
            frozenset({rest if isinstance(atom, str) else Prefix(rest)}),
            origin,
        )
    else:
        engine.act("network", frozenset({atom}), origin)


def path_like(engine: "Engine", value: Value) -> Value:
    """`value` with what the program's own objects give as a path (`__fspath__`, `__str__`)."""
    if not any(isinstance(a, Instance) for a in value):
        return value
    from humanlayer_agent.shell.languages.python.syntax import attributes

    return value | attributes.implicit(engine, value, ("__fspath__", "__str__"))


def _applies(effect: Effect, args: Args) -> bool:
    after = effect.operand.position if effect.operand is not None else -1
    if effect.when is not None and not all(_is(args, *pair, after) is not False for pair in effect.when.items()):
        return False
    if effect.unless is not None and all(_is(args, *pair, after) for pair in effect.unless.items()):
        return False
    if effect.given is not None and args.given(effect.given) is False:
        return False
    return effect.missing is None or args.given(effect.missing) is not True


def _is(args: Args, name: str, wanted: Any, after: int) -> bool | None:
    """Is the argument `name` one of the values `wanted`? None where that is not known.

    Its position is not known: it may be any that is given without its name, `after` the operand.
    """
    value = args.at(-1, name)
    if value is not None:
        return _one_of(value, wanted)
    found = [_one_of(each, wanted) for each in args.positional[max(after, 0) + 1 :]]
    if args.rest is not None or (None in found and True not in found):
        return None
    return True in found


def _one_of(value: Value, wanted: Any) -> bool | None:
    if isinstance(wanted, bool):
        found = truth(value)
        return None if found is None else found is wanted and not any(isinstance(a, str) for a in value)
    allowed = {str(w) for w in (wanted if isinstance(wanted, list) else [wanted])}
    known = [a.name if isinstance(a, Lib) else a.dotted for a in value if isinstance(a, (Lib, Function, Type))] + texts(
        value
    )
    matching = [t in allowed for t in known]
    return None if not known or len(known) < len(value) or len(set(matching)) > 1 else matching[0]


def _operand(engine: "Engine", effect: Effect, args: Args, instance: Value | None) -> Value | None:
    """What the effect is done to; None where it is not done at all."""
    if effect.fixed is not None:
        return _constant(effect.fixed)
    if effect.operand is None:
        return PLAIN
    if effect.operand is INSTANCE or effect.operand == INSTANCE:
        return instance if instance is not None else PLAIN
    value = args.operand(effect.operand)
    if value is None or (value == NONE and effect.default is not None):
        if effect.default is None:
            return None
        return (instance or PLAIN) if effect.default == "self" else _constant(effect.default)
    if effect.kind in _PATHS and any(args.named.get(k, NONE) != NONE for k in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        return frozenset(a for a in value if isinstance(a, str) and a.startswith("/")) or PLAIN
    if effect.item is not None:
        value = containers.at(engine, value, effect.item)
    if effect.many:
        value = _each(engine, value)
        if effect.operand.position >= 0:
            value = value.union(*args.positional[effect.operand.position + 1 :])
    return value


def _each(engine: "Engine", value: Value) -> Value:
    whole = frozenset(a for a in value if not isinstance(a, Container))
    return whole | containers.elements(engine, value - whole) if len(whole) < len(value) else value


def _constant(text: str) -> Value:
    if text == "temporary":
        return frozenset({path_values.TEMPORARY})
    return frozenset({Below(text.removeprefix("below:"))}) if text.startswith("below:") else const(text)


def _chosen(effect: Effect, value: Value) -> Value:
    """The operands that count."""
    out = set()
    for atom in value:
        known = [atom] if isinstance(atom, str) else texts(frozenset({atom}))
        if (
            isinstance(atom, Thing)
            or not known
            or (known[0] not in effect.excluded and (effect.like is None or effect.like.match(known[0])))
        ):
            out.add(atom)
    return frozenset(a for a in out if not (isinstance(a, Const) and a.value is None))


def _environment(engine: "Engine", effect: Effect, value: Value, args: Args, origin: str) -> None:
    given = args.operand(effect.value) if effect.value is not None else None
    content = operands(given) if given is not None else []
    for name in operands(value):
        engine.note(Act("environment", (name, *content[:1]), effect.role or "code", origin, engine.line))


def _command_line(engine: "Engine", effect: Effect, args: Args, origin: str) -> None:
    """A function takes the words of a command line, or those in sys.argv."""
    given = args.operand(effect.operand) if effect.operand is not None else None
    if given is None or given == NONE:
        given = process_environment.argv(engine)
    argument_doubts.of_words(engine, given, origin)


def _call(engine: "Engine", effect: Effect, args: Args) -> None:
    """A function that was handed over is called."""
    operand = effect.operand
    called = args.operand(operand) if operand is not None else None
    if called is None or called == NONE or operand is None:
        return
    if effect.elements is not None:
        passed = _for_each(engine, effect, args, operand, effect.elements)
    elif effect.arguments == "rest":
        passed = args.after(operand.position + 1).without(operand.keyword)
    elif isinstance(effect.arguments, Operand):
        passed = _unpacked(engine, effect.arguments, args)
    else:
        passed = Args.unknown(args.node)
    result = calls.call(engine, called, passed, "")
    # What it gives is in the hands of the function that called it.
    capability_leaks.escape(engine, capability_leaks.only(engine, result), "a result")


def _for_each(engine: "Engine", effect: Effect, args: Args, operand: Operand, source: Operand) -> Args:
    """The arguments of a function that is called for each element."""
    first = args.operand(source)
    passed = Args(args.node)
    if first is None or args.rest is not None:
        passed = Args.unknown(args.node)
    elif effect.spread:
        passed = spread(engine, args, containers.elements(engine, first))
    else:
        further = args.positional[source.position + 1 :] if source.position > operand.position else []
        passed.positional = [containers.elements(engine, v) for v in (first, *further)]
    return passed


def _unpacked(engine: "Engine", operand: Operand, args: Args) -> Args:
    """The arguments that are given as a sequence, and as `kwargs`."""
    value = args.operand(operand)
    named = args.at(-1, "kwargs") or args.at(-1, "kwds")
    passed = Args(args.node) if value is None else spread(engine, args, value)
    if named is not None:
        passed.named, passed.others = containers.keywords(engine, named)
    return passed


def spread(engine: "Engine", args: Args, value: Value) -> Args:
    """`value`, a sequence or several, as arguments."""
    known, rest = containers.sequence(engine, value)
    return Args(args.node, known, {}, rest, None)
