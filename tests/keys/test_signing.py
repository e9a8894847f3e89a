"""Signatures of votes, and the files that keys are in."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Approver, Denial, Vote
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.signing import Signer, is_signed, process_signer, statement
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support.keys import PASSPHRASE, make_key

SIGNER = Signer()
VOTE = Vote(
    "r" * 32, "approve", Approver("os:1:ann", "terminal", "terminal"), "d" * 64, "id", "because é", "typed", 5,
    person="ann", signer=SIGNER.fingerprint,
)  # fmt: skip


def signed(vote: Vote, signer: Signer = SIGNER) -> Vote:
    return replace(vote, signature=signer.sign(vote))


def test_a_signature_is_right() -> None:
    assert is_signed(signed(VOTE))
    assert not is_signed(VOTE)


CHANGES: dict[str, Any] = {
    "request_id": "s" * 32,
    "answer": "reject",
    "approver": Approver("os:1:ann", "terminal", "os"),
    "presented_digest": "e" * 64,
    "decision_id": "ie",
    "comment": "because e",
    "at": 6,
    "edited": "x",
    "person": "bob",
    "signer": Signer().fingerprint,
}


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_matters_is_signed(name: str) -> None:
    assert not is_signed(replace(signed(VOTE), **{name: CHANGES[name]}))


@given(st.text(), st.text(), st.text(), st.text())
def test_no_two_votes_have_one_statement(one: str, two: str, three: str, four: str) -> None:
    first = replace(VOTE, decision_id=one, person=two)
    second = replace(VOTE, decision_id=three, person=four)
    assert (statement(first) == statement(second)) == ((one, two) == (three, four))


@pytest.mark.parametrize("signature", ["", "00" * 64, "zz" * 64, "00" * 63, "é" * 64], ids=range(5))
@pytest.mark.parametrize("signer", ["", "00" * 32, "ff" * 32, "zz" * 32, "00", SIGNER.fingerprint], ids=range(6))
def test_what_is_no_signature(signature: str, signer: str) -> None:
    assert not is_signed(replace(VOTE, signature=signature, signer=signer))


def test_a_key_file(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signer"
    made = make_key(path)
    assert not made.is_locked
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    again = Signer(path)
    assert again.fingerprint == made.fingerprint
    assert again.is_locked
    for use in (lambda: again.sign(VOTE), lambda: again.sign_text(b""), lambda: again.secret("x")):
        with pytest.raises(ConfigError, match="is locked: its passphrase unlocks it"):
            use()
    again.unlock(PASSPHRASE)
    assert is_signed(signed(replace(VOTE, signer=made.fingerprint), again))
    assert again.secret("x") == made.secret("x") != made.secret("y")
    with pytest.raises(ConfigError, match="can't be made: File exists"):
        make_key(path)
    assert Signer(path).fingerprint == made.fingerprint


def test_nothing_is_asked_with_a_key_that_can_not_be_read(
    make_gate: Callable[..., Gate], act: Callable[..., Any], tmp_path: Path
) -> None:
    asker = ScriptedAsker(["approve"])
    gate = make_gate(asker=asker, signer=Signer(tmp_path / "gone"))
    denial = gate.check(act("ask"))
    assert isinstance(denial, Denial)
    assert "gone can't be read: No such file" in denial.reason
    assert asker.asked == []
    assert next(iter(gate.store.events(last=1))).event["denied"] in denial.reason


def test_each_process_has_a_key_of_its_own(in_child: Callable[..., Any]) -> None:
    mine = process_signer().fingerprint
    assert process_signer().fingerprint == mine
    assert in_child(lambda: process_signer().fingerprint) != mine
