"""The digest binds everything that decides what will happen, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action, FileDigest
from humanlayer_agent.canonical_json import encodable

BASE = Action("ls -la", cwd="/srv/app", project="/srv/app", env={"PATH": "/bin", "PWD": "/x"}, agent="a")
POLICY = "0" * 64


@pytest.mark.parametrize(
    "change",
    [
        {"content": "ls -la "},
        {"type": "python"},
        {"cwd": "/srv"},
        {"project": "/srv"},
        {"interpreter": ("sh", "-c")},
        {"env": {"PATH": "/sbin", "PWD": "/x"}},
        {"env": {"PATH": "/bin", "X": "1"}},
        {"stdin": b"y\n"},
        {"agent": "b"},
    ],
)
def test_what_changes_the_digest(change: dict[str, object]) -> None:
    assert replace(BASE, **change).digest(POLICY) != BASE.digest(POLICY)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "r"},
        {"step": 3},
        {"call_id": "c"},
        {"model_intent": "why"},
        {"env": {"PATH": "/bin", "PWD": "/y", "SHLVL": "2"}},
    ],
)
def test_what_does_not(change: dict[str, object]) -> None:
    assert replace(BASE, **change).digest(POLICY) == BASE.digest(POLICY)  # type: ignore[arg-type]


def test_variables_are_read_anew_although_their_digest_is_made_once() -> None:
    variables = {"PATH": "/bin"}
    action = Action("ls", env=variables)
    before = action.env_digest()
    assert replace(action, env={"PATH": "/bin"}).env_digest() is before
    variables["PATH"] = "/sbin"
    assert action.env_digest() != before


def test_policy_and_judged_files_are_part_of_it() -> None:
    assert BASE.digest("1" * 64) != BASE.digest(POLICY)
    assert BASE.digest(POLICY, [FileDigest("/a", "0" * 64)]) != BASE.digest(POLICY)


def test_texts_that_are_no_unicode_have_digests_of_their_own() -> None:
    first = "\ud800 \udc80"
    second = first.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    assert encodable(first) != encodable(second)


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_two_commands_have_one_digest_only_if_they_are_the_same(first: str, second: str) -> None:
    digests = {replace(BASE, content=c).digest(POLICY) for c in (first, second)}
    assert len(digests) == (1 if first == second else 2)
