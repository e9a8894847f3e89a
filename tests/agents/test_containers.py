"""A container counts as a confinement where its settings prove it: by what `docker inspect` says, and never by less.

No engine runs: `docker` is a script that answers in the shape of Docker 27's API (written after it, not recorded), and
runs commands here.
"""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.agents.containers import CONTAINER, confinement_of, ways_out
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.errors import ConfigError
from tests.agents.conftest import Human

pytest.importorskip("minisweagent")

CLOSED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("docker_inspect.json").read_text())
NAME = CLOSED[0]["Id"]
DOCKER = f"""#!/bin/bash
case "$1" in
    run) echo {NAME} ;;
    container) cat "${{0%/*}}/inspect.json" ;;
    exec) while [ "$1" != {NAME} ]; do shift; done; shift; exec "$@" ;;
esac
"""
BRIDGE = {"NetworkSettings": {"Networks": {"bridge": {}}}}


def changed(**host: Any) -> list[dict[str, Any]]:
    """What would be said of a container that was started with these settings."""
    said = copy.deepcopy(CLOSED)
    said[0]["HostConfig"].update(host)
    return said


def mounting(**mount: Any) -> list[dict[str, Any]]:
    return [{**CLOSED[0], "Mounts": [{"Type": "bind", "RW": True, **mount}]}]


def test_a_container_with_no_network_and_no_mounts_is_closed() -> None:
    assert list(ways_out(CLOSED, NAME)) == []
    assert list(ways_out(CLOSED, NAME[:12])) == []
    assert list(ways_out(changed(SecurityOpt=["no-new-privileges"], CapDrop=["ALL"], Memory=1 << 30), NAME)) == []
    assert list(ways_out(mounting(Type="tmpfs", Destination="/scratch"), NAME)) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (mounting(Source="/var/run/docker.sock", Destination="/var/run/docker.sock"), "docker.sock, to be written"),
        (mounting(Source="/run", Destination="/host", RW=False), "it mounts /run at /host, to be read"),
        (mounting(Source="/home/alice/app", Destination="/testbed"), "it mounts /home/alice/app at /testbed"),
        (mounting(Type="volume", Name="shared", Source="", Destination="/data"), "it mounts shared at /data"),
        (mounting(Type="npipe", Source="x"), "it mounts x"),
        ([{**CLOSED[0], "Mounts": ["?"]}], "it mounts what is not known"),
        ([{**CLOSED[0], "Mounts": None}], "not known"),
        ([{**CLOSED[0], **BRIDGE}], "its networks are bridge (--network none closes that)"),
        ([{**CLOSED[0], "NetworkSettings": {"Networks": {"none": {}, "late": {}}}}], "none, late"),
        ([{**CLOSED[0], "NetworkSettings": {"Networks": {}}}], "not known"),
        ([{**CLOSED[0], "NetworkSettings": {}}], "not known"),
        (changed(NetworkMode="host"), 'NetworkMode is "host"'),
        (changed(NetworkMode="container:other"), 'NetworkMode is "container:other"'),
        (changed(Privileged=True), "Privileged is true"),
        (changed(PidMode="host"), 'PidMode is "host"'),
        (changed(PidMode="container:other"), "PidMode"),
        (changed(IpcMode="host"), 'IpcMode is "host"'),
        (changed(IpcMode="shareable"), "IpcMode"),
        (changed(UTSMode="host"), 'UTSMode is "host"'),
        (changed(UsernsMode="host"), 'UsernsMode is "host"'),
        (changed(CgroupnsMode="host"), 'CgroupnsMode is "host"'),
        (changed(CapAdd=["SYS_ADMIN"]), 'CapAdd is ["SYS_ADMIN"]'),
        (changed(Devices=[{"PathOnHost": "/dev/kvm"}]), "Devices"),
        (changed(DeviceRequests=[{"Driver": "nvidia", "Count": -1}]), "DeviceRequests"),
        (changed(DeviceCgroupRules=["c 1:3 rwm"]), "DeviceCgroupRules"),
        (changed(SecurityOpt=["seccomp=unconfined"]), "SecurityOpt"),
        (changed(SecurityOpt=["no-new-privileges", "apparmor=unconfined"]), "SecurityOpt"),
        (changed(SecurityOpt=["label=disable"]), "SecurityOpt"),
        (changed(MaskedPaths=[], ReadonlyPaths=[]), "ReadonlyPaths leaves /proc/bus open"),
        (changed(MaskedPaths=None), "MaskedPaths leaves /proc/kcore open"),
        (changed(Binds=["/etc:/etc"]), "Binds"),
        (changed(VolumesFrom=["other"]), "VolumesFrom"),
        (changed(Links=["/other:/x"]), "Links"),
        (changed(Sysctls={"net.ipv4.ip_forward": "1"}), "Sysctls"),
        (changed(Runtime="sysbox-runc"), "Runtime"),
        (changed(Mounts=[{"Type": "bind", "Source": "/etc", "Target": "/x"}]), "Mounts"),
        (changed(HostPortal="open"), 'HostPortal is "open"'),
        (changed(Privileged=0), "Privileged is 0"),
        ([{**CLOSED[0], "Id": "another"}], "not known"),
        ([{**CLOSED[0], "HostConfig": None}], "not known"),
        ([*CLOSED, *CLOSED], "not known"),
        ([], "not known"),
        (None, "not known"),
        ({}, "not known"),
    ],
)
def test_what_opens_it_or_is_not_known_is_named(said: object, why: str) -> None:
    assert any(why in way for way in ways_out(said, NAME)), list(ways_out(said, NAME))


