"""`hla init` in throw-away homes: what it writes, what it leaves alone, and what it refuses."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import jsonschema
import pexpect
import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.channels import settings
from humanlayer_agent.channels.settings.authority_loader import authority_of
from humanlayer_agent.cli import main
from humanlayer_agent.cli.init import file_writer
from humanlayer_agent.cli.init.file_writer import new_files
from humanlayer_agent.configuration import build_authority, build_director, build_signer, requester
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, audit_key_path, config_folder, data_folder, key_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.sources import shipped_names
from humanlayer_agent.policy.layers import find_layers
from humanlayer_agent.processes.execution import SUPERVISED, command_environment, run_command
from tests.support import children
from tests.support.keys import PASSPHRASE, QUICK, make_key, open_key, passphrase_file

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
TEMPLATES = Path(file_writer.__file__).with_name("templates")
Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def passphrase(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is in a file, and a key takes no time here. (In other processes it does.)"""
    monkeypatch.setattr("humanlayer_agent.keys.signing.Work", lambda: QUICK)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path_factory.mktemp("passphrase"))))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git folder, and we are in it."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


SCHEMAS = ("channels.schema.json", "policy.schema.json")


def written(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def fingerprint(said: str) -> str:
    (found,) = re.findall(r"fingerprint:\n  ([0-9a-f]{64})$", said, re.MULTILINE)
    return found


# ---- what it writes -------------------------------------------------------------------------------------


def test_everything_is_written_once(project: Path, own_user: Path, capsys: Said) -> None:
    assert main(["init", "--yes"]) == 0
    said = capsys.readouterr().out
    config, data = own_user / ".config/humanlayer-agent", own_user / ".local/share/humanlayer-agent"
    for path in (config / "channels.yaml", config / "policy.yaml", data / "signing.key", data / "audit.key"):
        assert f"written  {path}\n" in said
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert f"written  {project}/.humanlayer/policy.yaml\n" in said
    assert mode(project / ".humanlayer/policy.yaml") == 0o644
    assert f"locked by the first line of '{os.environ[PASSPHRASE_VARIABLE]}' ({PASSPHRASE_VARIABLE})" in said
    assert PASSPHRASE not in said
    assert open_key().fingerprint == fingerprint(said)
    assert fingerprint(said) != AuditKey(audit_key_path()).load().fingerprint
    assert settings.load(project).signers == {fingerprint(said)}


def test_a_second_time_nothing_changes(project: Path, own_user: Path, capsys: Said) -> None:
    assert main(["init", "--yes"]) == 0
    before, first = written(own_user), capsys.readouterr().out
    assert main(["init"]) == 0  # nothing to ask about
    again = capsys.readouterr().out
    assert written(own_user) == before
    assert again == re.sub(", locked by .*", "", first.replace("written ", "is there"))


def test_what_it_wrote_is_in_force(project: Path, own_user: Path) -> None:
    main(["init", "--yes"])
    assert [layer.authority for layer in find_layers(project)] == ["user", "project"]
    director = build_director(project=project)

    def judged(command: str) -> Verdict:
        return director.evaluate(Action(command, cwd=str(project), project=str(project))).verdict

    for command, verdict in (("ls", Verdict.ALLOW), ("rm -rf build", Verdict.ALLOW), ("rm -rf /", Verdict.DENY)):
        assert judged(command) is verdict
    authority = build_authority(project=project)
    assert authority is not None
    assert authority.routes["default"].solo
    signer = build_signer(authority)
    assert signer is not None
    assert signer.fingerprint in authority.signers


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("folder", ["", "elsewhere"])
@pytest.mark.parametrize("policy", [name for name in shipped_names() if name != "guard"])
def test_no_shipped_policy_lets_an_agent_read_the_key(
    policy: str, folder: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / folder))
    assert main(["init", "--yes"]) == 0
    director = build_director(policy, project=project)
    for command in ("cat {}", "x={}; cp $x y", "python3 -c 'open(\"{}\").read()'", "head -c 5 < {}", "mv {} y"):
        action = Action(command.format(key_path()), cwd=str(project), project=str(project))
        assert director.evaluate(action).verdict is Verdict.DENY, command


