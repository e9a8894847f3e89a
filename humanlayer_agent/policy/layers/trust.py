"""Trust in parts of a project, its policy or its catalog: a human gives it to exactly these files, by their hash. It is
kept outside of the project.

What is the machine's or the user's is trusted as long as nobody else can write it.
"""

import os
import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Literal

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import read_own_json, state_folder, write_own_json
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.sources import BUILTIN, MAX_BYTES

File = tuple[str, str]
"""The path of a file, and the SHA-256 of its content."""
Part = Literal["", "-catalog"]
"""What of the project: its policy, or its catalog."""


def own_files(policy: Policy) -> list[str]:
    """The files of a policy that do not ship with us, each once."""
    return list(dict.fromkeys(s.path for s in policy.sources if not s.name.startswith(BUILTIN)))


def policy_files(policy: Policy) -> list[File]:
    """Return every file of its policy that does not ship with us."""
    return [(source.path, source.sha256) for source in policy.sources if not source.name.startswith(BUILTIN)]


def trust_digest(project: Path | str, files: Iterable[File]) -> str:
    """SHA-256 over the project, and over name and content of every file."""
    named = [[encodable(path), digest] for path, digest in sorted(set(files))]
    return sha256(canonical({"project": encodable(_real(project)), "files": named})).hexdigest()


def is_trusted(project: Path | str, files: Iterable[File], part: Part = "") -> bool:
    """Tell whether this user has trusted exactly these files for exactly this project."""
    found = read_own_json(_place(project, part))
    return found is not None and found.get("digest") == trust_digest(project, files)


def record(project: Path | str, files: Iterable[File], part: Part = "") -> Path:
    """Remember that these files are trusted; returns the file that says so.

    Raises:
        OSError: it can't be written.
    """
    place = _place(project, part)
    content = {"project": _real(project), "digest": trust_digest(project, files)}
    write_own_json(place, content, required=True)
    return place


def withdraw(project: Path | str, part: Part = "") -> bool:
    """Trust that part of the project no longer. False where it was not trusted."""
    try:
        _place(project, part).unlink()
    except FileNotFoundError:
        return False
    return True


def _place(project: Path | str, part: Part) -> Path:
    name = sha256(_real(project).encode("utf-8", "surrogateescape")).hexdigest()
    return state_folder() / "trusted" / f"{name}{part}.json"


def _real(project: Path | str) -> str:
    return os.path.realpath(project)


# ---- who may write what is the machine's or the user's ------------------------------------------------------


def check_owner(path: Path | str, *, machine: bool) -> None:
    """A policy that others can write is not the machine's or the user's word."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error
    _check(path, about, machine=machine, forbidden=0o022 if machine else 0o002)  # a user's own group is common


def check_folder(folder: str, *, machine: bool) -> None:
    """Whoever can write the folder, or the one around it, can put another one in its place."""
    above = os.path.dirname(folder)
    try:
        about, around = os.lstat(folder), os.stat(above)
    except OSError as error:
        raise PolicyError(f"{folder}: can't be read: {error.strerror}") from error
    if not stat.S_ISDIR(about.st_mode):
        raise PolicyError(f"{folder}: is no folder, or a link: make it a folder of its own")
    _check(folder, about, machine=machine)
    _check(above, around, machine=machine, forbidden=0o022 if machine else 0o002)  # a user's own group is common


def read_owned(path: str, *, machine: bool | None, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file (one more than `most`, where it is larger).

    Args:
        machine: it must be root's, else the user's; None: whoever wrote it.

    Raises:
        PolicyError: it can't be read, others can write it, or it is a link or has another name as well.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise PolicyError(f"{path}: can't be read: not a regular file")
            if machine is not None:
                _check(path, about, machine=machine)
                if about.st_nlink > 1:
                    raise PolicyError(f"{path}: has another name as well (a hard link): put a copy of its own here")
            return file.read(most + 1)
    except OSError as error:
        if os.path.islink(path):
            raise PolicyError(f"{path}: is a link, which leads who knows where: put the file itself here") from None
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error


def _check(path: Path | str, about: os.stat_result, *, machine: bool, forbidden: int = 0o022) -> None:
    owners = {0} if machine else {0, os.geteuid()}
    if about.st_uid not in owners or about.st_mode & forbidden:
        who = "root" if machine else "you"
        raise PolicyError(f"{path}: must belong to {who} and be writable by nobody else (chmod go-w, chown)")
