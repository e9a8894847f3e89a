"""A Confinement: what a command may read, write and connect to, whatever it turns out to do."""

import hashlib
import posixpath
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.confine.hosts import PUBLIC, Allowed
from humanlayer_agent.errors import HumanlayerError

Network = Literal["none", "forwarded", "host"]
_NETWORKS: tuple[Network, ...] = ("none", "forwarded", "host")

REDUCED = "landlock"
"""The backend that holds less than a confinement says: no verdict counts on it, and nothing is confined by it."""

_SHOWN = 3

TREE = "/**"
"""At its end, a path set means the directory and everything below it."""


class Unenforceable(HumanlayerError):
    """Raised where a confinement can't be enforced here: nothing was started. The message says why not."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a policy defines under one name. Path sets are absolute; `/x/**` is the directory x and all below it.

    Args:
        name: what the policy calls it.
        read: what can be read. No wildcard but the last `/**`.
        write: what can be read and written. No wildcard but the last `/**`.
        protect: what can't be written, although it lies within `write`. Wildcards as in policies: `*`, `**`, `?`.
        hide: what can't be read either. With a wildcard as in policies it holds within `write`, where it is looked for;
            without, anywhere.
        lift: files that can be made, replaced and removed although they are protected. No wildcard means anything.
        network: "none" is a network of the command's own, where nobody else is; "forwarded" the same, from where a
            `forwarder` leads to `hosts`; "host" is that of the machine.
        hosts: what the forwarder leads to: `name`, `name:port` or `hosts.PUBLIC`.

    Raises:
        ValueError: a path set that is not absolute, a wildcard where none may stand, or a host that is none.

    Example:
        >>> Profile("project", read=("/usr/**",), write=("/srv/app/**",)).writes("/srv/app/x.py")
        True
    """

    name: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    network: Network = "none"
    hosts: tuple[str, ...] = ()
    lift: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in ("read", "write", "protect", "hide", "lift"):
            for entry in getattr(self, kind):
                if not entry.startswith("/") or "\0" in entry or posixpath.normpath(entry) != entry:
                    raise ValueError(f"confinement {self.name}: {kind}: {entry!r} is no absolute path")
                if kind in ("read", "write") and not is_plain(entry):
                    raise ValueError(f"confinement {self.name}: {kind}: {entry!r}: only its end may be a wildcard, /**")
        if self.network not in _NETWORKS:
            raise ValueError(f"confinement {self.name}: network is {', '.join(_NETWORKS)}, not {self.network!r}")
        if (self.network == "forwarded") != bool(self.hosts):
            raise ValueError(f"confinement {self.name}: hosts are what a forwarded network leads to, and no other")
        try:
            Allowed.of(self.hosts)
        except ValueError as error:
            raise ValueError(f"confinement {self.name}: hosts: {error}") from None

    def reads(self, path: str) -> bool:
        """Tell whether what stands at an absolute path without links can be read."""
        if within(path, self.write):
            return not within(path, self.hide)
        return within(path, self.read) and not within(path, filter(is_plain, self.hide))

    def writes(self, path: str) -> bool:
        """Tell whether an absolute path without links can be written."""
        return path in self.lift or (within(path, self.write) and not within(path, (*self.protect, *self.hide)))