def test_folders_are_those_of_the_environment(
    project: Path, own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "a b/config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert main(["init", "--yes"]) == 0
    assert config_folder() == tmp_path / "a b/config/humanlayer-agent"
    assert set(written(tmp_path / "a b")) == {
        f"config/humanlayer-agent/{n}" for n in ("channels.yaml", "policy.yaml", *SCHEMAS)
    }
    assert set(written(tmp_path / "data")) == {"humanlayer-agent/signing.key", "humanlayer-agent/audit.key"}
    assert written(own_user) == {}
    assert settings.load(project).signers == {Signer(key_path()).fingerprint}


def test_each_file_names_the_schema_beside_it(project: Path, own_user: Path) -> None:
    """As editors look for it: relative to the file that they show."""
    assert main(["init", "--yes"]) == 0
    files = [config_folder() / "channels.yaml", config_folder() / "policy.yaml", project / ".humanlayer/policy.yaml"]
    for path in files:
        first = path.read_text().partition("\n")[0]
        named = re.fullmatch(r"# yaml-language-server: \$schema=([a-z.]+)", first)
        assert named, first
        schema = json.loads((path.parent / named[1]).read_text())
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(path.read_text()))
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate({"version": 1, "rulez": []})


def test_schemas_come_with_new_files_only(project: Path, own_user: Path, capsys: Said) -> None:
    """Whoever has the files has what is needed: nothing is asked for the sake of an editor."""
    assert main(["init", "--yes"]) == 0
    (config_folder() / "policy.schema.json").unlink()
    (config_folder() / "channels.schema.json").write_text("{}")
    assert main(["init"]) == 0  # without a terminal
    assert not (config_folder() / "policy.schema.json").exists()
    assert (config_folder() / "channels.schema.json").read_text() == "{}"
    (config_folder() / "policy.yaml").unlink()
    assert main(["init", "--yes"]) == 0
    assert (config_folder() / "policy.schema.json").exists()


def test_outside_a_project_only_the_users_files_are_written(
    own_user: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(own_user)
    assert main(["init", "--yes"]) == 0
    assert "To set one up: hla init --project DIR" in capsys.readouterr().out
    assert not (own_user / ".humanlayer").exists()
    assert (config_folder() / "policy.yaml").exists()


def test_a_project_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_user: Path, capsys: Said) -> None:
    monkeypatch.chdir(own_user)
    (tmp_path / "app").mkdir()
    assert main(["init", "--yes", "--project", str(tmp_path / "app")]) == 0
    assert (tmp_path / "app/.humanlayer/policy.yaml").exists()
    assert main(["init", "--yes", "--project", str(tmp_path / "nothing")]) == 2
    assert main(["init", "--yes", "--project", str(own_user)]) == 2
    assert "there is no such directory" in (error := capsys.readouterr().err)
    assert "can't be the project" in error


def test_only_what_is_missing_is_written(project: Path, capsys: Said) -> None:
    config_folder().mkdir(parents=True)
    mine = "version: 1\npolicy: own\nextends: [builtin:strict]\n"
    (config_folder() / "policy.yaml").write_text(mine)
    assert main(["init", "--yes"]) == 0
    assert (config_folder() / "policy.yaml").read_text() == mine
    assert f"is there {config_folder()}/policy.yaml" in capsys.readouterr().out


# ---- the templates --------------------------------------------------------------------------------------


def uncommented(text: str) -> str:
    """The example in a template, with its "# " taken away."""
    head, _, tail = text.partition("\n## ")
    lines = [line if line.startswith("##") else re.sub(r"^# ?", "", line) for line in ("## " + tail).split("\n")]
    return head + "\n" + "\n".join(lines)


@pytest.mark.long
@pytest.mark.parametrize("name", ["policy", "project"])
def test_the_examples_in_policies_work_as_they_stand(name: str, tmp_path: Path) -> None:
    text = (TEMPLATES / f"{name}.yaml").read_text()
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    plain = {rule.id for rule in load(path).rules}
    path.write_text(uncommented(text))
    policy = load(path)  # its tests pass
    assert {rule.id for rule in policy.rules} - plain
    assert all(result.passed for result in examples.run(policy) if not result.example.rule.inherited)
    assert main(["policy", "lint", str(path)]) == 0


