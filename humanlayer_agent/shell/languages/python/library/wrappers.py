"""Functions that make or change functions: operator.methodcaller, property, mock.patch."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Cell, Class, Closure, Container, Partial
from humanlayer_agent.shell.languages.python.syntax import calls
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import container_methods, iteration
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks, reflection
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    ENVIRON,
    PICKLED,
    PLAIN,
    Function,
    Instance,
    Module,
    Value,
    const,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def _deferred(name: str) -> Special:
    """operator.attrgetter("x"), operator.methodcaller("x", ...): they wait for an object."""

    def defer(engine: "Engine", args: Args) -> Value:
        made = engine.site(args.node, "partial", Partial)
        engine.add(made.function, frozenset({Function("operator", name)}))
        for n, value in enumerate(args.positional if args.rest is None else [PLAIN]):
            if n == len(made.positional):
                made.positional.append(Cell())
            engine.add(made.positional[n], value)
        for key, value in args.named.items():
            engine.add(made.keywords.setdefault(key, Cell()), value)
        return frozenset({made})

    return defer


def _attributes_got(engine: "Engine", args: Args) -> Value:
    out: Value = EMPTY
    for name in args.positional[:-1]:
        known = only_texts(name)
        for path in known or [""]:
            held = args.positional[-1]
            for part in path.split(".") if known else [None]:
                held = reflection.lookup(engine, held, const(part) if part is not None else PLAIN)
            out |= held
    return out if len(args.positional) == 2 else iteration.gathered(engine, args, out, "tuple")


def _method_called(engine: "Engine", args: Args) -> Value:
    if len(args.positional) < 2:
        return ANYTHING
    found = reflection.lookup(engine, args.positional[-1], args.positional[0])
    return calls.call(engine, found, Args(args.node, args.positional[1:-1], args.named, None, args.others), "")


def _wrapped(kind: str) -> Special:
    """staticmethod, classmethod, property: the function, which is called in another way."""

    def wrap(engine: "Engine", args: Args) -> Value:
        out: Value = EMPTY
        for value in args.every():
            for atom in value:
                if not isinstance(atom, Closure) and kind == "property":
                    capability_leaks.escape(engine, frozenset({atom}), "property")
                if isinstance(atom, Closure):
                    if kind == "property":
                        atom.computed = True
                    elif atom.kind == "function":
                        # It may be used without this as well.
                        atom.kind = "either"
                    if kind == "property":
                        out |= engine.read(atom.returns)
            out |= value
        return out

    return wrap


def patched(engine: "Engine", args: Args) -> Value:
    """mock.patch.object(owner, name, new), mock.patch.dict(mapping, values): the first is no argument of anything."""
    target, name = args.at(0) or EMPTY, args.at(1, "attribute")
    objects = frozenset(a for a in target if isinstance(a, (Instance, Class, Module)))
    if objects:
        reflection.set_attribute(engine, Args(args.node, [objects, name or PLAIN, args.at(2, "new") or ANYTHING]))
    for atom in target:
        if isinstance(atom, Container):
            container_methods.method(engine, atom, "update", args.after(1))
    for value in (*args.positional[1:], *args.named.values(), args.rest or EMPTY, args.others or EMPTY):
        capability_leaks.escape(engine, value, "a patch")
        if ENVIRON in (args.at(0) or EMPTY):
            process_environment.given(engine, frozenset(a for a in value if isinstance(a, Container)), "os.environ")
    return ANYTHING


def _unpickled(engine: "Engine", args: Args) -> Value:
    """pickle.loads: what was pickled here holds nothing new."""
    if args.at(0) != frozenset({PICKLED}):
        engine.doubt("what pickle.loads does can't be told")
    return ANYTHING


CONSTRUCTORS: dict[str, Special] = {
    "staticmethod": _wrapped("static"), "classmethod": _wrapped("class"), "property": _wrapped("property"),
}  # fmt: skip
SPECIAL: dict[str, Special] = {
    "operator.attrgetter": _deferred("attrgetter()"), "operator.methodcaller": _deferred("methodcaller()"),
    "operator.attrgetter()": _attributes_got, "operator.methodcaller()": _method_called, "pickle.loads": _unpickled,
    "unittest.mock.patch.object": patched, "unittest.mock.patch.dict": patched,
}  # fmt: skip
