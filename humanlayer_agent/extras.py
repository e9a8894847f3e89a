"""The parts of the package that need more than it brings along, and what to type where that is missing."""

import re
import shlex
import sys
from importlib import metadata

_PACKAGE = "humanlayer-agent"
_OF_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str) -> str:
    """Return the command that installs what a part needs into this environment, however we came here ourselves.

    Args:
        extra: as pyproject.toml names it, "web" for example.

    Example:
        >>> install_command("web").endswith("-m pip install 'starlette>=0.37' 'uvicorn>=0.29'")
        True
    """
    packages = [shlex.quote(each) for each in _requirements(extra)] or ["--editable", shlex.quote(f".[{extra}]")]
    return " ".join([shlex.quote(sys.executable or "python3"), "-m", "pip", "install", *packages])


def lacks(what: str, extra: str, error: ImportError) -> str:
    """Return the line for somebody who uses a part without what it needs.

    Args:
        what: names the part, at the beginning of a sentence.
        extra: as pyproject.toml names it.
        error: what the import of it raised.

    Example:
        >>> lacks("The inbox", "web", ModuleNotFoundError("No module named 'uvicorn'"))[:57]
        "The inbox needs the extra web (No module named 'uvicorn')"
    """
    return f"{what} needs the extra {extra} ({error}): {install_command(extra)}"


def _requirements(extra: str) -> list[str]:
    try:
        written = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:  # not installed: run from its folder
        return []
    found = []
    for requirement in written:
        package, _, marker = requirement.partition(";")
        if extra in _OF_EXTRA.findall(marker):
            found.append(package.strip())
    return found