def test_the_example_in_the_channels_file_works_as_it_stands(project: Path, capsys: Said) -> None:
    assert main(["init", "--yes"]) == 0
    path = config_folder() / "channels.yaml"
    path.write_text(uncommented(path.read_text()))
    authority = authority_of(settings.load(project), requester())
    me = authority.person_of(requester())
    assert me is not None
    assert me.id == "me"
    assert authority.routes["default"].approvers == ("me", "alice", "bob")
    assert authority.routes["careful"].quorum == 2
    assert authority.signers == {fingerprint(capsys.readouterr().out)}


# ---- asking ---------------------------------------------------------------------------------------------


def talk(project: Path, *arguments: str) -> Any:
    command = [sys.executable, "-c", RUN, "init", *arguments]
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    return children.spawn(command[0], command[1:], env=env, cwd=str(project), timeout=600, encoding="utf-8")


@pytest.mark.long
def test_it_asks_first(project: Path, own_user: Path) -> None:
    child = talk(project)
    child.expect_exact("Type y to do this")
    assert written(own_user) == {}
    child.sendline("y")
    child.expect_exact("Next: hla doctor")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert key_path().exists()


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("\n", 1), ("\x04", 1), ("\x03", 130)])
def test_without_a_yes_nothing_is_written(answer: str, code: int, project: Path, own_user: Path) -> None:
    child = talk(project)
    child.expect_exact("Type y to do this")
    child.send(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert list(own_user.rglob("*")) == []
    assert not (project / ".humanlayer").exists()


def test_without_a_terminal_nobody_can_be_asked(project: Path, own_user: Path) -> None:
    command = [sys.executable, "-c", RUN, "init"]
    done = children.run(command, input="y\n", capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 3
    assert "--yes writes without asking" in done.stderr
    assert written(own_user) == {}


def test_replacing_always_asks_and_keeps_the_old_files(project: Path, own_user: Path) -> None:
    assert main(["init", "--yes"]) == 0
    before = written(own_user)
    policy = config_folder() / "policy.yaml"
    policy.write_text("# mine\n" + policy.read_text())
    command = [sys.executable, "-c", RUN, "init", "--force", "--yes"]
    done = children.run(command, capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 3
    assert policy.read_text().startswith("# mine")
    for name in ("policy.yaml.old", "policy.yaml.old2"):
        child = talk(project, "--force", "--yes")
        child.expect_exact(f"replace  {policy}")
        child.expect_exact("Type y to do this")
        child.sendline("y")
        child.expect(pexpect.EOF)
        assert (config_folder() / name).exists()
    assert (config_folder() / "policy.yaml.old").read_text().startswith("# mine")
    assert {name: written(own_user)[name] for name in before} == before  # the keys too: good ones stay


# ---- the passphrase -------------------------------------------------------------------------------------

ENTER = "Enter alone: one is made for you): "
CHOSEN = "the moon is a harsh mistress"


@pytest.fixture
def at_a_terminal(passphrase: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has put a passphrase into a file."""
    monkeypatch.delenv(PASSPHRASE_VARIABLE)


def ended(child: Any) -> tuple[int, str]:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, child.before


@pytest.mark.long
def test_a_passphrase_is_typed_twice_with_yes_too(at_a_terminal: None, project: Path) -> None:
    """It is no confirmation, so --yes does not spare it."""
    child = talk(project, "--yes")
    for first, second, said in (
        ("too short", None, "fewer than 12 characters"),
        ("aaaaaaaaaaaaaa", None, "fewer than 6 different characters"),
        ("a tab\x16\tin the middle of it", None, "characters that can't be seen"),
        (CHOSEN, CHOSEN + "!", "These were two different ones."),
        (CHOSEN, CHOSEN, "Your key's fingerprint"),
    ):
        child.expect_exact(ENTER)
        child.sendline(first)
        if second is not None:
            child.expect_exact("The same again: ")
            child.sendline(second)
        child.expect_exact(said)
        assert (first not in child.before, CHOSEN not in child.before) == (True, True)  # nothing typed is shown
    assert ended(child)[0] == 0
    signer = Signer(key_path())
    signer.unlock(CHOSEN)
    assert settings.load(project).signers == {signer.fingerprint}


@pytest.mark.long
def test_enter_alone_has_one_made_and_shown_once(at_a_terminal: None, project: Path, own_user: Path) -> None:
    child = talk(project)
    child.expect_exact("your signing key, locked by a passphrase that you type")
    child.expect_exact("Type y to do this")
    child.sendline("y")
    child.expect_exact(ENTER)
    child.sendline("")
    child.expect(r"    ([a-z2-9]{5}(?:-[a-z2-9]{5}){5})\r\n")
    made = child.match[1]
    child.expect_exact("password manager")
    child.expect_exact("Enter when it is there: ")
    assert not key_path().exists()
    child.sendline("")
    child.expect_exact("\x1b[5A\x1b[J")  # and gone from the screen
    code, rest = ended(child)
    assert code == 0
    assert made not in rest
    Signer(key_path()).unlock(made)
    assert all(made.encode() not in text for text in written(own_user).values())


@pytest.mark.long
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param("\x03", id="first", marks=pytest.mark.long),
        pytest.param("twelve letters\n\x03", id="second"),
        pytest.param("\n\x03", id="shown", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_at_the_passphrase_leaves_nothing(keys: str, at_a_terminal: None, project: Path, own_user: Path) -> None:
    script = f"stty -a > before; {sys.executable} -c '{RUN}' init --yes; echo \"code $?\"; stty -a > after"
    child = pexpect.spawn(
        "bash", ["-c", script], env={**os.environ, "LC_ALL": "C.UTF-8"}, cwd=str(project), timeout=600, encoding="utf-8"
    )
    child.expect_exact(ENTER)
    for key in keys.splitlines(keepends=True):
        child.send(key)
        if key != "\x03":
            child.expect(["The same again: ", "Enter when it is there: "])
    _, said = ended(child)
    assert "code 130" in said
    assert written(own_user) == {}
    assert (project / "after").read_text() == (project / "before").read_text()
    assert " echo " in (project / "after").read_text().replace(";", " ")


def without_a_terminal(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", RUN, "init", *arguments]
    return children.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.long
def test_without_a_terminal_there_is_no_key_until_there_is_one(
    at_a_terminal: None, project: Path, own_user: Path
) -> None:
    done = without_a_terminal("--yes")
    assert done.returncode == 0, done.stderr
    assert "No signing key was made" in done.stdout
    assert "only answers at the agent's own terminal count" in done.stdout
    assert not key_path().exists()
    assert settings.load(project).signers == frozenset()
    assert AuditKey(audit_key_path()).load()
    channels = config_folder() / "channels.yaml"
    assert len(re.findall(r"^signers: \[\]$", channels.read_text(), re.MULTILINE)) == 1
    mine = channels.read_text() + "# mine\n"
    channels.write_text(mine)
    child = talk(project)
    child.expect_exact(f"add to   {channels}")
    child.expect_exact("Type y to do this")
    child.sendline("y")
    for prompt in (ENTER, "The same again: "):
        child.expect_exact(prompt)
        child.sendline(CHOSEN)
    assert ended(child)[0] == 0
    assert settings.load(project).signers == {Signer(key_path()).fingerprint}
    assert channels.read_text().endswith("# mine\n")
    assert (config_folder() / "channels.yaml.old").read_text() == mine


def test_a_key_that_was_put_there_is_named_only_by_who_can_unlock_it(
    at_a_terminal: None, project: Path, capsys: Said
) -> None:
    """An agent's command writes a key of its own before you run hla init: it must not become a signer by that."""
    planted = make_key()
    assert without_a_terminal("--yes").returncode == 1
    assert settings.load(project).signers == frozenset()
    child = talk(project)
    child.expect_exact("Type y to do this")
    child.sendline("y")
    for _ in range(3):
        child.expect_exact("Passphrase of the key that is there, to name it as a signer: ")
        child.sendline(CHOSEN)
    code, said = ended(child)
    assert code == 1
    assert "If it is yours, put it under signers:" in said
    assert settings.load(project).signers == frozenset()
    child = talk(project, "--yes")
    child.expect_exact("Passphrase of the key that is there")
    child.sendline(PASSPHRASE)
    assert ended(child)[0] == 0
    assert settings.load(project).signers == {planted.fingerprint}


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("short\n", 0o600, "that can't be a passphrase: it has fewer than 12 characters"),
        ("\n", 0o600, "has no passphrase on its first line"),
        (CHOSEN, 0o620, "that nobody else may read: chmod 600"),
        (CHOSEN, 0o604, "that nobody else may read: chmod 600"),
        (None, 0, "can't be read: No such file"),
    ],
)
def test_a_file_that_can_not_be_used(
    content: str | None,
    mode: int,
    said: str,
    project: Path,
    own_user: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    path = tmp_path / "phrase"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(path))
    assert main(["init", "--yes"]) == 2
    assert said in capsys.readouterr().err
    assert written(own_user) == {}


@pytest.mark.parametrize("inside", [True, False])
def test_a_file_in_the_project_or_named_from_here(
    inside: bool, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    passphrase_file(project)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(project / "passphrase") if inside else "passphrase")
    assert main(["init", "--yes"]) == 2
    assert ("lies in the project" if inside else "is no absolute path") in capsys.readouterr().err
    assert not key_path().exists()


# ---- what it refuses ------------------------------------------------------------------------------------


def test_an_agent_does_not_set_this_up(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv(SUPERVISED, "1")
    assert main(["init", "--yes"]) == 2
    assert "this is a supervised command" in capsys.readouterr().err
    assert not key_path().exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "way", ['exec "$@"', 'env -u HUMANLAYER_SUPERVISED "$@"', 'env -i HOME="$HOME" setsid -w "$@"']
)
def test_nor_by_taking_the_mark_away(way: str, project: Path) -> None:
    root = Path(file_writer.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); {RUN}"
    shell = ("bash", "--norc", "--noprofile", "-c", way, "init", sys.executable, "-c", code, "init", "--yes")
    done = run_command(shell, cwd=str(project), env=command_environment(os.environ), timeout=600)
    assert "this is a supervised command" in done.output
    assert done.returncode == 2
    assert not key_path().exists()


@pytest.mark.long
def test_a_key_that_is_none_is_named(project: Path, capsys: Said) -> None:
    data_folder().mkdir(parents=True, mode=0o700)
    key_path().write_text("not a key")
    key_path().chmod(0o600)
    assert main(["init", "--yes"]) == 2
    assert "is not a key that hla init has written; hla init --force puts it aside" in capsys.readouterr().err
    assert not config_folder().exists()
    key_path().write_text("-----BEGIN PRIVATE KEY-----\n")
    assert main(["init", "--yes"]) == 2
    assert "has no passphrase, so whatever runs as you can sign" in (said := capsys.readouterr().err)
    assert "hla init --force puts it aside and makes another" in said
    key_path().write_text("not a key")
    child = talk(project, "--force")
    child.expect_exact("Type y to do this")
    child.sendline("y")
    child.expect(pexpect.EOF)
    assert Signer(key_path()).fingerprint in settings.load(project).signers
    assert (data_folder() / "signing.key.old").read_text() == "not a key"


def test_a_key_that_is_no_signer_yet(project: Path, capsys: Said) -> None:
    config_folder().mkdir(parents=True)
    path = config_folder() / "channels.yaml"
    path.write_text("version: 1\n")
    assert main(["init", "--yes"]) == 1
    said = capsys.readouterr().out
    assert f"If it is yours, put it under signers: in {path}" in said
    path.write_text("version: 1\n" + said[said.index("signers:\n") :])  # as it says
    assert main(["init"]) == 0


def test_a_signer_that_was_there_before_is_said(project: Path, capsys: Said) -> None:
    """An agent's command could have written the file before you ran hla init."""
    config_folder().mkdir(parents=True)
    (config_folder() / "channels.yaml").write_text(f"version: 1\nsigners: [{'a' * 64}]\n")
    assert main(["init", "--yes"]) == 1
    assert f"The signatures of another key count too. If you don't know whose it is, take it out:\n  {'a' * 64}\n" in (
        capsys.readouterr().out
    )


def test_a_channels_file_with_a_mistake_is_said(project: Path, capsys: Said) -> None:
    config_folder().mkdir(parents=True)
    (config_folder() / "channels.yaml").write_text("version: 2\n")
    assert main(["init", "--yes"]) == 1
    assert "channels.yaml:1:10: 2: expected 1" in capsys.readouterr().out


def test_folders_that_others_can_write(project: Path, capsys: Said) -> None:
    data_folder().mkdir(parents=True)
    data_folder().chmod(0o777)
    assert main(["init", "--yes"]) == 2
    assert f"can be written by others: chmod 700 {data_folder()}" in capsys.readouterr().err
    data_folder().chmod(0o700)
    config_folder().mkdir(parents=True)
    config_folder().chmod(0o777)
    assert main(["init", "--yes"]) == 2
    assert not key_path().exists()


@pytest.mark.parametrize("variable", ["XDG_DATA_HOME", "XDG_CONFIG_HOME"])
def test_folders_in_the_project(variable: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv(variable, str(project / "x"))
    assert main(["init", "--yes"]) == 2
    assert f"lies in the project {project}: set {variable}" in capsys.readouterr().err


def test_a_projects_folder_that_is_a_link(project: Path, tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".humanlayer").symlink_to(tmp_path / "elsewhere")
    assert main(["init", "--yes"]) == 2
    assert "is a link: a project's settings must be its own" in capsys.readouterr().err
    assert not key_path().exists()


def test_a_file_where_a_folder_belongs(project: Path, own_user: Path, capsys: Said) -> None:
    (own_user / ".config").write_text("")
    assert main(["init", "--yes"]) == 2
    assert ".config" in capsys.readouterr().err
    assert set(written(own_user)) == {".config"}


def test_sudo_in_the_home_of_somebody_else(project: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:  # nobody else can give a directory away
        os.chown(own_user, 65534, 65534)
        monkeypatch.setenv("SUDO_UID", "65534")
        assert main(["init", "--yes"]) == 2
        assert written(own_user) == {}


# ---- all or nothing -------------------------------------------------------------------------------------


@pytest.fixture
def trace() -> Iterator[Callable[[Any], None]]:
    before = sys.gettrace()
    yield sys.settrace
    sys.settrace(before)


def test_ctrl_c_at_any_line_leaves_all_or_nothing(tmp_path: Path, trace: Callable[[Any], None]) -> None:
    """Also where a file is replaced: it is the old one or the new one, under its name."""
    for line in range(1, 500):
        place = tmp_path / str(line)
        (place / "here").mkdir(parents=True)
        (place / "here/old.txt").write_text("old")
        before = written(place)
        left = line

        def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != file_writer.__file__:
                return None
            left -= event == "line"
            if left == 0:
                left = -1
                raise KeyboardInterrupt
            return interrupt

        interrupted = True
        trace(interrupt)
        try:
            with new_files() as files:
                files.folder(place / "new/folder", 0o700)
                files.add(place / "new/folder/a.txt", b"a")
                files.add(place / "here/old.txt", b"new", replaces=True)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            trace(None)
        done = {"here/old.txt": b"new", "here/old.txt.old": b"old", "new/folder/a.txt": b"a"}
        found = written(place)
        assert found == done or (interrupted and found == before), line
        assert (place / "new").exists() is (found == done)
        if not interrupted:
            assert line > 30
            return
    raise AssertionError("it never came to its end")


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    def write() -> None:
        with new_files() as files:
            files.add(tmp_path / "a", b"ours")
            files.add(tmp_path / "b", b"ours")
            (tmp_path / "b").write_text("theirs")

    with pytest.raises(ConfigError, match="somebody else has made this file"):
        write()
    assert written(tmp_path) == {"b": b"theirs"}


# ---- docs/setup.md --------------------------------------------------------------------------------------


def test_the_examples_in_the_documentation_work(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/setup.md").read_text()
    example, *others = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (on_call,) = (each for each in others if "on_call" in each)
    path = tmp_path / "channels.yaml"
    path.write_text(example)
    authority = authority_of(settings.load(file=path), "os:1000:alice")
    assert authority.routes["careful"].min_assurance == "login"
    assert [person.id for person in authority.people] == ["alice", "bob"]
    path.write_text(on_call)
    (step, *_) = authority_of(settings.load(file=path), "os:1000:alice").routes["default"].steps
    assert step.on_call is not None
