"""bash's own commands: those that change the shell's state, run code, or evaluate strings; and calls of functions."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell.builtins.cd import cd, destination, pushd
from humanlayer_agent.shell.expansion.field import Field, certain, listed, positional
from humanlayer_agent.shell.interpreter.context import Context, Ends
from humanlayer_agent.shell.interpreter.loop_effects import DECLARERS, changes
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State, join
from humanlayer_agent.shell.programs import operand_effects
from humanlayer_agent.shell.syntax.parse import parse
from humanlayer_agent.shell.syntax.tree import ProcSub, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

Handler = Callable[[Run, list[Field]], Ends]

_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_STDIN = frozenset(("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))


# ---- test -----------------------------------------------------------------------------------------


def conditional(walk: "Interpreter", words: Sequence[Word], state: State) -> None:
    """`[[ ]]`: the operands of -eq and its like, of -v and of -R are evaluated as arithmetic."""
    from humanlayer_agent.shell.expansion import arithmetic

    texts = [w.static if not w.quoted else None for w in words]
    for n, text in enumerate(texts):
        if text in _COMPARISONS:
            for word in words[max(n - 1, 0) : n + 2 : 2]:
                if (why := arithmetic.word_risk(word, state)) is not None:
                    walk.program.doubt(why)
        elif text in ("-v", "-R") and n + 1 < len(texts):
            _named(walk, words[n + 1], state)


def _named(walk: "Interpreter", word: Word, state: State) -> None:
    """The name after -v: a subscript in it is evaluated."""
    if not re.fullmatch(r"[A-Za-z_0-9@*]+(\[([0-9]+|[@*])\])?", word.static or "", re.ASCII):
        walk.program.doubt(f"-v {word.raw}: a subscript in it is evaluated")


def test(run: Run, fields: list[Field]) -> Ends:
    """`test -v 'a[$(cmd)]'` runs cmd."""
    for n, each in enumerate(fields[:-1]):
        after = fields[n + 1]
        if each.text in ("-v", "-R") or (each.text is None and each.may_be_option() and not each.word.quoted):
            if each.text is None and after.texts and not any("[" in t for t in after.texts):
                continue
            if not after.texts or any("[" in t for t in after.texts):
                run.walk.program.doubt(
                    f"{run.command.program} {each.shown} {after.shown}: a subscript in it is evaluated"
                )
    return run.state, run.state


# ---- options and parameters -----------------------------------------------------------------------

_SAFE_LETTERS = frozenset("euxvCETmbhno")
_SAFE_OPTIONS = frozenset(
    [
        "errexit", "nounset", "xtrace", "verbose", "noclobber", "errtrace", "functrace", "monitor", "notify",
        "hashall", "noexec", "pipefail", "interactive-comments", "nolog", "ignoreeof", "onecmd",
    ]
)  # fmt: skip
_SAFE_SHOPTS = frozenset({"nullglob", "failglob", "globstar", "nocasematch", "inherit_errexit", "checkwinsize"})


def set_(run: Run, fields: list[Field]) -> Ends:
    """`set`: options that change how later text reads, and new positional parameters. Alone it prints all variables."""
    if not fields:
        run.printed("environment", None, origin="set")
    out = run.state.copy()
    i = 0
    while i < len(fields):
        text = fields[i].text
        if text is None:
            run.doubt(fields[i].word.raw)
            out.set_parameters(None)
            return out, out
        if text == "--":
            out.set_parameters(listed(fields[i + 1 :]))
            return out, out
        if text[:1] not in ("-", "+") or text == "-":
            # `set a b`; `set -` also ends the options, and keeps the parameters where nothing follows.
            rest = fields[i + (text == "-") :]
            if rest:
                out.set_parameters(listed(rest))
            return out, out
        if set(text[1:]) - _SAFE_LETTERS:
            run.walk.program.doubt(f"set {text}")
        i += 1
        if "o" in text[1:] and i < len(fields):
            if fields[i].text not in _SAFE_OPTIONS:
                run.walk.program.doubt(f"set -o {fields[i].shown}")
            i += 1
    return out, out


def shift(run: Run, fields: list[Field]) -> Ends:
    """`shift`: it fails, and shifts nothing, where there are too few parameters."""
    count = fields[0].text if fields else "1"
    out = run.state.copy()
    before = out.positional
    if before is None or count is None or not count.isascii() or not count.isdigit():
        out.set_parameters(None)
    elif int(count) <= len(before):
        out.set_parameters(before[int(count) :] if int(count) <= certain(before) else None)
    elif certain(before) < len(before):
        out.set_parameters(None)  # there may be enough
    return out, out


def shopt(run: Run, fields: list[Field]) -> Ends:
    """Options that change what words mean make everything after uncertain."""
    out = run.state.copy()
    for each in fields:
        if each.text not in _SAFE_SHOPTS and each.text not in ("-s", "-u", "-q", "-p"):
            run.walk.program.doubt(f"shopt {each.word.raw}")
        out.nullglob |= each.text == "nullglob"
        if each.text == "failglob":
            run.walk.fails_on_globs = True
    return out, out


# ---- code -----------------------------------------------------------------------------------------


def eval_(run: Run, fields: list[Field]) -> Ends:
    """`eval`: its words, joined by blanks, are read as a command again."""
    words = fields[1:] if fields and fields[0].text == "--" else fields
    if not words:
        return run.state, run.state
    texts = positional(words)
    if texts is None:
        run.code(words[0], what=None, role="code", origin="eval")
        run.doubt(next(f.word.raw for f in words if f.text is None))
        unknown = run.state.lost()
        return unknown, unknown
    inner = run.context.deeper(via=(*run.context.via, "eval"))
    return run.walk.source(" ".join(texts), words[0], run.state, inner, "string")


def source(run: Run, fields: list[Field]) -> Ends:
    """`. file`: a script that runs in this shell, so nothing is certain after one that nobody read."""
    from humanlayer_agent.shell.environment import activation_scripts

    if fields and fields[0].text == "--":
        fields = fields[1:]
    if not fields:
        return run.state, run.state
    target = fields[0]
    fed = target.text in _STDIN
    text = operand_effects.descriptor_text(target, run.state, run.context)
    if text is not None:
        inner = run.context.deeper(via=(*run.context.via, run.command.program or "source"))
        entry = run.state.copy()
        if len(fields) > 1:
            entry.set_parameters(listed(fields[1:]))
        run.walk.frames.append(variables_frame := Frame())
        won, lost = run.walk.source(text, target, entry, inner, "heredoc" if fed else "string")
        run.walk.frames.pop()
        won, lost = join(won, variables_frame.returned), join(lost, variables_frame.returned)
        return (won, lost) if len(fields) == 1 else (_with_other_parameters(won), _with_other_parameters(lost))
    if (place := activation_scripts.installed(target.text, run.state)) is not None and len(fields) == 1:
        activation_scripts.activate(run, [], place)
        return run.state, run.state
    if "/" in target.prefix and target.text not in _STDIN and not may_reach_process_substitution(target):
        origin = f"{run.command.program} operand 1"
        # With further words, those are $1 and so on while it runs.
        here = _read_here(run, target, origin) if len(fields) == 1 else None
        if here is not None:
            return here
        run.script(target, origin, language="source", arguments=fields[1:])
    else:
        run.code(target, what=target.text, role="script", origin=f"{run.command.program} operand 1")
        run.doubt(target.word.raw)
    if fed or (target.text or "").startswith("/dev/fd/"):
        for heard in [*run.walk.heard, *([run.context.stdin.whole] if run.context.stdin.whole is not None else [])]:
            inner = run.context.deeper(via=(*run.context.via, run.command.program or "source"))
            run.walk.source(heard.replace("\0", ""), target, run.state.copy(), inner, "heredoc")
    unknown = run.state.lost()
    return unknown, unknown


def _read_here(run: Run, target: Field, origin: str) -> Ends | None:
    """Follow a script that can be read, so that what it leaves behind is known. None where it can't."""
    from humanlayer_agent.shell.environment import activation_scripts

    before = len(run.command.effects)
    run.path("execute", target, role="script", origin=origin)
    added = run.command.effects[before:]
    text = run.walk.scripts.settled(run.command, added[0], target) if len(added) == 1 else None
    if text is None:
        del run.command.effects[before:]
        return None
    inner = run.context.deeper(via=(*run.context.via, run.command.program or "source"))
    run.walk.frames.append(frame := Frame())
    first = len(run.walk.program.commands)
    won, lost = run.walk.source(text, target, run.state, inner, "script-file")
    run.walk.frames.pop()
    if (place := activation_scripts.of_activation(added[0].operand or "")) is not None:
        activation_scripts.activate(run, run.walk.program.commands[first:], place)
    return join(won, frame.returned), join(lost, frame.returned)


