"""Signed lists of signers: which one is taken, what is refused, and what of it counts in a process that goes on."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.channels import settings as channels
from humanlayer_agent.channels.settings.authority_loader import authority_of
from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.hooks.judge import Judge
from humanlayer_agent.keys import signer_list
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signer_list import SignerList
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import audit_key_path, config_folder
from humanlayer_agent.policy_tools.bundles import put_in_force
from tests.hooks.test_judge import asked
from tests.support.bundles import resigned

ANN, BEN, HUB = ("a" * 64, "b" * 64, "c" * 64)


class Fleet:
    """A user (or the machine) whose channels file takes the list acme, and the key that signs it."""

    def __init__(self, folder: Path, machine: Path | None = None) -> None:
        self.folder, self.machine, self.signer = folder, machine, Signer()
        folder.mkdir(parents=True, exist_ok=True)
        self.says(f'{{fleet: acme, signed_by: ["{self.signer.fingerprint}"]}}')

    def says(self, signers: str) -> None:
        path = self.folder / "channels.yaml"
        path.write_text(f"version: 1\nsigners: {signers}\n")
        path.chmod(0o600)

    def build(self, version: int, *keys: str, expires: str = "2999-12-31", fleet: str = "acme") -> SignerList:
        named = {f"person-{number}": [key] for number, key in enumerate(keys)}
        draft = SignerList(fleet, version, expires, named, self.signer.fingerprint)
        assert draft.mistake() == ""
        return replace(draft, signature=self.signer.sign_text(draft.statement))

    def install(self, found: SignerList | bytes) -> SignerList:
        place = channels.signer_list(machine=self.machine)
        assert place is not None
        raw = found if isinstance(found, bytes) else found.text
        return put_in_force(place, raw, "there", trial=lambda *_: None)[0]

    def lies(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o644)
        return path

    def load(self) -> channels.Profiles:
        return channels.load(machine=self.machine)


@pytest.fixture
def fleet(own_user: Path, tmp_path: Path) -> Fleet:
    return Fleet(config_folder(), tmp_path / "no-machine")


def test_the_list_says_who_signs(fleet: Fleet) -> None:
    with pytest.raises(ConfigError, match=r"takes the signer list acme, and has none: hla key signers install"):
        fleet.load()
    fleet.install(fleet.build(3, ANN, BEN))
    found = fleet.load()
    assert found.signers == {ANN, BEN}
    assert found.fleet is not None
    assert found.fleet.list.title == "acme@3"
    assert authority_of(found, "os:1").trusts(ANN)


REFUSED: dict[str, Callable[[Fleet, SignerList], bytes]] = {
    "version 2 is older than 3": lambda fleet, good: fleet.build(2, ANN).text,
    "another signer list was the version 3": lambda fleet, good: fleet.build(3, BEN).text,
    "changed after it was signed": lambda fleet, good: good.text.replace(ANN.encode(), HUB.encode()),
    "signed by nobody": lambda fleet, good: replace(good, version=4, signer="", signature="").text,
    "signature does not count here": lambda fleet, good: resigned(good, Signer(), version=4),  # type: ignore[arg-type]
    "not a signer list: it is cut short": lambda fleet, good: good.text[:-5],
    "it is the signer list other; you take acme": lambda fleet, good: fleet.build(4, ANN, fleet="other").text,
    "has expired": lambda fleet, good: fleet.build(4, ANN, expires="2001-01-01").text,
    "too large": lambda fleet, good: b"[" * 5_000_000,
    "these are not the keys of one": lambda fleet, good: canonical({"purpose": "humanlayer-agent policy bundle 1"}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_count_is_neither_installed_nor_used(fleet: Fleet, why: str) -> None:
    good = fleet.install(fleet.build(3, ANN, BEN))
    before = {path.name: path.read_bytes() for path in fleet.folder.iterdir()}
    raw = REFUSED[why](fleet, good)
    with pytest.raises(PolicyError, match=why):
        fleet.install(raw)
    assert {path.name: path.read_bytes() for path in fleet.folder.iterdir()} == before
    fleet.lies("acme.signers", raw)  # by somebody who can write there
    with pytest.raises(ConfigError, match=why):
        fleet.load()


def test_an_older_one_stays_refused_where_the_one_in_force_was_removed(fleet: Fleet) -> None:
    fleet.install(fleet.build(3, ANN))
    (fleet.folder / "acme.signers").unlink()
    with pytest.raises(PolicyError, match="older than 3"):
        fleet.install(fleet.build(2, ANN))
    fleet.lies("acme.signers-last.json", b"{}")
    with pytest.raises(ConfigError, match="does not say which one was the last"):
        fleet.load()


@pytest.mark.parametrize("spoil", ["writable", "link", "hard link"])
def test_a_list_that_others_may_have_written_is_refused(fleet: Fleet, tmp_path: Path, spoil: str) -> None:
    fleet.install(fleet.build(3, ANN))
    path = fleet.folder / "acme.signers"
    if spoil == "writable":
        path.chmod(0o666)
    elif spoil == "link":
        path.rename(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    else:
        os.link(path, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"writable by nobody else|is a link|another name"):
        fleet.load()


def test_a_project_names_none_and_trusting_it_changes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.install(fleet.build(3, ANN))
    project = tmp_path / "project"
    (project / ".humanlayer").mkdir(parents=True)
    text = f'version: 1\nsigners: {{fleet: theirs, signed_by: ["{BEN}"]}}\n'
    (project / ".humanlayer/channels.yaml").write_text(text)
    assert channels.load(project, machine=fleet.machine).signers == {ANN}
    with pytest.raises(ConfigError, match="signers: only the machine's or the user's own file may name them"):
        channels.load(project, machine=fleet.machine, trusting=True)


def test_a_file_that_is_named_by_itself(fleet: Fleet, tmp_path: Path) -> None:
    """Its list lies where the user's does, never beside it: it may stand in a project."""
    fleet.install(fleet.build(3, ANN))
    own = fleet.folder / "channels.yaml"
    assert channels.load(file=own, machine=fleet.machine).signers == {ANN}
    other = tmp_path / "channels.yaml"
    other.write_bytes(own.read_bytes())
    (tmp_path / "acme.signers").write_bytes(fleet.build(4, BEN).text)
    found = channels.load(file=other, machine=fleet.machine)
    assert found.signers == {ANN}
    assert found.fleet is not None
    assert found.fleet.place.file == str(fleet.folder / "acme.signers")


