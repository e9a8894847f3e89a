"""What commands print, where that can be told without running them: `$(echo lit)`, `echo ... | base64 -d`.

Only programs whose output follows from their words and their input alone. Anything unusual gives None: not known.
"""

import posixpath
import re
from collections.abc import Callable
from collections.abc import Sequence as Words

from humanlayer_agent.shell.environment.code_variables import selects_code
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.expansion.printers import PRINTERS
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.programs.catalog import STANDARD_DIRECTORIES
from humanlayer_agent.shell.syntax.tree import (
    Assign,
    Group,
    Lit,
    Node,
    Param,
    Pipeline,
    ProcSub,
    Redirect,
    Script,
    Sequence,
    Simple,
    Sub,
    Word,
)

Expand = Callable[[Word, State], list[Field]]

MAX_OUTPUT = 65_536


def substituted(script: Script, state: State, expand: Expand) -> str | None:
    """The text of `$( script )`: what it prints without the newlines at its end; None where that is not known."""
    text = printed(script.body, state, expand, None) if script.body is not None else ""
    return None if text is None or "\0" in text else text.rstrip("\n")


def located(script: Script, state: State) -> str | None:
    """Where `$(command -v name)` and its like mostly find a program; None where `script` is nothing of the kind."""
    node = script.body
    if not isinstance(node, Simple) or node.assigns or any(r.fd != "2" for r in node.redirects):
        return None
    match [word.static for word in node.words]:
        case ["command", "-v", str(name)] | ["which", str(name)] | ["type", "-P" | "-p", str(name)]:
            pass
        case _:
            return None
    if not re.fullmatch(r"[A-Za-z0-9_.+-]+", name, re.ASCII) or node.words[0].static in state.functions:
        return None
    known = node.words[0].static == "command" and (name in state.functions or name in _BUILTINS)
    return name if known else f"/usr/bin/{name}"


_BUILTINS = frozenset(
    str.split(
        ". : [ alias builtin cd command declare echo eval exec exit export false let printf pwd read set source test"
    )
) | frozenset(str.split("true trap type typeset unset"))
"""Some of what bash runs by itself, which `command -v` prints as it is."""


def of_process(word: Word, state: State, expand: Expand) -> str | None:
    """What can be read from `word` where it is `<( )`, NUL and all; None where that is not known."""
    part = word.parts[0] if len(word.parts) == 1 else None
    if not isinstance(part, ProcSub) or part.direction != "<":
        return None
    return printed(part.script.body, state, expand, None) if part.script.body is not None else ""


def is_pwd(script: Script, state: State) -> bool:
    """True for `$(pwd)`: it gives the working directory by name, as `$PWD` does."""
    node = script.body
    if not isinstance(node, Simple) or node.assigns or node.redirects or "pwd" in state.functions:
        return False
    known = state.cwd is not None and not any(cwd.endswith("\n") for cwd in state.cwd)
    return known and [word.static for word in node.words] in (["pwd"], ["pwd", "-L"])


def printed(node: Node, state: State, expand: Expand, stdin: str | None) -> str | None:
    """What `node` prints, given the text on its standard input (None: not known); None where that is not known."""
    if isinstance(node, Group):
        return printed(node.body, state, expand, stdin) if not node.redirects else None
    if isinstance(node, Sequence):
        return _one_after_another(node, state, expand, stdin)
    if isinstance(node, Pipeline):
        if any(op != "|" for op in node.ops):
            return None
        text = stdin
        for part in node.parts:  # what does not read its input prints whatever comes before it
            text = printed(part, state, expand, text)
        return text
    if not isinstance(node, Simple) or not node.words or any(map(_matters, node.assigns)):
        return None
    name = node.words[0].static
    if name is not None and "/" not in name and not _may_print(name, state):
        return None
    if node.redirects and (stdin := _given(node.redirects, state, expand)) is None:
        return None
    if len(node.words) > 64 or not state.untouched("PATH"):
        return None
    texts = [f.text for word in node.words for f in expand(word, state)]
    known = [t for t in texts if t is not None]
    if not known or len(known) != len(texts):
        return None
    if "/.." in known[0]:
        state.work.wondered = True
        known[0] = posixpath.normpath(known[0]) if state.usual else known[0]
    if known[0] in state.functions:
        return _called(known, state, expand, stdin) if not node.assigns else None
    return prints(known, stdin)


