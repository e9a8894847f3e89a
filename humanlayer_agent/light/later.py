"""Modules that are imported when something in them is first asked for.

A package that judges any command has a module for each kind of thing a command may do, and most commands do few of
them. What stands for such a module shares its names from then on, so that it costs nothing more.
"""

import sys

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    import fnmatch as fnmatch
    import pathlib as pathlib
    from typing import Any

__all__ = ["Later", "fnmatch", "pathlib"]


class Later:
    """Stands for the module `name`."""

    __slots__ = ("__dict__", "_module_name")

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> "Any":
        __import__(self._module_name)  # importlib is not loaded yet
        module = sys.modules[self._module_name]
        self.__dict__ = module.__dict__
        return getattr(module, name)


if not TYPE_CHECKING:
    fnmatch, pathlib = Later("fnmatch"), Later("pathlib")