def test_the_list_of_the_machine_is_all_there_is(own_user: Path, tmp_path: Path) -> None:
    machine = Fleet(tmp_path / "etc", tmp_path / "etc")
    machine.folder.chmod(0o755)
    (machine.folder / "channels.yaml").chmod(0o644)
    if os.geteuid() != 0:
        pytest.skip("what is the machine's belongs to root")
    machine.install(machine.build(3, ANN))
    named = channels.load(file=machine.folder / "channels.yaml", machine=machine.machine)
    assert named.signers == {ANN}, "as a hub names it"
    user = Fleet(config_folder(), machine.machine)
    user.says(f'["{BEN}"]')
    found = machine.load()
    assert (found.signers, found.uncounted) == ({ANN}, {BEN})
    user.says(f'{{fleet: mine, signed_by: ["{BEN}"]}}')
    assert machine.load().signers == {ANN}, "a list below it is not even looked for"
    machine.lies("acme.signers", machine.build(4, ANN, expires="2001-01-01").text)
    with pytest.raises(ConfigError, match="until a newer one is installed: sudo hla key signers install"):
        machine.load()
    machine.says(f'["{HUB}"]')
    (machine.folder / "channels.yaml").chmod(0o644)
    user.says(f'{{fleet: acme, signed_by: ["{user.signer.fingerprint}"]}}')
    user.install(user.build(1, BEN))
    assert user.load().signers == {BEN, HUB}, "what the machine names stays"


