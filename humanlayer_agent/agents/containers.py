"""A container as the confinement of what runs in it: where its own settings prove that it reaches nothing else.

The settings are what `docker inspect` says of the container that runs. What is not known there to be harmless counts as
a way out, also a setting that a later version of Docker adds.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable

CONTAINER = Confinement((Profile("container", read=("/**",), write=("/**",)),))
"""What a container lets a command reach from which nothing leads out: all that is in it, and no network."""

_NOTHING: tuple[Any, ...] = (None, False, "", [], {})
_ONLY: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("Privileged", "PidMode", "UTSMode", "UsernsMode"), _NOTHING),
    **dict.fromkeys(("Binds", "VolumesFrom", "Links", "CapAdd", "Devices", "SecurityOpt"), _NOTHING),
    "NetworkMode": ("none",),
    "IpcMode": ("private", "none"),
    "CgroupnsMode": ("private",),
    "Runtime": ("runc", "crun", "runsc"),
}
"""Settings that must be known, and be one of these."""
_ALLOWED: Mapping[str, tuple[Any, ...]] = {"SecurityOpt": (["no-new-privileges"], ["no-new-privileges:true"])}
_CLOSED = {
    "MaskedPaths": {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
    "ReadonlyPaths": {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
}
"""What of the machine a container must not see, or write."""
_HARMLESS = frozenset(
    {
        *("Annotations", "AutoRemove", "BlkioWeight", "CapDrop", "CgroupParent", "ConsoleSize", "ContainerIDFile"),
        *("CpuCount", "CpuPercent", "CpuPeriod", "CpuQuota", "CpuShares", "CpusetCpus", "CpusetMems", "Dns"),
        *("DnsOptions", "DnsSearch", "ExtraHosts", "GroupAdd", "Init", "Isolation", "LogConfig", "Memory"),
        *("MemoryReservation", "MemorySwap", "MemorySwappiness", "NanoCpus", "OomKillDisable", "OomScoreAdj"),
        *("PidsLimit", "PortBindings", "PublishAllPorts", "ReadonlyRootfs", "RestartPolicy", "ShmSize", "Tmpfs"),
        *("Ulimits", "VolumeDriver"),
    }
)
"""Settings that open nothing while there is neither a network nor a mount."""
_LONGEST_S = 30.0


def confinement_of(environment: Any) -> Confinement:
    """Return what confines the commands of one of mini's docker environments.

    Args:
        environment: mini's; its container runs.

    Raises:
        Unenforceable: it is none, or its settings do not prove that nothing leads out of the container; which.
    """
    from minisweagent.environments.docker import DockerEnvironment

    if getattr(type(environment), "execute", None) is not DockerEnvironment.execute:
        raise Unenforceable(f"nothing is known of how {type(environment).__name__} holds commands")
    name = environment.container_id or ""
    if ways := list(ways_out(_inspected(environment.config.executable, name), name)):
        raise Unenforceable(f"the container is not closed: {', '.join(ways)}")
    return CONTAINER


def ways_out(said: object, name: str) -> Iterator[str]:
    """Give every setting of a container by which something of the machine, or a network, might be reached.

    Args:
        said: the JSON of `docker inspect`.
        name: the id of the container that was asked about.

    Example:
        >>> list(ways_out([], "0f3a"))
        ['what it was started with is not known']
    """
    about = said[0] if isinstance(said, list) and len(said) == 1 else None
    if not isinstance(about, dict) or not name or not str(about.get("Id")).startswith(name):
        yield "what it was started with is not known"
        return
    host, networks = about.get("HostConfig"), about.get("NetworkSettings")
    mounts = about.get("Mounts")
    if not isinstance(host, dict) or not isinstance(networks, dict) or not isinstance(mounts, list):
        yield "what it was started with is not known"
        return
    for each in mounts:
        if not isinstance(each, dict) or each.get("Type") != "tmpfs":
            yield f"it mounts {_mount(each)}"
    joined = networks.get("Networks")
    if not isinstance(joined, dict) or set(joined) != {"none"}:
        yield f"its networks are {', '.join(map(str, joined or ())) or 'not known'} (--network none closes that)"
    for key, right in _ONLY.items():
        value = host.get(key)
        if key not in host or not _is_one_of(value, (*right, *_ALLOWED.get(key, ()))):
            yield f"{key} is {json.dumps(value)}"
    for key, closed in _CLOSED.items():
        paths = host.get(key)
        if not isinstance(paths, list) or not closed.issubset(map(str, paths)):
            yield f"{key} leaves {min(closed.difference(map(str, paths or ())))} open"
    for key in sorted(host.keys() - _ONLY.keys() - _CLOSED.keys() - _HARMLESS):
        if not _is_one_of(host[key], (*_NOTHING, 0)) and not (key == "Mounts" and _only_memory(host[key])):
            yield f"{key} is {json.dumps(host[key])[:80]}"


def _is_one_of(value: object, right: tuple[Any, ...]) -> bool:
    return any(type(value) is type(each) and value == each for each in right)


def _only_memory(mounts: object) -> bool:
    return isinstance(mounts, list) and all(isinstance(each, dict) and each.get("Type") == "tmpfs" for each in mounts)


def _mount(said: object) -> str:
    if not isinstance(said, dict):
        return "what is not known"
    how = "to be written" if said.get("RW", True) else "to be read"
    return f"{said.get('Source') or said.get('Name')} at {said.get('Destination')}, {how}"


def _inspected(program: str, name: str) -> object:
    """What the engine says of a container.

    Raises:
        Unenforceable: it can't be asked.
    """
    try:
        done = subprocess.run(
            [program, "container", "inspect", name],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_LONGEST_S,
        )
        return json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Unenforceable(
            f"{os.path.basename(program)} does not say what the container was started with: {error}"
        ) from None