def _with_other_parameters(end: State | None) -> State | None:
    """After a script that had parameters of its own: those from before, or those that it has set."""
    if end is None:
        return None
    out = end.copy()
    out.set_parameters(None)
    return out


def trap(run: Run, fields: list[Field]) -> Ends:
    """`trap 'code' SIGNAL`: the code runs later, anywhere."""
    if fields and fields[0].text in ("-l", "-p"):
        return run.state, run.state
    words = fields[1:] if fields and fields[0].text == "--" else fields
    if len(words) < 2 and not any(w.many for w in words):
        return run.state, run.state
    action = words[0]
    if action.text is None:
        run.code(action, what=None, role="code", origin="trap")
        run.doubt(action.word.raw)
    elif action.text not in ("", "-") and not action.text.isdigit():
        if any(w.text not in ("EXIT", "0", "SIGEXIT") for w in words[1:]):
            _trap_beside(run.walk, action.text, run.state)
        inner = run.context.deeper(via=(*run.context.via, "trap"))
        before = len(run.walk.program.commands)
        run.walk.source(action.text, action, run.state.lost(), inner, "trap")
        seen = run.walk.program.commands[before:]
        if not all(c.resolved and all(e.resolved for e in c.effects) for c in seen):
            run.walk.source(action.text, action, _later(run.state), inner, "trap")
    return run.state, run.state


