"""Attacks that a policy lets run because they run confined: nothing outside the project changes.

They are those of `staged_attacks` (a text is written, brought into another form and loaded as code), each of which does
its harm in plain bash (tests/cli/test_staged_attacks.py), and the commands that once came out as allowed. All are played
in a namespace in which /srv is in memory and thrown away.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import enclosures
from tests.support.attack_player import environment
from tests.support.confined_player import Held
from tests.support.extent import SOAK
from tests.support.harmful_commands import HARMFUL
from tests.support.staged_attacks import attacks

_PARTS = 4
# What gets out of a confinement with a hole finds the machine read-only, where that can be had.
_NAMESPACE = """
set -e
mount --make-rprivate /
mount -t tmpfs none /srv
mount -t tmpfs none /var/tmp
mount -o remount,bind,ro / 2> /dev/null || true
mkdir -p /srv/home /srv/tmp
exec "$@"
"""
pytestmark = pytest.mark.skipif(
    not Path("/srv").is_dir(), reason="there is no /srv here to put a folder in the place of"
)


def _staged() -> list[dict[str, Any]]:
    dear, cheap = (3, 13) if SOAK else (1, 4)
    found = [each for each in attacks(2, dear=dear, cheap=cheap) if all(map(shutil.which, each.needs))]
    return [asdict(attack) | {"needs": []} for attack in found]


@cache
def _unshared() -> list[str]:
    enclosures.backend()  # or a skip
    how = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    tried = subprocess.run([*how, "mount", "-t", "tmpfs", "none", "/srv"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespace here in which something could be mounted: {tried.stderr.strip()}")
    return how


def _held(these: list[dict[str, Any]]) -> list[Held]:
    player = [sys.executable, "-m", "tests.support.confined_player"]
    done = subprocess.run(
        [*_unshared(), "bash", "-c", _NAMESPACE, "bash", *player],
        env=environment(),
        cwd="/",
        input=json.dumps(these),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [Held(**json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(these)
    return found


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
def test_code_that_came_in_steps_does_nothing_outside(part: int) -> None:
    these = _staged()[part::_PARTS]
    found = _held(these)
    assert [each for each in found if each.harm] == []
    assert [each for each in found if each.unconfined] == []
    ran = [each for each in found if not each.refused]
    assert len(ran) >= len(found) / 10, [each.refused for each in found if each.refused]


@pytest.mark.long
def test_what_was_once_let_through_does_nothing_outside() -> None:
    found = _held([{"name": command, "steps": [command]} for command in HARMFUL])
    assert [each for each in found if each.harm] == []
    assert [each for each in found if each.unconfined] == []
    assert len([each for each in found if each.ran]) >= 10
