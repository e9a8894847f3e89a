"""Modules that are imported when something in them is first asked for.

A package that judges any command has a module for each kind of thing a command may do, and most commands do few of
them. What stands for such a module shares its names from then on, so that it costs nothing more.
"""

from importlib import import_module

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    import pathlib as pathlib
    from typing import Any

__all__ = ["Later", "pathlib"]


class Later:
    """Stands for the module `name`."""

    __slots__ = ("__dict__", "_module_name")

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> "Any":
        module = import_module(self._module_name)
        self.__dict__ = module.__dict__
        return getattr(module, name)


if not TYPE_CHECKING:
    pathlib = Later("pathlib")
