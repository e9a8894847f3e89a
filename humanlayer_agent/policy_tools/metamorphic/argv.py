"""Transformations of a whole command: its words in an array, in parameters, handed on by a function or a program."""

import random
import re
from collections.abc import Callable, Iterator

from humanlayer_agent.policy_tools.metamorphic.line import DECLARERS, Line, texts
from humanlayer_agent.policy_tools.metamorphic.quotes import bare, plain, single
from humanlayer_agent.policy_tools.metamorphic.transformation import Apply, Transformation
from humanlayer_agent.shell import syntax_tree

Written = tuple[str, str] | None
"""What runs before, and what is written in place of the words."""

Known = Callable[[str, list[str]], Written]
"""From a free name and what the words stand for."""

_READS_INPUT = ("<", "<<", "<<-", "<<<", "<>", "<&")
_ECHO_OPTION = re.compile(r"-[neE]+")


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    for name, (before, after) in _HANDED_ON.items():
        yield Transformation(name, _handed_on(before, after))
    for name, write in _KNOWN.items():
        yield Transformation(name, _rewritten(write))
    for name, write in _PROGRAMS.items():
        yield Transformation(name, _rewritten(write, external=True))
    yield Transformation("exec", _exec("exec"))
    yield Transformation("exec-by-another-name", _exec("exec -a ls"))


# ---- words as they are written ----------------------------------------------------------------------


def _handed_on(before: str, after: str) -> Apply:
    """`before` runs first, `after` stands for the words; {words}, {first}, {rest} are written as they were."""

    def apply(line: Line, chance: random.Random) -> str | None:
        command = line.single
        span = line.span(command) if command is not None else None
        if command is None or span is None or not line.detached or not all(map(_movable, command.words)):
            return None
        first, rest = command.words[0], line.text[command.words[0].end : span[1]].strip()
        if first.raw in DECLARERS and texts(command.words) is None:
            return None
        if ("{rest}" in before + after and not rest) or ("bash -c" in after and first.static is None):
            return None
        fields = {"n": next(line.free()), "words": line.text[slice(*span)], "first": first.raw, "rest": rest}
        return before.format(**fields) + line.text[: span[0]] + after.format(**fields) + line.text[span[1] :]

    return apply


def _movable(word: syntax_tree.Word) -> bool:
    """Whether a word means the same among the elements of an array, and after another command.

    A process substitution lives only as long as the command that it stands in.
    """
    return not word.raw.startswith("[") and not any(each in word.raw for each in ("=~", ":~", "<(", ">("))


_HANDED_ON: dict[str, tuple[str, str]] = {
    "arrays": ("{n}=({words}); ", '"${{{n}[@]}}"'),
    "array-slices": ("{n}=(x {words}); ", '"${{{n}[@]:1}}"'),
    "appended-arrays": ("{n}=({first}); {n}+=({rest}); ", '"${{{n}[@]}}"'),
    "parameters": ("set -- {words}; ", '"$@"'),
    "shifted-parameters": ("set -- x {words}; shift; ", '"$@"'),
    "parameter-slices": ("set -- {words}; ", '"${{@:1}}"'),
    "first-parameter": ("set -- {first}; ", '"$1" {rest}'),
    "function-arguments": ('{n}() {{ "$@"; }}; ', "{n} {words}"),
    "function-operands": ('{n}() {{ {first} "$@"; }}; ', "{n} {rest}"),
    "other-function-arguments": ('set -- x; {n}() {{ "$@"; }}; ', "{n} {words}"),
    "local-arrays": ('{n}() {{ local {n}x=("$@"); "${{{n}x[@]}}"; }}; ', "{n} {words}"),
    "copied-arrays": ('{n}=({words}); {n}x=("${{{n}[@]}}"); ', '"${{{n}x[@]}}"'),
    "joined-arrays": ('{n}=({first}); {n}=("${{{n}[@]}}" {rest}); ', '"${{{n}[@]}}"'),
    "eval-parameters": ("set -- {words}; ", "eval '\"$@\"'"),
    "parameters-of-parameters": ('set -- {words}; set -- "$@"; ', '"$1" "${{@:2}}"'),
    "source-arguments": ("set -- x; ", "source <(printf '%s\\n' '\"$@\"') {words}"),
    "bash-arguments": ("", "bash -c '\"$@\"' bash {words}"),
    "bash-zeroth-argument": ("", 'bash -c \'"$0" "$@"\' {words}'),
}


