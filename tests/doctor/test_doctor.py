"""`hla doctor`: each check says what is well, and each fails over something that is really broken."""

import json
import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.absences import Absence
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Approver, Permit, Run
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.audit.events import HOOK_UNPROVEN
from humanlayer_agent.cli import main
from humanlayer_agent.cli.doctor import print_findings
from humanlayer_agent.configuration import build_authority, build_gate
from humanlayer_agent.confine import forwarder, landlock
from humanlayer_agent.confine.confinement import Bounds, Profile, Unenforceable
from humanlayer_agent.confine.project_files import project_files
from humanlayer_agent.confine.proof import WALLS, prove
from humanlayer_agent.doctor import agents, walls
from humanlayer_agent.doctor.checks import CHECKS, Check, examine
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import (
    PASSPHRASE_VARIABLE,
    anchor_folder,
    config_folder,
    data_folder,
    default_store_path,
    kept_folder,
    key_path,
    state_folder,
    write_own_json,
)
from humanlayer_agent.policy.decision import Ask, Limits, PolicyDecision, Verdict
from humanlayer_agent.policy.language.loader import cache_folder, load
from humanlayer_agent.policy.layers import trust
from humanlayer_agent.processes.execution import SUPERVISED, run_command
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.processes.memory_protection import Protection
from humanlayer_agent.store import connection as database
from humanlayer_agent.store import schema
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedAsker
from humanlayer_agent.undo.kept_files import KeptFiles
from tests.support import children, enclosures
from tests.support.forging import forging
from tests.support.keys import PASSPHRASE, known_passphrase, make_key, passphrase_file