@dataclass(frozen=True, slots=True)
class Confinement:
    """What one command runs with: what any of these profiles lets through.

    Example:
        >>> build = Profile("build", write=("/srv/app/**",), protect=("/srv/app/.git/**",))
        >>> commit = Profile("commit", write=("/srv/app/.git/**",), protect=("/srv/app/.git/hooks/**",))
        >>> both = Confinement((build, commit))
        >>> both.name, both.writes("/srv/app/.git/index"), both.writes("/srv/app/.git/hooks/x")
        ('build + commit', True, False)
    """

    profiles: tuple[Profile, ...]

    def __post_init__(self) -> None:
        if not self.profiles:
            raise ValueError("a confinement has a profile")

    @property
    def name(self) -> str:
        """Return what people are told it is called."""
        return " + ".join(dict.fromkeys(profile.name for profile in self.profiles))

    @property
    def digest(self) -> str:
        """Return the SHA-256 of its canonical JSON: the same digest, the same reach."""
        return _digest(self)

    @property
    def network(self) -> Network:
        """Return the widest network that a profile gives."""
        return max((profile.network for profile in self.profiles), key=_NETWORKS.index)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return what a forwarder leads to; nothing where the network is another one."""
        forwarded = self.network == "forwarded"
        return tuple(dict.fromkeys(host for each in self.profiles for host in each.hosts)) if forwarded else ()

    @property
    def reach(self) -> str:
        """Return what of the network it gives, for people; "" for none.

        Example:
            >>> Confinement((Profile("web", network="forwarded", hosts=("*", "localhost:3000")),)).reach
            'network by forwarder: public web servers, localhost:3000'
        """
        if self.network == "host":
            return "the whole network of this machine"
        named = sorted(set(self.hosts) - {PUBLIC})
        shown = ["public web servers"] if PUBLIC in self.hosts else []
        shown += named if len(named) <= _SHOWN else [*named[: _SHOWN - 1], f"{len(named) - _SHOWN + 1} more"]
        return f"network by forwarder: {', '.join(shown)}" if shown else ""

    def reads(self, path: str) -> bool:
        """Tell whether what stands at an absolute path without links can be read."""
        return any(profile.reads(path) for profile in self.profiles)

    def writes(self, path: str) -> bool:
        """Tell whether an absolute path without links can be written."""
        return any(profile.writes(path) for profile in self.profiles)

    def protects(self, path: str) -> bool:
        """Tell whether no profile would write an absolute path without links, were it not hidden there.

        What one profile protects and another only hides may be made, as under the other alone.

        Example:
            >>> run = Profile("run", write=("/app/**",), protect=("/app/lib/**",), hide=("/app/**/*.pem",))
            >>> install = Profile("install", write=("/app/**",), hide=("/app/**/*.pem",))
            >>> [Confinement(each).protects("/app/lib/ca.pem") for each in ((run,), (run, install))]
            [True, False]
        """
        return not any(
            path in each.lift or (within(path, each.write) and not within(path, each.protect)) for each in self.profiles
        )

    def entries(self, kind: Literal["read", "write", "protect", "hide", "lift"]) -> tuple[str, ...]:
        """Return the path sets of one kind, of every profile."""
        return tuple(dict.fromkeys(entry for profile in self.profiles for entry in getattr(profile, kind)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a project is kept before code runs in it that nobody has read (see `kept_files`).

    Args:
        files, bytes: so much of one run; of all together about four times as many bytes, and the oldest go first.
        days: for so long.
    """

    files: int = 20_000
    bytes: int = 256_000_000
    days: int = 30


@lru_cache(maxsize=256)
def _digest(confinement: Confinement) -> str:
    """The digest of a confinement; most commands run in one of a few, and reading all of its paths takes a while."""
    return hashlib.sha256(canonical(asdict(confinement))).hexdigest()


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is this folder, or lies in it, as they are written.

    Example:
        >>> is_below("/srv/app/x", "/srv/app"), is_below("/srv/application", "/srv/app")
        (True, False)
    """
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_plain(entry: str) -> bool:
    """Tell whether a path set is one path, or a directory and all below it."""
    path = entry.removesuffix(TREE)
    return "*" not in path and "?" not in path and "[" not in path


def within(path: str, entries: Iterable[str]) -> bool:
    """Tell whether a path is in one of these path sets."""
    exact, trees, patterns = _by_form(tuple(entries))
    if path in exact or f"{path}/".startswith(trees):
        return True
    return any(text in path and pattern.fullmatch(path) is not None for text, pattern in patterns)


@lru_cache(maxsize=256)
def _by_form(
    entries: tuple[str, ...],
) -> tuple[frozenset[str], tuple[str, ...], tuple[tuple[str, re.Pattern[str]], ...]]:
    """The single paths, what begins all that lies in a directory, and the patterns, each with a text that is in all
    that it matches: looking for that is quicker by far.
    """
    plain = [entry for entry in entries if is_plain(entry)]
    trees = tuple(f"{entry.removesuffix(TREE).rstrip('/')}/" for entry in plain if entry.endswith(TREE))
    exact = frozenset(entry for entry in plain if not entry.endswith(TREE))
    return exact, trees, tuple((_fixed(entry), pattern(entry)) for entry in entries if not is_plain(entry))


def _fixed(entry: str) -> str:
    """The longest text between wildcards of a path set."""
    return max((text.rstrip("/") for text in re.split(r"[*?]+", entry.removesuffix(TREE))), key=len)


@lru_cache(maxsize=4096)
def pattern(entry: str) -> re.Pattern[str]:
    """Return what a path set matches: `**` any number of folders, `*` and `?` within one name.

    Example:
        >>> bool(pattern("/srv/**/.env").fullmatch("/srv/a/b/.env"))
        True
    """
    return re.compile(expression(entry), re.DOTALL)


def expression(entry: str) -> str:
    """Return the regular expression of `pattern`."""
    out = ""
    for part in entry.removesuffix(TREE).split("/")[1:]:
        if part == "**":
            out += "(?:/[^/]+)*"
        elif part:
            out += "/" + "".join("[^/]*" if c == "*" else "[^/]" if c == "?" else re.escape(c) for c in part)
    return (out + "(?:/.*)?" if entry.endswith(TREE) else out) or "/"
