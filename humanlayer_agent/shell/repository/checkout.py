"""Reads what is checked out where a command works: branch and remotes of the repository that git would find.

What is not understood is not known: nobody is told a branch of which git may think otherwise.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from humanlayer_agent.shell.program import ONCE, Effect, SimpleCommand
from humanlayer_agent.shell.repository.losses import is_clean
from humanlayer_agent.shell.repository.object_store import NotKnown, read_file
from humanlayer_agent.shell.repository.settings import MAX_SETTINGS, settings_in
from humanlayer_agent.shell.repository.work_tree import is_moved_by, places_of
from humanlayer_agent.shell.view import View

_LONGEST = 1 << 13
_BRANCH = re.compile(rb"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\n?")
_COMMIT = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?\n?")
_ELSEWHERE = frozenset({"git-dir", "work-tree", "bare"})
_SETS = frozenset({"setting", "config-env"})
"""Options of git by which it has other settings."""
_TO = frozenset({("branch", "remote"), ("branch", "pushremote"), ("remote", "pushdefault")})
"""Settings that say where a branch is fetched from, or pushed to: a remote, or an address."""
_OTHER_ROOT = frozenset(str.split("chroot nsenter unshare bwrap firejail systemd-run machinectl fakechroot proot"))
"""Wrappers under which a path may lead elsewhere."""
_KEEPS_BRANCH = frozenset(
    str.split(
        """
        add annotate archive blame cat-file check-ignore commit count-objects describe diff diff-files diff-index
        diff-tree fetch for-each-ref format-patch fsck grep help log ls-files ls-remote ls-tree merge-base mv name-rev
        push range-diff reset restore rev-list rev-parse rm shortlog show show-branch show-ref status tag var version
        whatchanged
        """
    )
)
"""Commands of git's that neither leave a branch, nor change what remotes there are."""
_RUNS_OFTEN = frozenset({"loop", "function", "trap"})
_CHANGES_NO_FILE = frozenset({"read", "environment", "privilege", "network", "listen", "process", "database", "system"})
_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_FOLLOWED = frozenset({"script", "import", "code"})
"""Roles of code whose effects stand beside it."""

Files = tuple[tuple[str, str], ...]
"""Paths, and the SHA-256 (hex) of what stands there; "" where nothing does."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory of which it is known what is checked out there.

    Args:
        branch: "" where it is on none; None where that is not known.
        remotes: the addresses of its remotes; None where they are not known.
        clean: nothing of what git tracks differs from its last commit; None where that is not known.
        files: what that was read from: as long as it stays, so does the answer.
    """

    branch: str | None = None
    remotes: tuple[str, ...] | None = None
    clean: bool | None = None
    files: Files = ()


NOWHERE = Checkout("", ())
"""A directory without a repository."""


def checkout_in(directory: str, view: View, *, remotes: bool = False, clean: bool = False) -> Checkout:
    """Return what is checked out in a directory, in the repository that git finds from there.

    Args:
        directory: an absolute path.
        view: what of the disk is seen by whoever asks git.
        remotes, clean: these are to be known as well.
    """
    reading = _Reading(view)
    try:
        found = reading.repository(view.real(directory))
        if found is None:
            return replace(NOWHERE, files=tuple(reading.files.items()))
        own, common = found
        return Checkout(
            reading.branch(own),
            reading.remotes(own, common) if remotes else None,
            is_clean(directory, view) if clean else None,
            tuple(reading.files.items()),  # last: all has been read
        )
    except NotKnown:
        return Checkout(files=tuple(reading.files.items()))


def places_asked(
    command: SimpleCommand, others: Sequence[SimpleCommand], *, settings: bool = False, clean: bool = False
) -> tuple[str, ...]:
    """Return the directories in whose repository a command works; none where they are not known, or where another
    command of the action may have changed what is checked out there.

    Args:
        others: all commands of the action.
        settings: it is asked for what stands in settings.
        clean: it is asked whether anything differs from the last commit.
    """
    if command.program == "git":
        given = {*command.flags, *command.options}
        if given & _ELSEWHERE or (settings and given & _SETS) or not command.flags_complete:
            return ()
    if has_other_root(command) or (settings and _has_other_settings(command, others)):
        return ()
    if any(_may_switch(other) or (clean and _may_change(other)) for other in others if other is not command):
        return ()
    return () if is_moved_by(others) else places_of(command)


def has_other_root(command: SimpleCommand) -> bool:
    """Tell whether a command runs where a path may lead elsewhere."""
    return not _OTHER_ROOT.isdisjoint(command.via)


def _has_other_settings(asked: SimpleCommand, commands: Sequence[SimpleCommand]) -> bool:
    """Tell whether commands may have git read other settings, by variables or by what they keep there: an address may
    stand for another.
    """
    if any(each.program == "git" and "set-upstream" in each.flags for each in commands if each is not asked):
        return True  # an address may be kept as where a branch goes
    named = (e.operand or "" for command in commands for e in command.effects if e.kind == "environment")
    return any(name in ("", "HOME", "XDG_CONFIG_HOME") or name.startswith("GIT_CONFIG") for name in named)


def is_otherwise_next_time(command: SimpleCommand, *, clean: bool = False) -> bool:
    """Tell whether a command may run again where it has itself changed what is checked out, since it runs often."""
    if _RUNS_OFTEN.isdisjoint(command.inside) and ONCE.issuperset(command.via):
        return False
    return _may_switch(command) or (clean and _may_change(command))


