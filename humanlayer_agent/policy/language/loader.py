"""Loads a policy: checked and merged once, and from then on from its compiled form.

The compiled form is JSON (never pickle) in the user's state directory, readable by the user alone, under the digest of
its source and of this version; it names every file that took part with its digest. A compiled file that is not exactly
that, or any of whose sources has changed, is ignored, and the sources are checked again. It also remembers that the
policy's own tests have passed: where it can't be kept, they run every time.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.errors import PolicyError, did_you_mean
from humanlayer_agent.locations import read_own, state_path, write_own_json
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.policy import Policy, policy_from

_FORMAT = 10
_FOLDER = "policies"


def load(
    path: Path | str, *, within: Path | str | None = None, tested: bool = True, variables: Sequence[str] = ()
) -> Policy:
    """The policy in the file `path`, with what it extends.

    Args:
        path: the file.
        within: the folder that none of its files may lie outside of, for a repository's policy.
        tested: the tests in its own rules must pass; False only where it is looked at, and decides nothing.
        variables: names of path variables that are given later.

    Raises:
        PolicyError: it can't be read, has a mistake, or fails a test of its own: `file:line:column`, what is wrong,
            what was expected.
    """
    source = sources.read(path)
    name = sources.name_of(path)
    identity = f"{_FORMAT} {__version__} {_absolute(path)} {within}\0"
    digest = sha256(source).hexdigest()
    key = sha256(f"{identity}{digest}".encode("utf-8", "surrogateescape")).hexdigest()
    compiled = state_path(_FOLDER, f"{key}.json")
    content, policy = _kept(read_own(compiled) or b"")
    if policy is None or content.get("key") != key or not _current(policy, {_absolute(path): digest}):
        from humanlayer_agent.policy.language import extension

        content = {"key": key, "policy": extension.merged(extension.tree(Path(path), name=name, within=within))}
        write_own_json(compiled, content)
        policy = policy_from(content["policy"])
    if tested and not all(source.name.startswith(sources.BUILTIN) for source in policy.sources):
        from humanlayer_agent.policy.language import examples

        passes_for = examples.identity(policy, variables)
        if passes_for is not None and content.get("tested") != passes_for:
            examples.check(policy, variables)
            write_own_json(compiled, {**content, "tested": passes_for})
    return policy


def read_draft(content: str, path: Path, *, within: Path | str) -> Policy:
    """Return the policy in a text that somebody is writing, and that is to stand in the file `path`. Nothing is kept.

    Args:
        content: the text.
        path: the file, which need not be there. What the text extends is relative to its folder.
        within: as for `load`.

    Raises:
        PolicyError: as `load`; the file goes by its name alone.
    """
    from humanlayer_agent.policy.language import extension

    raw = content.encode("utf-8", "surrogatepass")
    return policy_from(extension.merged(extension.tree(path, name=path.name, within=within, content=raw)))


def find(policy: str | Path) -> Path:
    """The file of a policy: a path as it stands, or a shipped policy by its name."""
    return Path(named(policy))


def named(policy: str | Path) -> str:
    """The same as text."""
    text = str(policy)
    if "/" in text or text.endswith((".yaml", ".yml")):
        return str(Path(text).expanduser())
    name = text.removeprefix(sources.BUILTIN)
    if (found := sources.shipped(name)) is not None:
        return found
    known = did_you_mean(name, sources.shipped_names(), "shipped:")
    raise PolicyError(f"no policy is called {name!r}; {known}; or give a path such as ./{name}.yaml".replace("?;", "?"))


def cache_folder() -> Path:
    """Return the folder of compiled policies."""
    return Path(state_path(_FOLDER))


def _absolute(path: Path | str) -> str:
    return path if isinstance(path, str) and path.startswith("/") else str(Path(path).absolute())


@lru_cache(maxsize=8)
def _kept(raw: bytes) -> tuple[dict[str, Any], Policy | None]:
    """Return what a compiled file holds, and the policy in it; None where it holds none."""
    try:
        content = json.loads(raw)
        return content, policy_from(content["policy"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}, None


def _current(policy: Policy, read: dict[str, str]) -> bool:
    """Tell whether the files that took part are still what they were. `read`: the digests of those that were read just
    now.
    """
    try:
        return all(
            (read.get(each.path) or sha256(sources.read(each.path)).hexdigest()) == each.sha256
            for each in policy.sources
        )
    except PolicyError:
        return False
