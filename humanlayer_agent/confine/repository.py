"""The repository of a project: where git keeps its files, what it has kept, and which of its settings run nothing."""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from humanlayer_agent.confine.certificates import beginning
from humanlayer_agent.confine.confinement import is_below

_LONGEST = 1 << 20
_TEMPLATES = ("example", "sample", "template", "dist")
_WAYS = (partial(hashlib.sha1, usedforsecurity=False), hashlib.sha256)
_WORKTREE = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)
_SECTION = re.compile(rb'\[(user|branch "[^"\\]+")\]')
_OF_USER = re.compile(rb"(?:name|email)\s*=\s*(?:\"[^\"\\]*\"|[^\"\\;#]*)")
_OF_BRANCH = re.compile(
    rb"(?:(?:remote|pushremote)\s*=\s*(?P<remote>[\w.-]+)|merge\s*=\s*refs/[\w./-]+|rebase\s*=\s*(?:true|false|merges))",
    re.IGNORECASE,
)
_REMOTE = re.compile(rb'\[remote "([^"\\]+)"\]')
_OF_NEW = re.compile(
    rb"\[core\]|\[remote \"[\w.-]+\"\]|repositoryformatversion = 0"
    rb"|url = /[\w./+@-]*|fetch = \+?refs/[\w./*-]+:refs/[\w./*-]+"
    rb"|(?:filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|mirror) = (?:true|false)"
)
"""Lines that `git init` and a clone of a folder write, each of which runs nothing under any heading."""


def repository_folder(project: Path | str) -> str:
    """Return the folder in which git keeps the files of a project, where it lies outside; else the project itself.

    That is so of a further worktree, and of a submodule. It counts only if it names the project in its turn: what a
    project alone says leads nowhere.

    Args:
        project: its directory, an absolute path.
    """
    top = os.path.realpath(project)
    link = f"{top}/.git"
    said = _text(link)
    if not said.startswith("gitdir:"):
        return os.fspath(project)
    own = _place(top, said.removeprefix("gitdir:"))
    common = _place(own, _text(f"{own}/commondir")) if os.path.exists(f"{own}/commondir") else own
    if common != own:
        is_ours = os.path.dirname(own) == f"{common}/worktrees" and _place(own, _text(f"{own}/gitdir")) == link
    else:
        found = _WORKTREE.search(_text(f"{own}/config"))
        is_ours = found is not None and _place(own, found[1]) == top
    is_whole = all(os.path.isdir(f"{common}/{name}") for name in ("objects", "refs"))
    if not (is_ours and is_whole) or is_below(common, top) or is_below(top, common):
        return os.fspath(project)
    return common


def worktree_links(repository: Path | str) -> tuple[str, ...]:
    """Return the files by which the further worktrees of a repository name it. Git takes a worktree for gone whose file
    it can't see, and forgets in time what was done there.

    Args:
        repository: a folder that git keeps, or a project with one.
    """
    found = []
    for folder in (repository, f"{repository}/.git"):
        try:
            with os.scandir(f"{os.path.realpath(folder)}/worktrees") as entries:
                known = sorted(entry.path for entry in entries)
        except OSError:
            continue
        for own in known:
            link = _place(own, _text(f"{own}/gitdir"))
            said = _text(link) if os.path.basename(link) == ".git" else ""
            if said.startswith("gitdir:") and _place(os.path.dirname(link), said.removeprefix("gitdir:")) == own:
                found.append(link)
    return tuple(found)


def is_of_worktree(path: str, repositories: Collection[str], held: Callable[[str], bool]) -> bool:
    """Tell whether something is what git itself makes of a further worktree: the files by which the repository and the
    worktree name each other, and what the work tree that it is of has at the same place.

    Args:
        path: where it is, an absolute path without links.
        repositories: the folders of the repositories that were there before: one that was made meanwhile may say
            anything.
        held: tells of a path whether it could not be changed meanwhile.
    """
    own = os.path.dirname(path)
    folder, name = os.path.dirname(own), os.path.basename(path)
    repository = os.path.dirname(folder)
    if os.path.basename(folder) == "worktrees" and repository in repositories and not os.path.islink(path):
        if name == "commondir":
            return _text(path).strip() == "../.."
        return name == "gitdir" and _place(own, _text(path)) in worktree_links(repository)
    top = own
    while top != "/":
        for each in repositories:
            if f"{top}/.git" in worktree_links(each):
                there = os.path.dirname(each) + path.removeprefix(top)
                return path == f"{top}/.git" or (each.endswith("/.git") and held(there) and _is_same(path, there))
        top = os.path.dirname(top)
    return False


