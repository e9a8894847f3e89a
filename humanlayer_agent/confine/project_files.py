"""The files of a project: which of them its last commit has as they are, and which would be lost with the disk's copy.

It is git that is asked, where there is a repository: in a confinement in which it can write nothing, since the settings
of a repository may have git run anything. Where there is none, or git does not answer, no file is taken for committed.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import TREE, Confinement, Profile, Unenforceable
from humanlayer_agent.confine.repository import repository_folder
from humanlayer_agent.confine.survey import LIMIT
from humanlayer_agent.locations import upwards

_LONGEST_S = 30.0
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/gitconfig")
_OF_HOME = (".gitconfig", ".config/git")
_OPTIONS = "-c core.fsmonitor=false -c core.untrackedCache=false -c core.trustctime=true -c core.checkStat=default"
_QUESTIONS = f"""
set -e
g() {{ "$0" {_OPTIONS} "$@"; printf '\\0'; }}
base=$("$0" rev-parse --verify -q HEAD || "$0" hash-object -t tree /dev/null)
g ls-files -z -v
g diff-files -z --name-only --relative --no-renames
g diff-index -z --cached --name-only --relative --no-renames "$base"
g ls-files -z --others --exclude-standard
g ls-files -z --others --ignored --exclude-standard --directory
"""
"""What git is asked: nothing that looks at contents, and so would run a filter. Each answer ends with an empty name."""
_TRUSTED = b"H"
"""How git marks a file of which it looks whether it was changed; of others it was told not to."""


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """What was found, by paths relative to the project.

    Args:
        committed: files that the last commit has as they are.
        loose: all others but those that git ignores: changed, staged, not under version control.
        ignored: what git ignores; a folder has a slash at its end.
        repository: git was asked.
        unseen: folders that were not looked through, because there is too much.
    """

    committed: frozenset[str]
    loose: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    repository: bool = False
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What git is asked with: the backend that holds it, its program, and the two folders that every enclosure has."""

    backend: Bubblewrap
    git: str
    temporary: str
    aside: str


def project_files(project: str, asked: Asked | None) -> ProjectFiles:
    """Return the files of a project; no path among them leads through a link, nor into a folder called `.git`.

    Args:
        project: its directory, without links.
        asked: None where git can't be held, and so is not asked.
    """
    answer = _answer(project, asked) if asked is not None else None
    if answer is None:
        return _walked(project)
    tracked: dict[str, bytes] = {os.fsdecode(each[2:]): each[:1] for each in answer[0]}
    changed = {os.fsdecode(each) for each in (*answer[1], *answer[2])}
    changed |= {path for path, mark in tracked.items() if mark != _TRUSTED}
    others = [os.fsdecode(each) for each in answer[3]]
    unseen: list[str] = []
    loose = [file for path in (*sorted(changed), *others) for file in _files_of(project, path, unseen)]
    return ProjectFiles(
        committed=frozenset(tracked) - changed,
        loose=tuple(dict.fromkeys(loose)),
        ignored=tuple(os.fsdecode(each) for each in answer[4]),
        repository=True,
        unseen=tuple(unseen),
    )


def _files_of(project: str, path: str, unseen: list[str]) -> Iterator[str]:
    """The file itself; of a repository in the project, whose files git does not name here, all of them."""
    place = path.rstrip("/")
    try:
        is_folder = stat.S_ISDIR(os.lstat(os.path.join(project, place)).st_mode)
    except OSError:
        return  # it was deleted before
    if is_folder:
        yield from _below(project, place, unseen)
    else:
        yield place


def _walked(project: str) -> ProjectFiles:
    unseen: list[str] = []
    return ProjectFiles(frozenset(), tuple(_below(project, "", unseen)), unseen=tuple(unseen))


def _below(project: str, folder: str, unseen: list[str], limit: int = LIMIT) -> Iterator[str]:
    """All files below a folder, those next to it first."""
    folders = [folder]
    for each in folders:
        if limit < 0:
            unseen.append(f"{each}/")
            continue
        try:
            with os.scandir(os.path.join(project, each)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            unseen.append(f"{each}/")
            continue
        limit -= len(listed)
        for entry in listed:
            path = f"{each}/{entry.name}" if each else entry.name
            if entry.name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path


def _answer(project: str, asked: Asked) -> list[list[bytes]] | None:
    """What git says to each question; None where there is no repository, or it does not answer all of them."""
    top = next((each for each in upwards(project) if os.path.lexists(f"{each}/.git")), None)
    if top is None:
        return None
    home = os.path.expanduser("~")
    places = [*_SYSTEM, os.path.realpath(asked.git), top, repository_folder(top)]
    if os.path.isabs(home):
        places += [os.path.realpath(f"{home}/{name}") for name in _OF_HOME]
    reads = tuple(dict.fromkeys(f"{each}{TREE}" if os.path.isdir(each) else each for each in places))
    held = Confinement((Profile("a look at the repository", read=reads),))
    enclosure = Enclosure(asked.backend, held, asked.temporary, asked.aside)
    env = {"PATH": os.defpath, "HOME": home, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        code, said = enclosure.answer(
            ("/bin/sh", "-c", _QUESTIONS, asked.git), cwd=project, env=env, seconds=_LONGEST_S
        )
    except (Unenforceable, OSError):
        return None
    parts: list[list[bytes]] = [[]]
    for name in said.split(b"\0")[:-1]:
        if name:
            parts[-1].append(name)
        else:
            parts.append([])
    return parts[:-1] if code == 0 and len(parts) == 6 and not parts[-1] else None
