"""Transformations of single words: quoted in another way, kept in a variable, printed by a substitution, in braces."""

import base64
import codecs
import random
from collections.abc import Callable, Iterator

from humanlayer_agent.policy_tools.metamorphic.line import Edit, Line
from humanlayer_agent.policy_tools.metamorphic.quotes import SPELLINGS, Spell, ansi, bare, plain, printf_format, single
from humanlayer_agent.policy_tools.metamorphic.transformation import Transformation
from humanlayer_agent.shell import syntax_tree

Refer = Callable[[str, str], tuple[str, str] | None]
"""From a free name and a text: what must run before, and the word that stands for the text then."""

_NOT_A_FILE = frozenset({"<&", ">&", "<<", "<<-"})


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    for name, spell in SPELLINGS.items():
        yield Transformation(name, _speller(spell))
    for name, refer in _REFERENCES.items():
        yield Transformation(name, _referrer(refer))
    for name, write in _WORDS.items():
        yield Transformation(name, _speller(write, targets=False))
    yield Transformation("no-parameters", _no_parameters)


def known_words(line: Line, *, targets: bool = True) -> Iterator[tuple[syntax_tree.Word, str]]:
    """Words of commands, assigned values, and redirects' targets that stand for one text, with the text."""
    for command in line.commands:
        words = list(line.argument_words(command))
        if targets:
            words += [a.value for a in command.assigns]
            words += [r.target for r in command.redirects if r.op not in _NOT_A_FILE]
        for word in words:
            if word.static is not None and word.end > word.start:
                yield word, word.static


def _speller(spell: Spell, *, targets: bool = True) -> Callable[[Line, random.Random], str | None]:
    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for word, text in known_words(line, targets=targets):
            new = spell(text, chance)
            if new is not None:
                edits.append((word.start, word.end, new))
        return line.edit(edits)

    return apply


def _referrer(refer: Refer) -> Callable[[Line, random.Random], str | None]:
    def apply(line: Line, chance: random.Random) -> str | None:
        names, before, edits = line.free(), list[str](), list[Edit]()
        for word, text in known_words(line):
            found = refer(next(names), text)
            if found is not None:
                before += [found[0]] if found[0] else []
                edits.append((word.start, word.end, found[1]))
        changed = line.edit(edits)
        if before and line.functions and "export" in line.text:
            return None  # a child shell gets the function, and not the variables
        return None if changed is None else "".join(f"{each}; " for each in before) + changed

    return apply


# ---- variables --------------------------------------------------------------------------------------


def _in(value: str, use: str) -> Refer:
    """The text in a variable: `value` and `use` are formats of the name, the text quoted, and the text as it is."""

    def refer(name: str, text: str) -> tuple[str, str]:
        fields = {"n": name, "q": single(text), "t": text}
        return value.format(**fields), use.format(**fields)

    return refer


def _if(condition: Callable[[str], bool], refer: Refer) -> Refer:
    return lambda name, text: refer(name, text) if condition(text) else None


def _one_line(text: str) -> bool:
    return bool(text) and "\n" not in text


