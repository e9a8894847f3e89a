"""Attacks in several steps, judged one step after another as `hla check --run` does, with bash in between: each is real, and
none is allowed to its end, without confinement. Of their harmless twins hardly one is asked about where commands run
confined, as is the default; without it, hardly one of those whose code can be read when it is loaded.

There are more than 1,500, which `make soak` plays; `make test-all` plays a quarter, and `make test` one for every fourth loader.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

from tests.support import enclosures
from tests.support.attack_player import Played, environment
from tests.support.extent import ALL, SOAK
from tests.support.staged_attacks import Attack, attacks

_PARTS = 24 if SOAK else 8 if ALL else 4
_SEED = 1


def _chosen() -> list[Attack]:
    dear, cheap = (12, 52) if SOAK else (3, 13) if ALL else (0, 1)
    return [each for each in attacks(_SEED, dear=dear, cheap=cheap) if all(map(shutil.which, each.needs))]


@cache
def played(part: int) -> list[Played]:
    """What came of the attacks of one part."""
    here = [asdict(attack) | {"needs": []} for attack in _chosen()[part::_PARTS]]
    words = [
        enclosures.backend().path, "--ro-bind", "/", "/", "--tmpfs", "/srv", "--dir", "/srv/home", "--dir", "/srv/tmp", "--dev", "/dev", "--proc", "/proc",
        "--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent", "--chdir", "/srv",
        sys.executable, "-m", "tests.support.attack_player",
    ]  # fmt: skip
    done = subprocess.run(words, env=environment(), input=json.dumps(here), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [Played(**json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(here)
    return found


@pytest.mark.skipif(not Path("/srv").is_dir(), reason="there is no /srv here to put a folder in the place of")
@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(_PARTS))
def test_no_attack_in_steps_is_allowed_to_its_end(part: int) -> None:
    found = played(part)
    assert [each.name for each in found if not each.real] == []
    assert [each.name for each in found if each.escaped] == []
    stopped = [f"{each.name}: {each.twin_stopped}" for each in found if each.twin_stopped]
    assert len(stopped) <= max(1, 0.05 * len(found)), stopped
    read = [each for each in found if each.name in {attack.name for attack in _chosen() if attack.read}]
    stopped = [f"{each.name}: {each.unconfined_twin_stopped}" for each in read if each.unconfined_twin_stopped]
    assert len(stopped) <= max(1, 0.05 * len(read)), stopped
