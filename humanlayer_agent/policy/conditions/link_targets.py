"""The places where symbolic links lead, looked up once for all that is judged together.

The disk is asked for no more than what proves the answer: whether a directory on the way is a link is asked once, and
below what is missing there is nothing to ask.

Where a shell's pattern leads on the disk: `cat */x` goes through every link that `*` matches.

A path that is written out is followed by `Links`. What a pattern stands for is not known before it runs, but the links
it would go through now are there to be seen.
"""

import posixpath
from collections.abc import Iterator, Sequence

from humanlayer_agent.shell import HOST, Effect, View

MAX_LOOKS = 20_000
"""So many names are looked at for the patterns of an action; where there are more, it is not known where they lead."""

_MOST_PARTS = 2_048
"""No path of more components can be opened: with its slashes it were longer than PATH_MAX, 4,096."""
_WILD = frozenset("*?[")
_PLAIN, _MISSING, _LINK = range(3)
"""What is found at a path, its last component not followed: something else than a link, nothing, a link."""


class TooManyNames(Exception):
    """There are more names than are looked at."""


class Links:
    """The places where symbolic links lead, looked up once: everything that is judged together sees one state of the
    disk.

    Nothing that was found is used for another action: links change at any time.

    Args:
        view: what whoever follows them sees of the disk.
        folds: names in capitals and in small letters are the same there (`.ENV` is `.env`).
    """

    __slots__ = ("_found", "_left", "_listed", "_names", "folds", "patterns", "view")

    def __init__(self, view: View = HOST, *, folds: bool = False) -> None:
        self.view = view
        self.folds = folds
        self._names: dict[str, tuple[str, ...]] = {}
        self._found: dict[str, int] = {}
        """What the disk was asked about, and its answer."""
        self.patterns: dict[tuple[str, bool], tuple[str, ...] | None] = {}
        """Where the patterns that were looked up lead through links (see `led`)."""
        self._listed: dict[str, list[tuple[str, bool]]] = {}
        self._left = MAX_LOOKS

    def names(self, path: str) -> tuple[str, ...]:
        """The names one path has: as written (without `.` and `..`), and where symbolic links lead."""
        found = self._names.get(path)
        if found is not None:
            return found
        plain: str | None = path
        if "/." in path or "//" in path or path[-1:] == "/":
            # Where `..` leads depends on the links before it.
            up = ".." in path and ".." in path.split("/")
            plain = "/" + posixpath.normpath(path).lstrip("/") if not up else None
        found = self._followed(path) if plain is None or path[:1] != "/" or self._led_through(plain) else (plain,)
        self._names[path] = found
        return found

    def lead_there_still(self) -> bool:
        """Tell whether each path that was asked for has the names now that it had then."""
        now = Links(self.view)
        return all(now.names(path) == names for path, names in self._names.items())

    def look(self) -> None:
        """Count one more name that is looked at for a pattern.

        Raises:
            TooManyNames: it is one too many for all that is judged together.
        """
        self._left -= 1
        if self._left < 0:
            raise TooManyNames

    def listed(self, folder: str) -> list[tuple[str, bool]]:
        """Return the links and the directories in a folder, and whether each is a link; none where there is no such
        folder, or nobody may look: nor may what runs.

        Raises:
            TooManyNames: there are more names than may be looked at.
        """
        found = self._listed.get(folder)
        if found is None:
            found = []
            try:
                for name, is_link, is_directory in self.view.entries(folder):
                    self.look()
                    if is_link or is_directory:
                        found.append((name, is_link))
            except (OSError, ValueError):
                pass
            self._listed[folder] = found
        return found

    def _led_through(self, path: str) -> bool:
        """Tell whether there is a link among the components of `path` (absolute, without `.` and `..`)."""
        found = self._found
        end = path.rfind("/")
        if found.get(path[:end]) != _PLAIN:
            end = 0
        while end >= 0:
            end = path.find("/", end + 1)
            part = path if end < 0 else path[:end]
            state = found.get(part)
            if state is None:
                state = found[part] = self._found_at(part)
            if state != _PLAIN:
                return state == _LINK
        return False

    def _found_at(self, path: str) -> int:
        step = self.view.look(path)
        return _MISSING if step.found is None else _PLAIN if step.target is None else _LINK

    def _followed(self, path: str) -> tuple[str, ...]:
        plain = "/" + posixpath.normpath(path).lstrip("/")
        real = self.view.real(path)
        return (plain,) if real == plain else (plain, real)


def led_to(effect: Effect, links: Links) -> tuple[str, ...] | None:
    """Return where the pattern of an effect leads through links as well; None: nobody can tell.

    A link that its last component matches is followed too, but not where it is deleted or moved.
    """
    assert effect.pattern is not None
    return led(effect.pattern, links, last=effect.kind not in ("delete", "move"))


def led(pattern: str, links: Links, *, last: bool) -> tuple[str, ...] | None:
    """Paths and patterns that `pattern` stands for as well, because of links; None: nobody can tell.

    Args:
        pattern: absolute. Beyond a `**` nothing is looked up: programs that walk a tree don't follow links there.
        links: of the action that is judged.
        last: a link that the last component matches is followed too (deleting or moving it does not).
    """
    key = pattern, last
    if key not in links.patterns:
        try:
            links.patterns[key] = tuple(dict.fromkeys(_found(pattern, last, links)))
        except TooManyNames:
            links.patterns[key] = None
    return links.patterns[key]


def _found(pattern: str, last: bool, links: Links) -> Iterator[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    first = next((n for n, part in enumerate(parts) if not _WILD.isdisjoint(part)), len(parts))
    places = ["/" + "/".join(parts[:first])]
    for n in range(first, len(parts)):
        part, rest = parts[n], parts[n + 1 :]
        if part.startswith("**") or part == "..":
            return
        deeper: list[str] = []
        for place in places:
            for path, is_link in _entries(place, part, links):
                if not is_link:
                    deeper.append(path)
                    continue
                real = links.view.real(path)
                if rest and not links.view.look(real).is_directory:
                    continue  # nothing lies below it
                deeper.append(real)
                if rest or last:
                    yield _joined(real, rest)
        places = deeper
        if not places or n - first > _MOST_PARTS:
            return


def _entries(place: str, part: str, links: Links) -> Iterator[tuple[str, bool]]:
    """Yield the paths that `part` stands for in the directory `place`, each with whether it is a link."""
    links.look()
    real = links.view.real(place)
    if _WILD.isdisjoint(part) and "\\" not in part:
        step = links.view.look(_joined(real, [part]))
        if step.found is not None:
            yield _joined(place, [part]), step.target is not None
        return
    from humanlayer_agent.policy.conditions.pattern_overlap import overlap  # not above: only a pattern needs it

    for name, is_link in links.listed(real):
        links.look()
        if overlap(f"/{part}", f"/{name}", False):
            yield _joined(place, [name]), is_link


def _joined(place: str, parts: Sequence[str]) -> str:
    return place.rstrip("/") + "".join(f"/{part}" for part in parts) or "/"
