"""Channels files: who may approve, and whose file says so."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.channels import settings
from humanlayer_agent.channels.settings.schema import milliseconds
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import write_own_json

TEAM = """\
version: 1
extends: [builtin:slack]
set: {SLACK_CHANNEL: C0123456}
people:
  alice: {slack: T012AB/U034CD, email: alice@example.com, os_user: alice}
  bob: {slack: T012AB/U056EF}
groups:
  oncall: [alice, bob]
  platform: {slack_usergroup: T012AB/S078GH}
routes:
  default:
    approvers: [alice, "group:oncall"]
    quorum: 2
    timeout: 1h
    steps: [{to: terminal}, {to: slack, after: 2m, approvers: ["group:platform"]}]
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "channels.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def user_file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    return written(tmp_path / "config/humanlayer-agent", text, mode)


def test_with_no_file_there_is_the_terminal(tmp_path: Path) -> None:
    found = settings.load(tmp_path, machine=tmp_path / "none")
    assert list(found.channels) == ["terminal"]
    route = found.routes["default"]
    assert (route.solo, route.quorum, route.timeout, route.approvers) == (True, 1, 600_000, [])


def test_a_teams_file(tmp_path: Path) -> None:
    user_file(tmp_path, TEAM)
    found = settings.load(tmp_path, machine=tmp_path / "none")
    route = found.routes["default"]
    assert (route.quorum, route.timeout, [s.after for s in route.steps]) == (2, 3_600_000, [0, 120_000])
    assert found.channels["slack"].post_to == "C0123456"  # type: ignore[union-attr]
    assert found.people["alice"].slack == "T012AB/U034CD"


def test_a_projects_file_counts_only_once_it_is_trusted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    path = written(project / ".humanlayer", TEAM)
    found = settings.load(project, machine=tmp_path / "none")
    assert found.ignored == (str(path),)
    assert not found.people
    write_own_json(settings.trust_place(path), {"digest": settings.trust_key(path)}, required=True)
    assert "alice" in settings.load(project, machine=tmp_path / "none").people
    path.write_text(TEAM + "# changed\n")
    assert settings.load(project, machine=tmp_path / "none").ignored == (str(path),)


def test_a_trusted_project_redefines_nobody(tmp_path: Path) -> None:
    project = tmp_path / "project"
    user_file(tmp_path, "version: 1\npeople: {alice: {os_user: alice}}\n")
    path = written(project / ".humanlayer", "version: 1\npeople: {alice: {os_user: mallory}}\n")
    write_own_json(settings.trust_place(path), {"digest": settings.trust_key(path)}, required=True)
    with pytest.raises(ConfigError, match=r"channels\.yaml:2:\d+: people\.alice is defined by .*config"):
        settings.load(project, machine=tmp_path / "none")


def test_a_project_names_no_signers(tmp_path: Path) -> None:
    project = tmp_path / "project"
    path = written(project / ".humanlayer", f"version: 1\nsigners: [{'a' * 64}]\n")
    write_own_json(settings.trust_place(path), {"digest": settings.trust_key(path)}, required=True)
    with pytest.raises(ConfigError, match="signers"):
        settings.load(project, machine=tmp_path / "none")


def test_a_project_names_nobody_for_emergencies(tmp_path: Path) -> None:
    project = tmp_path / "project"
    people = "people:\n  ann: {os_user: ann}\n  ben: {os_user: ben}\n"
    path = written(project / ".humanlayer", f"version: 1\n{people}break_glass: [ann, ben]\n")
    write_own_json(settings.trust_place(path), {"digest": settings.trust_key(path)}, required=True)
    with pytest.raises(ConfigError, match="break_glass"):
        settings.load(project, machine=tmp_path / "none")
    assert settings.load(file=path).break_glass == ("ann", "ben")


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    user_file(tmp_path, TEAM, 0o666)
    with pytest.raises(ConfigError, match="writable by nobody else"):
        settings.load(tmp_path, machine=tmp_path / "none")


