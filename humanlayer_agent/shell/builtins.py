"""bash's own commands: those that change the shell's state, run code, or evaluate strings."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.assigned import arithmetic_names, assigned_names
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.environment import selects_code
from humanlayer_agent.shell.paths import dedupe, logical
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State, join
from humanlayer_agent.shell.syntax import Arith, ArrayLit, Assign, Param, ProcSub, Word
from humanlayer_agent.shell.words import Field, literal_values

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Context, Ends, Walk

Handler = Callable[["Walk", SimpleCommand, list[Field], State, "Context"], "Ends"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


# ---- assignments ----------------------------------------------------------------------------------


def assign(walk: "Walk", assigns: Sequence[Assign], state: State, *, exported: bool) -> None:
    """Apply `assigns` to `state` (a copy of the caller's)."""
    for each in assigns:
        value = literal_values(each.value, state)
        if each.index is not None or any(isinstance(p, ArrayLit) for p in each.value.parts):
            value = None
            if each.index is not None:
                _subscript(walk, each.index)
        elif each.append:
            before = state.lookup(each.name)
            single = before is not None and len(before) < 2 and value is not None and len(value) == 1
            value = ("".join((*(before or ()), *(value or ()))),) if single else None
        state.assign(each.name, value)
        if exported:
            state.exported |= {each.name}


def assignment_effects(walk: "Walk", command: SimpleCommand, assigns: Sequence[Assign], state: State) -> None:
    """Environment effects of assignments that select code (LD_PRELOAD, PATH, GIT_SSH_COMMAND ...)."""
    for each in assigns:
        values = literal_values(each.value, state) if each.index is None else None
        named = values[0] if values and len(values) == 1 else None
        if selects_code(each.name, named):
            command.effects.append(
                Effect(
                    "environment",
                    "assignment",
                    each.name,
                    named is not None,
                    walk.span(each.start, each.end),
                    f"{each.name}=",
                    "assignment",
                )
            )


def expansion(walk: "Walk", part: Param, state: State) -> None:
    """What an expansion does besides giving a text: `${x:=y}` assigns, `${x@P}` and `${!x}` evaluate."""
    if part.op in ("=", ":="):
        state.assign(part.name, None)
    if part.op == "@":
        operator = part.arg.text if part.arg is not None else None
        if operator not in ("Q", "U", "u", "L", "a", "A", "E", "K", "k"):
            walk.program.doubt(f"{part.raw}: the value is evaluated as a prompt string")
    if part.op == "!":
        walk.program.doubt(f"{part.raw}: indirect expansion")
    if part.index is not None:
        _subscript(walk, part.index)


def _subscript(walk: "Walk", index: str) -> None:
    """An array subscript is arithmetic: a variable's value in it is evaluated, `a[$(cmd)]` included."""
    if index not in ("@", "*") and not re.fullmatch(r"-?[0-9]+|\$?#?\{?[A-Za-z_][A-Za-z0-9_]*\}?|\$[0-9#]", index, re.ASCII):
        walk.program.doubt(f"subscript [{index}]")


def arithmetic_text(walk: "Walk", part: Arith, state: State) -> None:
    """`$(( ))`: the names it assigns are unknown from here on."""
    for name in arithmetic_names(part.raw):
        state.assign(name, None)
    for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", part.raw):
        _evaluated(walk, name, state)


_UNSAFE_ARITHMETIC = re.compile(r"[\[$`]")


def _evaluated(walk: "Walk", name: str, state: State) -> None:
    """Arithmetic evaluates the value of a variable again: `x='a[$(cmd)]'; ((x))` runs cmd."""
    for value in state.variables.get(name) or ():
        if _UNSAFE_ARITHMETIC.search(value):
            walk.program.doubt(f"arithmetic evaluates the text of {name}")


def arithmetic(walk: "Walk", command: SimpleCommand, words: Sequence[Word], whole: bool) -> None:
    """`(( ))`, and the operands of `-eq` and its like in `[[ ]]`: strings that are evaluated as code."""
    if whole:
        return
    texts = [w.text for w in words]
    for n, text in enumerate(texts):
        if text in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            for word in words[max(n - 1, 0) : n + 2 : 2]:
                _arithmetic_operand(walk, command, word)
        elif text in ("-v", "-R") and n + 1 < len(texts):
            _arithmetic_operand(walk, command, words[n + 1])


def _arithmetic_operand(walk: "Walk", command: SimpleCommand, word: Word) -> None:
    if word.text is not None and _UNSAFE_ARITHMETIC.search(word.text):
        command.doubt(word.raw)
        walk.program.doubt(f"{word.raw}: evaluated as arithmetic")


# ---- directory ------------------------------------------------------------------------------------


def cd(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """`cd`: on success the shell is there, on failure where it was."""
    operands = [f for f in fields if f.text not in ("-L", "-P", "-e", "-@", "--")]
    physical = any(f.text == "-P" for f in fields)
    moved = state.copy()
    moved.assign("OLDPWD", None)
    if not operands:
        home = state.lookup("HOME")
        moved.cwd = home or None
    elif len(operands) > 1 or operands[0].text == "-" or "CDPATH" in state.variables or "CDPATH" in state.environ:
        moved.cwd = None
    else:
        moved.cwd = destination(operands[0], state)
    if physical and moved.cwd is not None and any(".." in (o.text or "") for o in operands):
        moved.cwd = None
    if moved.cwd is None and operands:
        command.doubt(operands[0].word.raw)
    return moved, state


def destination(target: Field, state: State) -> tuple[str, ...] | None:
    texts = (target.text,) if target.text is not None else target.choices
    if not texts:
        return None
    if all(t.startswith("/") for t in texts):
        return dedupe(logical(t, "/") for t in texts)
    if state.cwd is None:
        return None
    found = dedupe(logical(t, c) for t in texts for c in state.cwd)
    return found if len(found) <= 8 else None


def pushd(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    moved = state.copy()
    operands = [f for f in fields if f.text != "-n"]
    usable = len(operands) == 1 and command.program == "pushd" and not (operands[0].text or "+")[:1] in "+-"
    moved.cwd = destination(operands[0], state) if usable else None
    if moved.cwd is None and command.program == "pushd":
        command.doubt(command.text)
    return moved, state


# ---- variables ------------------------------------------------------------------------------------


def declare(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """export, declare, typeset, local, readonly: assignments as arguments."""
    out = state.copy()
    exporting, integer, functions = command.program == "export", False, False
    for each in fields:
        if each.text is None:
            command.doubt(each.word.raw)
            if not _assign_word(walk, command, each, out, exporting):
                out.forget(None)
            continue
        if each.text[:1] in "-+" and len(each.text) > 1:
            exporting |= each.text[0] == "-" and "x" in each.text and command.program != "export"
            integer |= "i" in each.text
            functions |= "f" in each.text
            if "n" in each.text and command.program != "export":
                walk.program.doubt("declare -n: a name that stands for another")
            continue
        _assign_word(walk, command, each, out, exporting)
        if integer and _UNSAFE_ARITHMETIC.search(each.text):
            walk.program.doubt(f"{each.word.raw}: evaluated as arithmetic")
    if functions and exporting:
        walk.program.doubt("an exported function")
    return out, out


def _assign_word(walk: "Walk", command: SimpleCommand, each: Field, state: State, exporting: bool) -> bool:
    """`name=value` or `name` as a word; returns False where even the name is not known."""
    match = _IDENTIFIER.match(each.text if each.text is not None else each.word.raw)
    if match is None:
        if each.text is not None:
            command.doubt(each.word.raw)
        return False
    name = match[0]
    rest = each.text[match.end() :] if each.text is not None else None
    if rest is not None and rest.startswith("["):
        _subscript(walk, rest[1:].partition("]")[0])
        state.assign(name, None)
    elif rest is not None and rest.startswith("="):
        state.assign(name, (rest[1:],))
    elif rest != "" or command.program == "local":
        state.assign(name, None)  # an array, `+=`, a new local: what it holds is not tracked
    if exporting:
        state.exported |= {name}
    value = rest[1:] if rest is not None and rest.startswith("=") else None
    if rest != "" and selects_code(name, value):
        command.effects.append(
            Effect("environment", "assignment", name, value is not None, walk.span(each.start, each.end), f"{name}=", "assignment")
        )
    return True


def setters(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """read, mapfile, getopts, unset, wait -p: names given as words become unknown."""
    out = state.copy()
    names = {"REPLY", "MAPFILE", "OPTARG", "OPTIND"}
    for each in fields:
        if each.text is None:
            command.doubt(each.word.raw)
            out.forget(None)
            return out, out
        found = _IDENTIFIER.match(each.text)
        if found is not None:
            names.add(found[0])
        if "[" in each.text:
            _subscript(walk, each.text.partition("[")[2].rstrip("]"))
        if each.text in ("-f",) and command.program == "unset":
            out.functions = {}
        if each.text.startswith(("-C", "-c")) and command.program in ("mapfile", "readarray"):
            walk.program.doubt("mapfile -C runs a callback")
    out.forget(names)
    return out, out


def printf(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    if fields and (fields[0].text is None and fields[0].may_be_option() or (fields[0].text or "").startswith("-v")):
        out = state.copy()
        target = fields[0].text[2:] if fields[0].text and len(fields[0].text) > 2 else fields[1].text if len(fields) > 1 else None
        if target is None or _IDENTIFIER.fullmatch(target) is None:
            command.doubt(command.text)
            out.forget(None)
        else:
            out.forget({target})
        return out, out
    return state, state


def let(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    out = state.copy()
    for each in fields:
        if each.text is None or _UNSAFE_ARITHMETIC.search(each.text):
            walk.program.doubt(f"{each.word.raw}: evaluated as arithmetic")
        out.forget(set(_IDENTIFIER.findall(each.text or each.word.raw)))
    return out, out


def test(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    for n, each in enumerate(fields):
        if each.text in ("-v", "-R") and n + 1 < len(fields):
            _arithmetic_operand(walk, command, fields[n + 1].word)
            if fields[n + 1].text is None:
                command.doubt(fields[n + 1].word.raw)
    return state, state


def set_(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """`set`: options that change how later text reads, and new positional parameters."""
    out = state.copy()
    texts = [f.text for f in fields]
    for n, text in enumerate(texts):
        if text is None:
            command.doubt(fields[n].word.raw)
            out.positional = None
            break
        if text in ("--", "-"):
            rest = [t for t in texts[n + 1 :] if t is not None]
            out.positional = tuple(rest) if len(rest) == len(texts) - n - 1 else None
            break
        if not text.startswith(("-", "+")):
            if n == 0 or not (texts[n - 1] or "").startswith(("-", "+")) or not (texts[n - 1] or "").endswith("o"):
                out.positional = None
            elif text in ("posix", "physical", "history", "histexpand", "vi", "emacs", "allexport", "noglob"):
                walk.program.doubt(f"set -o {text}")
            continue
        if any(c in text for c in "afkHPp"):
            walk.program.doubt(f"set {text}")
    return out, out


def shift(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    out = state.copy()
    out.positional = out.positional[1:] if out.positional is not None and not fields else None
    return out, out


def shopt(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """Options that change what words mean make everything after uncertain."""
    safe = {"nullglob", "failglob", "globstar", "nocasematch", "inherit_errexit", "nocaseglob", "checkwinsize"}
    for each in fields:
        if each.text is None or not (each.text in safe or each.text in ("-s", "-u", "-q", "-p")):
            walk.program.doubt(f"shopt {each.word.raw}")
    return state, state


# ---- code -----------------------------------------------------------------------------------------


def eval_(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """`eval`: its words, joined by blanks, are read as a command again."""
    if not fields or (fields[0].text == "--" and len(fields) == 1):
        return state, state
    words = fields[1:] if fields[0].text == "--" else fields
    if any(f.text is None for f in words):
        touch.code(walk, command, words[0], what=None, role="code", origin="eval")
        command.doubt(next(f.word.raw for f in words if f.text is None))
        unknown = state.copy()
        unknown.forget(None)
        unknown.cwd = None
        return unknown, unknown
    joined = " ".join(f.text or "" for f in words)
    return walk.source(joined, words[0], state, context.deeper(via=(*context.via, "eval")), "string")


def source(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """`. file`: a script that runs in this shell, so nothing is certain after one that nobody read."""
    unknown = state.copy()
    unknown.forget(None)
    unknown.cwd = None
    if not fields:
        return state, state
    target = fields[0]
    fed = target.text in ("/dev/stdin", "/dev/fd/0") and context.stdin.text is not None
    if fed and context.stdin.text is not None:
        inner = context.deeper(via=(*context.via, command.program or "source"))
        return walk.source(context.stdin.text, target, state, inner, "heredoc")
    touch.code(walk, command, target, what=target.text, role="script", origin=f"{command.program} operand 1")
    command.doubt(target.word.raw)
    return unknown, unknown


def trap(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """`trap 'code' SIGNAL`: the code runs later, anywhere."""
    words = [f for f in fields if f.text not in ("-l", "-p", "--")]
    if len(words) < 2 or any(f.text in ("-l", "-p") for f in fields):
        return state, state
    action = words[0]
    if action.text is None:
        touch.code(walk, command, action, what=None, role="code", origin="trap")
        command.doubt(action.word.raw)
    elif action.text not in ("", "-") and not action.text.isdigit():
        later = state.copy()
        later.forget(None)
        later.cwd = None
        walk.source(action.text, action, later, context.deeper(via=(*context.via, "trap")), "trap")
    return state, state


def alias(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """Aliases work only after `shopt -s expand_aliases`; one that is defined is reason enough to ask."""
    for each in fields:
        if each.text is None or "=" in each.text:
            walk.program.doubt(f"alias {each.word.raw}")
    return state, state


def exit_(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    return None, None


def doubtful(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    """Builtins that change what names mean (hash -p, enable -f, bind -x, complete -C): a human decides."""
    if fields:
        walk.program.doubt(f"{command.program} {fields[0].word.raw}")
        command.doubt(fields[0].word.raw)
    return state, state


def nothing(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> "Ends":
    return state, state


HANDLERS: dict[str, Handler] = {
    "cd": cd, "pushd": pushd, "popd": pushd,
    "export": declare, "declare": declare, "typeset": declare, "local": declare, "readonly": declare,
    "read": setters, "mapfile": setters, "readarray": setters, "getopts": setters, "unset": setters,
    "printf": printf, "let": let, "test": test, "[": test,
    "set": set_, "shift": shift, "shopt": shopt,
    "eval": eval_, "source": source, ".": source, "trap": trap, "alias": alias,
    "exit": exit_, "return": exit_, "break": nothing, "continue": nothing,
    "hash": doubtful, "enable": doubtful, "bind": doubtful, "complete": doubtful, "compopt": doubtful, "fc": doubtful,
    ":": nothing, "true": nothing, "false": nothing, "echo": nothing, "pwd": nothing, "dirs": nothing,
    "unalias": nothing, "type": nothing, "times": nothing, "umask": nothing, "ulimit": nothing, "wait": nothing,
    "jobs": nothing, "fg": nothing, "bg": nothing, "disown": nothing, "caller": nothing, "history": doubtful, "suspend": nothing,
    "logout": exit_, "help": nothing, "compgen": doubtful, "coproc": doubtful,
}  # fmt: skip


def may_reach_process_substitution(target: Field) -> bool:
    """True where an operand is `<( )`: what reads it reads another command's output."""
    return any(isinstance(p, ProcSub) for p in target.word.parts)


def call(walk: "Walk", name: str, fields: list[Field], state: State, context: "Context") -> "Ends":
    """Call a function: its body runs here, with the words as positional parameters."""
    if name in context.calls or context.depth > 20:
        walk.program.doubt(f"{name} calls itself")
        return state, state
    texts = [f.text for f in fields]
    known = tuple(t for t in texts if t is not None)
    ends: tuple[State | None, State | None] = (None, None)
    for function in state.functions[name]:
        walk.functions_called.add(id(function))
        entry = state.copy()
        entry.positional = known if len(known) == len(texts) else None
        inner = context.deeper(calls=(*context.calls, name), inside=(*context.inside, "function"))
        inner = walk.redirected(function.redirects, entry, inner)
        found = walk.node(function.body, entry, inner)
        # `return` may have ended it anywhere, and `local` values end with it: what it assigns is unknown afterwards.
        won, lost = ((e or entry).copy() for e in found)
        names, moves = assigned_names(function.body)
        for end in (won, lost):
            end.forget(names)
            end.cwd = None if moves else state.cwd
            end.positional = state.positional
        ends = (join(ends[0], won), join(ends[1], lost))
    return ends