# ---- words whose text is known ----------------------------------------------------------------------


def _rewritten(write: Known, *, external: bool = False) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        command = line.single
        if command is None or not line.detached or not line.unfed or not _enclosable(command):
            return None
        span, words = line.span(command), texts(command.words)
        if span is None or not words or not words[0] or (external and not line.external(command)):
            return None
        written = write(next(line.free()), words)
        return None if written is None else written[0] + line.text[: span[0]] + written[1] + line.text[span[1] :]

    return apply


def _enclosable(command: syntax_tree.Simple) -> bool:
    """Whether a loop or a pipeline may stand in place of the words, and feed what stood there."""
    early = any(r.start < command.words[0].start for r in command.redirects)
    return not early and not command.assigns and not any(r.op in _READS_INPUT for r in command.redirects)


def _if(condition: Callable[[list[str]], bool], write: Callable[[str, list[str]], tuple[str, str] | str]) -> Known:
    def known(name: str, words: list[str]) -> Written:
        if not condition(words):
            return None
        found = write(name, words)
        return ("", found) if isinstance(found, str) else found

    return known


def _any(words: list[str]) -> bool:
    return True


def _two(words: list[str]) -> bool:
    return len(words) > 1


def _plain(words: list[str]) -> bool:
    return all(map(plain, words))


def _two_plain(words: list[str]) -> bool:
    return _two(words) and _plain(words)


def _one_line_each(words: list[str]) -> bool:
    return not any("\n" in word for word in words)


def _joined(words: list[str]) -> str:
    return " ".join(map(bare, words))


def _braces(words: list[str]) -> str:
    return "{" + ",".join(single(word) if "," in word else bare(word) for word in words) + "}"


def _numbered(name: str, words: list[str]) -> tuple[str, str]:
    return f"set -- {_joined(words)}; ", " ".join(f'"${n}"' for n in range(1, len(words) + 1))


def _keyed(name: str, words: list[str]) -> tuple[str, str]:
    pairs = " ".join(f"[k{n}]={single(word)}" for n, word in enumerate(words))
    return f"declare -A {name}=({pairs}); ", " ".join(f'"${{{name}[k{n}]}}"' for n in range(len(words)))


def _every(name: str) -> str:
    return f'"${{{name}[@]}}"'


