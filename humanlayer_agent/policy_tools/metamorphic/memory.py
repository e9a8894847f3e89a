"""The results of metamorphic tests, remembered by rule: where nothing has changed, nothing is judged again.

A result holds for the rule with its examples, for all that the policy decides at present, for the code and the data of
this package, and for what the tests were asked to do. It is kept where compiled policies are, in the user's state
directory, readable by the user alone. What is read there says only what need not be judged again: no policy is loaded,
trusted or applied by it, and a failure that is remembered is judged again before it is told.
"""

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from pathlib import Path
from typing import Any

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.locations import read_own_json, state_path, write_own_json
from humanlayer_agent.policy.language.policy import Policy, Rule

_FOLDER = "metamorphic"
_IN_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_SAID = ("reason", "suggestion", "tests")
"""Keys of a rule that it does not decide by."""


class Memory:
    """The results of one policy, tested in one way. `asked` is what the tests were asked to do, as JSON."""

    def __init__(self, policy: Policy, now: str, asked: Mapping[str, Any]) -> None:
        rules = [{k: v for k, v in rule.written.items() if k not in (*_SAID, "origin")} for rule in policy.on(now)]
        exceptions = [
            [rule.id, each.written["when"]] for rule in policy.on(now) for each in rule.exceptions if each.holds(now)
        ]
        body = {key: policy.body[key] for key in ("confinements", "defaults", "scopes")}
        self._place = [policy.sources[-1].path, encodable_all(asked)]
        self._over = {
            "engine": engine_digest(),
            "policy": encodable_all([body, [{**r, "exceptions": []} for r in rules], exceptions]),
            "asked": encodable_all(asked),
        }

    def recall(self, rule: Rule, commands: Sequence[str]) -> dict[str, Any] | None:
        """Return what was kept of a rule with exactly these examples; None where nothing was."""
        key = self._key(rule, commands)
        content = read_own_json(self._file(rule))
        if content is None or content.get("key") != key or content.get("seal") != _seal(content):
            return None
        found: dict[str, Any] = content["found"]
        return found

    def keep(self, rule: Rule, commands: Sequence[str], found: Mapping[str, Any]) -> None:
        """Keep what was found of a rule."""
        key = self._key(rule, commands)
        content = {"key": key, "found": encodable_all(found)}
        write_own_json(self._file(rule), {**content, "seal": _seal(content)})

    def _key(self, rule: Rule, commands: Sequence[str]) -> str:
        said = {**self._over, "rule": rule.id, "examples": encodable_all(list(commands))}
        return sha256(canonical(said)).hexdigest()

    def _file(self, rule: Rule) -> str:
        """One file a rule and way of testing: what is kept takes the place of what was kept before."""
        name = sha256(canonical(encodable_all([*self._place, rule.origin.rpartition(":")[0], rule.id]))).hexdigest()
        return state_path(_FOLDER, f"{name}.json")


@cache
def engine_digest() -> str:
    """SHA-256 (hex) over the code and the data of this package, over Python's version and those of what it needs: the
    parsers are among them.
    """
    package = Path(__file__).parents[2]
    found = sha256(platform.python_version().encode())
    for name in _needed():
        try:
            found.update(f"{name} {version(name)}\0".encode())
        except PackageNotFoundError:
            found.update(f"{name}\0".encode())
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".yaml", ".json") and path.is_file():
            found.update(f"{path.relative_to(package)}\0".encode() + sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _needed() -> list[str]:
    """The names of the packages without which this one does not run; of all, where it does not say."""
    try:
        named = [each for each in requires("humanlayer-agent") or () if "extra ==" not in each]
    except PackageNotFoundError:  # a source tree that was not installed
        named = [each.name for each in distributions()]
    return sorted({each[: len(each) - len(each.lstrip(_IN_NAMES))] for each in named})


def encodable_all(value: Any) -> Any:
    """Return plain data, in which each text can be written."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {encodable(str(key)): encodable_all(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encodable_all(each) for each in value]
    return value


def _seal(content: Mapping[str, Any]) -> str:
    """Return the digest of what is kept: a file that was cut off, or edited by hand, counts for nothing."""
    try:
        return sha256(canonical([content["key"], content["found"]])).hexdigest()
    except (LookupError, TypeError, ValueError):
        return ""