def _may_switch(command: SimpleCommand) -> bool:
    """Tell whether a command may change which branch is checked out anywhere, or what remotes there are."""
    if command.program == "git" and command.resolved:
        leaves = (command.subcommand or "").partition(" ")[0] not in _KEEPS_BRANCH
        return leaves or any(_may_write_gits(e) for e in command.effects)
    if not command.known or not command.resolved:
        return bool(command.effects) or not command.known
    return any(_may_reach(effect) for effect in command.effects)


def _may_reach(effect: Effect) -> bool:
    """Tell whether an effect may be one on what git keeps: the project's own code and programs from elsewhere may."""
    if effect.kind == "execute":
        return effect.unread or not effect.resolved or effect.role not in _FOLLOWED
    return effect.kind in _CHANGES and _may_be_gits(effect)


def _may_write_gits(effect: Effect) -> bool:
    """Tell whether git is told to write a file that may be its own: `git log --output=.git/HEAD`, `> .git/config`."""
    return effect.kind in _CHANGES and effect.role in ("redirect", "option") and _may_be_gits(effect)


def _may_change(command: SimpleCommand) -> bool:
    return not command.resolved or any(effect.kind not in _CHANGES_NO_FILE for effect in command.effects)


def _may_be_gits(effect: Effect) -> bool:
    operand = effect.operand or ""
    wide = effect.recursive or effect.contents or not effect.resolved or not operand
    return wide or ".git" in operand or operand.endswith(("/HEAD", "/config"))


class _Reading:
    """Reads what a repository says of itself, and keeps what was read."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.files: dict[str, str] = {}

    def text(self, path: str, most: int = _LONGEST) -> bytes | None:
        """Return what is in a file; None where there is none."""
        data = read_file(self.view, path, most)
        self.files[path] = "" if data is None else sha256(data).hexdigest()
        return data

    def repository(self, top: str) -> tuple[str, str] | None:
        """Return the folder in which git keeps what is of this work tree alone, and that of what is of all.

        Raises:
            NotKnown: git may take something else for the repository.
        """
        if "/.git/" in f"{top}/":
            raise NotKnown("in a folder of git's own")
        for place in _upwards(top):
            git = f"{place.rstrip('/')}/.git"
            step = self.view.look(git)
            if step.found is None:
                self.text(git)
                self.text(f"{git}/HEAD")  # whoever makes a repository here makes that
                if all(self.view.look(f"{place.rstrip('/')}/{part}").found for part in ("HEAD", "objects", "refs")):
                    raise NotKnown("a bare repository")
                continue
            own = git
            if step.target is not None:
                raise NotKnown("a link")
            if not step.is_directory:
                said = os.fsdecode(self.text(git) or b"")
                if not said.startswith("gitdir: "):
                    raise NotKnown("a .git that leads nowhere")
                own = self.view.real(os.path.join(place, said.removeprefix("gitdir: ").rstrip("\r\n")))
            elsewhere = self.text(f"{own}/commondir")
            said = "" if elsewhere is None else os.fsdecode(elsewhere).rstrip("\r\n")
            common = own if elsewhere is None else self.view.real(os.path.join(own, said))
            if not all(self.view.look(f"{common}/{part}").is_directory for part in ("objects", "refs")):
                raise NotKnown("git takes it for no repository")
            return own, common
        return None

    def branch(self, own: str) -> str | None:
        """Return the current branch; "" where there is none; None where it is not known."""
        if self.view.look(f"{own}/HEAD").target is not None:
            return None
        said = self.text(f"{own}/HEAD") or b""
        if _COMMIT.fullmatch(said):
            return ""
        named = _BRANCH.fullmatch(said)
        if named is None or named[1].startswith(b".") or b".." in named[1]:
            return None  # `.invalid` where references are kept otherwise
        try:
            return named[1].decode()
        except UnicodeDecodeError:
            return None

    def remotes(self, own: str, common: str) -> tuple[str, ...] | None:
        """Return the addresses of all remotes, to fetch and to push."""
        found: list[str] = []
        named: set[str] = set()
        meant: list[str] = []
        if self.has_early_remotes(common):
            return None
        for path in dict.fromkeys((f"{common}/config", f"{own}/config.worktree")):
            try:
                text = (self.text(path, MAX_SETTINGS) or b"").decode()
                for key, value in settings_in(text):
                    section, _, name = key.lower().partition(".")
                    if section in ("include", "includeif", "url") or '"' in value or "\\" in value:
                        return None  # other files, or other addresses in the place of these
                    remote, _, what = name.rpartition(".")
                    if section == "remote" and what == "vcs":
                        return None  # another program is given what then is no address
                    if section == "remote" and what in ("url", "pushurl"):
                        found.append(value.strip())
                        named.add(remote)
                    if (section, what) in _TO:
                        meant.append(value.strip())
            except (UnicodeDecodeError, ValueError):
                return None
        return tuple(dict.fromkeys([*found, *(each for each in meant if each.lower() not in named and each != ".")]))

    def has_early_remotes(self, common: str) -> bool:
        """Tell whether there are remotes where they were kept in earlier times, which git still obeys."""
        for folder in (f"{common}/remotes", f"{common}/branches"):
            try:
                if self.view.look(folder).found is not None and any(True for _ in self.view.entries(folder)):
                    return True
            except OSError:
                return True
        return False


def _upwards(place: str) -> Iterator[str]:
    while True:
        yield place
        if place == "/":
            return
        place = os.path.dirname(place)