def test_one_file_is_the_whole(tmp_path: Path) -> None:
    user_file(tmp_path, "version: 1\npeople: {eve: {os_user: eve}}\n")
    found = settings.load(tmp_path, file=written(tmp_path / "x", TEAM))
    assert sorted(found.people) == ["alice", "bob"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 2\n", ":1:10: 2: expected 1"),
        ("version: 1\nextends: [builtin:slack]\n", r"\$\{SLACK_CHANNEL\} is still open"),
        ("version: 1\nextends: [builtin:pigeon]\n", "pigeon"),
        ("version: 1\nextends: [/etc/x.yaml]\n", "expected builtin:NAME"),
        ("version: 1\npeople: {a: {display_name: Alice}}\n", "unknown key 'display_name'"),
        ("version: 1\npeople: {a: {}}\n", "one of slack, email, os_user"),
        ("version: 1\npeople: {a: {slack: U034CD}}\n", ":2:"),
        ("version: 1\ngroups: {g: [nobody]}\n", "nobody is called 'nobody'"),
        ("version: 1\nroutes: {default: {approvers: [], steps: [{to: terminal}]}}\n", "nobody could answer"),
        ("version: 1\nroutes: {default: {solo: true, steps: [{to: pager}]}}\n", "no channel 'pager'"),
        ("version: 1\nroutes: {default: {solo: true, steps: []}}\n", ":2:"),
        ("version: 1\nroutes: {default: {solo: true, timeout: 0s, steps: [{to: t}]}}\n", "expected a duration"),
        ("version: 1\nroutes: {default: {solo: true, timeout: 90d, steps: [{to: t}]}}\n", "at most 30d"),
        ("version: 1\nchannels: {t: {type: terminal}}\nroutes: {default: {solo: true, timeout: 1m, steps: [{to: t, after: 2m}]}}\n", "after the timeout"),
        ("version: 1\nchannels: {t: {type: terminal}}\nroutes: {default: {approvers: [zoe], steps: [{to: t}]}}\n", "'zoe': there is no such person"),
        ("version: 1\nchannels: {t: {type: terminal}}\nroutes: {default: {approvers: ['group:x'], steps: [{to: t}]}}\n", "no such group"),
        ("version: 1\nchannels: {s: {type: slack, post_to: C01, bot_token_env: AWS_SECRET_ACCESS_KEY}}\n", "AWS_SECRET_ACCESS_KEY: a channel of type slack takes SLACK_"),
        ("version: 1\nchannels: {m: {type: email, from: a@b.c, smtp: {host: evil.example, port: 25, password_env: GITHUB_TOKEN}}}\n", "GITHUB_TOKEN"),
        ("version: 1\nchannels: {s: {type: slack, post_to: C01, bot_token: xoxb-1}}\n", "unknown key 'bot_token'"),
        ("version: 1\nchannels: {x: {type: carrier}}\n", ":2:"),
        ("version: 1\nchannels: {s: {type: slack, post_to: C01, digest: {at: '9:00'}}}\n", ":2:.*two digits each, as 09:00"),
        ("version: 1\nchannels:\n  ops:\n    type: slack\n    post_to: C01\n    digest: {att: '09:00'}\n", ":6:14: unknown key 'att'; did you mean at"),
        ("version: 1\nchannels:\n  web:\n    type: slack\n    post_to: C01\n    mode: htp\n", ":6:11: .*did you mean http"),
        ("version: 1\npeople: {ann: {os_user: a}, ben: {os_user: b}}\nbreak_glass: [ann, bem]\n", ":3:20: nobody is called 'bem'.*did you mean ben"),
        ("version: 1\nchannels: {s: {type: slack, post_to: C01, digest: {at: '24:00'}}}\n", ":2:"),
        ("version: 1\nchannels:\n  s: {type: slack, post_to: C01, digest: {at: '09:00', tz: Mars/Olympus}}\n", ":3:.*is no time zone"),
        ("version: 1\nchannels:\n  s: {type: slack, post_to: C01, digest: {at: '09:00', tz: ../../etc/passwd}}\n", ":3:.*is no time zone"),
        ("version: 1\nchannels: {s: {type: slack, mode: pigeon, post_to: C01}}\n", ":2:"),
        ("version: 1\nchannels:\n  s: {type: slack, post_to: C01, listen: '127.0.0.1:1'}\n", ":3:.*listen is of mode http, and this is mode socket"),
        ("version: 1\nchannels:\n  s: {type: slack, mode: http, post_to: C01, connections: 2}\n", ":3:.*connections is of mode socket"),
        ("version: 1\nchannels:\n  s: {type: slack, mode: http, post_to: C01, listen: '0.0.0.0:80'}\n", ":3:.*name its peers"),
        ("version: 1\nchannels:\n  s: {type: slack, mode: http, post_to: C01, listen: '127.0.0.1:70000'}\n", ":3:.*70000 is no port"),
        ("version: 1\nchannels:\n  s: {type: slack, mode: http, post_to: C01, path: slack}\n", ":3:"),
        ("version: 1\nchannels: {s: {type: slack, mode: http, post_to: C01, signing_secret_env: AWS_SECRET_ACCESS_KEY}}\n", "takes SLACK_"),
    ],
)  # fmt: skip
def test_mistakes_are_shown_at_their_place(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "x", text)
    with pytest.raises(ConfigError, match=message) as error:
        settings.load(tmp_path, file=path)
    assert "channels.yaml" in str(error.value) or "builtin:" in str(error.value)


