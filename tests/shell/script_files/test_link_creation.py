"""A link that an action makes itself can lead anywhere."""

import pytest

from humanlayer_agent.shell.analysis import analyse


def certain(command: str) -> bool:
    """True where every path of `command` is certain."""
    program = analyse(command, cwd="/p", environ={"HOME": "/h"})
    return all(e.resolved for c in program.commands for e in c.effects if e.kind != "network")


@pytest.mark.parametrize(
    "command",
    [
        "ln -s / x; rm -rf x/etc",
        "ln -s ../../etc x && cat x/shadow",
        "cd a/b && ln -s ../../../etc ../../x; cat ../../x/shadow",
        "mv a b; cat b/c",
        "cp -a a b; rm -rf b/c",
        "mkdir d; ln -s /etc d/e; tee d/e/f",
        "ln -s / x; echo y > x/z",
        "ln -s a x; (cd x && cat y)",
        "f() { ln -s / x; }; f; cat x/y",
        "for i in 1 2; do cat x/shadow; ln -sf /etc x; done",
        "ln -s /etc x & cat x/shadow",
        # The directory that is moved has links in it, or is one.
        "mv a d/; cat d/x/y",
        "mv a d/; mv b d/c/",
        "mv a d; mv b d/",
        "mv a d/; mv b d",
        "mv a d/; cp b d/",
        "ln -s / d; mv b d/",
        "for i in *; do mv $i d/; done; cat d/x",
    ],
)
def test_a_path_through_a_new_link_is_uncertain(command: str) -> None:
    assert not certain(command)


@pytest.mark.parametrize(
    "command",
    [
        "ln -s a x; cat y",
        "cp a b; cat b",
        "mv a b; cat bc",
        "mkdir d; cat d/e",
        "cat x; ln -s a x",
        "mv a d/; mv b d/",
        "mv a d/; mv b c d/",
        "for i in 1 2; do mv a d/; done",
        "git status > x; cat x",
        "git log 2>/dev/null; git status 2>/dev/null",
    ],
)
def test_other_paths_stay_certain(command: str) -> None:
    assert certain(command)


def test_the_path_by_name_is_kept() -> None:
    commands = analyse("ln -s a /etc/x; rm -rf /etc/x", cwd="/p").commands
    assert [e.operand for e in commands[1].effects] == ["/etc/x", None]


def test_links_that_code_makes() -> None:
    program = analyse('python -c \'import os; os.symlink("/", "x")\'; rm -rf x/etc', cwd="/p")
    assert any(e.kind == "delete" and not e.resolved for e in program.commands[-1].effects)