_KNOWN: dict[str, Known] = {
    "braces": _if(_two, lambda n, words: _braces(words)),
    "brace-operands": _if(lambda words: len(words) > 2, lambda n, words: f"{bare(words[0])} {_braces(words[1:])}"),
    "numbered-parameters": _if(lambda words: len(words) < 10, _numbered),
    "joined-parameters": _if(_plain, lambda n, words: (f"set -- {_joined(words)}; ", "$*")),
    "line-in-a-variable": _if(_plain, lambda n, words: (f"{n}='{_joined(words)}'; ", f"${n}")),
    "line-in-two-variables": _if(
        _two_plain, lambda n, words: (f"{n}='{_joined(words[:-1])}'; {n}x={words[-1]}; ", f"${n} ${n}x")
    ),
    "split-by-ifs": _if(_two_plain, lambda n, words: (f"IFS=^ {n}='{'^'.join(words)}'; ", f"${n}")),
    "keyed-words": _keyed,
    "read-into-an-array": _if(_plain, lambda n, words: (f"read -ra {n} <<< '{_joined(words)}'; ", _every(n))),
    "read-into-variables": _if(
        _two_plain, lambda n, words: (f"read -r {n} {n}x <<< '{_joined(words)}'; ", f"${n} ${n}x")
    ),
    "mapfile-from-substitution": _if(
        _one_line_each, lambda n, words: (f"mapfile -t {n} < <(printf '%s\\n' {_joined(words)}); ", _every(n))
    ),
    "mapfile-from-string": _if(
        _one_line_each, lambda n, words: (f"mapfile -t {n} <<< {single(chr(10).join(words))}; ", _every(n))
    ),
    "printed-command": _if(_plain, lambda n, words: f"$(echo {_joined(words)})"),
    "printf-command": _if(_plain, lambda n, words: f"$(printf '%s ' {_joined(words)})"),
    "eval-words": _if(_plain, lambda n, words: f"eval {' '.join(map(single, words))}"),
    "loop-over-programs": _if(
        _any, lambda n, words: f'for {n} in {bare(words[0])}; do "${n}" {_joined(words[1:])}; done'
    ),
    "loop-over-operands": _if(
        _two, lambda n, words: f'for {n} in {bare(words[-1])}; do {_joined(words[:-1])} "${n}"; done'
    ),
    "loop-over-parameters": _if(
        _two, lambda n, words: f'set -- {bare(words[-1])}; for {n}; do {_joined(words[:-1])} "${n}"; done'
    ),
    "arithmetic-loop": _if(
        _any, lambda n, words: (f"{n}=({_joined(words)}); ", f"for (({n}x=0; {n}x<1; {n}x++)); do {_every(n)}; done")
    ),
    "loop-that-reads": _if(
        lambda words: _two(words) and "\n" not in words[-1],
        lambda n, words: f'while IFS= read -r {n}; do {_joined(words[:-1])} "${n}"; done <<< {single(words[-1])}',
    ),
}


# ---- through programs that run others -----------------------------------------------------------------


def _echoed(words: list[str]) -> bool:
    return _two_plain(words) and not _ECHO_OPTION.fullmatch(words[1])


_PROGRAMS: dict[str, Known] = {
    "xargs": _if(_two, lambda n, words: f"printf '%s\\0' {_joined(words[1:])} | xargs -0 {bare(words[0])}"),
    "xargs-of-echo": _if(_echoed, lambda n, words: f"echo {_joined(words[1:])} | xargs {words[0]}"),
    "xargs-replaces": _if(
        lambda words: _two_plain(words) and "%" not in "".join(words),
        lambda n, words: f"printf '%s\\n' {words[-1]} | xargs -I% {_joined(words[:-1])} %",
    ),
    "xargs-here-string": _if(_two_plain, lambda n, words: f"xargs {words[0]} <<< '{_joined(words[1:])}'"),
    "xargs-without-input": _if(_any, lambda n, words: f"xargs {_joined(words)} < /dev/null"),
    "xargs-of-env": _if(
        lambda words: "=" not in words[0], lambda n, words: f"printf '%s\\0' {_joined(words)} | xargs -0 env"
    ),
    "find-exec": _if(
        lambda words: ";" not in words and not any("{}" in word for word in words),
        lambda n, words: f"find . -maxdepth 0 -exec {_joined(words)} \\;",
    ),
    "env-split": _if(_plain, lambda n, words: f"env -S '{_joined(words)}'"),
    "found-by-command-v": _if(
        lambda words: "/" not in words[0], lambda n, words: f'"$(command -v {bare(words[0])})" {_joined(words[1:])}'
    ),
}


def _exec(prefix: str) -> Apply:
    """In a subshell of its own the command may take the shell's place."""

    def apply(line: Line, chance: random.Random) -> str | None:
        command = line.single
        if command is None or not line.external(command) or command.assigns or "<<" in line.text:
            return None
        return f"( {prefix} {line.text.strip()} )"

    return apply