@pytest.mark.parametrize("key", ["NetworkMode", "Privileged", "PidMode", "CapAdd", "SecurityOpt", "Runtime", "Binds"])
def test_a_setting_that_is_not_told_is_not_taken_for_the_usual(key: str) -> None:
    said = copy.deepcopy(CLOSED)
    del said[0]["HostConfig"][key]
    assert any(key in way for way in ways_out(said, NAME))


Environment = Callable[..., Any]


@pytest.fixture
def started(tmp_path: Path, project: Path, human: Human, confined_by_default: None) -> Environment:
    """Starts a supervised docker environment, whose engine says this of its container."""
    program = tmp_path / "docker"
    program.write_text(DOCKER)
    program.chmod(0o755)

    def start(said: object = CLOSED, **supervision: Any) -> Any:
        from humanlayer_agent.agents.docker import SupervisedDockerEnvironment

        (tmp_path / "inspect.json").write_text(json.dumps(said))
        settings = {"policy": "default", **supervision}
        return SupervisedDockerEnvironment(
            user=human, supervision=settings, image="x", cwd=str(project), executable=str(program)
        )

    return start


def test_what_nobody_can_read_runs_in_a_closed_container(started: Environment, project: Path, human: Human) -> None:
    environment = started()
    assert environment.confines
    (project / "unread").write_text("#!/bin/sh\necho ran\n")
    (project / "unread").chmod(0o755)
    assert environment.execute({"command": "./unread"})["output"] == "ran\n"
    assert human.asked == []
    events = [entry.event for entry in environment.supervisor.gate.store.events(type="exec.started")]
    assert [event["confined"]["to"] for event in events] == ["container"]
    assert environment.execute({"command": "rm -rf /srv/nothing-here"})["returncode"] == 126  # certain, as ever
    assert environment.execute({"command": 'rm -rf "$X"'})["returncode"] == 126
    assert len(human.asked) == 2


def test_an_open_container_is_no_confinement(
    started: Environment, project: Path, human: Human, caplog: pytest.LogCaptureFixture
) -> None:
    environment = started([{**CLOSED[0], **BRIDGE}])
    assert not environment.confines
    assert environment.execute({"command": "./unread"})["returncode"] == 126
    assert len(human.asked) == 1
    assert "Commands are not confined: the container is not closed: its networks are bridge" in caplog.text


def test_who_must_be_confined_does_not_start_in_an_open_one(started: Environment) -> None:
    with pytest.raises(ConfigError, match="its networks are bridge"):
        started([{**CLOSED[0], **BRIDGE}], confine=True)
    assert not started(confine=False).confines


def test_a_container_that_was_opened_since_runs_nothing_more(
    started: Environment, project: Path, tmp_path: Path
) -> None:
    environment = started()
    (tmp_path / "inspect.json").write_text(json.dumps([{**CLOSED[0], **BRIDGE}]))
    answered = environment.execute({"command": "touch ran"})
    assert answered["returncode"] == 126
    assert "the container is not closed" in answered["exception_info"]
    assert not (project / "ran").exists()


def test_an_engine_that_says_nothing_proves_nothing(started: Environment, tmp_path: Path) -> None:
    environment = started()
    environment._inner.config.executable = str(tmp_path / "gone")
    with pytest.raises(Unenforceable, match="gone does not say"):
        confinement_of(environment._inner)
    (tmp_path / "inspect.json").write_text("{")
    environment._inner.config.executable = os.fspath(tmp_path / "docker")
    with pytest.raises(Unenforceable, match="docker does not say"):
        confinement_of(environment._inner)


def test_an_environment_that_runs_commands_in_its_own_way_proves_nothing(started: Environment) -> None:
    inner = started()._inner
    assert confinement_of(inner) == CONTAINER
    inner.__class__ = type("Own", (type(inner),), {"execute": lambda self, action, cwd="", **more: {}})
    with pytest.raises(Unenforceable, match="how Own holds commands"):
        confinement_of(inner)
