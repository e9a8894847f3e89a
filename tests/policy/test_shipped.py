"""The policies that ship: every inline test, and what each rule owes its readers."""

import re
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.sources import shipped_names
from tests.support.rows import for_each

NAMES = ("guard", "default", "strict", "ci", "sandbox")
PROJECT = examples.PROJECT
pytestmark = pytest.mark.usefixtures("compiled")


def director(name: str, own_user: Path) -> Director:
    return Director.load(name, project=PROJECT, environ={"HOME": str(own_user)})


def test_all_of_them_are_tested() -> None:
    assert shipped_names() == sorted(NAMES)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NAMES)
def test_inline(name: str) -> None:
    failed = [
        (r.example.rule.id, r.example.kind, r.example.command, r.expected, r.found)
        for r in examples.run(load(find(name)))
        if not r.passed
    ]
    assert failed == []


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_has_a_reason_and_tests(name: str) -> None:
    for rule in load(find(name)).rules:
        assert rule.reason, rule.id
        assert rule.tests.match or rule.tests.maybe, rule.id
        assert rule.tests.not_match, rule.id
        if rule.decision != "allow":
            assert rule.suggestion, rule.id
            assert "severity" in rule.written, rule.id


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES[1:])
def test_a_suggested_command_is_itself_allowed(name: str, own_user: Path) -> None:
    judged = director(name, own_user)
    commands = [c for rule in load(find(name)).rules for c in re.findall(r"`([^`]+)`", rule.suggestion)]
    for command in commands:
        decision = judged.evaluate(Action(command, cwd=PROJECT))
        assert decision.verdict is Verdict.ALLOW, (command, decision.rules, decision.reason)


def test_some_suggestions_are_commands() -> None:
    assert sum("`" in rule.suggestion for name in ("default", "strict") for rule in load(find(name)).rules) >= 4


OURS = [
    "cat {user}/store/store.sqlite3",
    "rm -f {user}/store/store.sqlite3-wal",
    "sqlite3 x < {user}/store/store.sqlite3",
    "echo x > {user}/.config/humanlayer-agent/policy.yaml",
    "echo '{{}}' > {user}/.local/state/humanlayer-agent/trusted/x.json",
    "rm -rf {user}/.local/state/humanlayer-agent",
    "ln -sf /tmp/x .humanlayer/policy.yaml",
    "humanlayer-agent requests approve x",
    "env -i hla requests approve x",
    "bash -c 'hla run -t x'",
    "hla policy trust",
    'x=hla; $x requests approve "$(cat id)"',
    "python3 -m humanlayer_agent.cli requests approve x",
    "hla grants ls",
    "humanlayer-agent grants show x",
    "env -i hla grants revoke --all",
    "x=grants; hla $x revoke x",
    "python3 -m humanlayer_agent.cli grants ls --format jsonl",
    "tee -a /etc/humanlayer-agent/policy.yaml < x",
]


@for_each("name", NAMES)
@for_each("command", OURS)
def test_everything_of_ours_is_off_limits(name: str, command: str, own_user: Path) -> None:
    decision = director(name, own_user).evaluate(Action(command.format(user=own_user), cwd=PROJECT))
    assert decision.verdict is Verdict.DENY, (decision.verdict, decision.rules)


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_the_policy_in_force_is_off_limits(name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    mine = project / "rules.yaml"
    mine.write_text(f"version: 1\npolicy: mine\nextends: [builtin:{name}]\n")
    decision = Director.load(mine, project=project).evaluate(Action("echo x >> rules.yaml", cwd=str(project)))
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "own-files")


def test_other_folders_of_ours_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in (("XDG_CONFIG_HOME", "c"), ("XDG_STATE_HOME", "s"), ("XDG_DATA_HOME", "d")):
        monkeypatch.setenv(variable, f"/elsewhere/{folder}")
    judged = Director.load("default", project=PROJECT)
    for folder in "csd":
        decision = judged.evaluate(Action(f"cat /elsewhere/{folder}/humanlayer-agent/x", cwd=PROJECT))
        assert decision.verdict is Verdict.DENY


