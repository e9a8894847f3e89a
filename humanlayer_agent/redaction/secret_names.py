"""The names that say that what they name is a secret, and the values that can't be one. The cases are in
secrets.yaml.
"""

import fnmatch
import re
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_HARMLESS = re.compile(
    r"""\s*(?:|true|false|null|none|nil|yes|no|on|off|default|required|optional
          |[0-9]{1,3}|[*xX.•_\-]+|<[^<>]*>|\{\}|⟦[^⟦⟧]*⟧|\[?redacted\]?|changeme|\$\{\{[^}]*\}\}|\{\{[^}]*\}\}|(?:%[a-zA-Z](?:\\?n)*)+)\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_PATH = re.compile(r"@?(?:(?:/[a-z0-9._-]{1,64}){2,}/?|(?:~|\.{1,2})(?:/[\w.-]{1,64})+/?)")


@cache
def data() -> dict[str, Any]:
    """Return the content of secrets.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("secrets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=loader)
    return loaded


@cache
def secret_variables() -> tuple[str, ...]:
    """Give the names of environment variables that hold a secret, as patterns in which `*` is any text.

    The last pattern that matches a name decides; one that begins with `!` says that it is no secret after all.
    """
    names, variables = data()["names"], data()["variables"]
    secret = [f"*{word}*" for word in names["endings"]] + variables["secret"]
    secret += [f"*{of}_key*" for of in names["key_of"]]
    for word in names["short"]:
        secret += [f"*_{word}", f"{word}_*", f"*_{word}_*", *([word] if word not in variables["no_whole"] else ())]
    secret += [word for word in names["whole"] if word.isidentifier()]
    keys = [*_spelled(variables["keys"]), *variables["capitals"]]
    public, harmless = ([f"!{p}" for p in _spelled(variables[kind])] for kind in ("public", "harmless"))
    return (*keys, *public, *_without_covered(_spelled(secret)), *harmless)


def _spelled(patterns: list[str]) -> list[str]:
    """Each pattern in capitals and in small letters, but for those that have both."""
    mixed = [p for p in patterns if p not in (p.upper(), p.lower())]
    return [*(p.upper() for p in patterns if p not in mixed), *(p.lower() for p in patterns if p not in mixed), *mixed]


def _without_covered(patterns: list[str]) -> list[str]:
    """`patterns` without those that match nothing but what another one matches."""
    found = dict.fromkeys(patterns)
    return [p for p in found if not any(p != other and fnmatch.fnmatchcase(p, other) for other in found)]


@lru_cache(maxsize=4096)
def is_secret_variable(name: str) -> bool:
    """Tell whether a variable of this name is set to a secret: not where its last word says that it is a file or an id.

    Example:
        >>> is_secret_variable("MYSQL_PWD"), is_secret_variable("GITHUB_PAT"), is_secret_variable("TOKEN_FILE")
        (True, True, False)
    """
    return is_secret_name(name, variable=name.isupper() or name.lower() in _names()["short"]) or _is_listed(name)


def _is_listed(name: str) -> bool:
    """Tell whether `secret_variables` has the name, and it is not for something beside a secret."""
    runs = _patterns()
    deciding = next((run for run in runs if run[1].fullmatch(name)), None)
    if deciding is None or not deciding[0] or _is_harmless(name):
        return False
    return deciding is not runs[-1] or not _is_plain_key(name)  # the last of them is that of keys


@cache
def _patterns() -> tuple[tuple[bool, re.Pattern[str]], ...]:
    """`secret_variables` as expressions, the last first, each with whether it says that the name is a secret's."""
    runs = groupby(reversed(secret_variables()), key=lambda pattern: not pattern.startswith("!"))
    return tuple((secret, re.compile("|".join(fnmatch.translate(p.lstrip("!")) for p in run))) for secret, run in runs)


def _is_harmless(name: str) -> bool:
    """Tell whether a name that sounds like a secret's is known for something else, or tells what is beside a secret."""
    names = _names()
    parts = _PARTS.findall(name)
    plain = name.strip("-\"'").lower()
    return plain in names["harmless"] or not parts or parts[-1].lower() in names["harmless_endings"]


def _is_plain_key(name: str) -> bool:
    """Tell whether all that is secret about a name is a `key` of the kind that databases and caches have."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    before = [parts[place - 1] for place, part in enumerate(parts) if place and part in ("key", "keys")]
    return bool(before) and all(each in _names()["not_key_of"] for each in before)


@lru_cache(maxsize=4096)
def is_secret_name(name: str, *, variable: bool = False) -> bool:
    """Tell whether what has this name is a secret.

    Args:
        variable: it is a shell variable: there every *KEY* counts, unless it is a known harmless one.

    Example:
        >>> is_secret_name("--api-key"), is_secret_name("MAX_TOKENS"), is_secret_name("SORT_KEY", variable=True)
        (True, False, False)
    """
    names = _names()
    if name.strip("-\"'").lower() in names["whole"]:
        return True
    if _is_harmless(name):
        return False
    parts = [part.lower() for part in _PARTS.findall(name)]
    if any(part.endswith(names["endings_tuple"]) for part in parts):
        return True
    if any(part in names["short"] for part in parts) and (len(parts) > 1 or variable):
        return True
    if any(part == "key" and _is_secret_key(parts[:place], variable) for place, part in enumerate(parts)):
        return True
    return variable and _is_listed(name)


def _is_secret_key(before: list[str], variable: bool) -> bool:
    names = _names()
    of = before[-1] if before else ""
    return of in names["key_of"] or (variable and of not in names["not_key_of"])


def is_secret_value(value: str, *, path_is_harmless: bool = True) -> bool:
    """Tell whether a value that stands where a secret stands can be one: not where it is empty, a flag, a
    placeholder.
    """
    if _HARMLESS.fullmatch(value):
        return False
    return not (path_is_harmless and _PATH.fullmatch(value))


@cache
def _names() -> dict[str, Any]:
    given = data()["names"]
    names: dict[str, Any] = {name: frozenset(values) for name, values in given.items()}
    names["endings_tuple"] = tuple(given["endings"])
    return names
