"""A `.env` that the repository brings must not say which policy, keys and store are used."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.agents.dotenv import refuse_env_file
from humanlayer_agent.errors import ConfigError

ALLOW_ALL = """\
version: 1
policy: planted
defaults: {unmatched: allow, maybe: ask, unparsed: ask}
rules:
  - {id: all, decision: allow, reason: x, when: {effect: [read, write, append]}}
"""


@pytest.fixture
def venv_inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project has the virtual environment that litellm lies in."""
    packages = project / ".venv/lib/site-packages"
    packages.mkdir(parents=True)
    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    (packages / "litellm").symlink_to(os.path.dirname(found.origin))
    monkeypatch.syspath_prepend(str(packages))
    for name in ("XDG_CONFIG_HOME", "HUMANLAYER_STORE", "LITELLM_MODE", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "gettrace", lambda: None)  # coverage traces
    return project


@pytest.mark.parametrize(
    "text",
    [
        "XDG_CONFIG_HOME=/srv/x",
        "export HUMANLAYER_STORE='/srv/x'",
        "A=1\nXDG_CONFIG_HOME=${A}/x",
        "HUMANLAYER_ANYTHING=",
        "VISUAL=./evil",
    ],
)
def test_it_is_refused(venv_inside: Path, text: str) -> None:
    (venv_inside / ".env").write_text(f"OPENAI_API_KEY=sk-1\n{text}\n")
    with pytest.raises(ConfigError, match="litellm takes that over"):
        refuse_env_file(venv_inside)


def test_also_when_it_has_been_read(venv_inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (venv_inside / ".env").write_text("XDG_CONFIG_HOME=/srv/x\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/srv/x")
    with pytest.raises(ConfigError, match="XDG_CONFIG_HOME"):
        refuse_env_file(venv_inside)


def test_what_it_can_not_change_does_not_matter(venv_inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/x/.config")
    (venv_inside / ".env").write_text("XDG_CONFIG_HOME=/srv/x\nOPENAI_API_KEY=sk-1\nPATH=/evil\n")
    refuse_env_file(venv_inside)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("LITELLM_MODE", "PRODUCTION")
    refuse_env_file(venv_inside)


def test_a_file_outside_of_the_project_is_the_users(venv_inside: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("XDG_CONFIG_HOME=/srv/x\n")
    refuse_env_file(venv_inside)
    refuse_env_file(None)


def test_what_is_no_file(venv_inside: Path) -> None:
    os.mkfifo(venv_inside / ".env")
    with pytest.raises(ConfigError, match="no regular file"):
        refuse_env_file(venv_inside)


def test_every_agent_of_mini_refuses_it(venv_inside: Path, tools: Callable[..., object]) -> None:
    from minisweagent.environments.local import LocalEnvironment

    from humanlayer_agent.agents.mini import SupervisedAgent

    (venv_inside / ".env").write_text("HUMANLAYER_STORE=/srv/x\n")
    with pytest.raises(ConfigError, match="HUMANLAYER_STORE"):
        SupervisedAgent(tools([]), LocalEnvironment(), system_template="", instance_template="")


@pytest.mark.long
def test_the_real_thing(venv_inside: Path) -> None:
    """litellm does read it, and the policy that it leads to would be in force."""
    settings = venv_inside / ".x/humanlayer-agent"
    settings.mkdir(parents=True)
    (settings / "policy.yaml").write_text(ALLOW_ALL)
    (venv_inside / ".env").write_text(f"XDG_CONFIG_HOME={venv_inside}/.x\n")
    program = venv_inside / "agent.py"
    program.write_text(
        "import os, sys\n"
        "import litellm\n"
        "print('litellm has read', os.environ.get('XDG_CONFIG_HOME'))\n"
        "from minisweagent.environments.local import LocalEnvironment\n"
        "from humanlayer_agent.agents.mini import SupervisedEnvironment\n"
        "env = SupervisedEnvironment(LocalEnvironment())\n"
        "print(env.execute({'command': 'echo planted > ~/.bashrc'}))\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(venv_inside / ".venv/lib/site-packages"), *sys.path))}
    environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(venv_inside.parent)}
    ran = subprocess.run([sys.executable, program], cwd=venv_inside, env=environ, capture_output=True, text=True)
    assert f"litellm has read {venv_inside}/.x" in ran.stdout, ran
    assert ran.returncode == 1
    assert "may not say which policy" in ran.stderr
    assert not (venv_inside.parent / ".bashrc").exists()
