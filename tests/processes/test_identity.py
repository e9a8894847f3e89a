"""The identity of a process: a row of the store may hold anything there."""

import os
import subprocess
import sys

import pytest

from humanlayer_agent.processes import identity
from tests.support import children


def test_this_process_is_there() -> None:
    assert not identity.is_gone(identity.identity())


def test_a_process_that_has_ended_is_gone() -> None:
    child = children.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = identity.identity(child.pid)
    assert not identity.is_gone(known)
    child.communicate(b"\n")
    assert identity.is_gone(known)


def test_a_pid_that_was_used_again_is_another_process() -> None:
    boot, namespace, pid, start = identity.identity().split(":")
    assert identity.is_gone(f"{boot}:{namespace}:{pid}:{int(start) - 1}")
    assert identity.is_gone(f"another-boot:{namespace}:{pid}:{start}")
    assert not identity.is_gone(f"{boot}:another:{pid}:{start}")


@pytest.mark.parametrize(
    "wrong", ["", "x", "a:b:c:d", ":::", "a:b:-1:d", "a:b:0:d", "a:b:1:d:e", "a:b:1", f"a:b:{2**70}:d"]
)
def test_what_is_no_identity_is_never_gone(wrong: str) -> None:
    boot, namespace, *_ = identity.identity().split(":")
    for text in (wrong, wrong.replace("a:b", f"{boot}:{namespace}")):
        assert not identity.is_gone(text)
        assert identity.is_out_of_sight(text) is identity.is_out_of_sight(f"{boot}:another:{os.getpid()}:0")