def _halves(name: str, text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return f"{name}={single(text[:middle])}; {name}x={single(text[middle:])}", f'"${name}${name}x"'


def _appended(name: str, text: str) -> tuple[str, str]:
    return f"{name}={single(text[:1])}; {name}+={single(text[1:])}", f'"${name}"'


def _lower(name: str, text: str) -> tuple[str, str] | None:
    upper = text.upper()
    if not text.isascii() or upper.lower() != text or upper == text:
        return None
    return f"{name}={single(upper)}", f'"${{{name},,}}"'


def _replaced(name: str, text: str) -> tuple[str, str] | None:
    if "_Z_" in text or not text:
        return None
    middle = len(text) // 2
    return f"{name}={single(text[:middle] + '_Z_' + text[middle:])}", f'"${{{name}/_Z_/}}"'


def _escaped(name: str, text: str) -> tuple[str, str]:
    return f"{name}={printf_format(text)}", f'"${{{name}@E}}"'


# ---- substitutions ----------------------------------------------------------------------------------


def _printed(text: str) -> bool:
    """Whether a substitution gives the text back: it takes newlines off the end."""
    return not text.endswith("\n")


def _echoed(text: str) -> bool:
    return _printed(text) and "\\" not in text and not text.startswith("-")


def encoded(text: str) -> str:
    """`text` in base64."""
    return base64.b64encode(text.encode()).decode()


def rotated(text: str) -> str:
    """`text` in rot13."""
    return codecs.encode(text, "rot13")


def _piped(encode: Callable[[str], str], decoder: str) -> Refer:
    return lambda name, text: ("", f'"$(printf %s {bare(encode(text))} | {decoder})"')


_REFERENCES: dict[str, Refer] = {
    "variables": _in("{n}={q}", '"${n}"'),
    "bare-variables": _if(plain, _in("{n}={t}", "${n}")),
    "braced-variables": _in("{n}={q}", '"${{{n}}}"'),
    "halved-variables": _halves,
    "appended-variables": _appended,
    "declared-variables": _in("declare {n}={q}", '"${n}"'),
    "exported-variables": _in("export {n}={q}", '"${n}"'),
    "readonly-variables": _in("readonly {n}={q}", '"${n}"'),
    "indirect-variables": _in("{n}={q}; {n}x={n}", '"${{!{n}x}}"'),
    "name-references": _in("{n}={q}; declare -n {n}x={n}", '"${n}x"'),
    "default-values": _if(plain, _in("unset {n}", '"${{{n}:-{t}}}"')),
    "assigned-default-values": _if(plain, _in("unset {n}", '"${{{n}:={t}}}"')),
    "alternative-values": _if(plain, _in("{n}=1", '"${{{n}:+{t}}}"')),
    "printf-v": _in("printf -v {n} %s {q}", '"${n}"'),
    "read": _if(plain, _in("read -r {n} <<< {t}", '"${n}"')),
    "read-without-ifs": _if(_one_line, _in("IFS= read -r {n} <<< {q}", '"${n}"')),
    "mapfile-words": _if(_one_line, _in("mapfile -t {n} <<< {q}", '"${{{n}[0]}}"')),
    "array-elements": _in("{n}=({q})", '"${{{n}[0]}}"'),
    "map-elements": _in("declare -A {n}=([k]={q})", '"${{{n}[k]}}"'),
    "substrings": _in("{n}=xx{q}", '"${{{n}:2}}"'),
    "lower-case": _lower,
    "replaced-text": _replaced,
    "trimmed-ends": _in("{n}={q}.zz", '"${{{n}%.zz}}"'),
    "trimmed-starts": _in("{n}=zz.{q}", '"${{{n}#zz.}}"'),
    "decoded-escapes": _escaped,
    "echo": _if(_echoed, _in("", '"$(echo {q})"')),
    "bare-echo": _if(lambda text: plain(text) and _echoed(text), _in("", "$(echo {t})")),
    "printf": _if(_printed, _in("", '"$(printf %s {q})"')),
    "printf-escapes": _if(_printed, lambda name, text: ("", f'"$(printf {printf_format(text)})"')),
    "backticks": _if(plain, _in("", '"`printf %s {t}`"')),
    "nested-echo": _if(_echoed, _in("", '"$(echo "$(echo {q})")"')),
    "printed-here-string": _if(_printed, _in("", '"$(cat <<< {q})"')),
    "function-output": _if(_printed, _in("{n}() {{ printf %s {q}; }}", '"$({n})"')),
    "rev-words": _if(plain, _piped(lambda text: text[::-1], "rev")),
    "base64-words": _if(_printed, _piped(encoded, "base64 -d")),
    "tr-words": _if(plain, _piped(rotated, "tr A-Za-z N-ZA-Mn-za-m")),
    "xxd-words": _if(_printed, _piped(lambda text: text.encode().hex(), "xxd -r -p")),
    "base64-here-string": _if(_printed, lambda name, text: ("", f'"$(base64 -d <<< {bare(encoded(text))})"')),
    "empty-variables": _if(
        lambda text: len(text) > 1 and plain(text), lambda name, text: (f"{name}=", f"{text[:1]}${{{name}}}{text[1:]}")
    ),
}


# ---- braces, and expansions that vanish ---------------------------------------------------------------


def _around(before: str, after: str) -> Spell:
    return lambda text, chance: f"{before}{text}{after}" if plain(text) and "," not in text else None


def _ranges(text: str, chance: random.Random) -> str | None:
    if not plain(text) or not any(c.isalpha() for c in text):
        return None
    return "".join(f"{{{c}..{c}}}" if c.isalpha() else c for c in text)


def _glued(nothing: str) -> Spell:
    return lambda text, chance: f"{text[:1]}{nothing}{text[1:]}" if plain(text) and len(text) > 1 else None


def _continued(text: str, chance: random.Random) -> str | None:
    return f"{text[:1]}\\\n{text[1:]}" if plain(text) and len(text) > 1 else None


def _no_parameters(line: Line, chance: random.Random) -> str | None:
    """`r$@m`: a command line has no positional parameters until it sets some."""
    return None if line.functions or "set" in line.text else _speller(_glued("$@"), targets=False)(line, chance)


_WORDS: dict[str, Spell] = {
    "ansi-c-quotes": lambda text, chance: ansi(text),
    "brace-with-nothing": _around("{", ",}"),
    "nothing-with-brace": _around("{,", "}"),
    "brace-ranges": _ranges,
    "empty-substitutions": _glued("$()"),
    "empty-backticks": _glued("``"),
    "quoted-empty-substitutions": _glued('"$()"'),
    "continued-words": _continued,
}
