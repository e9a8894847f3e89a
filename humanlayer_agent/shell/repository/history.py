"""A repository's references and commits: what a revision names (gitrevisions(7)), and how commits hang together."""

import heapq
import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, Self

from humanlayer_agent.shell.repository.object_store import (
    TREE,
    Allowance,
    Entry,
    NotKnown,
    ObjectStore,
    read_file,
)
from humanlayer_agent.shell.view import View

_MOST_REFERENCES = 32 << 20
_MOST_SETTINGS = 1 << 20
_MOST_LINKS = 5
_MOST_COMMITS = 20_000
_SKEW_S = 24 * 3600
"""Seconds by which a commit may seem to be older than those before it."""
_HEX = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"(?:.*-g)?([0-9a-fA-F]{4,40})")
_REFERENCE = re.compile(r"(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\./][^\x00-\x20\x7f~^:?*\[\\]*")
_SUFFIX = re.compile(r"~(?P<back>[0-9]{0,6})|\^(?P<parent>[0-9]{1,3})|\^\{(?P<peeled>commit|tree|)\}|(?P<first>\^)")
_ENTRY_OF_LOG = re.compile(r"(.*?)@\{([0-9]{1,6})\}")
_BEFORE = re.compile(r"@\{-([0-9]{1,6})\}")
_UPSTREAM = re.compile(r"(.*?)@\{(?:u|upstream)\}", re.IGNORECASE)
_MOVED = re.compile(rb"\tcheckout: moving from (\S+) to \S+$")
_COMMIT = re.compile(rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author .*\ncommitter .*> (-?\d{1,18}) ")
_TAG = re.compile(rb"object ([0-9a-f]{40})\n")
_OWN = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
"""References that each work tree has of its own."""
# None of them may look further than its line: the time that it takes would grow with the square of the file.
_LINE = r"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?"
_OTHER_FORMS = re.compile(
    rf"{_LINE}(?:objectformat[ \t]*=[ \t]*(?!sha1\s*$)|refstorage[ \t]*=[ \t]*(?!files\s*$))", re.I | re.M
)
_WORK_TREE = re.compile(rf"{_LINE}worktree[ \t]*=(.+)$", re.I | re.M)
_RECURSES = re.compile(rf"{_LINE}recurse[ \t]*(?:$|=[ \t]*(?!false|no|off|0))", re.I | re.M)
_NO_MODES = re.compile(rf"{_LINE}filemode[ \t]*=[ \t]*(?:false|no|off|0)\b", re.I | re.M)
_SECTION = re.compile(r"^[ \t]*\[([^\]\n]*)\]", re.M)
_REMOTE = re.compile(r'^[ \t]*\[remote "([^"\n]+)"\]', re.M)
_SETTING = re.compile(r"^[ \t]*(\w+)[ \t]*=(.*)$", re.M)
_LONGEST_PATH = 4096


class NoRepository(NotKnown):
    """Raised where there is none."""


class NothingNamed(NotKnown):
    """Raised where a revision names nothing in all that was read: git refuses it as well."""


class Commit(NamedTuple):
    """A commit: the name of its tree, of those before it, and when it was made."""

    tree: bytes
    parents: tuple[bytes, ...]
    time: int


class Repository:
    """A repository, and the work tree that is looked at. To be closed.

    Args:
        top: the work tree.
        own: the folder in which git keeps what is of this work tree alone.
        common: that of the repository.
        view: what of the disk is seen by whoever uses it.
        allowance: how much may be done.

    Raises:
        NotKnown: its form is not read here.
    """

    def __init__(self, top: str, own: str, common: str, view: View, allowance: Allowance) -> None:
        self.top, self.own, self.common, self.view = top, own, common, view
        self.allowance = allowance
        data = self._read(f"{common}/config", _MOST_SETTINGS) + self._read(f"{own}/config.worktree", _MOST_SETTINGS)
        self.written_settings = data.decode("utf-8", "surrogateescape")
        """Its own files of settings, one after the other."""
        if _OTHER_FORMS.search(self.written_settings) or "\\\n" in self.written_settings:
            raise NotKnown("a repository of another form")
        for each in _WORK_TREE.findall(self.written_settings):
            if view.real(os.path.join(own, each.strip().strip('"'))) != view.real(top):
                raise NotKnown("its work tree is elsewhere")
        # They make one object stand for another, or one commit follow another.
        packed = self._packed
        if any(name.startswith("refs/replace/") for name in packed) or self._has_entries(f"{common}/refs/replace"):
            raise NotKnown("objects are replaced")
        if self._read(f"{common}/info/grafts", 1 << 10):
            raise NotKnown("commits are grafted")
        self.keeps_modes = not _NO_MODES.search(self.written_settings)
        """A file that can be executed differs from one that can't."""
        self.recurses = _RECURSES.search(self.written_settings) is not None
        """Submodules follow what is checked out."""
        self.objects = ObjectStore(f"{common}/objects", view, self.allowance)
        self._commits: dict[bytes, Commit] = {}
        self.head: bytes | None = None
        """The current commit, where an earlier command of the action has gone there."""
        self.made: dict[str, bytes] = {}
        """The branches and tags that such commands have made, by their whole names."""
        self.on: str | None = None
        """The current branch, where such a command has changed it; "" where it is not known."""
        self.grown = False
        """Such a command has made a commit: what is before HEAD is another one than it was."""
        self.adrift = False
        """Such a command has gone to some commit, and nobody can tell which."""
        self.moved = False
        """Such a command may have moved any branch or tag."""
        self.follows = True
        """What branches follow is as the settings say."""
        self.left: list[bytes] = []
        """The commits that such commands have gone away from."""

    @classmethod
    def of(cls, directory: str, view: View, allowance: Allowance | None = None) -> Self:
        """Return the one that git would find from a directory, an absolute path without links.

        Raises:
            NotKnown: there is none, or it is of another form.
        """
        top = view.real(directory)
        while True:
            if top.endswith("/.git") or "/.git/" in top:
                raise NotKnown("in a folder of git's own")
            step = view.look(f"{top.rstrip('/')}/.git")
            if step.found is not None:
                break
            if top == "/":
                raise NoRepository(directory)
            top = os.path.dirname(top)
        own = f"{top.rstrip('/')}/.git"
        if not step.is_directory:
            said = os.fsdecode(read_file(view, own, 1 << 13) or b"")
            if not said.startswith("gitdir: "):
                raise NotKnown("a .git that leads nowhere")
            own = view.real(os.path.join(top, said.removeprefix("gitdir: ").rstrip("\r\n")))
        elsewhere = read_file(view, f"{own}/commondir", 1 << 13)
        common = own if elsewhere is None else view.real(os.path.join(own, os.fsdecode(elsewhere).rstrip("\r\n")))
        return cls(top, own, common, view, allowance or Allowance())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.objects.__exit__()

    # ---- references -----------------------------------------------------------------------------------

    def revision(self, text: str, *, branches: bool = False) -> bytes:
        """Return the name of the object that a revision stands for.

        Args:
            text: as it stands on a command line.
            branches: a branch goes before a tag of the same name, as `git checkout` and `git switch` take it.

        Raises:
            NotKnown: it names nothing here, or is of a form that is not read.
        """
        at = len(re.split(r"[~^]", text, maxsplit=1)[0])
        if self.grown and text[:at] in ("HEAD", "@", "") and at < len(text):
            raise NotKnown(f"{text} is another one by then")
        found = self._base(text[:at], branches)
        while at < len(text):
            suffix = _SUFFIX.match(text, at)
            if suffix is None:
                raise NotKnown(f"{text} is not read here")
            at = suffix.end()
            if suffix["peeled"] == "tree":
                found = self.commit(self.peeled(found)).tree
            elif suffix["back"] is not None:
                for _ in range(int(suffix["back"] or 1)):
                    found = self._parent(found, 1)
            elif suffix["peeled"] is not None or suffix["parent"] == "0":
                found = self.peeled(found)
            else:
                found = self._parent(found, int(suffix["parent"] or 1))
        return found

    def _parent(self, name: bytes, n: int) -> bytes:
        self.allowance.spend()
        parents = self.commit(self.peeled(name)).parents
        if not 0 < n <= len(parents):
            raise NothingNamed("a commit has no such parent")
        return parents[n - 1]

    def _base(self, text: str, branches: bool) -> bytes:
        if text in ("@", ""):
            text = "HEAD" if text else "?"
        if text == "HEAD" and self.adrift:
            raise NotKnown("an earlier command goes to a commit that is not known")
        if text == "HEAD" and self.head is not None:
            return self.head
        if text == "-":
            text = "@{-1}"
        if found := _BEFORE.fullmatch(text):
            n = int(found[1])
            return self.left[-n] if 0 < n <= len(self.left) else self._left_before(n - len(self.left))
        if found := _UPSTREAM.fullmatch(text):
            return self.reference(self.upstream(found[1] or self.branch()))
        if _HEX.fullmatch(text):
            return bytes.fromhex(text)
        if self.moved and text != "HEAD":
            raise NotKnown(f"an earlier command may have moved {text}")
        if found := _ENTRY_OF_LOG.fullmatch(text):
            if self.grown or self.head is not None:
                raise NotKnown(f"{text} is another one by then")
            return self._logged(found[1] or self.branch(), int(found[2]))
        for name in self._names(text, branches):
            if (value := self._value(name)) is not None:
                return value
        return self._abbreviated(text)

    def _abbreviated(self, text: str) -> bytes:
        names = []
        if found := _ABBREVIATED.fullmatch(text):
            names = [each for each in self.objects.beginning_with(found[1].lower()) if self._is_commit(each)]
            if len(names) == 1:
                return names[0]
        if names or re.search(r"[:{]", text):
            raise NotKnown(f"what {text} stands for is not read here")
        raise NothingNamed(f"{text} names nothing here")

    def _names(self, text: str, branches: bool) -> Iterator[str]:
        """The references that a short name may stand for, in git's order."""
        if not _REFERENCE.fullmatch(text):
            return
        if branches:
            yield f"refs/heads/{text}"
        if text.startswith("refs/") or re.fullmatch(r"[A-Z_]+", text):
            yield text
        yield from (f"refs/{kind}{text}" for kind in ("", "tags/", "heads/", "remotes/"))
        yield f"refs/remotes/{text}/HEAD"

    def remote_branches(self, name: str) -> list[bytes]:
        """Return what the branches of this name are at, of all remotes."""
        if not _REFERENCE.fullmatch(name):
            return []
        if self.moved:
            raise NotKnown(f"an earlier command may have moved {name}")
        self.allowance.spend(0, len(self.written_settings))
        remotes = set(_REMOTE.findall(self.written_settings))
        values = [self._value(f"refs/remotes/{each}/{name}") for each in sorted(remotes) if _REFERENCE.fullmatch(each)]
        return [value for value in values if value is not None]

    def reference(self, name: str) -> bytes:
        """Return what a reference, by its whole name, is at.

        Raises:
            NotKnown: it is not there.
        """
        if (value := self._value(name)) is None:
            raise NothingNamed(f"{name} is not there")
        return value

    def _value(self, name: str) -> bytes | None:
        made, found = self.made.get(name), self._written(name)
        if made is not None and found is not None and made != found:
            # The command that moves it may fail, or never be reached.
            raise NotKnown(f"an earlier command may have moved {name}")
        return found if made is None else made

    def _written(self, name: str) -> bytes | None:
        for _ in range(_MOST_LINKS):
            self.allowance.spend()
            text = self._text_of(name)
            if text is None:
                packed = self._packed.get(name)
                return bytes.fromhex(packed) if packed is not None else None
            if not text.startswith("ref:"):
                if name == "FETCH_HEAD" and len(re.findall(r"^[0-9a-f]{40}\t\t", text, re.M)) > 1:
                    raise NotKnown("several branches were fetched")
                return bytes.fromhex(text[:40]) if _HEX.fullmatch(text[:40]) and not text[40:41].strip() else None
            name = text.removeprefix("ref:").strip()
            if not _REFERENCE.fullmatch(name):
                return None
        raise NotKnown("references that lead to each other")

    def _text_of(self, name: str) -> str | None:
        own = not name.startswith("refs/") or name.startswith(_OWN)
        data = self._read(f"{self.own if own else self.common}/{name}", 1 << 16)
        return data.decode("utf-8", "surrogateescape") or None

    @cached_property
    def _packed(self) -> dict[str, str]:
        data = self._read(f"{self.common}/packed-refs", _MOST_REFERENCES).decode("utf-8", "surrogateescape")
        return {name: value for value, name in re.findall(r"^([0-9a-f]{40}) (.+)$", data, re.M)}

    def branch(self) -> str:
        """Return the name of the current branch; "HEAD" where there is none, "" where it is not known."""
        if self.on is not None:
            return self.on
        text = self._text_of("HEAD") or ""
        return text.removeprefix("ref: refs/heads/").strip() if text.startswith("ref: refs/heads/") else "HEAD"

    @property
    def is_unborn(self) -> bool:
        """The current branch has no commit yet."""
        text = self._text_of("HEAD") or ""
        return self.head is None and text.startswith("ref: refs/heads/") and self._value("HEAD") is None

    def below(self, folder: str) -> dict[str, bytes]:
        """Return what the references of a folder are at that lie in files of their own, by the rest of their names."""
        try:
            names = [name for name, _, is_directory in self.view.entries(f"{self.own}/{folder}") if not is_directory]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise NotKnown(str(error)) from None
        self.allowance.spend(len(names))
        return {name: self.reference(f"{folder}/{name}") for name in names}

    def upstream(self, branch: str) -> str:
        """Return the whole name of the reference that a branch follows.

        Raises:
            NotKnown: it follows none, or that can't be told.
        """
        if not self.follows or self.moved or not branch:
            raise NotKnown("what the branch follows by then")
        self.allowance.spend(0, len(self.written_settings))
        found: dict[str, str] = {}
        heads = list(_SECTION.finditer(self.written_settings))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            body = self.written_settings[head.end() : following.start() if following else None]
            if head[1] == f'branch "{branch}"':
                found |= {key.lower(): value.strip() for key, value in _SETTING.findall(body)}
            elif head[1].lower().startswith("include"):
                raise NotKnown("settings that include others")
        remote, merge = found.get("remote", ""), found.get("merge", "")
        if not _REFERENCE.fullmatch(remote or ".x") or not _REFERENCE.fullmatch(merge):
            if remote == "." and _REFERENCE.fullmatch(merge):
                return merge
            raise NothingNamed(f"{branch} follows nothing")
        return f"refs/remotes/{remote}/{merge.removeprefix('refs/heads/')}"

    def _left_before(self, n: int) -> bytes:
        """What the branch is at that was left so many moves ago."""
        log = self._read(f"{self.own}/logs/HEAD", _MOST_REFERENCES).splitlines()
        self.allowance.spend(len(log))
        moves = [found for line in log if (found := _MOVED.search(line))]
        if not 0 < n <= len(moves):
            raise NothingNamed("no branch was left that often")
        text = os.fsdecode(moves[-n][1])
        if not _REFERENCE.fullmatch(text):
            raise NotKnown("what was left is no branch")
        return self._base(text, True)

    def _logged(self, text: str, n: int) -> bytes:
        for name in self._names(text, False):
            if self._value(name) is not None:
                break
        else:
            raise (NothingNamed if _REFERENCE.fullmatch(text) else NotKnown)(f"{text} names nothing here")
        folder = self.own if name == "HEAD" or name.startswith(_OWN) else self.common
        log = self._read(f"{folder}/logs/{name}", _MOST_REFERENCES).splitlines()
        if n >= len(log) or not _HEX.fullmatch(entry := log[-n - 1][41:81].decode("ascii", "replace")):
            raise NothingNamed("no such entry of a log")
        return bytes.fromhex(entry)

    def read(self, path: str, most: int) -> bytes | None:
        """Return the content of a regular file; None where there is none.

        Raises:
            NotKnown: it has more bytes than `most`, or can't be read.
        """
        data = read_file(self.view, path, most)
        self.allowance.spend(1, len(data or b""))
        return data

    def _read(self, path: str, most: int) -> bytes:
        return self.read(path, most) or b""

    def _has_entries(self, folder: str) -> bool:
        try:
            return any(True for _ in self.view.entries(folder))
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise NotKnown(str(error)) from None

    # ---- commits and trees ----------------------------------------------------------------------------

    def peeled(self, name: bytes) -> bytes:
        """Return the commit that an object is, or that a tag is of."""
        for _ in range(_MOST_LINKS):
            kind, content = self.objects.get(name)
            if kind == "commit":
                return name
            found = _TAG.match(content) if kind == "tag" else None
            if found is None:
                break
            name = bytes.fromhex(found[1].decode())
        raise NotKnown(f"{name.hex()} is no commit")

    def _is_commit(self, name: bytes) -> bool:
        try:
            self.peeled(name)
        except NotKnown:
            return False
        return True

    def commit(self, name: bytes) -> Commit:
        """Return a commit."""
        known = self._commits.get(name)
        if known is None:
            kind, content = self.objects.get(name)
            found = _COMMIT.match(content) if kind == "commit" else None
            if found is None:
                raise NotKnown(f"{name.hex()} is no commit")
            parents = tuple(bytes.fromhex(line[7:].decode()) for line in found[2].splitlines())
            parents = () if name in self._cut_off else parents
            known = self._commits[name] = Commit(bytes.fromhex(found[1].decode()), parents, int(found[3]))
        return known

    @cached_property
    def _cut_off(self) -> frozenset[bytes]:
        """The commits of a shallow clone before which there is nothing."""
        text = self._read(f"{self.common}/shallow", _MOST_REFERENCES).decode("ascii", "replace")
        return frozenset(bytes.fromhex(line) for line in text.split() if _HEX.fullmatch(line))

    def tree_of(self, name: bytes) -> bytes:
        """Return the tree of a commit, of a tag's, or the tree that this is."""
        kind, _ = self.objects.get(name)
        return name if kind == "tree" else self.commit(self.peeled(name)).tree

    def entry(self, tree: bytes, path: str) -> Entry | None:
        """Return what a tree has at a path."""
        found: Entry | None = (TREE, tree)
        for part in os.fsencode(path).split(b"/"):
            if found is None or found[0] != TREE:
                return None
            found = self.objects.tree(found[1]).get(part)
        return found

    def differences(self, old: bytes | None, new: bytes | None) -> Iterator[tuple[str, Entry | None, Entry | None]]:
        """Yield the files (links, submodules) in which two trees differ, as `git diff-tree -r --no-renames` does; None
        is an empty tree.
        """
        waiting = [(b"", old, new)]
        while waiting:
            above, one, other = waiting.pop()
            if one == other:
                continue
            before = self.objects.tree(one) if one is not None else {}
            after = self.objects.tree(other) if other is not None else {}
            self.allowance.spend(len(before) + len(after))
            for name in before.keys() | after.keys():
                was, now = before.get(name), after.get(name)
                if was == now:
                    continue
                trees = [each[1] if each is not None and each[0] == TREE else None for each in (was, now)]
                if any(trees):
                    if len(above) + len(name) >= _LONGEST_PATH:
                        raise NotKnown("a path of a length that no file has")
                    waiting.append((above + name + b"/", trees[0], trees[1]))
                files = [None if each is None or each[0] == TREE else each for each in (was, now)]
                if any(files):
                    yield os.fsdecode(above + name), files[0], files[1]

    def merge_bases(self, one: bytes, other: bytes) -> list[bytes]:
        """Return the best commits that both have in their past; none where there is none."""
        if one == other:
            return [one]
        both, past = 3, 4
        flags = {one: 1, other: 2}
        queue = [(-self.commit(each).time, each) for each in (one, other)]
        heapq.heapify(queue)
        found: list[bytes] = []
        while any(not flags[each] & past for _, each in queue):
            _, name = heapq.heappop(queue)
            has = flags[name]
            if has & both == both and not has & past:
                found.append(name)
                has |= past
            if len(flags) > _MOST_COMMITS:
                raise NotKnown("a history that is too long")
            self.allowance.spend(len(queue) // 64 + 1)
            for parent in self.commit(name).parents:
                if flags.get(parent, 0) | has != flags.get(parent):
                    flags[parent] = flags.get(parent, 0) | has
                    heapq.heappush(queue, (-self.commit(parent).time, parent))
        return [each for each in dict.fromkeys(found) if not self._is_past(each, found)]

    def _is_past(self, name: bytes, others: list[bytes]) -> bool:
        return any(name in self._ancestors(each) for each in others if each != name)

    def _ancestors(self, name: bytes) -> set[bytes]:
        seen, waiting = {name}, [name]
        while waiting:
            for parent in self.commit(waiting.pop()).parents:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
            if len(seen) > _MOST_COMMITS:
                raise NotKnown("a history that is too long")
            self.allowance.spend()
        return seen

    def between(self, without: list[bytes], tips: list[bytes]) -> list[bytes]:
        """Return the commits that are in the past of `tips`, and in that of none of `without`, as `git rev-list` does:
        the newest first. Where clocks went wrong by more than a day, there may be more of them.
        """
        old = dict.fromkeys(tips, False) | dict.fromkeys(without, True)
        queue = [(-self.commit(each).time, each) for each in old]
        heapq.heapify(queue)
        found, oldest = dict[bytes, None](), max(self.commit(each).time for each in old)
        while queue and (-queue[0][0] >= oldest or any(not old[each] for _, each in queue)):
            _, name = heapq.heappop(queue)
            if not old[name]:
                found[name] = None
                oldest = min(oldest, self.commit(name).time - _SKEW_S)
            if len(old) > _MOST_COMMITS:
                raise NotKnown("a history that is too long")
            self.allowance.spend(len(queue) // 64 + 1)
            for parent in self.commit(name).parents:
                if parent not in old or old[name] > old[parent]:
                    old[parent] = old[name]
                    heapq.heappush(queue, (-self.commit(parent).time, parent))
        return [each for each in found if not old[each]]
