"""Which names say that what they name is a secret, and which values can't be one. The cases are in secrets.yaml."""

import re
from functools import cache, lru_cache
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
    """What secrets.yaml holds."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("secrets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=loader)
    return loaded


@lru_cache(maxsize=4096)
def is_secret_name(name: str, *, variable: bool = False) -> bool:
    """Whether what has this name is a secret.

    Args:
        variable: it is a shell variable: there every *KEY* counts, unless it is a known harmless one.

    Example:
        >>> is_secret_name("--api-key"), is_secret_name("MAX_TOKENS"), is_secret_name("SORT_KEY", variable=True)
        (True, False, False)
    """
    names = _names()
    plain = name.strip("-\"'").lower()
    if plain in names["harmless"]:
        return False
    if plain in names["whole"]:
        return True
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts or parts[-1] in names["harmless_endings"]:
        return False
    if any(part.endswith(names["endings_tuple"]) for part in parts):
        return True
    if any(part in names["short"] for part in parts) and (len(parts) > 1 or variable):
        return True
    return any(part == "key" and _is_secret_key(parts[:place], variable) for place, part in enumerate(parts))


def _is_secret_key(before: list[str], variable: bool) -> bool:
    names = _names()
    of = before[-1] if before else ""
    return of in names["key_of"] or (variable and of not in names["not_key_of"])


def is_secret_value(value: str, *, path_is_harmless: bool = True) -> bool:
    """Whether a value that stands where a secret stands can be one: not where it is empty, a flag, a placeholder."""
    if _HARMLESS.fullmatch(value):
        return False
    return not (path_is_harmless and _PATH.fullmatch(value))


@cache
def _names() -> dict[str, Any]:
    given = data()["names"]
    names: dict[str, Any] = {name: frozenset(values) for name, values in given.items()}
    names["endings_tuple"] = tuple(given["endings"])
    return names
