"""A human approves, and the key that would have to sign the answer can't: the command does not run."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minisweagent.environments.local import LocalEnvironment

from humanlayer_agent.action import Action
from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.configuration import build_asker, build_authority, build_gate, build_signer
from humanlayer_agent.locations import key_path
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from tests.support.keys import PASSPHRASE, make_key


class Judge:
    """Has a human asked about `touch`."""

    def evaluate(self, action: Action) -> PolicyDecision:
        asked = action.content.startswith("touch")
        return PolicyDecision(Verdict.ASK if asked else Verdict.ALLOW, "a test", policy="test", policy_digest="0" * 64)


class Yes:
    """Approves whatever it is asked."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        return options[-1]


def readable(key: Path) -> None:
    key.chmod(0o644)


def gone(key: Path) -> None:
    key.unlink()


def garbled(key: Path) -> None:
    key.write_text("not a key")


def as_it_is(key: Path) -> None:
    pass


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("spoil", "listed", "unlocked", "why"),
    [
        (readable, True, False, "nobody else may read"),
        (gone, True, False, "can't be read"),
        (garbled, True, False, "not a key that hla init has written"),
        (as_it_is, True, False, "is locked"),
        (as_it_is, False, True, "not named under `signers:`"),
        (as_it_is, True, True, ""),
    ],
)
def test_the_agent_reads_126_and_nothing_runs(
    spoil: Callable[[Path], None],
    listed: bool,
    unlocked: bool,
    why: str,
    tools: Any,
    submit: str,
    templates: dict[str, Any],
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fingerprint = make_key().fingerprint
    settings = tmp_path / "config" / "humanlayer-agent" / "channels.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"version: 1\nsigners: ['{fingerprint if listed else 'a' * 64}']\n")
    asker = build_asker(Yes())
    authority = build_authority(asker=asker)
    signer = build_signer(authority)
    assert signer is not None
    if unlocked:
        signer.unlock(PASSPHRASE)
    spoil(key_path())
    outside = tmp_path / "outside"
    model = tools([[f"touch {shlex.quote(str(outside))}"], [submit]])
    given: Any = {"asker": asker, "authority": authority, "signer": signer, "store": tmp_path / "store.sqlite3"}
    with build_gate(director=Judge(), project=project, **given) as gate:
        agent = SupervisedAgent(model, LocalEnvironment(cwd=str(project)), gate=gate, **templates)
        agent.run("t")
        first = next(message for message in agent.messages if message["role"] == "tool")
        started = list(gate.store.events(type="exec.started"))
    assert outside.exists() is (not why), first["content"]
    assert first["extra"]["returncode"] == (126 if why else 0)
    assert why in first["content"]
    assert len(started) == (1 if why else 2)  # handing in, and what was approved
