"""Our enumerations do what those of the standard library do."""

import copy
import enum
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from humanlayer_agent.light import enums
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.shell.builder import Role


def made(base: Any) -> Any:
    class Size(base):  # type: ignore[misc]
        """A size."""

        SMALL = 1
        LARGE = 2

        def __str__(self) -> str:
            return self.name.lower()

        @property
        def twice(self) -> int:
            return int(self.value) * 2

    return Size


PAIRS = [(made(enum.IntEnum), made(enums.IntEnum)), (made(enum.Enum), made(enums.Enum))]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=["int", "plain"])
def test_members_are_alike(theirs: Any, ours: Any) -> None:
    for kind in (theirs, ours):
        assert kind(2) is kind.LARGE is kind["LARGE"] is kind(kind.LARGE)
        assert len(kind) == 2 == len({*kind})
        assert kind.SMALL != kind.LARGE
        assert copy.copy(kind.SMALL) is copy.deepcopy([kind.SMALL])[0] is kind.SMALL
        assert bool(kind.SMALL)
        with pytest.raises(ValueError, match="is not a valid"):
            kind(3)
        with pytest.raises(KeyError):
            kind["NONE"]
        with pytest.raises(AttributeError):
            kind.SMALL = 7
    for one, other in zip(theirs, ours, strict=True):
        assert (repr(one), str(one), f"{one}", one.name, one.value, one.twice) == (
            *(repr(other), str(other), f"{other}", other.name, other.value, other.twice),
        )


def test_numbers_are_numbers() -> None:
    theirs, ours = PAIRS[0]
    for kind in (theirs, ours):
        assert kind.SMALL < kind.LARGE == 2
        assert max(kind.SMALL, kind.LARGE) is kind.LARGE
        assert json.dumps({"size": kind.LARGE}) == '{"size": 2}'
        assert hash(kind.LARGE) == hash(2)
        assert f"{kind.LARGE:03d}" == "002"
        assert isinstance(kind.LARGE, int)


@pytest.mark.parametrize("member", [*Verdict, *Role], ids=str)
def test_ours_stay_the_same_object(member: Any) -> None:
    assert pickle.loads(pickle.dumps(member)) is member
    assert copy.deepcopy({member: [member]}) == {member: [member]}


def test_the_command_line_does_without_theirs() -> None:
    code = "import sys, humanlayer_agent.policy.director; print('enum' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
