"""Settles doubt by a confinement: what can't be known of a command ranges over what the kernel lets through.

What is certain is judged as without it: `rm -rf /srv/x` asks, it is not tried. What can be read as the confinement's
`read` says was given to every command that it confines; the question that is left is what happens within `write`.
"""

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from humanlayer_agent.confine.confinement import TREE, Confinement, Profile, is_plain, within
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.path_patterns import PathSet, fill
from humanlayer_agent.policy.conditions.pattern_overlap import overlap
from humanlayer_agent.shell import Effect, Program, SimpleCommand

_READS = frozenset({"read", "execute"})
_ELSEWHERE = frozenset({"network", "listen", "process"})
"""They reach what the confinement holds all of, or nothing: other machines, other processes."""
_WITH_PRIVILEGE = frozenset({"privilege", "container", "system"})
"""They need what no confined command has."""


def profile(name: str, written: Mapping[str, Any], variables: Mapping[str, str], reads: Sequence[str] = ()) -> Profile:
    """Return a confinement of a policy, its variables filled in.

    Args:
        name: what the policy calls it.
        written: as `Policy.confinements` has it.
        variables: the values of `${NAME}`.
        reads: further path sets that can be read.

    Raises:
        PolicyError: a variable that is not known, or a pattern that can't be held to.
    """
    sets: dict[str, tuple[str, ...]] = {}
    for kind in ("read", "write", "protect", "hide"):
        entries = [*written[kind], *(reads if kind == "read" else ())]
        sets[kind] = tuple(dict.fromkeys(_absolute(fill(entry, variables)) for entry in entries))
    try:
        return Profile(name, **sets, network=written["network"])
    except ValueError as error:
        raise PolicyError(str(error)) from None


def _absolute(entry: str) -> str:
    absolute = "/" + entry if entry.startswith("**/") else entry
    if not absolute.startswith("/"):
        raise PolicyError(f"{entry!r}: a path of a confinement begins with /, ~, ${{NAME}} or **/")
    return posixpath.normpath(absolute)


@lru_cache(maxsize=64)
def situated(profile: Profile) -> Profile:
    """Return a profile as it is on this machine: with the places that its path sets lead to through symbolic links.

    What leads elsewhere can't be mounted over, so it is the real place alone that is written.
    """
    return replace(
        profile,
        read=_with_real(profile.read),
        write=tuple(dict.fromkeys(map(_real, profile.write))),
        protect=_with_real(profile.protect),
        hide=_with_real(profile.hide),
    )


def _with_real(entries: Iterable[str]) -> tuple[str, ...]:
    spelled = ((entry, _real(entry)) if is_plain(entry) else (entry,) for entry in entries)
    return tuple(dict.fromkeys(each for both in spelled for each in both))


def _real(entry: str) -> str:
    base = entry.removesuffix(TREE)
    real = os.path.realpath(base or "/")
    return real + TREE if entry.endswith(TREE) and real != "/" else real if base else entry


def possible(program: Program, confinement: Confinement) -> Program:
    """Return `program` without the effects that are in doubt, and that can't happen in this confinement."""
    commands = [_possible(command, confinement) for command in program.commands]
    if all(one is other for one, other in zip(commands, program.commands, strict=True)):
        return program
    return replace(program, commands=commands)


def _possible(command: SimpleCommand, confinement: Confinement) -> SimpleCommand:
    kept = [effect for effect in command.effects if effect.resolved or not _held(effect.kind, confinement)]
    return command if len(kept) == len(command.effects) else replace(command, effects=kept)


def _held(kind: str, confinement: Confinement) -> bool:
    return kind == "process" or (kind in _ELSEWHERE and confinement.network == "none")


def unseen(kinds: frozenset[str], confinement: Confinement | None) -> bool:
    """Tell whether a command that is not understood may have an effect of one of these kinds, as far as is known."""
    if confinement is None:
        return True
    return any(kind not in _WITH_PRIVILEGE and not _held(kind, confinement) for kind in kinds)


def some(paths: PathSet, effect: Effect, confinement: Confinement) -> bool:
    """Tell whether an effect, of which it is not known where, can touch something in `paths`."""
    return _some(paths, effect.kind in _READS, confinement)


@lru_cache(maxsize=4096)
def every(paths: PathSet, confinement: Confinement) -> bool:
    """Tell whether whatever an effect touches, of which it is not known where, is in `paths`."""
    return all(paths.has_all(tree.removesuffix(TREE)) for each in confinement.profiles for tree in _writable(each))


@lru_cache(maxsize=4096)
def _some(paths: PathSet, reads: bool, confinement: Confinement) -> bool:
    return any(
        overlap(tree.removesuffix(TREE), pattern.text, recursive=True)
        and not _excluded(pattern.text, each.hide if reads else (*each.hide, *each.protect))
        for each in confinement.profiles
        for tree in _writable(each)
        for pattern in paths.patterns
    )


def _writable(profile: Profile) -> tuple[str, ...]:
    return (*profile.write, "/tmp" + TREE)


def _excluded(pattern: str, entries: Sequence[str]) -> bool:
    """Tell whether all that a policy's pattern matches is in one of these path sets."""
    pattern = "/" + pattern if pattern.startswith("**/") else pattern
    if pattern in entries or pattern + TREE in entries:
        return True
    if any(entry.endswith(TREE) and pattern.startswith(entry.removesuffix("**")) for entry in entries):
        return True
    fixed = pattern.removesuffix(TREE)
    while not is_plain(fixed):
        fixed = posixpath.dirname(fixed)
    whole = fixed == pattern
    return fixed != "/" and within(fixed, [entry for entry in entries if whole or entry.endswith(TREE)])
