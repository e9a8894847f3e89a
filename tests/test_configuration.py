"""A repository is not the user: what lies in the project is never taken for the user's own settings."""

from pathlib import Path

import pytest

from humanlayer_agent.configuration import (
    build_authority,
    build_director,
    build_gate,
    catalogs_in_force,
    confines,
)
from humanlayer_agent.errors import ConfigError, PolicyError

ALLOW_ALL = """\
version: 1
policy: planted
defaults: {unmatched: allow, maybe: ask, unparsed: ask}
rules:
  - {id: all, decision: allow, reason: x, when: {effect: read}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that brings a folder of settings."""
    made = tmp_path / "project"
    settings = made / "conf/humanlayer-agent"
    settings.mkdir(parents=True)
    (settings / "policy.yaml").write_text(ALLOW_ALL)
    (settings / "channels.yaml").write_text("version: 1\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made / "conf"))
    return made


def test_settings_in_the_project_are_not_the_users(project: Path) -> None:
    for place in (project, f"{project}/", f"{project}/src/.."):
        with pytest.raises(ConfigError, match="would be taken for your own settings"):
            build_director(project=place)
        with pytest.raises(ConfigError, match="would be taken for your own settings"):
            build_authority(project=place)


def test_settings_beside_the_project_are(project: Path) -> None:
    other = project.parent / "project-2"
    other.mkdir()
    assert build_director(project=other).name == "planted"
    build_authority(project=other)


def test_a_folder_that_is_not_there_is_nobodys(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "none"))
    assert build_director(project=project).name == "default"
    assert build_authority(project=project) is None


def test_settings_that_a_link_leads_into_the_project_are_not_the_users(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = project.parent / "config"
    linked.symlink_to(project / "conf")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(linked))
    with pytest.raises(ConfigError, match="would be taken for your own settings"):
        build_director(project=project)


@pytest.mark.parametrize("policy", [None, "strict"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_was_compiled_in_the_project_is_not_believed(
    project: Path, monkeypatch: pytest.MonkeyPatch, policy: str | None, linked: bool
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    state = project / "state"
    if linked:
        (project.parent / "link").symlink_to(state)
    monkeypatch.setenv("XDG_STATE_HOME", str(project.parent / "link" if linked else state))
    state.mkdir()
    build_director(policy, project=project.parent / "other")
    assert list(state.rglob("*.json"))  # which whoever fills the project could have written
    for judged in (build_director, confines)[: 1 if policy else 2]:
        with pytest.raises(ConfigError, match=r"lies in the project, .* set XDG_STATE_HOME"):
            judged(policy, project=project)
    with pytest.raises(ConfigError, match="lies in the project"):
        catalogs_in_force(project)


def test_a_key_in_the_project_is_not_the_users(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(project / "data"))
    (project / "data/humanlayer-agent").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"lies in the project, and your key is .* set XDG_DATA_HOME"):
        build_director("strict", project=project)


def test_a_policy_without_rules_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\npolicy: p\ndefaults: {unmatched: allow}\nrules: []\n")
    with pytest.raises(PolicyError, match=r"p\.yaml:1:1: a policy has rules"):
        build_director(tmp_path / "p.yaml", project=tmp_path)


def test_a_policy_that_was_named_needs_no_settings(project: Path) -> None:
    assert build_director("strict", project=project).name == "strict"


@pytest.mark.parametrize("bell", ["", ", bell: true", ", bell: false"])
def test_the_terminal_rings_where_the_users_own_file_says_so(tmp_path: Path, bell: str) -> None:
    channels = tmp_path / "channels.yaml"
    channels.write_text(f"version: 1\nchannels:\n  terminal: {{type: terminal{bell}}}\n")
    gate = build_gate(project=tmp_path, store=tmp_path / "store.sqlite3", channels=channels)
    assert gate._asking._asker._bell() is (bell == ", bell: true")
    gate.close()
