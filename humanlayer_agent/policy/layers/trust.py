"""The projects whose policies a human has trusted: by the hash of exactly their files, kept outside the project."""

import os
from hashlib import sha256
from pathlib import Path

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.locations import read_own_json, state_folder, write_own_json
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.sources import BUILTIN


def own_files(policy: Policy) -> list[str]:
    """The files of a policy that do not ship with us, each once."""
    return list(dict.fromkeys(s.path for s in policy.sources if not s.name.startswith(BUILTIN)))


def trust_digest(project: Path | str, policy: Policy) -> str:
    """SHA-256 over the project, and over name and content of every file of its policy that does not ship with us."""
    files = sorted({(s.path, s.sha256) for s in policy.sources if not s.name.startswith(BUILTIN)})
    body = {"project": encodable(_real(project)), "files": [[encodable(path), sha256] for path, sha256 in files]}
    return sha256(canonical(body)).hexdigest()


def is_trusted(project: Path | str, policy: Policy) -> bool:
    """Tell whether this user has trusted exactly this policy for exactly this project."""
    found = read_own_json(_place(project))
    return found is not None and found.get("digest") == trust_digest(project, policy)


def record(project: Path | str, policy: Policy) -> Path:
    """Remember that this policy is trusted; returns the file that says so. Raises OSError where it can't be written."""
    place = _place(project)
    content = {"project": _real(project), "digest": trust_digest(project, policy)}
    write_own_json(place, content, required=True)
    return place


def withdraw(project: Path | str) -> bool:
    """Trust the project's policy no longer. False where it was not trusted."""
    try:
        _place(project).unlink()
    except FileNotFoundError:
        return False
    return True


def _place(project: Path | str) -> Path:
    name = sha256(_real(project).encode("utf-8", "surrogateescape")).hexdigest()
    return state_folder() / "trusted" / f"{name}.json"


def _real(project: Path | str) -> str:
    return os.path.realpath(project)
