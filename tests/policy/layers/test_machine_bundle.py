"""The policy bundle of a machine: what is in force, and what is refused, whoever stands below."""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.doctor import policies
from humanlayer_agent.doctor.context import Context
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.hooks.judge import Judge
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy import layers as layers_of
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.layers import catalog_files, find_layers, machine_bundle, observed
from humanlayer_agent.policy_tools import bundles
from humanlayer_agent.policy_tools.bundles import status
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.hooks.test_judge import asked
from tests.support.bundles import LOCKED, READS, Fleet, policy_text, resigned

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what is the machine's belongs to root")
FROB = (
    "programs: {frob: {about: frobnicates, operands: [delete]}}\nexamples: [{command: frob a, effects: [delete a]}]\n"
)
DELETES = '{id: deletes, decision: allow, when: {effect: delete, paths: {all_within: ["${PROJECT}/**"]}}}'


@pytest.fixture
def fleet(tmp_path: Path, own_user: Path) -> Fleet:
    return Fleet(tmp_path)


def director(fleet: Fleet, **more: object) -> Director:
    return Director(find_layers(fleet.project, machine=fleet.folder), project=fleet.project, **more)  # type: ignore[arg-type]


def verdict(fleet: Fleet, command: str) -> tuple[str, str]:
    decision = director(fleet).evaluate(Action(command, cwd=str(fleet.project)))
    return str(decision.verdict), decision.policy


def allow_all(home: Path) -> None:
    folder = home / ".config/humanlayer-agent"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(policy_text(READS, DELETES, name="mine", defaults="{unmatched: allow}"))
    (folder / "policy.yaml").chmod(0o600)


def test_it_is_the_machines_layer_and_decisions_name_its_version(fleet: Fleet, own_user: Path) -> None:
    allow_all(own_user)
    fleet.install(fleet.build(7))
    assert verdict(fleet, "rm x") == ("deny", "acme@7 + mine")
    assert verdict(fleet, "cat x") == ("allow", "acme@7 + mine")
    with pytest.raises(PolicyError, match="--observe"):
        observed(find_layers(fleet.project, machine=fleet.folder), True)


def test_the_machines_own_file_stands_below_it(fleet: Fleet) -> None:
    """It adds what it asks about and denies, and neither switches anything off nor says what becomes of the rest."""
    fleet.install(fleet.build(1, READS, DELETES))
    assert verdict(fleet, "rm x") == ("allow", "acme@1")
    fleet.write("policy.yaml", policy_text(LOCKED, name="root", observe="true", defaults="{unmatched: allow}"))
    assert verdict(fleet, "rm x") == ("deny", "acme@1 + root")
    assert verdict(fleet, "frob x")[0] == "ask"
    assert not observed(find_layers(fleet.project, machine=fleet.folder))


def test_the_log_says_which_bundle_decided(fleet: Fleet, tmp_path: Path) -> None:
    bundle = fleet.install(fleet.build(7))
    store = SQLiteStore(tmp_path / "store.sqlite3")
    with Gate(director(fleet), store, ScriptedAsker([]), run_id="r") as gate:
        assert isinstance(gate.check(Action("rm x", cwd=str(fleet.project))), Denial)
    events = {entry.event["type"]: entry.event for entry in store.events()}
    assert events["decision.evaluated"]["policy"] == "acme@7"
    assert events["policy.loaded"]["bundle"] == {
        "name": "acme", "version": 7, "sha256": bundle.digest, "signer": fleet.signer.fingerprint, "expires": "2999-12-31",
    }  # fmt: skip


# ---- refused: nothing runs, and the weaker layers below never stand in -------------------------------------


