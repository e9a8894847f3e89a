"""Readers for arguments that options and slots can't describe: one module a program or family.

A reader has the signature of `invoke.apply`: it notes in `command` what the words do.
"""

from collections.abc import Callable
from typing import Any

from humanlayer_agent.shell.grammars import dd, env, find, plain, python, sed, shells, xargs

Reader = Callable[..., Any]

GRAMMARS: dict[str, Reader] = {
    "dd": dd.read,
    "env": env.read,
    "find": find.read,
    "plain": plain.read,
    "python": python.read,
    "sed": sed.read,
    "shell": shells.read,
    "xargs": xargs.read,
}