ROOT = Path(__file__).parents[2]
RUN = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from humanlayer_agent.cli import main; sys.exit(main())"
NOBODY = 65534
Look = Callable[..., list[Finding]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HUMANLAYER_STORE")
    return folder


@pytest.fixture
def look(project: Path, tmp_path: Path) -> Look:
    """Makes one check, by its name."""

    def make(name: str, **given: Any) -> list[Finding]:
        environ = given.pop("environ", dict(os.environ))
        context = Context(**{"project": project, "environ": environ, "machine": tmp_path / "machine", **given})
        (check,) = [check for check in CHECKS if check.name == name]
        return list(check.make(context))

    return make


@pytest.fixture
def settled(project: Path) -> None:
    """A user after `hla init`, and a first run."""
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    store = SQLiteStore(default_store_path())
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice", str(project)))
    store.close_run("run-1", "done")
    store.close()


def worst(found: list[Finding]) -> str:
    return next(status for status in ("failed", "warning", "ok") if any(each.status == status for each in found))


def said(found: list[Finding], status: str = "") -> str:
    return "\n".join(f"{each.said}\n{each.todo}" for each in found if each.status == status or not status)


def user_file(name: str, text: str, mode: int = 0o600) -> Path:
    config_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path = config_folder() / name
    path.write_text(text)
    path.chmod(mode)
    return path


def project_file(project: Path, name: str, text: str) -> Path:
    (project / ".humanlayer").mkdir(exist_ok=True)
    path = project / ".humanlayer" / name
    path.write_text(text)
    return path


# ---- the whole ------------------------------------------------------------------------------------------


def test_nothing_fails_after_init(settled: None, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["doctor", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["check"] for each in found} == {check.name for check in CHECKS} - {
        "channels.ignored",
        "channels.secrets",
        "channels.links",
        "routes.on_call",
        "hooks",
        "mcp",
    }
    assert {each["status"] for each in found} <= {"ok", "warning"}
    assert all(each["todo"] for each in found if each["status"] == "failed")


@pytest.mark.long
def test_nothing_fails_with_no_files_at_all(project: Path, own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "there is no signing key" in capsys.readouterr().out
    assert not config_folder().exists()
    assert not data_folder().exists()


@pytest.mark.long
def test_a_failure_is_exit_code_1(settled: None, capsys: pytest.CaptureFixture[str]) -> None:
    key_path().chmod(0o644)
    assert main(["doctor"]) == 1
    assert "chmod 600" in capsys.readouterr().out


def test_a_directory_that_can_not_be_a_project(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--project", str(own_user)]) == 2
    assert "can't be the project" in capsys.readouterr().err


@pytest.mark.long
def test_in_no_project_the_rest_is_checked(
    settled: None, own_user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own_user)
    capsys.readouterr()
    assert main(["doctor", "--format", "json"]) == 0
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["policies.project"]["status"] == "warning"
    assert found["policies.load"]["status"] == "ok"


@pytest.mark.long
def test_it_changes_nothing_that_matters(settled: None, project: Path, own_user: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        paths = [path for top in (own_user, project) for path in top.rglob("*") if path.is_file()]
        mine = [path for path in paths if "/.local/state/" not in str(path) and not re.search("-(wal|shm)$", str(path))]
        return {str(path): (path.stat().st_mode, path.read_bytes()) for path in mine}

    before = state()
    main(["doctor"])
    assert state() == before


@pytest.mark.long
def test_a_check_that_breaks_has_failed_and_the_others_go_on(look: Look, project: Path) -> None:
    def free(path: Path) -> int:
        raise RuntimeError("no such luck")

    found = list(examine(Context(project, dict(os.environ), free=free)))
    broken = [finding for check, finding in found if check.name == "store.disk"]
    assert [finding.status for finding in broken] == ["failed"]
    assert "RuntimeError: no such luck" in broken[0].said
    assert found[-1][0].group.startswith("Walls")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_can_be_read_at_any_width(width: int) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, file=nowhere, record=True, color_system=None)
        long = "/a/path/that/has/no/place/to/be/broken/at" * 4
        check = Check("x", "A group", lambda context: ())
        found = [(check, ok("fine")), (check, warning(f"see {long}", "do this")), (check, failed("\x1b[2J", "do that"))]
        assert print_findings(found, console) == Counter(ok=1, warning=1, failed=1)
        text = console.export_text()
    assert [line for line in text.splitlines() if len(line.rstrip()) > width and line.strip() != long] == []
    assert "\x1b" not in text
    assert long in text
    assert text.splitlines()[0].rstrip() == "A group"
    assert "  ok      fine" in text
    assert "          > do this" in text
    assert "1 failed, 1 warning, 1 are fine." in text


def test_every_check_is_named_once() -> None:
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    groups = [check.group for check in CHECKS]
    assert groups == sorted(groups, key=groups.index)  # each group's checks stand together


# ---- this machine ---------------------------------------------------------------------------------------


def test_python(look: Look) -> None:
    assert worst(look("python")) == "ok"
    assert "Install Python 3.11" in said(look("python", python=(3, 10, 9)), "failed")


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("5.3.0(1)-release", "ok"),
        ("4.4.20(1)-release", "warning"),
        ("3.2.57(1)-release", "failed"),
        ("", "failed"),
        ("x", "failed"),
    ],
)
def test_bash(says: str, status: str, look: Look, tmp_path: Path) -> None:
    program = tmp_path / "bash"
    program.write_text(f"#!/bin/sh\nprintf %s '{says}'\n")
    program.chmod(0o755)
    assert worst(look("bash", bash=str(program))) == status


def test_the_bash_that_runs_commands(look: Look, tmp_path: Path) -> None:
    assert re.match(r"bash [0-9.]+ \(/", said(look("bash")))
    assert worst(look("bash", bash=str(tmp_path / "none"))) == "failed"


def test_sqlite(look: Look) -> None:
    assert worst(look("sqlite")) == "ok"
    assert worst(look("sqlite", sqlite=(3, 36, 9))) == "failed"


@pytest.mark.long
def test_a_terminal(project: Path) -> None:
    command = [sys.executable, "-c", RUN, "doctor"]
    done = children.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True)
    assert re.search("warning nobody can be asked here", done.stdout)
    child = children.spawn(
        command[0], command[1:], env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=600, encoding="utf-8"
    )
    child.expect_exact("a terminal to ask at (/dev/tty)")
    child.expect_exact("an agent's command can type here too, through ")
    child.expect(r"\d+ are fine")


def test_an_agent_does_not_see_what_you_see(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst(look("supervised")) == "ok"
    monkeypatch.setenv(SUPERVISED, "1")
    assert worst(look("supervised")) == "failed"


# ---- files ----------------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("check", "folder"),
    [("files.config", config_folder), ("files.data", data_folder), ("files.state", state_folder)],
)
def test_folders(check: str, folder: Callable[[], Path], settled: None, look: Look, tmp_path: Path) -> None:
    place = folder()
    look("policies.load")  # makes the folder for compiled policies
    assert worst(look(check)) == "ok"
    place.chmod(0o777)
    assert f"chmod go-w {place}" in said(look(check), "failed")
    place.chmod(0o700)
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
        assert f"chown {os.getuid()} {place}" in said(look(check), "failed")
        os.chown(place, 0, 0)
    place.parent.chmod(0o777)
    assert f"chmod o-w {place.parent}" in said(look(check), "failed")
    place.parent.chmod(0o755)
    shutil.rmtree(place)
    assert "nothing needs it" in said(look(check), "ok")
    place.write_text("")
    assert "is not a directory" in said(look(check), "failed")
    place.unlink()
    place.symlink_to(tmp_path / "gone")
    assert "leads nowhere" in said(look(check), "failed")


def test_folders_in_the_project(project: Path, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, check in (("CONFIG", "files.config"), ("DATA", "files.data"), ("STATE", "files.state")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(project / name))
        assert "lies in the project" in said(look(check), "failed")


def test_files_that_others_can_read_or_write(settled: None, look: Look) -> None:
    (config_folder() / "policy.yaml").chmod(0o666)
    assert f"chmod go-w {config_folder()}/policy.yaml" in said(look("files.config"), "failed")
    (config_folder() / "policy.yaml").chmod(0o644)
    assert worst(look("files.config")) == "ok"
    default_store_path().chmod(0o644)
    assert f"chmod 600 {default_store_path()}" in said(look("files.data"), "failed")
    look("policies.load")
    (compiled, *_) = cache_folder().glob("*.json")
    compiled.chmod(0o644)
    assert f"others can read {compiled}, so it is ignored" in said(look("files.state"), "warning")
    (config_folder() / "channels.yaml").unlink()
    (config_folder() / "channels.yaml").symlink_to("gone")
    assert f"rm {config_folder()}/channels.yaml" in said(look("files.config"), "failed")


def test_a_store_elsewhere(settled: None, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    (place / "somebody-elses").write_text("")
    (place / "store.sqlite3").write_text("")
    monkeypatch.setenv("HUMANLAYER_STORE", str(place / "store.sqlite3"))
    found = said(look("files.data"), "failed")
    assert f"chmod 600 {place}/store.sqlite3" in found
    assert "somebody-elses" not in found


def test_the_machines_settings(look: Look, tmp_path: Path) -> None:
    folder = tmp_path / "machine"
    assert worst(look("files.machine")) == "ok"
    folder.mkdir(mode=0o755)
    (folder / "policy.yaml").write_text("")
    (folder / "policy.yaml").chmod(0o664)
    found = look("files.machine")
    assert worst(found) == "failed"
    assert ("chmod go-w" in said(found)) is (os.getuid() == 0)
    (folder / "policy.yaml").chmod(0o644)
    assert worst(look("files.machine")) == ("ok" if os.getuid() == 0 else "failed")


# ---- policies -------------------------------------------------------------------------------------------

ALLOW = "version: 1\npolicy: repo\nrules:\n  - {id: free, decision: allow, when: {effect: read, paths: {all_within: [/srv/**]}}}\n"


def test_the_project(look: Look, project: Path) -> None:
    assert worst(look("policies.project")) == "ok"
    assert worst(look("policies.project", project=project / "gone")) == "failed"
    found = look("policies.project", project=None, why_no_project="/ can't be the project")
    assert "/ can't be the project" in said(found, "warning")


def test_a_policy_with_a_mistake(settled: None, look: Look) -> None:
    assert "policy mine (yours): " in said(look("policies.load"), "ok")
    path = user_file("policy.yaml", "version: 1\npolicy: mine\nextends: [builtin:defualt]\n")
    assert f"{path}:3:11" in said(look("policies.load"), "failed")
    for other in ("policies.tests", "policies.trust", "policies.enforced", "policies.compiled", "routes.named"):
        assert worst([*look(other), ok("")]) == "ok"  # it is said once
    assert "nothing is denied by them" in said(look("walls.spellings"), "failed")


def test_a_policy_that_fails_its_own_tests(settled: None, look: Look) -> None:
    assert worst(look("policies.tests")) == "ok"
    text = ALLOW.replace("[/srv/**]}}", "[/srv/**]}}, tests: {match: [ls /etc]}")
    user_file("policy.yaml", text.replace("rules:", "extends: [builtin:default]\nrules:"))
    assert worst(look("policies.load")) == "ok"
    assert "hla policy test" in said(look("policies.tests"), "failed")


def test_a_projects_policy_that_nobody_has_trusted(look: Look, project: Path) -> None:
    path = project_file(project, "policy.yaml", ALLOW.replace("allow", "deny"))
    assert "only adds" in said(look("policies.trust"), "ok")
    path.write_text(ALLOW)
    assert "1 rules that allow, and they don't count" in said(look("policies.trust"), "warning")
    trust.record(project, trust.policy_files(load(path, within=project)))
    assert "you have trusted" in said(look("policies.trust"), "ok")


def test_a_policy_that_is_only_observed(look: Look) -> None:
    assert worst(look("policies.enforced")) == "ok"
    path = user_file("policy.yaml", "version: 1\npolicy: mine\nobserve: true\nextends: [builtin:default]\n")
    assert f"Remove that line from {path}" in said(look("policies.enforced"), "warning")


def test_compiled_policies(look: Look) -> None:
    assert "kept in its compiled form" in said(look("policies.compiled"), "ok")
    shutil.rmtree(cache_folder())
    cache_folder().write_text("")  # nothing can be written below it, by root either
    assert f"Make {cache_folder()} a folder" in said(look("policies.compiled"), "warning")


# ---- people and channels --------------------------------------------------------------------------------

TEAM = """\
version: 1
extends: [builtin:slack]
set: {SLACK_CHANNEL: C0123456}
people:
  me: {os_user: "UID"}
  bob: {slack: T012AB/U056EF}
channels:
  mail: {type: email, from: a@example.com, smtp: {host: h, port: 25, password_env: SMTP_PASSWORD},
         public_url: "https://a.example.com"}
routes:
  default: {approvers: [me, bob], solo: true, steps: [{to: terminal}, {to: slack, after: 2m}]}
""".replace("UID", str(os.getuid()))


def test_the_key(look: Look) -> None:
    assert "hla init" in said(look("key"), "warning")
    key = make_key()
    assert f"{key.fingerprint[:16]}… ({key_path()}), and your passphrase locks it" in said(look("key"), "ok")
    key_path().chmod(0o640)
    assert "chmod 600" in said(look("key"), "failed")
    key_path().write_text("x")
    key_path().chmod(0o600)
    assert "hla init --force" in said(look("key"), "failed")
    key_path().write_text("-----BEGIN PRIVATE KEY-----\n")
    assert "has no passphrase, so whatever runs as you can sign with it" in said(look("key"), "failed")


def test_a_passphrase_in_a_file(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_key()
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path)))
    found = said(look("key"), "warning")
    assert f"{tmp_path}/passphrase ({PASSPHRASE_VARIABLE}): a program that the policy lets run can read it" in found
    assert PASSPHRASE not in said(look("key"))
    (tmp_path / "passphrase").chmod(0o644)
    assert "chmod 600" in said(look("key"), "failed")


def test_signers_that_have_changed(settled: None, project: Path, look: Look) -> None:
    build_gate(director=object(), user=Away(), project=project).close()
    assert worst(look("signers")) == "ok"
    mine = Signer(key_path()).fingerprint
    user_file("channels.yaml", f"version: 1\nsigners: [{mine}, {'a' * 64}]\n")
    assert f"the signers are others than at the last run; new: {'a' * 16}…" in said(look("signers"), "warning")


class Away:
    """A user who is not there."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        raise AssertionError


def test_the_signers(settled: None, look: Look) -> None:
    assert worst(look("signers")) == "ok"
    user_file("channels.yaml", f"version: 1\nsigners: [{'a' * 64}]\n")
    mine = Signer(key_path()).fingerprint
    assert f'signers: ["{mine}"]' in said(look("signers"), "failed")
    user_file("channels.yaml", f"version: 1\nsigners: [{mine}, {'a' * 64}]\n")
    assert "others: 1" in said(look("signers"), "ok")


def test_channels_files_with_mistakes(look: Look) -> None:
    assert "there is no channels file" in said(look("channels.load"), "ok")
    path = user_file("channels.yaml", TEAM.replace("set: {SLACK_CHANNEL: C0123456}\n", ""))
    found = said(look("channels.load"), "failed")
    assert "${SLACK_CHANNEL} is still open" in found
    for other in ("channels.ignored", "channels.secrets", "routes", "routes.named", "signers"):
        assert look(other) == []  # it is said once
    user_file("channels.yaml", TEAM)
    assert str(path) in said(look("channels.load"), "ok")
    assert "you are known as me" in said(look("channels.load"), "ok")


def test_somebody_whom_the_files_do_not_know(look: Look) -> None:
    user_file("channels.yaml", TEAM.replace(f'"{os.getuid()}"', "nobody-here"))
    assert "Add to your entry under people: os_user:" in said(look("channels.load"), "failed")


def test_a_projects_channels_file(look: Look, project: Path) -> None:
    assert look("channels.ignored") == []
    path = project_file(project, "channels.yaml", TEAM)
    assert f"{path} is ignored" in said(look("channels.ignored"), "warning")


def test_secrets_are_named_and_never_shown(look: Look) -> None:
    user_file("channels.yaml", TEAM)
    found = look("channels.secrets", environ={})
    assert "channel slack: SLACK_APP_TOKEN, SLACK_BOT_TOKEN not set" in said(found, "failed")
    assert "channel mail: SMTP_PASSWORD not set" in said(found, "warning")  # no route needs it
    names = ("SLACK_APP_TOKEN", "SLACK_BOT_TOKEN", "SMTP_PASSWORD")
    found = look("channels.secrets", environ=dict.fromkeys(names, "xoxb-very-secret"))
    assert worst(found) == "ok"
    assert "very-secret" not in said(found)


def test_routes_that_reach_nobody(look: Look) -> None:
    assert "route default: 1 of who started the run, by terminal" in said(look("routes"), "ok")
    user_file("channels.yaml", TEAM)
    assert "by terminal, slack (SLACK_BOT_TOKEN, SLACK_APP_TOKEN not set)" in said(look("routes"), "ok")
    user_file("channels.yaml", TEAM.replace("{to: terminal}, ", ""))
    assert "route default reaches nobody: slack: " in said(look("routes"), "failed")


def test_routes_that_nobody_can_answer(look: Look) -> None:
    user_file("channels.yaml", TEAM.replace("solo: true", "quorum: 2"))
    assert "needs 2 approvals, and the people who may give one are 1" in said(look("routes"), "warning")


def test_routes_of_who_has_left_and_who_may_act_outside_of_them(look: Look) -> None:
    people = "people: {ann: {os_user: ann}, ben: {os_user: ben}, me: {os_user: me}}\nbreak_glass: [ann, ben]\n"
    route = "{approvers: [ann], timeout: 1h, steps: [{to: terminal}]}"
    channels = f"channels: {{terminal: {{type: terminal}}}}\nroutes: {{default: {route}}}\n"
    user_file("channels.yaml", f"version: 1\n{people}{channels}")
    assert "outside of every route two of ann, ben may act" in said(look("routes"), "ok")
    with closing(SQLiteStore(default_store_path())) as store:
        store.people.remove("ann", ["os:ann"], [], "os:ben")
    found = look("routes")
    assert "nothing can be approved by it: route default: everybody who could approve has left" in said(found, "failed")
    assert "break_glass names ben, and others who have left: it takes two" in said(found, "warning")


def test_routes_that_policies_name(look: Look) -> None:
    assert worst(look("routes.named")) == "ok"
    text = ALLOW.replace("allow, when", "ask, route: careful, when").replace(
        "rules:", "extends: [builtin:default]\nrules:"
    )
    user_file("policy.yaml", text)
    assert "it names the route careful, and there is none: agents don't start" in said(look("routes.named"), "failed")


# ---- the store ------------------------------------------------------------------------------------------


def changed(*statements: str) -> None:
    """What somebody does who can write the file."""
    with forging(default_store_path()) as connection:
        for statement in statements:
            connection.execute(statement)


def test_room_on_the_disk(settled: None, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst(look("store.disk")) == "ok"
    assert worst(look("store.disk", free=lambda path: 400_000_000)) == "warning"
    assert "Make room." in said(look("store.disk", free=lambda path: 1_000_000), "failed")
    kind = database._file_system(default_store_path())
    monkeypatch.setattr(database, "_NETWORK", frozenset({kind}))
    assert f"network file system ({kind})" in said(look("store.disk"), "failed")


def test_what_is_kept_for_an_undo(project: Path, look: Look) -> None:
    assert "nothing is kept yet" in said(look("store.kept"), "ok")
    (project / "notes").write_text("x" * 1_200_000)
    found = project_files(str(project), None)
    KeptFiles(kept_folder()).keep("run-1", str(project), found, bounds=Bounds())
    assert "files of 1 run or command are kept for hla undo, 1.2 MB" in said(look("store.kept"), "ok")
    kept_folder().chmod(0o755)
    assert f"chmod 700 {kept_folder()}" in said(look("store.kept"), "failed")


def test_the_store_opens(project: Path, look: Look) -> None:
    assert "the first run makes it" in said(look("store.opens"), "ok")
    for check in ("store.schema", "store.wal", "store.log"):
        assert look(check) == []  # there is none yet
    SQLiteStore(default_store_path()).close()
    assert "the store opens" in said(look("store.opens"), "ok")
    default_store_path().write_bytes(b"this is no database, and long enough to be taken for one" * 9)
    assert "not a database" in said(look("store.opens"), "failed")
    default_store_path().unlink()
    os.mkfifo(default_store_path())
    assert "not a regular file" in said(look("store.opens"), "failed")
    assert look("store.wal") == []


def test_the_schema(settled: None, look: Look) -> None:
    assert "the newest" in said(look("store.schema"), "ok")
    changed("CREATE VIEW late AS SELECT 1")
    assert "view late is not ours" in said(look("store.schema"), "failed")
    assert "view late is not ours" in said(look("store.opens"), "failed")
    changed("DROP VIEW late")
    assert "the newest" in said(look("store.schema"), "ok")
    changed("PRAGMA user_version = 99")
    assert "Upgrade humanlayer-agent." in said(look("store.schema"), "failed")
    assert "newer humanlayer-agent" in said(look("store.opens"), "failed")


def test_an_older_schema(settled: None, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = schema.migrations()
    with monkeypatch.context() as later:
        later.setattr(schema, "migrations", lambda: [*scripts, "CREATE TABLE later (id TEXT) STRICT;\n"])
        assert "the next run brings it to" in said(look("store.schema"), "ok")


def test_the_anchor(settled: None, look: Look) -> None:
    path = default_store_path()
    assert "its log goes as far as its anchor says" in said(look("store.anchor"), "ok")
    with closing(SQLiteStore(path, create=False)) as store:
        (newest,) = store.events(last=1)
    changed(f"DELETE FROM audit_event WHERE seq >= {newest.seq - 1}")
    gone = f"its log ends at event {newest.seq - 2} "
    assert gone in said(look("store.anchor"), "failed")
    with pytest.raises(StoreError, match=gone):
        SQLiteStore(path)
    kept = path.read_bytes()
    path.unlink()
    assert f"its log went to event {newest.seq - 1}" in said(look("store.anchor"), "failed")
    path.write_bytes(kept)
    shutil.rmtree(anchor_folder())
    assert "that it was set back, or deleted, does not show" in said(look("store.anchor"), "warning")


def test_the_mode(settled: None, look: Look) -> None:
    assert worst(look("store.wal")) == "ok"
    changed("PRAGMA user_version = 1")
    with sqlite3.connect(default_store_path(), isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    assert "in delete mode" in said(look("store.wal"), "warning")


def test_the_log(settled: None, look: Look) -> None:
    assert "its log is intact, " in said(look("store.log"), "ok")
    changed("UPDATE audit_event SET body = replace(body, 'alice', 'bobby') WHERE seq = 1")
    assert "TAMPERED: event 1" in said(look("store.log"), "failed")


def test_the_clock(settled: None, look: Look) -> None:
    assert worst(look("clock")) == "ok"
    real = Context(None, {}).clock
    assert "behind the newest event" in said(look("clock", clock=lambda: real() - 60_000), "failed")
    assert "the clock is not set" in said(look("clock", clock=lambda: 5_000), "failed")
    times = iter([real(), real() + 60_000])
    assert "was set by +60 s" in said(look("clock", clock=lambda: next(times)), "warning")


# ---- the walls ------------------------------------------------------------------------------------------


@pytest.fixture
def as_user(tmp_path: Path, project: Path) -> Callable[..., dict[str, Finding]]:
    """Runs the doctor as a user: its findings on the walls and on who it is, by what they say first."""

    def run(uid: int | None, *, cap: str = "", home: Path | None = None) -> dict[str, Finding]:
        argv = [sys.executable, "-c", RUN, "doctor", "--format", "json", "--project", str(project)]
        env = {**os.environ, "HOME": str(home or os.environ["HOME"])}
        if uid is not None and os.getuid() == 0:
            # It may read all files, because this checkout may lie where nobody can't go.
            caps = "+dac_read_search" + (f",+{cap}" if cap else "")
            drop = [
                "setpriv",
                f"--reuid={uid}",
                f"--regid={uid}",
                "--clear-groups",
                f"--inh-caps={caps}",
                f"--ambient-caps={caps}",
            ]
            if shutil.which("setpriv") is None or subprocess.run([*drop, "true"], capture_output=True).returncode != 0:
                pytest.skip("we are root, and can't become an ordinary user here (setpriv, CAP_DAC_READ_SEARCH)")
            for top in (home or tmp_path, project):
                for path in (top, *top.rglob("*")):
                    os.chown(path, uid, uid)
            for folder in (tmp_path, *tmp_path.parents):
                if folder.stat().st_uid == 0 and folder != Path("/") and folder.name != "tmp":
                    folder.chmod(0o755)
            argv = [*drop, *argv]
        done = children.run(
            argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True
        )
        assert done.stdout, f"it ended with {done.returncode}: {done.stderr}"
        found = json.loads(done.stdout)
        wanted = [each for each in found if each["check"] in ("user", "walls.processes")]
        return {each["said"]: Finding(each["status"], each["said"], each["todo"]) for each in wanted}

    return run


PROCESSES = (
    "read the supervisor's environment",
    "read the supervisor's memory",
    "read the supervisor's open files",
    "trace the supervisor (ptrace)",
    "type into a terminal that is not its own (TIOCSTI)",
)
ALWAYS = (
    "open the supervisor's terminal (/dev/tty)",
    "find a secret in its environment",
    "read what is typed, on stdin",
)


def only(found: dict[str, Finding], words: str) -> Finding:
    (finding,) = [finding for text, finding in found.items() if words in text]
    return finding


@pytest.mark.long
def test_the_walls_around_an_ordinary_user(as_user: Callable[..., dict[str, Finding]], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make_key(home / ".local/share/humanlayer-agent/signing.key")
    found = as_user(NOBODY, home=home)
    assert "not root" in only(found, "you are ").said.replace("You are", "you are")
    for does in (*PROCESSES, *ALWAYS):
        assert only(found, f"a command can't {does}").status == "ok"
    reads = only(found, "a program that the policy lets run can read ")
    assert reads.status == "warning"
    assert "can read what is typed at your terminals, because it runs as you" in reads.said
    assert "container" in reads.todo
    key = only(found, "the file of your key")
    assert (key.status, key.said) == (
        "ok",
        "a command can read the file of your key, and can't sign with it: your passphrase locks it",
    )
    way = only(found, "get at your passphrase")
    assert way.status == "warning"
    assert "PYTHONPATH" in way.said


@pytest.mark.long
def test_what_root_can_do_is_said_in_words(as_user: Callable[..., dict[str, Finding]]) -> None:
    if os.getuid() != 0:
        return  # the next test has the same rights
    found = as_user(None)
    root = only(found, "You are root")
    assert root.status == "warning"
    assert "read the supervisor's memory, its environment, its key and every file" in root.said
    held = Path("/proc/self/status").read_text()
    traces = int(re.findall(r"CapBnd:\s*(\w+)", held)[0], 16) >> 19 & 1
    if traces:
        for does in PROCESSES[:4]:
            assert only(found, f"a command can {does}").status == "warning"
    for does in ALWAYS:
        assert only(found, f"a command can't {does}").status == "ok"


@pytest.mark.long
def test_a_user_who_may_trace_others(as_user: Callable[..., dict[str, Finding]], tmp_path: Path) -> None:
    if (
        os.getuid() != 0
        or not int(re.findall(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())[0], 16) >> 19 & 1
    ):
        return
    home = tmp_path / "home"
    home.mkdir()
    found = as_user(NOBODY, cap="sys_ptrace", home=home)
    for does in PROCESSES[:4]:
        assert only(found, f"a command can {does}: it has root's rights").status == "warning"


def test_a_wall_that_does_not_stand_has_failed() -> None:
    held = Protection(True)
    came = walls._judged("secret", "find a secret", walls._Attempt(True, ""), held)
    assert (came.status, came.said) == ("failed", "a command can find a secret")
    for unknown in (None, walls._Attempt(None, "it broke")):
        assert walls._judged("memory", "read", unknown, held).status == "failed"
    if os.geteuid() != 0:
        assert walls._judged("memory", "read", walls._Attempt(True, ""), held).status == "failed"


def test_what_the_policies_say_of_spellings(settled: None, look: Look) -> None:
    denied, asked = look("walls.spellings")
    assert (denied.status, asked.status) == ("ok", "ok")
    ways = sum("ask" in each for each in walls._spellings())
    count = len(walls._spellings()) - ways
    assert denied.said.startswith(f"{count} of {count} spellings of what no agent may do")
    assert asked.said.startswith(f"{ways} of {ways} spellings of ways out of sight")
    assert (count >= 20, ways >= 10) == (True, True)
    rule = "rules: [{id: all, decision: allow, when: {effect: [read, write, append]}}]"
    user_file("policy.yaml", f"version: 1\npolicy: open\ndefaults: {{unmatched: allow}}\n{rule}\n")
    text = said(look("walls.spellings", project=None), "failed")
    assert "the policies ALLOW what reads the key: cat " in text
    assert "extend builtin:guard" in text


def test_who_ends_its_watcher_is_found(look: Look) -> None:
    (found,) = look("walls.watchers")
    assert (found.status, "and so is the run" in found.said) == ("ok", True)


@pytest.mark.long
def test_a_confinement_is_tried(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = enclosures.backend()
    found, forwarded = look("walls.confinement")
    assert (found.status, f"{len(WALLS)} ways out were tried" in found.said) == ("ok", True)
    assert (forwarded.status, "reaches no server on this machine" in forwarded.said) == ("ok", True)
    proof = prove(backend)
    broken = replace(proof, walls=(replace(proof.walls[0], held=False), *proof.walls[1:]))
    monkeypatch.setattr(walls, "prove", lambda backend: broken)
    (found,) = look("walls.confinement")
    assert (found.status, "does not hold: a file outside is written" in found.said) == ("failed", True)

    monkeypatch.setattr(walls, "prove", lambda backend: proof)
    forwarding = {"network": "host", "hosts": ()}
    monkeypatch.setattr(walls, "Profile", lambda *words, **given: Profile(*words, **{**given, **forwarding}))
    _, forwarded = look("walls.confinement")
    assert (forwarded.status, "a server on this machine is reached" in forwarded.said) == ("failed", True)
    monkeypatch.setattr(walls, "Profile", Profile)
    monkeypatch.setattr(forwarder, "_PROGRAM", "raise SystemExit")
    _, forwarded = look("walls.confinement")
    assert (forwarded.status, "nothing can be forwarded" in forwarded.said) == ("failed", True)

    def none() -> None:
        raise Unenforceable("there is none")

    monkeypatch.setattr(walls, "find", none)
    found, _ = look("walls.confinement")
    assert (found.status, "so what nobody can read is asked about: there is none" in found.said) == ("warning", True)


def test_where_nothing_confines_the_second_wall_is_tried(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise Unenforceable("there is none. What would change it: a command")

    backend = enclosures.landlock()
    monkeypatch.setattr(walls, "find", none)
    _, found = look("walls.confinement")
    assert (found.status, f"landlock {backend.version} stands behind verdicts" in found.said) == ("ok", True)
    assert "No verdict counts on it" in found.said
    monkeypatch.setattr(landlock.Restriction, "ruleset", lambda self: nullcontext(os.open("/dev/null", os.O_RDONLY)))
    assert "no command can be held by landlock" in said(look("walls.confinement"), "failed")
    monkeypatch.setattr(walls, "run_command", lambda *words, restriction, **options: run_command(*words, **options))
    assert "does not hold what is allowed: secret" in said(look("walls.confinement"), "failed")
    monkeypatch.setattr(landlock, "find", none)
    _, found = look("walls.confinement")
    assert (found.status, "nor is what is allowed held by Landlock" in found.said) == ("warning", True)
    assert "What would change it" in found.said


def test_who_answers_in_the_place_of_the_judge_is_not_believed(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = look("walls.impersonation")
    assert (found.status, "believes nobody" in found.said) == ("ok", True), found
    for answer, problem in ((agents._MARK.encode(), "believes whoever"), (b"", "the log does not say")):
        monkeypatch.setattr(agents, "_asked", lambda environ, project, answer=answer: answer)
        assert problem in said(look("walls.impersonation"), "failed")


def test_that_somebody_was_not_believed_is_told(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_asked", lambda environ, project: b"")
    store = SQLiteStore(default_store_path())
    for why in ("process 1 answers", "process 2 answers"):
        store.record(HOOK_UNPROVEN, why=why)
    store.close()
    (told,) = (each for each in look("walls.impersonation") if each.status == "warning")
    assert "process 2 answers" in told.said


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy", ["default", "strict", "ci", "sandbox"])
@pytest.mark.parametrize("data", ["", "with a blank and 'quotes'"])
def test_every_shipped_policy_denies_every_spelling(
    policy: str, data: str, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if data:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / data))
    user_file("policy.yaml", f"version: 1\npolicy: mine\nextends: [builtin:{policy}]\n")
    found = look("walls.spellings")
    assert worst(found) == "ok", said(found)


def test_what_was_compiled_by_others_does_not_count(look: Look) -> None:
    look("policies.load")
    for path in cache_folder().glob("*.json"):
        write_own_json(path, {"policy": {"sources": "nonsense"}})
    assert worst(look("policies.compiled")) == "ok"  # it was compiled anew


# ---- grants ---------------------------------------------------------------------------------------------


class Judge:
    """Asks about everything for one reason."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def evaluate(self, action: Action) -> PolicyDecision:
        return PolicyDecision(Verdict.ASK, "a rule says so", "test", "0" * 64, asks=(self._ask,))


def granted(ask: Ask, scope: str, *, agent: str = "builder", uses: int = 0) -> Gate:
    """The gate of a run in which a human has answered the first question by a scope, which then was used."""
    asker, store = ScriptedAsker([("grant", scope)]), SQLiteStore(default_store_path())
    gate = Gate(Judge(ask), store, asker, agent=agent, authority=TEST_AUTHORITY, requester="os:1000:alice")
    for _ in range(1 + uses):
        assert isinstance(gate.check(Action("x", cwd="/srv/app", project="/srv/app")), Permit)
    return gate


HOST = Ask("network", "curl", "network", "host", "x.example", "443")


@pytest.mark.parametrize(
    ("ask", "scope", "agent", "status", "what"),
    [
        (HOST, "run", "builder", "ok", "curl contacting x.example:443, in this run (50 uses), used 1 of 50 times"),
        (HOST, "run", "", "warning", "it is for any agent of the same user"),
        (Ask("packages", "pip", "package", "operand", "left-pad"), "any", "builder", "warning", "it covers any operand"),
        (
            Ask("reads", "cat", "read", "operand", "/opt/data/x", places=("/opt/data/x",)),
            "run", "builder", "warning", "it covers all below /opt/data",
        ),
    ],
)  # fmt: skip
def test_grants_that_are_wide(
    look: Look, settled: None, ask: Ask, scope: str, agent: str, status: str, what: str
) -> None:
    assert said(look("store.grants")) == "no grant holds: whatever a policy asks about is asked\n"
    gate = granted(ask, scope, agent=agent, uses=1)
    found = look("store.grants")
    assert worst(found) == status
    assert what in said(found)
    gate.close()
    assert worst(look("store.grants")) == "ok", "the run is over"


def test_grants_that_are_nearly_used_up(look: Look, settled: None) -> None:
    limits = Limits(max_uses=2)
    gate = granted(replace(HOST, limits=limits), "run", uses=2)
    assert "no grant holds" in said(look("store.grants"))
    gate.close()
    gate = granted(replace(HOST, limits=limits), "run", uses=1)
    assert worst(look("store.grants")) == "ok"
    gate.close()
    gate = granted(replace(HOST, limits=replace(limits, max_uses=5)), "run", uses=4)
    assert "is nearly used up (used 4 of 5 times)" in said(look("store.grants"), "warning")
    gate.close()


def test_grants_that_no_key_can_prove(look: Look, settled: None) -> None:
    gate = granted(HOST, "hour")
    assert worst(look("store.grants")) == "ok"
    gate.close()
    found = look("store.grants")
    assert worst(found) == "warning"
    assert "no key can prove it, so it covers nothing" in said(found)
    assert "hla grants revoke " in said(found)


# ---- people who are away, or on call --------------------------------------------------------------------


TURNS = """\
version: 1
people:
  me: {os_user: NAME}
  bob: {slack: T012AB/U034CD}
channels:
  terminal: {type: terminal}
  web: {type: web}
routes:
  default:
    approvers: [me, bob]
    steps: [{to: terminal}, {to: web, on_call: {file: FILE}}]
"""


def turns(file: Path, text: str) -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    user_file("channels.yaml", TURNS.replace("NAME", name).replace("FILE", str(file)))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def test_who_is_on_call(look: Look, tmp_path: Path) -> None:
    ours = config_folder() / "on-call"
    turns(ours, "bob")
    assert said(look("routes.on_call")) == f"route default: bob on call, by on_call {ours}\n"
    turns(ours, "mallory")
    found = said(look("routes.on_call"), "warning")
    assert "'mallory' is not one of the approvers: all its approvers are told" in found
    ours.unlink()
    assert "No such file" in said(look("routes.on_call"), "warning")
    turns(tmp_path / "elsewhere", "bob")
    assert "agents may be allowed to write there" in said(look("routes.on_call"), "warning")


def test_who_is_away(look: Look, settled: None) -> None:
    turns(config_folder() / "on-call", "bob")
    assert said(look("store.absences")) == "nobody is away\n"
    key = Signer()
    text = (config_folder() / "channels.yaml").read_text()
    user_file("channels.yaml", f"{text}signers: ['{key.fingerprint}']\n")
    authority = build_authority()
    assert authority is not None
    store = SQLiteStore(default_store_path())
    me = Approver(os_user(), "command-line", "terminal")
    assert isinstance(store.absences.say(me, "bob", now_ms() + 86_400_000, authority, key), Absence)
    found = look("store.absences")
    assert worst(found) == "ok"
    assert "bob answers for me, who is away until " in said(found)
    user_file("channels.yaml", text)  # the key counts no more
    found = look("store.absences")
    assert "not one of the signers" in said(found, "warning")
    assert "hla people back me ends it" in said(found, "warning")
    store.close()