def test_a_key_that_is_taken_out_counts_no_more_in_what_goes_on(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.install(fleet.build(3, ANN, BEN))
    own = Signer().fingerprint
    authority = authority_of(fleet.load(), "os:1").trusting(own)
    assert [authority.trusts(key) for key in (ANN, BEN, HUB, own)] == [True, True, False, True]
    fleet.install(fleet.build(4, BEN, HUB))
    assert [authority.trusts(key) for key in (ANN, BEN, HUB, own)] == [False, True, False, True]
    fleet.lies("acme.signers", fleet.build(3, ANN, BEN).text)  # set back
    assert [authority.trusts(key) for key in (ANN, BEN, own)] == [False, False, True]
    assert caplog.text.count("version 3 is older than 4") == 1, "it is said once"
    fleet.lies("acme.signers", fleet.build(4, BEN, HUB).text)
    assert authority.trusts(BEN)
    monkeypatch.setattr(signer_list, "moment", lambda: "3000-01-01T00:00:00Z")
    assert [authority.trusts(BEN), authority.trusts(own)] == [False, True]
    assert "the signer list acme@4 has expired (2999-12-31), so nobody's answer counts" in caplog.text
    (fleet.folder / "acme.signers").unlink()
    assert not authority.trusts(BEN)


def test_a_session_of_hooks_heeds_it_for_the_next_call(fleet: Fleet, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    fleet.install(fleet.build(3, ANN, BEN))
    judge = Judge()
    assert asked(judge, project, "ls").verdict == "allow"
    fleet.install(fleet.build(4, BEN, HUB))
    assert asked(judge, project, "ls").verdict == "allow"
    (session,) = judge._sessions.values()
    assert session.signers == {BEN}, "a key that was put in counts in what begins then, and one that is out no more"
    fleet.lies("acme.signers", b"broken")
    with pytest.raises(PolicyError, match="not a signer list"):  # which the server answers with a denial
        asked(judge, project, "ls")
    judge.close()


def test_the_audit_key_is_refused_in_a_list_as_well(fleet: Fleet) -> None:
    fleet.install(fleet.build(3, AuditKey.create(audit_key_path()).fingerprint))
    with pytest.raises(ConfigError, match="is the audit key"):
        authority_of(fleet.load(), "os:1")


def test_the_audit_key_signs_no_list(fleet: Fleet) -> None:
    """It has no passphrase: an agent's command could make a list with it."""
    key = AuditKey.create(audit_key_path())
    fleet.says(f"{{fleet: acme, signed_by: [{key.fingerprint}]}}")
    unsigned = SignerList("acme", 1, "2999-12-31", {"ann": [ANN]}, key.fingerprint)
    fleet.install(replace(unsigned, signature=key.sign_text(unsigned.statement)))
    with pytest.raises(ConfigError, match="is the audit key"):
        authority_of(fleet.load(), "os:1")


@pytest.mark.parametrize(
    ("signers", "why"),
    [
        ("{fleet: acme}", "'signed_by' is missing"),
        ("{fleet: acme, signed_by: []}", "at least 1"),
        ("{fleet: acme, signed_by: [xyz]}", "no key's fingerprint"),
        (f"{{fleet: ../acme, signed_by: [{'a' * 64}]}}", "should match pattern|not written as"),
        (f"{{fleet: acme, signed_by: [{'a' * 64}], from: ./acme.signers}}", "not written as expected: a file"),
        (f"{{fleet: acme, signed_by: [{'a' * 64}], from: 'http://x/y'}}", "not written as expected"),
        (f"{{fleet: acme, signed_by: [{'a' * 64}], form: /x}}", "unknown key 'form'"),
    ],
)
def test_mistakes_in_settings_are_shown_where_they_stand(fleet: Fleet, signers: str, why: str) -> None:
    fleet.says(signers)
    with pytest.raises(ConfigError, match=rf"channels.yaml:2:\d+: .*({why})"):
        fleet.load()


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(max_size=5)
    | st.sampled_from([ANN, "acme", "2999-12-31"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(changes=st.dictionaries(st.sampled_from(["fleet", "version", "expires", "signers", "signer", "x"]), _JSON))
@settings(deadline=None, max_examples=60)
def test_whatever_is_signed_is_a_list_or_refused(changes: dict[str, Any]) -> None:
    signer = Signer()
    good = SignerList("acme", 1, "2999-12-31", {"ann": [ANN]}, signer.fingerprint)
    raw = canonical({**json.loads(good.text), **changes})
    try:
        found = SignerList.parse(raw, "there")
    except PolicyError as error:
        assert str(error).startswith("there: ")
        return
    assert found.text == raw
    assert all(len(key) == 64 and name for key, name in found.names.items())
