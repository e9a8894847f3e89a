"""Commands of a run see a /tmp of their own: they are judged by what lies there, with real programs and a real backend.

A test puts files there itself: what a program has written that nobody can read was not judged as it was written either.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import Action, ActionDenied, Gate
from humanlayer_agent.agents import run_enclosures
from humanlayer_agent.errors import NotAsJudged
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.patience import until
from tests.agents.conftest import Human

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def machines() -> Iterator[Path]:
    """A folder in the machine's own /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hla-views-") as name:
        yield Path(name)


@pytest.fixture
def own(gate: Gate, machines: Path) -> Path:
    """The same folder, as confined commands see it."""
    assert gate.enclosures is not None
    folder = Path(gate.enclosures.temporary, machines.name)
    folder.mkdir()
    return folder


def harmful(place: Path) -> str:
    return f"rm {place}/outside/canary\n"


def decision_on(gate: Gate, text: str) -> dict[str, Any]:
    """The last decision on a command with this in it."""
    return [e.event for e in gate.store.events(type="decision.evaluated") if text in e.event["command"]][-1]


def is_asked_about(gate: Gate, human: Human, command: str) -> None:
    before = len(human.asked)
    with pytest.raises(ActionDenied):
        gate.run(command)
    assert len(human.asked) == before + 1
    assert "outside the project" in human.asked[-1]


def test_what_lies_in_its_tmp_is_judged_as_if_it_lay_in_the_project(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path
) -> None:
    (own / "x.sh").write_text(harmful(place))
    is_asked_about(gate, human, f"bash {machines}/x.sh")
    (own / "x.sh").write_text("echo harmless\n")
    assert gate.run(f"bash {machines}/x.sh").output == "harmless\n"
    assert len(human.asked) == 1
    assert gate.enclosures is not None
    assert decision_on(gate, "x.sh")["confined"]["tmp"] == gate.enclosures.temporary


def test_a_script_that_one_command_writes_is_read_when_another_runs_it(gate: Gate, human: Human) -> None:
    gate.run("cat > /tmp/x.sh <<'E'\necho from a script\nE")
    assert gate.run("bash /tmp/x.sh").output == "from a script\n"
    assert human.asked == []
    director: Any = gate.director
    decision = director.evaluate(Action("bash /tmp/x.sh", env={"PATH": "/usr/bin:/bin"}))
    assert [each.path for each in decision.files] == ["/tmp/x.sh"]
    assert not any(effect.unread for effect in decision.effects)


def test_the_machines_tmp_is_never_judged_for_a_confined_command(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path
) -> None:
    (machines / "x.sh").write_text("echo machine\n")
    (own / "x.sh").write_text(harmful(place))
    is_asked_about(gate, human, f"bash {machines}/x.sh")
    (machines / "x.sh").write_text(harmful(place))
    (own / "x.sh").write_text("echo own\n")
    assert gate.run(f"bash {machines}/x.sh").output == "own\n"
    assert len(human.asked) == 1
    assert (place / "outside/canary").exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command",
    [
        "rm {tmp}/d/canary",
        "rm link/canary",
        "rm {tmp}/d/../outside/canary",
        "cd {tmp} && rm d/canary",
    ],
)
def test_links_in_its_tmp_lead_where_they_lead_inside(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path, command: str
) -> None:
    (own / "d").symlink_to(place / "outside")
    (place / "project/link").symlink_to(machines / "d")
    is_asked_about(gate, human, command.format(tmp=machines))
    (own / "d").unlink()
    (own / "d").symlink_to(place / "project")
    (machines / "d").symlink_to(place / "outside")
    (place / "project/canary").touch()
    (place / "project/outside").mkdir()
    (place / "project/outside/canary").touch()
    gate.run(f"{command.format(tmp=machines).replace('../outside', 'outside')}; true")  # not what was refused before
    assert len(human.asked) == 1


def test_a_link_from_the_project_into_its_tmp_and_back(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path
) -> None:
    (place / "project/back.sh").write_text(harmful(place))
    (own / "there.sh").symlink_to(place / "project/back.sh")
    (place / "project/link.sh").symlink_to(machines / "there.sh")
    (machines / "there.sh").write_text("echo harmless\n")
    is_asked_about(gate, human, "bash link.sh")
    (place / "project/back.sh").write_text("echo own\n")
    assert gate.run("bash link.sh").output == "own\n"


def test_what_a_human_approves_is_judged_and_run_with_the_machines_tmp(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path
) -> None:
    (machines / "x.sh").write_text("echo machine\n")
    (own / "x.sh").write_text(harmful(place))
    human.approves = True
    assert gate.run(f"bash {machines}/x.sh").output == "machine\n"
    assert len(human.asked) == 1
    assert "confined commands see another file there" in " ".join(human.asked[0].split())
    assert "confined" not in decision_on(gate, "x.sh")
    assert (place / "outside/canary").exists()


def test_what_is_approved_confined_is_opened_where_it_leads_inside(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path
) -> None:
    (own / "link").symlink_to(place / "outside/canary")
    (own / "x").write_text("own\n")
    for name in ("link", "x"):
        (machines / name).write_text("machine\n")
    human.approves = True
    assert gate.run(f"cat {machines}/link {machines}/x").output == "canary\nown\n"
    assert decision_on(gate, "cat")["confined"]["to"] == f"project + reading {place}/outside/canary"
    assert gate.run(f"# needs: read {machines}\ncat {machines}/x").output == "own\n"
    assert decision_on(gate, "needs")["confined"]["to"] == "project"
    assert len(human.asked) == 2