def _one_after_another(node: Sequence, state: State, expand: Expand, stdin: str | None) -> str | None:
    """What a list prints whose commands only print: `{ echo a; echo b; }`."""
    if node.negated or any(op not in (";", "&&") for op in node.ops) or not isinstance(node.parts[0], Simple):
        return None
    out = printed(node.parts[0], state, expand, stdin)
    for part in node.parts[1:]:
        name = part.words[0].static if isinstance(part, Simple) and part.words else None
        text = printed(part, state, expand, None) if name in _SILENT else None  # the first has taken the input
        out = out + text if out is not None and text is not None else None
    return out if out is not None and len(out) <= MAX_OUTPUT else None


_SILENT = frozenset({"echo", "printf", ":", "true"})
"""Programs that take no input."""


def _may_print(name: str, state: State) -> bool:
    """Could what the program `name` prints be known?"""
    return name in PRINTERS or name in _RUNNERS or name in state.functions


def _called(words: Words[str], state: State, expand: Expand, stdin: str | None) -> str | None:
    """What a function prints, where it is certainly defined and holds one command or pipeline."""
    function, *others = state.functions[words[0]]
    if function is None or others or function.redirects:
        return None
    body = function.body.body if isinstance(function.body, Group) and not function.body.redirects else function.body
    inner = state.copy()
    inner.positional = tuple(words[1:])
    del inner.functions[words[0]]  # where it calls itself, that is a program of the same name at most
    return printed(body, inner, expand, stdin) if words[0] not in PRINTERS else None


def _matters(assign: Assign) -> bool:
    """Whether `name=value` before a command may change what it prints."""
    return assign.value.static is None or assign.index is not None or selects_code(assign.name, assign.value.static)


def _given(redirects: Words[Redirect], state: State, expand: Expand) -> str | None:
    """The input that a here-document or here-string gives; None: not known, or there are other redirects."""
    redirect = redirects[0]
    if len(redirects) > 1 or redirect.fd not in ("", "0"):
        return None
    if redirect.op in ("<<", "<<-"):
        return redirect.body.text if redirect.body is not None else None
    if redirect.op != "<<<":
        return None
    word = redirect.target
    if word.static is not None:
        return word.static + "\n"
    # Nothing splits in a here-string; what is quoted splits nowhere.
    quoted = word.parts and all(isinstance(p, Lit | Param | Sub) and p.quoted for p in word.parts)
    fields = expand(word, state) if quoted else []
    return fields[0].text + "\n" if len(fields) == 1 and fields[0].text is not None else None


def prints(words: Words[str], stdin: str | None) -> str | None:
    """What the program `words[0]` prints for its words and the text on its standard input; None where not known.

    NUL may be in it.
    """
    words = _innermost(words)
    printer = PRINTERS.get(words[0]) if words else None
    out = printer(list(words[1:]), stdin) if printer is not None else None
    return out if out is not None and len(out) <= MAX_OUTPUT else None


_RUNNERS: dict[str, re.Pattern[str]] = {
    name: re.compile(options, re.ASCII)
    for name, options in {
        "command": r"(?:--\0)?",
        "sudo": r"(?:-[nEH]\0)*(?:-u\0[a-z_][a-z0-9_-]*\0)?(?:--\0)?",
        "builtin": r"(?=command\0)",
        "nohup": r"(?:--\0)?",
        "env": r"(?:-u\0(?!PATH\0)[A-Za-z_][A-Za-z0-9_]*\0)*(?:--\0)?(?:[A-Za-z_][A-Za-z0-9_]*=[^\0]*\0)*",
        "nice": r"(?:-n\0-?[0-9]+\0)?",
        "ionice": r"(?:-c\0[123]\0)?",
        "timeout": r"(?:(?:-k|--kill-after|-s|--signal)(?:=|\0)[A-Z0-9.]+[smhd]?\0)*[0-9.]+[smhd]?\0",
        "flock": r"(?:-s\0)?[^\0-][^\0]*\0",
        "stdbuf": r"(?:-[ioe][L0]\0)+",
        "setsid": r"(?:-w\0)?",
    }.items()
}
"""Programs that only run the words after their own (each of which ends with NUL here)."""


def _innermost(words: Words[str]) -> Words[str]:
    """`words` without programs that only run another, and its name without a standard directory."""
    while words:
        folder, _, name = words[0].rpartition("/")
        own = _RUNNERS[name].match("".join(f"{word}\0" for word in words[1:])) if name in _RUNNERS else None
        if folder and folder not in STANDARD_DIRECTORIES:
            break
        if own is None:
            return [name, *words[1:]]
        taken = own[0].split("\0")[:-1]
        if any(selects_code(*word.split("=", 1)) for word in taken if "=" in word):
            break
        words = words[1 + len(taken) :]
    return words


# ---- builtins ---------------------------------------------------------------------------------------
