"""Loads a policy: checked once, and from then on from its compiled form.

The compiled form is JSON (never pickle) in the user's state directory, readable by the user alone, under the digest of
its source and of this version. A compiled file that is not exactly that is ignored, and the source is checked again.
"""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.places import state_folder
from humanlayer_agent.policy.model import Policy, policy_from

_FORMAT = 1


def load(path: Path) -> Policy:
    """The policy in the file `path`.

    Raises:
        PolicyError: it can't be read, or has a mistake: `file:line:column`, what is wrong, what was expected.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error
    key = hashlib.sha256(f"{_FORMAT} {__version__}\0".encode() + source).hexdigest()
    compiled = cache_folder() / f"{key}.json"
    body = _read(compiled, key)
    if body is not None:
        return policy_from(body)
    from humanlayer_agent.policy import schema, yamlfile

    body = schema.check(yamlfile.decode(source, str(path)))
    _write(compiled, {"key": key, "policy": body})
    return policy_from(body)


def find(policy: str | Path) -> Path:
    """The file of a policy: a path as it stands, or a shipped policy by its name."""
    text = str(policy)
    if "/" in text or text.endswith((".yaml", ".yml")):
        return Path(text).expanduser()
    package = Path(__file__).parent.parent
    name = text.removeprefix("builtin:")
    folders = (package / "_data" / "policies", package.parent / "policies")
    for folder in folders:
        if (found := folder / f"{name}.yaml").is_file():
            return found
    known = sorted({f.stem for folder in folders for f in folder.glob("*.yaml")})
    raise PolicyError(
        f"no policy is called {name!r}; shipped: {', '.join(known)}; or give a path such as ./{name}.yaml"
    )


def cache_folder() -> Path:
    """Where compiled policies are kept."""
    return state_folder() / "policies"


def _read(path: Path, key: str) -> dict[str, Any] | None:
    """The body in a compiled file, or None where the file is missing, not ours alone, or not what it says."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return None
        try:
            content = json.loads(file.read())
        except (OSError, ValueError):
            return None
    if not isinstance(content, dict) or content.get("key") != key or not isinstance(content.get("policy"), dict):
        return None
    body: dict[str, Any] = content["policy"]
    return body


def _write(path: Path, content: dict[str, Any]) -> None:
    """Keep the compiled form where that is possible; without it the next start is only slower."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