def test_what_is_approved_confined_is_no_more_where_the_link_leads_elsewhere(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "outside/other").write_text("other\n")
    (own / "link").symlink_to(place / "outside/canary")
    human.approves = True

    def swapping(prompt: str, *, options: list[str]) -> str:
        (own / "link").unlink()
        (own / "link").symlink_to(place / "outside/other")
        return Human.query(human, prompt, options=options)

    monkeypatch.setattr(human, "query", swapping)
    with pytest.raises(ActionDenied, match="when a human was asked"):
        gate.run(f"cat {machines}/link")


def test_what_is_approved_is_bound_to_the_machines_file(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machines / "x.sh").write_text("echo judged\n")
    (own / "x.sh").write_text(harmful(place))
    human.approves = True

    def swapping(prompt: str, *, options: list[str]) -> str:
        (machines / "x.sh").write_text("touch ran\n")
        return Human.query(human, prompt, options=options)

    monkeypatch.setattr(human, "query", swapping)
    with pytest.raises(ActionDenied):
        gate.run(f"bash {machines}/x.sh")
    assert len(human.asked) == 1
    assert not (place / "project/ran").exists()


def test_where_the_runs_file_got_harmless_meanwhile_the_machines_is_judged_again(
    gate: Gate, place: Path, human: Human, own: Path, machines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An override that has ended, say: what is allowed confined says nothing of what runs unconfined."""
    (own / "x.sh").write_text(harmful(place))
    (machines / "x.sh").write_text("echo machine\n")
    human.approves = True
    director: Any = gate.director
    denied = Director.load("default", project=place / "project").evaluate(Action("mkfs.ext4 /dev/sda"))
    assert denied.verdict is Verdict.DENY

    def query(prompt: str, *, options: list[str]) -> str:
        (own / "x.sh").write_text("echo harmless\n")
        assert director.evaluate(Action(f"bash {machines}/x.sh")).verdict is Verdict.ALLOW
        monkeypatch.setattr(director, "evaluate_approved", lambda action, view: denied)
        return Human.query(human, prompt, options=options)

    monkeypatch.setattr(human, "query", query)
    with pytest.raises(ActionDenied, match="something else of it now"):
        gate.run(f"bash {machines}/x.sh")


@pytest.mark.parametrize("way", ["another run", "none"])
def test_a_permit_runs_in_no_other_view_than_it_was_judged_in(gate: Gate, place: Path, way: str) -> None:
    assert gate.enclosures is not None
    director: Any = gate.director
    judged = director.evaluate
    if way == "another run":
        other = run_enclosures.RunEnclosures.of("another", place / "project")
        gate.enclosures = replace(gate.enclosures, temporary=other.temporary)
    else:
        director.evaluate = lambda action: replace(judged(action), confinement=None)
    with pytest.raises(ActionDenied, match="judged with another /tmp"):
        gate.run("touch ran")
    assert not (place / "project/ran").exists()


def in_place(own: Path, machines: Path) -> None:
    (own / "d/x.sh").write_text("echo swapped; touch ran\n")


def by_a_link(own: Path, machines: Path) -> None:
    (own / "d/x.sh").unlink()
    (own / "d/x.sh").symlink_to(f"{machines}/d/other.sh")


def by_its_folder(own: Path, machines: Path) -> None:
    (own / "d").rename(own / "gone")
    (own / "e").rename(own / "d")


@pytest.mark.sample(2)
@pytest.mark.parametrize("swap", [in_place, by_a_link, by_its_folder])
def test_what_is_swapped_in_its_tmp_before_the_start_does_not_run(
    gate: Gate, place: Path, own: Path, machines: Path, swap: Callable[[Path, Path], None]
) -> None:
    for name, word in (("d/x.sh", "judged"), ("d/other.sh", "swapped"), ("e/x.sh", "swapped")):
        for folder in (own, machines):  # where the machine has it, nothing changes
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(f"echo {word}; touch ran\n")
    admit = gate.store.admit

    def admitted(*args: Any, **kwargs: Any) -> Any:
        permit = admit(*args, **kwargs)
        swap(own, machines)
        return permit

    gate.store.admit = admitted  # type: ignore[method-assign]
    with pytest.raises(ActionDenied) as denied:
        gate.run(f"bash {machines}/d/x.sh")
    assert isinstance(denied.value.__cause__, NotAsJudged)
    assert not (place / "project/ran").exists()


def test_what_is_swapped_in_its_tmp_meanwhile_ends_the_run(gate: Gate, place: Path, own: Path, machines: Path) -> None:
    (own / "x.sh").write_text("echo judged; touch ran; until [ -e go ]; do sleep 0.01; done\n")

    def swap() -> None:
        until((place / "project/ran").exists, "the script")
        (own / "x.sh").rename(own / "y.sh")
        (own / "x.sh").write_text("echo swapped\n")
        (place / "project/go").touch()

    thread = threading.Thread(target=swap)
    thread.start()
    gate.run(f"bash {machines}/x.sh")
    thread.join()
    (changed,) = [entry.event for entry in gate.store.events(type="exec.changed")]
    assert [file["path"] for file in changed["files"]] == [f"{machines}/x.sh"]
    with pytest.raises(ActionDenied):
        gate.run("true")
