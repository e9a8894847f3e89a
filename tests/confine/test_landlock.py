"""Landlock alone: which attacks it lets through stands in a table that is true here."""

import json
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.landlock import Landlock, Restriction
from humanlayer_agent.confine.proof import interpreter_reads
from humanlayer_agent.processes.reaper import restrict
from tests.confine.attack_scene import NOBODY, PROJECT_FILES, Scene, python_of
from tests.confine.attacks import ATTACKS
from tests.support.enclosures import landlock

ATTACK = Path(__file__).with_name("attacks.py")
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
TABLE: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("reduced.yaml").read_text())


def listed(version: int, *, root: bool, certain: bool) -> set[str]:
    """What the table says is let through, or may be."""
    return {
        attack
        for row in TABLE
        if version < row.get("before", 99) and (root or row.get("who") != "root")
        if not (certain and row.get("depends"))
        for attack in row["attacks"]
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize(("user", "version"), [("ours", 7), ("nobody", 7), ("nobody", 4), ("ours", 2)])
def test_the_table_says_which_attacks_it_lets_through(user: str, version: int) -> None:
    if user == "nobody" and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    version = min(version, landlock().version)
    with ExitStack() as stack:
        scene = Scene(stack, NOBODY if user == "nobody" else os.getuid())
        name = stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp")))
        os.chmod(name, 0o755)
        program, project = shutil.copy(ATTACK, name), scene.given["project"]
        system = ("/usr/**", "/bin/**", "/lib/**", "/lib64/**", "/etc/ld.so.cache", "/etc/hosts", "/etc/passwd")
        profile = Profile(
            "attacked",
            read=(*(system if user == "nobody" else interpreter_reads()), f"{name}/**"),
            write=(f"{project}/**",),
            protect=(f"{project}/**/.git/hooks/**", f"{project}/**/.git/config"),
            hide=(f"{project}/**/.env", f"{project}/secrets/**"),
        )
        restriction = Restriction(Landlock(version), Confinement((profile,)))

        def tried(only: list[str], **options: Any) -> set[str]:
            given = json.dumps(scene.given | {"files": PROJECT_FILES, "only": only})
            command = [python_of(scene.uid), "-I", "-S", program, given]
            said = scene.run(command, start_new_session=True, **options)
            return {attack for attack, why_not in said.items() if why_not is None}

        ruleset, calls = stack.enter_context(restriction.ruleset()), restriction.calls()
        through = tried(list(ATTACKS), descriptors=(ruleset,), preexec_fn=lambda: restrict(ruleset, calls))
        certain = listed(version, root=scene.uid == 0, certain=True)
        missing = certain - through
        assert through - listed(version, root=scene.uid == 0, certain=False) == set(), "these are in no table"
        assert missing & tried(sorted(missing)) == set(), "it does hold these"


def test_the_table_names_attacks_once() -> None:
    for version, root in ((7, False), (7, True), (1, True)):
        rows = [row for row in TABLE if version < row.get("before", 99) and not row.get("depends")]
        names = [attack for row in rows if root or row.get("who") != "root" for attack in row["attacks"]]
        assert len(names) == len(set(names))
    assert listed(1, root=True, certain=False) <= set(ATTACKS)


def summary() -> str:
    """The table, as SECURITY.md has it."""
    lines = [f"Of {len(ATTACKS)} attacks, Landlock alone lets through:", "", "| What | Attacks |", "| --- | --- |"]
    for row in TABLE:
        only = ["root alone"] if row.get("who") == "root" else []
        only += [f"before version {row['before']}"] if "before" in row else []
        only += ["where the machine lets them"] if row.get("depends") else []
        lines.append(f"| {row['because']} | {', '.join([str(len(row['attacks'])), *only])} |")
    return "\n".join(lines)


def test_the_summary_of_the_table_is_in_the_documentation() -> None:
    assert summary() in SECURITY.read_text(), f"SECURITY.md is to have:\n\n{summary()}"