def refused(fleet: Fleet, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        find_layers(fleet.project, machine=fleet.folder)
    (row,) = (each for each in status(fleet.project, machine=fleet.folder) if each.file.endswith("policy.bundle"))
    assert row.problem


def test_what_does_not_count_is_an_error(fleet: Fleet, own_user: Path) -> None:
    allow_all(own_user)
    good, path = fleet.build(7), fleet.folder / "policy.bundle"
    refused(fleet, "has none: sudo hla policy bundle install")
    fleet.put(good.text.replace(b"decision: deny", b"decision: allow"))
    refused(fleet, "it was changed after it was signed")
    fleet.put(resigned(good, Signer()))
    refused(fleet, "whose signature does not count here")
    fleet.put(good.text.replace(good.signature.encode(), fleet.build(8).signature.encode()))
    refused(fleet, "it was changed after it was signed")
    fleet.put(resigned(good, fleet.signer, policy="other"))
    refused(fleet, "it is the policy bundle other; this machine takes acme")
    fleet.put(good.text[: len(good.text) // 2])
    refused(fleet, "cut short")
    fleet.put(b"")
    refused(fleet, "not a policy bundle")
    fleet.put(good)
    assert verdict(fleet, "rm x")[0] == "deny"
    path.chmod(0o666)
    refused(fleet, "must belong to root")
    path.unlink()
    path.symlink_to(fleet.write("elsewhere", good.text))
    refused(fleet, "is a link")
    path.unlink()
    os.link(fleet.folder / "elsewhere", path)
    refused(fleet, "has another name as well")
    path.unlink()
    path.mkdir()
    refused(fleet, "not a regular file|can't be read")


def test_what_is_left_of_one_is_no_machine_without_one(fleet: Fleet, own_user: Path) -> None:
    allow_all(own_user)
    fleet.install(fleet.build(7))
    (fleet.folder / "bundle.yaml").unlink()
    refused(fleet, "bundle.yaml is missing")
    (fleet.folder / "policy.bundle").unlink()
    refused(fleet, "bundle-last.json: .*bundle.yaml is missing")
    (fleet.folder / "bundle-last.json").unlink()
    assert [layer.authority for layer in find_layers(fleet.project, machine=fleet.folder)] == ["user"]


@pytest.mark.parametrize("link", [True, False])
def test_settings_that_are_not_where_they_should_be_are_an_error(fleet: Fleet, own_user: Path, link: bool) -> None:
    """As where the disk is not mounted that a link leads to."""
    allow_all(own_user)
    fleet.folder.rename(fleet.root / "elsewhere")
    fleet.folder.symlink_to(fleet.root / "unmounted") if link else fleet.folder.write_text("")
    refused(fleet, "is no folder")


def test_whose_bundles_are_taken_is_roots_word(fleet: Fleet) -> None:
    fleet.put(fleet.build(7))
    for text in ("", "bundle: acme\n", "bundle: acme\nsigners: []\n", "bundle: acme\nsigners: [abc]\n", "signers: 3\n",
                 "bundle: 3\nsigners: [x]\n", f'bundle: acme\nsigners: ["{"0" * 64}"]\n', "bundle: acme\nsigners: [x]\nhooks: []\n"):  # fmt: skip
        fleet.write("bundle.yaml", text)
        refused(fleet, "bundle")
    (fleet.folder / "bundle.yaml").unlink()
    refused(fleet, "is missing, which says whose bundles")
    fleet.write("bundle.yaml", f'bundle: acme\nsigners: ["{fleet.signer.fingerprint}"]\n').chmod(0o664)
    refused(fleet, "must belong to root")
    os.chmod(fleet.folder / "bundle.yaml", 0o644)
    fleet.folder.chmod(0o777)
    refused(fleet, "must belong to root")


def test_a_projects_file_has_no_say(fleet: Fleet) -> None:
    """A repository that brings a bundle, and settings that take it, adds nothing."""
    evil = Signer()
    folder = fleet.project / ".humanlayer"
    folder.mkdir()
    (folder / "bundle.yaml").write_text(f'bundle: acme\nsigners: ["{evil.fingerprint}"]\n')
    (folder / "policy.bundle").write_bytes(resigned(fleet.build(9, READS, DELETES), evil))
    fleet.install(fleet.build(7))
    assert [layer.policy.name for layer in find_layers(fleet.project, machine=fleet.folder)] == ["acme@7"]


def test_an_older_one_is_refused(fleet: Fleet) -> None:
    old, new = fleet.build(7, READS, DELETES), fleet.build(8)
    fleet.install(new)
    fleet.put(old)
    refused(fleet, "version 7 is older than 8")
    fleet.put(resigned(new, fleet.signer, unlocks=["no-deletes"]))
    refused(fleet, "another policy bundle was the version 8")
    for text in ("[]", "{}", "x", '{"policy":"acme","version":"7","sha256":"","fetched":"","source":""}'):
        fleet.write("bundle-last.json", text)
        refused(fleet, "does not say which one was the last")
    (fleet.folder / "bundle-last.json").chmod(0o666)
    refused(fleet, "must belong to root")
    (fleet.folder / "bundle-last.json").unlink()
    fleet.put(new)
    assert verdict(fleet, "rm x")[0] == "deny"


def test_an_expired_one_denies_also_in_a_running_process(fleet: Fleet, own_user: Path, tmp_path: Path) -> None:
    allow_all(own_user)
    fleet.install(fleet.build(7, expires="2998-01-01"))
    now = ["2998-01-01T23:59:59Z"]
    running = director(fleet, today=lambda: now[0])
    action = Action("cat x", cwd=str(fleet.project))
    store = SQLiteStore(tmp_path / "store.sqlite3")
    with Gate(running, store, ScriptedAsker([]), run_id="r") as gate:
        assert not isinstance(gate.check(action), Denial)
        now[0] = "2998-01-02T00:00:00Z"
        denial = gate.check(action)
    assert isinstance(denial, Denial)
    assert "acme@7 has expired" in denial.reason
    assert "policy.error" in [entry.event["type"] for entry in store.events()]
    with pytest.raises(PolicyError, match="has expired"):
        director(fleet, today=lambda: now[0])


def test_the_doctor_warns_before(fleet: Fleet) -> None:
    soon = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    for bundle, wanted in ((fleet.build(1), ["ok"]), (fleet.build(2, expires=soon), ["ok", "warning"])):
        fleet.install(bundle)
        context = Context(fleet.project, dict(os.environ), machine=fleet.folder)
        assert [each.status for each in policies.loaded(context)] == wanted


# ---- catalogs ------------------------------------------------------------------------------------------


def test_its_catalogs_are_the_machines(fleet: Fleet) -> None:
    files = bundles.gathered(fleet.files(policy=policy_text(READS, LOCKED), catalog__frob=FROB))
    fleet.install(bundles.build(files, version=1, expires="2999-12-31", signer=fleet.signer)[0])
    found = catalog_files.find_catalogs(fleet.project, machine=fleet.folder)
    assert found.owners["frob"].owner == "machine"
    decision = director(fleet, catalogs=found).evaluate(Action("frob x", cwd=str(fleet.project)))
    assert (str(decision.verdict), decision.rule) == ("deny", "no-deletes")


# ---- it changes while agents run -----------------------------------------------------------------------------


def test_whoever_reads_while_another_takes_its_place_sees_one_of_them(fleet: Fleet) -> None:
    def built(version: int) -> bytes:
        rules = [f"{{id: v{version}, decision: ask, when: {{program: p{version}}}}}"]
        texts = {
            "policy": policy_text(*rules, extends="[part.yaml]"),
            "part": policy_text(READS, name=f"part{version}"),
        }
        made, _ = bundles.build(
            bundles.gathered(fleet.files(**texts)), version=version, expires="2999-12-31", signer=fleet.signer
        )
        return made.text

    wanted = [built(version) for version in range(1, 7)]
    fleet.install(wanted[0])
    over, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not over.is_set():
            try:
                (layer,) = find_layers(fleet.project, machine=fleet.folder)
            except PolicyError as error:
                wrong.append(str(error))
                return
            version = layer.policy.name.removeprefix("acme@")
            seen.add(version)
            if [rule.id for rule in layer.policy.rules] != ["reads", f"v{version}"]:
                wrong.append(version)

    thread = threading.Thread(target=read)
    thread.start()
    for raw in wanted[1:]:
        fleet.install(raw)
    over.set()
    thread.join()
    assert (wrong, bool(seen)) == ([], True)
    assert machine_bundle.installed(fleet.folder).version == 6  # type: ignore[union-attr]


def test_the_resident_judge_of_hooks_notices_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layers_of, machine_bundle, catalog_files):
        monkeypatch.setattr(module, "MACHINE_FOLDER", str(fleet.folder))
    fleet.install(fleet.build(7, READS, DELETES))
    judge = Judge()
    assert asked(judge, fleet.project, "rm x").verdict == "allow"
    fleet.install(fleet.build(8))
    assert asked(judge, fleet.project, "rm x").verdict == "deny"
    fleet.put(b"broken")
    with pytest.raises(PolicyError, match="not a policy bundle"):  # which the server answers with a denial
        asked(judge, fleet.project, "cat x")
    judge.close()