def _later(state: State) -> State:
    """`state` as a trap may find it: what is set now may stay so, what is unset now may be set by then."""
    out = state.copy()
    out.closed = False
    out.variables |= {name: None for name, value in out.variables.items() if value == ()}
    return out


def _trap_beside(walk: "Interpreter", text: str, state: State) -> None:
    """A trap that may run between any two commands must not change what they see."""
    parsed = parse(text)
    if parsed.script is None or parsed.script.body is None:
        return
    found = changes(parsed.script.body, state.functions)
    if found.anything or found.names or found.moves or found.positional or found.functions or found.unset:
        walk.program.doubt("a trap changes variables or the directory between other commands")


def alias(run: Run, fields: list[Field]) -> Ends:
    """Aliases work only after `shopt -s expand_aliases`; one that is defined is reason enough to ask."""
    for each in fields:
        if each.text is None or "=" in each.text:
            run.walk.program.doubt(f"alias {each.word.raw}")
    return run.state, run.state


def exit_(run: Run, fields: list[Field]) -> Ends:
    """Nothing runs after `exit`; with two numbers it is an error, which ends the line only."""
    if len(fields) > 1 or any(each.many for each in fields):
        run.walk.may_abort(run.state)
    return None, None


def return_(run: Run, fields: list[Field]) -> Ends:
    """`return` goes on after the call; outside of a function it fails, and nothing happens."""
    if len(fields) > 1 or any(each.many for each in fields):
        run.walk.may_abort(run.state)
    if not run.walk.frames:
        return run.state, run.state
    frame = run.walk.frames[-1]
    frame.returned = join(frame.returned, run.state.copy())
    return None, None


def hash_(run: Run, fields: list[Field]) -> Ends:
    """`hash -r` and looking names up change nothing; `hash -p file name` gives a name another meaning."""
    if any(f.text is None or (f.text.startswith("-") and f.text not in ("-r", "-l", "-t", "-d")) for f in fields):
        return doubtful(run, fields)
    return run.state, run.state


def jobs(run: Run, fields: list[Field]) -> Ends:
    """`jobs -x command word ...` runs it, with the numbers of processes in place of jobs."""
    for n, each in enumerate(fields):
        if each.text is None and each.may_be_option():
            run.doubt(each.word.raw)
        if each.text is None or not each.text.startswith("-"):
            break
        if "x" in each.text and fields[n + 1 :]:
            words = positional(fields[n + 1 :])
            if words is None:
                run.doubt(run.command.text)
            else:
                text = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
                run.walk.source(
                    text, each, run.state.copy(), run.context.deeper(via=(*run.context.via, "jobs")), "string"
                )
            break
    return run.state, run.state


def doubtful(run: Run, fields: list[Field]) -> Ends:
    """Builtins that change what names mean (enable -f, bind -x, complete -C): a human decides."""
    if fields:
        run.walk.program.doubt(f"{run.command.program} {fields[0].word.raw}")
        run.doubt(fields[0].word.raw)
    return run.state, run.state


