"""What Python code does: our own cases, harmful ones in many spellings and harmless ones as agents write them.

A case is `{name, source, argv?, path?, acts, doubt?, directories?}`. All acts are compared, exactly. An act is written

    KIND[:ROLE] [-r] [@DIRECTORY] OPERAND

as in `delete -r /srv/x`, `environment:read HOME`, `program @/srv rm -rf x`, `import numpy`. The role is left out where
it is "code"; -r: with all below; @: the directory that a program runs in. The operand is a text, `a|b` for one of
several, `below:DIR` for any path in a directory, `prefix:TEXT` for a text of which the beginning is known, `?` for
anything. A text with blanks or one of |?'" is quoted as a shell's word, except where it is a shell's or Python's own.
The words of a program stand one after the other; `...` at the end: there are others. A variable's value follows a `=`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.shell.languages.behaviour import UNKNOWN, Act, Behaviour, Text
from tests.support.rows import for_each
from tests.support.tables import table

HERE = Path(__file__).parent
SPECIAL = re.compile(r"[\s|?'\"]|^(?:below:|prefix:|\.\.\.$|@|-r$|$)")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    source: str
    acts: tuple[str, ...] | None
    """None: only the doubt counts."""
    doubt: bool = False
    argv: tuple[str, ...] | None = None
    path: str | None = None
    directories: tuple[str, ...] = ()


def cases(file: str) -> list[Case]:
    found = []
    for raw in table(HERE / file):
        keys: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
        keys.setdefault("acts", None if keys.get("doubt") else ())
        found.append(Case(**keys))
    return found


HARMFUL = cases("cases_harmful.yaml")
HARMLESS = cases("cases_harmless.yaml")


# ---- the notation -----------------------------------------------------------------------------------


def shown_text(text: Text, *, whole: bool = False) -> str:
    """A text in the notation; `whole`: it is all that follows, and needs no quotes."""
    if text.choices:
        return "|".join(c if whole else _quoted(c) for c in text.choices)
    if text.below is not None:
        return f"below:{text.below}"
    return f"prefix:{text.prefix}" if text.prefix else "?"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'" if SPECIAL.search(text) else text


def shown(act: Act) -> str:
    """An act in the notation."""
    if act.kind == "execute" and act.role in IMPORTS:
        return f"import {shown_text(act.operands[0])}"
    words = [act.kind if act.role == "code" else f"{act.kind}:{act.role}"]
    words += ["-r"] if act.recursive else []
    words += [f"@{shown_text(act.cwd)}"] if act.cwd is not None else []
    if act.kind in ("shell", "python"):
        words += [shown_text(text, whole=True) for text in act.operands]
    elif act.kind == "environment" and len(act.operands) > 1:
        words.append("=".join(shown_text(text) for text in act.operands))
    else:
        words += [shown_text(text) for text in act.operands]
    return " ".join([*words, *(["..."] if act.many else [])])


IMPORTS = ("module", "import")


def differences(behaviour: Behaviour, case: Case) -> list[str]:
    """What `behaviour` has and should not have (+), and what it lacks (-)."""
    out = []
    if case.acts is not None:
        out += _differences((shown(a) for a in behaviour.acts), case.acts)
    if bool(behaviour.doubts) is not case.doubt:
        out += [f"+ doubt: {d}" for d in behaviour.doubts] or ["- a doubt"]
    out += [f"directory: {d}" for d in _differences(map(shown_text, behaviour.directories), case.directories)]
    return out


def _differences(found: Iterable[str], expected: Iterable[str]) -> list[str]:
    have, need = set(found), set(expected)
    return [f"+ {a}" for a in sorted(have - need)] + [f"- {a}" for a in sorted(need - have)]


# ---- the cases --------------------------------------------------------------------------------------


def read(case: Case) -> Behaviour:
    from humanlayer_agent.shell.languages import python

    argv = None if case.argv is None else tuple(Text.of(a) for a in case.argv)
    return python.read(case.source, argv=argv, path=case.path)


@for_each("case", HARMFUL)
def test_harmful(case: Case) -> None:
    assert differences(read(case), case) == []


@for_each("case", HARMLESS)
def test_harmless(case: Case) -> None:
    assert differences(read(case), case) == []


def test_enough_cases() -> None:
    """The bar is 60 of each; every harmful case shows harm, no harmless one leaves a doubt, and no source is there twice."""
    assert len(HARMFUL) >= 90
    assert len(HARMLESS) >= 90
    assert all(c.acts or c.doubt for c in HARMFUL)
    assert not any(c.doubt for c in HARMLESS)
    assert len({(c.source, c.argv) for c in HARMFUL + HARMLESS}) == len(HARMFUL + HARMLESS)
    assert len({c.name for c in HARMFUL}) == len(HARMFUL)
    assert len({c.name for c in HARMLESS}) == len(HARMLESS)


@for_each("case", HARMFUL + HARMLESS)
def test_sources_are_python(case: Case) -> None:
    compile(case.source, case.name, "exec")


# ---- the checker ------------------------------------------------------------------------------------

DELETE = Act("delete", (Text.of("/srv/x"),), origin="os.remove", line=3)
CASE = Case("x", "", ("delete /srv/x",))


def found(*acts: Act, doubts: Iterable[str] = (), directories: Iterable[Text] = ()) -> Behaviour:
    return Behaviour(list(acts), list(doubts), list(directories))


def test_the_checker_agrees() -> None:
    assert differences(found(DELETE), CASE) == []
    assert differences(found(doubts=["x"]), Case("x", "", None, doubt=True)) == []


@pytest.mark.parametrize(
    "act",
    [
        replace(DELETE, kind="write"),
        replace(DELETE, role="list"),
        replace(DELETE, recursive=True),
        replace(DELETE, many=True),
        replace(DELETE, cwd=Text.of("/srv")),
        replace(DELETE, operands=()),
        replace(DELETE, operands=(UNKNOWN,)),
        replace(DELETE, operands=(Text.of("/srv/x", "/srv/y"),)),
        replace(DELETE, operands=(Text.of("/srv/x "),)),
        replace(DELETE, operands=(Text.of("'/srv/x'"),)),
        replace(DELETE, operands=(Text.of(""),)),
        replace(DELETE, operands=(Text(below="/srv/x"),)),
        replace(DELETE, operands=(Text(prefix="/srv/x"),)),
        replace(DELETE, operands=(Text.of("/srv/x"), Text.of("/srv/x"))),
    ],
    ids=shown,
)
def test_the_checker_can_fail(act: Act) -> None:
    """Every part of an act that matters is seen."""
    assert differences(found(act), CASE) == [f"+ {shown(act)}", "- delete /srv/x"]


def test_the_checker_sees_what_is_missing_or_too_much() -> None:
    assert differences(found(), CASE) == ["- delete /srv/x"]
    assert differences(found(DELETE, replace(DELETE, kind="read")), CASE) == ["+ read /srv/x"]
    assert differences(found(DELETE, doubts=["line 1: exec"]), CASE) == ["+ doubt: line 1: exec"]
    assert differences(found(DELETE), replace(CASE, doubt=True)) == ["- a doubt"]
    assert differences(found(DELETE, directories=[Text.of("/srv")]), CASE) == ["directory: + /srv"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Text.of("a|b"), Text.of("a", "b")),
        (Text.of("?"), UNKNOWN),
        (Text.of("below:a"), Text(below="a")),
        (Text.of("prefix:a"), Text(prefix="a")),
        (Text.of("a b"), Text.of("a' 'b")),
        (Text.of(""), UNKNOWN),
    ],
)
def test_the_notation_tells_texts_apart(one: Text, other: Text) -> None:
    assert shown_text(one) != shown_text(other)


def test_the_notation_tells_words_apart() -> None:
    act = Act("program", (Text.of("rm"), Text.of("a b")))
    assert shown(act) == "program rm 'a b'"
    assert shown(replace(act, operands=(Text.of("rm"), Text.of("a"), Text.of("b")))) == "program rm a b"
    assert shown(replace(act, operands=(Text.of("rm"), Text.of("...")))) == "program rm '...'"
    assert shown(replace(act, operands=(Text.of("rm"),), many=True)) == "program rm ..."
    assert shown(Act("shell", (Text.of("a | b 'c'"),))) == "shell a | b 'c'"
