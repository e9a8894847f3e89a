"""Texts that are code for somebody: Python, the examples of a docstring, templates, markup that includes files."""

import re
import textwrap
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache

from humanlayer_agent.shell.languages.behaviour import Behaviour, Text

MAX_LENGTH = 20_000
"""Longer texts are code."""
MAX_DEEP = 2
"""Code in code in code is not read."""

_CHANGES = frozenset({"read", "write", "append", "delete", "move", "metadata"})
_EXAMPLE = re.compile(r"^[ \t]*(?:>>>|\.\.\.)(?: (.*))?$", re.MULTILINE)
_SECTION = re.compile(r"\{\{(.*?)\}\}|\{%(.*?)%\}|\$\{(.*?)\}|<%(.*?)%>|^[ \t]*%(?!%)(.*?)$", re.DOTALL | re.MULTILINE)
_ESCAPING = re.compile(r"__|\\|\.\./|\|\s*attr\b|\b(?:import|open|exec|eval|environ|debug|ssi)\b")
"""What leads out of a template into Python, or to files of somebody else."""
_INCLUDING = re.compile(
    r"<!ENTITY\s|<!DOCTYPE[^>]*\b(?:SYSTEM|PUBLIC)\s+['\"](?!https?:|-//)|<xi:include|!!python/"
    r"|^[ \t]*\.\.[ \t]+(?:include|literalinclude)::|^[ \t]+:(?:file|url):|\\(?:input|include|write18)\b",
    re.MULTILINE,
)
"""Markup that includes a file, or makes an object."""
_PICKLED = re.compile(r"[\x80\udc80][\x02-\x05]|\(?c[\w.]+\n[\w.]+\n", re.ASCII)
_DEEP = ContextVar("_DEEP", default=0)
"""In how many texts of code the one lies that is being read."""


def is_code(text: str) -> bool:
    """Would `text`, run as Python or as markup, do anything beyond the project?"""
    if _INCLUDING.search(text) or _PICKLED.match(text):
        return True
    if not any(c in text for c in "(@:") and "import" not in text:
        return False
    if ">>>" in text and _runs("\n".join(m[1] or "" for m in _EXAMPLE.finditer(text))):
        return True
    return _runs(textwrap.dedent(text).strip())


def is_template(text: str) -> bool:
    """Does a template in `text` reach anything but plain values?"""
    return any(_ESCAPING.search(section) or _runs(section.strip("-=!% \t\n")) for section in _sections(text))


def _sections(text: str) -> Iterator[str]:
    for match in _SECTION.finditer(text[:MAX_LENGTH]):
        yield next((group for group in match.groups() if group), "")


def _runs(text: str) -> bool:
    """Is `text` Python that does something beyond the project, or that nobody can tell of?"""
    return _runs_at(text, _DEEP.get())


@lru_cache(maxsize=512)
def _runs_at(text: str, deep: int) -> bool:
    from humanlayer_agent.shell.languages import python
    from humanlayer_agent.shell.languages.python.parsing import parse

    if len(text) > MAX_LENGTH:
        return True
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if deep >= MAX_DEEP:
        return "(" in text
    before = _DEEP.set(deep + 1)
    try:
        return not _harmless(python.read(text))
    finally:
        _DEEP.reset(before)


def _harmless(found: Behaviour) -> bool:
    return not found.doubts and all(
        (act.kind == "execute" and act.role == "import") or (act.kind in _CHANGES and all(map(_inside, act.operands)))
        for act in found.acts
    )


def _inside(text: Text) -> bool:
    """Is it a path in the working directory, and no hidden one?"""
    paths = [text.below] if text.below is not None else list(text.choices)
    return bool(paths) and not any(
        p.startswith(("/", "~")) or any(part.startswith(".") and part != "." for part in p.split("/")) for p in paths
    )