def nothing(run: Run, fields: list[Field]) -> Ends:
    """Builtins without an effect of their own."""
    return run.state, run.state


def _of_setters(name: str) -> Handler:
    """The handler `name` of `setters`, which is imported when it is called."""

    def handler(run: Run, fields: list[Field]) -> Ends:
        from humanlayer_agent.shell.builtins import declare

        found: Handler = getattr(declare, name)
        return found(run, fields)

    return handler


_declare, _setters = _of_setters("declare"), _of_setters("setters")

HANDLERS: dict[str, Handler] = {
    "cd": cd, "pushd": pushd, "popd": pushd,
    "export": _declare, "declare": _declare, "typeset": _declare,
    "local": _declare, "readonly": _declare,
    "read": _setters, "mapfile": _setters, "readarray": _setters,
    "getopts": _setters, "unset": _of_setters("unset"), "printf": _of_setters("printf"),
    "let": _of_setters("let"),
    "test": test, "[": test, "set": set_, "shift": shift, "shopt": shopt,
    "eval": eval_, "source": source, ".": source, "trap": trap, "alias": alias,
    "exit": exit_, "logout": exit_, "return": return_, "break": nothing, "continue": nothing,
    "hash": hash_, "enable": doubtful, "bind": doubtful, "complete": doubtful, "compopt": doubtful, "fc": doubtful,
    "history": doubtful, "compgen": doubtful, "coproc": doubtful,
    ":": nothing, "true": nothing, "false": nothing, "echo": nothing, "pwd": nothing, "dirs": nothing,
    "unalias": nothing, "type": nothing, "times": nothing, "umask": nothing, "ulimit": nothing,
    "wait": _of_setters("wait"), "jobs": jobs, "fg": nothing, "bg": nothing, "disown": nothing, "caller": nothing,
    "suspend": nothing, "help": nothing,
}  # fmt: skip

BUILTINS = frozenset(HANDLERS)

SILENT = frozenset([name for name, handler in HANDLERS.items() if handler is nothing])
"""Builtins without an effect of their own."""

PURE = SILENT | {"cd", "pushd", "popd"}
"""Builtins that leave the state they are given alone: what they change they change in a copy."""

KEEPS_PREFIX = frozenset({"eval", "source", ".", "unset", *DECLARERS})
"""Builtins after which a variable that was set for them alone may keep a value (`x=1 export x`)."""


def may_reach_process_substitution(target: Field) -> bool:
    """True where an operand is `<( )`: what reads it reads another command's output."""
    return any(isinstance(p, ProcSub) for p in target.word.parts)


# ---- functions ------------------------------------------------------------------------------------


class Frame:
    """One call of a function: the state at each `return` so far, and the names that are local to it."""

    __slots__ = ("locals", "returned")

    def __init__(self) -> None:
        self.returned: State | None = None
        self.locals: set[str] = set()


def call(walk: "Interpreter", name: str, fields: list[Field], state: State, context: Context) -> Ends:
    """Call a function: its body runs here, with the words as positional parameters."""
    if name in context.calls or context.depth > 20:
        walk.program.doubt(f"{name} calls itself")
        unknown = state.lost()
        return unknown, unknown
    won: State | None = None
    lost: State | None = None
    for function in state.functions[name]:
        if function is None:
            continue
        walk.functions_called.add(id(function))
        entry = state.copy()
        entry.set_parameters(listed(fields))
        inner = context.deeper(
            calls=(*context.calls, name), inside=(*context.inside, "function"), stdin=context.stdin.shared()
        )
        inner = walk.redirected(function.redirects, entry, inner)
        frame = Frame()
        walk.frames.append(frame)
        ends = walk.node(function.body, entry, inner)
        walk.frames.pop()
        won = join(won, _after_call(join(ends[0], frame.returned), frame, state))
        lost = join(lost, _after_call(join(ends[1], frame.returned), frame, state))
    return won, lost


def _after_call(end: State | None, frame: Frame, before: State) -> State | None:
    if end is None:
        return None
    out = end.copy()
    out.forget(frame.locals)
    out.uncover(frame.locals, before)
    out.unexport(frame.locals & out.maybe_exported)
    out.positional, out.fresh = before.positional, before.fresh
    return out


__all__ = [
    "HANDLERS",
    "KEEPS_PREFIX",
    "Frame",
    "Handler",
    "call",
    "conditional",
    "destination",
    "may_reach_process_substitution",
]