def _is_same(one: str, other: str, most: int = 1000) -> bool:
    """Tell whether two files, or all that is in two folders, are the same."""
    waiting = [(one, other)]
    try:
        while waiting and (most := most - 1):
            paths = waiting.pop()
            modes = [os.lstat(path).st_mode for path in paths]
            if stat.S_IFMT(modes[0]) != stat.S_IFMT(modes[1]):
                return False
            if stat.S_ISDIR(modes[0]):
                listed = os.listdir(paths[0])
                if not set(listed) <= set(os.listdir(paths[1])):
                    return False
                waiting += [(f"{paths[0]}/{name}", f"{paths[1]}/{name}") for name in listed]
            elif stat.S_ISLNK(modes[0]):
                if os.readlink(paths[0]) != os.readlink(paths[1]):
                    return False
            elif not _has_same_content(*paths) or (modes[0] ^ modes[1]) & stat.S_IXUSR:
                return False
    except OSError:
        return False
    return not waiting


def _has_same_content(one: str, other: str) -> bool:
    contents = [beginning(path, _LONGEST + 1) for path in (one, other)]
    return contents[0] is not None and contents[0] == contents[1] and len(contents[0]) <= _LONGEST


def sources(path: str) -> tuple[str, ...]:
    """Return the files that may have what stands in a file: the file itself, and what people copy to make it.

    Example:
        >>> sources(".env")[:2]
        ('.env', '.env.example')
    """
    return path, *(f"{path}.{ending}" for ending in _TEMPLATES)


def is_kept(path: str, kept: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether a file has a content that git has kept: who can read the repository has it anyway.

    Args:
        path: the file.
        kept: by path, the names that git gave to the contents of `sources`.
    """
    names = kept.get(path)
    content = beginning(path, _LONGEST + 1) if names else None
    if not names or content is None or len(content) > _LONGEST:
        return False
    blob = b"blob %d\0" % len(content) + content
    return not names.isdisjoint(way(blob).hexdigest() for way in _WAYS)


def kept_contents(paths: Iterable[str], output: bytes, top: str) -> dict[str, frozenset[str]]:
    """Return what git has kept of files, for `is_kept`.

    Args:
        paths: the files, relative to `top`.
        output: what `git ls-tree -z` prints there of the `sources` of all of them.
        top: the directory.
    """
    lines = (re.fullmatch(rb"100\d+ blob ([0-9a-f]{40,64})\t(.+)", each, re.DOTALL) for each in output.split(b"\0"))
    names = {os.fsdecode(each[2]): each[1].decode() for each in lines if each}
    return {f"{top}/{path}": frozenset(names[each] for each in sources(path) if each in names) for path in paths}


def runs_nothing(content: bytes) -> bool:
    """Tell whether the `config` of a new repository says only what git writes into one that is made of a folder.

    Example:
        >>> runs_nothing(b'[core]\\n\\tbare = true\\n[remote "origin"]\\n\\turl = /srv/app/.\\n')
        True
        >>> runs_nothing(b"[core]\\n\\tfsmonitor = true\\n"), runs_nothing(b'[remote "x"]\\n\\turl = ext::sh -c x\\n')
        (False, False)
    """
    return all(_OF_NEW.fullmatch(line.strip(b" \t")) for line in content.split(b"\n") if line)


def changes_nothing_that_runs(before: bytes, after: bytes) -> bool:
    """Tell whether two states of a repository's `config` differ at most in who commits, and in what branches follow.

    A branch may follow another, or one of a remote that was there before: other names would be places to fetch from.

    Example:
        >>> changes_nothing_that_runs(b"[core]\\n", b"[core]\\n[user]\\n\\tname = Ann\\n")
        True
        >>> changes_nothing_that_runs(b"[core]\\n", b"[core]\\n\\tfsmonitor = ./x\\n")
        False
    """
    if any(b"\\\n" in content.replace(b"\r", b"") for content in (before, after)):  # a heading may be part of a value
        return before == after
    remotes = {b".", *_REMOTE.findall(before)}
    return _rest(before, remotes) == _rest(after, remotes)


def _rest(content: bytes, remotes: set[bytes]) -> list[tuple[bytes, bytes]]:
    """The lines that may matter, each with the heading that it stands under."""
    kept, heading = [], b""
    for line in content.split(b"\n"):
        text = line.strip()
        if text.startswith(b"["):
            heading = text
            if _SECTION.fullmatch(text):
                continue
        elif _SECTION.fullmatch(heading):
            found = (_OF_USER if heading == b"[user]" else _OF_BRANCH).fullmatch(text)
            if found and (heading == b"[user]" or found["remote"] is None or found["remote"] in remotes):
                continue
        if text:
            kept.append((heading, line))
    return kept


def _place(folder: str, said: str) -> str:
    return os.path.realpath(os.path.join(folder, said.strip()))


def _text(path: str) -> str:
    return os.fsdecode(beginning(path, _LONGEST) or b"")
