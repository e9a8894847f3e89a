"""git reads the repository of the directory it works in."""

import pytest

from humanlayer_agent.shell.analysis import analyse


def reads(command: str, cwd: str = "/p") -> set[str | None]:
    program = analyse(command, cwd=cwd, environ={"HOME": "/home/u"})
    return {e.operand for c in program.commands for e in c.effects if e.kind == "read" and e.role == "repository"}


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("git -C /srv/r log -p", {"/srv/r"}), ("git -C .. status", {"/"}), ("git -C ~/r -C sub show HEAD:x", {"/home/u/r/sub"}),
        ("cd /srv/r && git diff", {"/srv/r"}), ("(cd ../r; git log)", {"/r", }), ('git -C "$X" log', {None}),
        ("bash -c 'cd /srv/r; git log'", {"/srv/r"}), ("x=/srv/r; git -C $x blame a", {"/srv/r"}), ("env -C /srv/r git log", {"/srv/r"}),
        ("git log -p", set()), ("git -C sub log", set()), ("cd sub && git status", set()), ("echo git -C /srv/r log", set()),
        ("git -C /srv/r add x", set()),
    ],
)  # fmt: skip
def test_of_another_directory(command: str, places: set[str | None]) -> None:
    assert reads(command) >= places
    assert bool(reads(command)) == bool(places)


def test_a_beginning_at_the_root_is_everything() -> None:
    assert reads("git -C /srv log", cwd="/") == set()
