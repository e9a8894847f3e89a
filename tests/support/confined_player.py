"""Has a policy run attacks confined, for what it allows, and tells what came of it outside the project.

It is run as a program in a namespace of its own, in which /srv is in memory and thrown away. It reads attacks as JSON
from its standard input (a name, steps), and writes what came of each as a line of JSON.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.attack_player import PROJECT, TEMPLATE, fresh, make_template

SECRET = "c4n4ry-of-the-machine"
OUTSIDE = Path("/srv")
"""Nothing below it is to change but the project, and what the supervisor keeps for itself."""
_OURS = (PROJECT, TEMPLATE, Path("/srv/home/.local"), Path("/srv/home/.cache"), Path("/srv/tmp"))


@dataclass(frozen=True, slots=True)
class Held:
    """What came of an attack.

    Args:
        name: the attack's.
        ran: how many of its steps were let run.
        refused: why the next one was not; "" where all ran.
        unconfined: a step that ran without a confinement.
        harm: what changed outside the project, and what was printed of it.
    """

    name: str
    ran: int
    refused: str
    unconfined: str
    harm: list[str]


class Nobody:
    """Is asked, and refuses."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        """Return the option that does not approve."""
        return next(option for option in options if not option.lower().startswith(("y", "a")))


def main() -> None:
    """Play what stands on standard input."""
    make_template()
    for attack in json.load(sys.stdin):
        print(json.dumps(asdict(_held(attack["name"], attack["steps"]))), flush=True)


def _held(name: str, steps: Sequence[str]) -> Held:
    from humanlayer_agent import ActionDenied, Gate

    fresh()
    _make_outside()
    before = dict(_outside())
    printed, ran, refused, unconfined = "", 0, "", ""
    with Gate.from_config(user=Nobody(), policy="default", project=PROJECT, confine=True) as gate:
        for step in steps:
            try:
                printed += gate.run(step, PROJECT, timeout=120).output
            except ActionDenied as why:
                refused = f"{step}: {why}"
                break
            ran += 1
            (started,) = list(gate.store.events(type="exec.started"))[-1:]
            if not started.event.get("confined"):
                unconfined = step
    after = dict(_outside())
    harm = [path for path in before | after if before.get(path) != after.get(path)]
    harm += [f"printed: {printed}"] if SECRET in printed else []
    return Held(name, ran, refused, unconfined, harm)


def _make_outside() -> None:
    for name in (
        "x",
        "x.js",
        "x.py",
        "x.jar",
        "notes/a.txt",
        "r/a.txt",
        "work/other/a.txt",
        "work/x",
        "home/.ssh/id_ed25519",
    ):
        path = OUTSIDE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n")


def _outside() -> Iterator[tuple[str, str]]:
    folders = [OUTSIDE]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path in _OURS:
                continue
            about = path.lstat()
            said = f"{about.st_mode:o} {about.st_uid}"
            if path.is_symlink():
                said += f" -> {path.readlink()}"
            elif path.is_dir():
                folders.append(path)
            elif path.is_file():
                said += f" {path.read_text(errors='replace')}"
            yield str(path), said


if __name__ == "__main__":
    main()