def test_a_users_own_file_may_name_other_secrets(tmp_path: Path) -> None:
    text = "version: 1\nsecrets: [TEAM_BOT]\nchannels: {s: {type: slack, post_to: C01, bot_token_env: TEAM_BOT}}\n"
    assert settings.load(tmp_path, file=written(tmp_path / "x", text)).channels["s"].bot_token_env == "TEAM_BOT"  # type: ignore[union-attr]


def test_the_shipped_files_are_templates(tmp_path: Path) -> None:
    for name, holes in (
        ("slack", "SLACK_CHANNEL: C01"),
        ("slack-http", "SLACK_CHANNEL: C01"),
        ("email", "MAIL_FROM: a@b.org, SMTP_HOST: mail.b.org, PUBLIC_URL: https://a.b.org"),
        ("web", ""),
    ):
        text = f"version: 1\nextends: [builtin:{name}]\nset: {{{holes}}}\n"
        assert name.partition("-")[0] in settings.load(tmp_path, file=written(tmp_path / name, text)).channels


@given(st.text(max_size=10))
def test_any_text_as_a_duration(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert milliseconds(text) > 0


@given(
    st.recursive(
        st.text(max_size=8) | st.integers() | st.none(),
        lambda x: st.lists(x) | st.dictionaries(st.text(max_size=8), x),
        max_leaves=12,
    )
)
def test_any_data_as_a_file(data: object) -> None:
    import json
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "channels.yaml"
        path.write_text(json.dumps({"version": 1, "people": data, "routes": data, "channels": data}))
        os.chmod(path, 0o600)
        with contextlib.suppress(ConfigError):
            settings.load(None, file=path)


ON_CALL = """\
version: 1
extends: [builtin:slack]
set: {SLACK_CHANNEL: C0123456}
people:
  alice: {slack: T012AB/U034CD}
  bob: {slack: T012AB/U056EF}
routes:
  default: {approvers: [alice, bob], steps: [{to: slack, on_call: SOURCE}]}
"""


@pytest.mark.parametrize("source", ["{file: /etc/who}", "{file: ~/who}", '{command: [/usr/bin/who, "-x"]}'])
def test_who_is_on_call_is_said_by_a_file_of_ones_own_only(tmp_path: Path, source: str) -> None:
    text = ON_CALL.replace("SOURCE", source)
    path = user_file(tmp_path, text)
    (step,) = settings.load(machine=tmp_path / "none").routes["default"].steps
    assert step.on_call is not None
    assert step.on_call.file or step.on_call.command
    path.unlink()
    written(tmp_path / "project/.humanlayer", text)
    with pytest.raises(ConfigError, match=r"channels.yaml:8:\d+: .*only the machine's or the user's own file"):
        settings.load(tmp_path / "project", machine=tmp_path / "none", trusting=True)
    assert settings.load(tmp_path / "project", machine=tmp_path / "none").stands_in, (
        "an untrusted one counts for nothing"
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{}", "needs file or command"),
        ("{file: /etc/who, command: [/bin/who]}", "needs file or command"),
        ("{file: who}", "pattern"),
        ("{file: ../who}", "pattern"),
        ("{command: [who]}", "whole path"),
        ("{command: [./who]}", "whole path"),
        ("{command: []}", "at least 1"),
        ("{command: /bin/who}", "list"),
    ],
)
def test_what_does_not_say_who_is_on_call(tmp_path: Path, source: str, why: str) -> None:
    user_file(tmp_path, ON_CALL.replace("SOURCE", source))
    with pytest.raises(ConfigError, match=why):
        settings.load(machine=tmp_path / "none")


def test_a_terminal_asks_whoever_is_there(tmp_path: Path) -> None:
    text = ON_CALL.replace("SOURCE", "{file: /etc/who}").replace("to: slack", "to: terminal")
    user_file(tmp_path, text.replace("routes:", "channels: {terminal: {type: terminal}}\nroutes:"))
    with pytest.raises(ConfigError, match="a terminal asks whoever is there"):
        settings.load(machine=tmp_path / "none")
