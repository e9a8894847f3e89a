"""Trust in parts of a project, its policy or its catalog: a human gives it to exactly these files, by their hash. It is
kept outside of the project.
"""

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Literal

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.locations import read_own_json, state_folder, write_own_json
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.sources import BUILTIN

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