@pytest.mark.long
def test_ci_denies_what_default_asks_and_allows_the_same() -> None:
    default, ci = (Director.load(n, project=PROJECT, environ={"HOME": "/nowhere/home"}) for n in ("default", "ci"))
    seen = set()
    for example in examples.examples(load(find("default"))):
        action = Action(example.command, cwd=PROJECT)
        first, second = default.evaluate(action), ci.evaluate(action)
        expected = Verdict.DENY if first.verdict is Verdict.ASK else first.verdict
        assert second.verdict is expected, example.command
        seen.add(first.verdict)
    assert seen == set(Verdict)
    assert ci.evaluate(Action("echo 'x", cwd=PROJECT)).verdict is Verdict.DENY, "what can't be parsed"
    assert ci.evaluate(Action("frobnicate", cwd=PROJECT)).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("rm -rf /srv/x; python setup.py build; sudo make install", "allow"),
        ("curl https://example.org/x -o x", "ask"),
        ("bash -c 'curl https://example.org/x'", "ask"),
        ("echo 'unterminated", "ask"),
        ("rm -rf /", "deny"),
    ],
)
def test_sandbox(command: str, verdict: str, own_user: Path) -> None:
    assert str(director("sandbox", own_user).evaluate(Action(command, cwd=PROJECT)).verdict) == verdict


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("env", "environment-printed"),
        ("date -s 2020-01-01", "machine"),
        ("chmod 777 a", "dangerous-modes"),
        ("find / -name x", "list-outside-project"),
        ("docker run x", "containers"),
        ("cp x .claude/settings.json", "startup-files"),
    ],
)
def test_what_default_asks_about(command: str, rule: str, own_user: Path) -> None:
    decision = director("default", own_user).evaluate(Action(command, cwd=PROJECT))
    assert decision.verdict is Verdict.ASK
    assert rule in decision.rules
    assert not decision.default_hit


_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/ssl/private/key.pem"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/wireguard/wg0.conf", "/etc/NetworkManager/system-connections/x", "/etc/krb5.keytab"),
    *("~/.ssh/id_rsa", "~/.aws/credentials", "~/.netrc", "~/.npmrc", "~/.cargo/credentials.toml", "~/.cargo/config.toml"),
    *("~/.config/git/credentials", "~/.git-credentials", "~/.m2/settings.xml", "~/.local/share/keyrings/login.keyring"),
    *("~/.config/gh/hosts.yml", "~/.docker/config.json", "~/.pgpass", "~/.bash_history", "~/notes", "/root/x", "/srv/x"),
    *("~/.config/humanlayer-agent/key", "~/.local/share/humanlayer-agent/store.sqlite3", "~/.local/state/x"),
    *("/run/secrets/x", "/proc/1/environ", "/var/run/docker.sock", "/srv/app/.env", "/srv/app/a/server.key"),
)  # fmt: skip


@pytest.mark.parametrize("name", ["default", "strict", "ci"])
def test_a_confinement_gives_no_secret_to_read(name: str) -> None:
    """Not by patterns alone, which hold only within what can be written: as root everything else could be read."""
    director = Director.load(
        name, project="/srv/app", environ={"HOME": "/home/alice", "PATH": "/usr/bin"}, confined=True
    )
    confinements = {each for layer in director.layers for each in layer.policy.confinements}
    assert confinements
    for each in confinements:
        profile = director.in_force().confinement(each)
        assert [path for path in _SECRETS if profile.reads(path.replace("~", "/home/alice"))] == []
        assert all(profile.reads(path) for path in ("/usr/bin/ls", "/etc/passwd", "/srv/app/a.py", "/etc/ld.so.cache"))
