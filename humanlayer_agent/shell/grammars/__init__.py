"""Readers for arguments that options and slots can't describe: one module a program or family.

A reader has the signature of `noting.apply`: it notes in `command` what the words do. Modules are imported when a
program that needs them is met.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

Reader = Callable[..., Any]

READERS = {
    "ar": "unpack.ar",
    "as-user": "joined.as_user",
    "at": "joined.input_script",
    "awk": "awk.read",
    "cloud": "cloud.read",
    "compiler": "build.compiler",
    "compress": "compress.read",
    "cpio": "unpack.cpio",
    "dd": "dd.read",
    "device": "system.device",
    "django": "python.django",
    "entr": "joined.entr",
    "env": "env.read",
    "find": "find.read",
    "flock": "joined.flock",
    "gh": "cloud.gh",
    "git-apply": "patch.apply",
    "git-clone": "git.clone",
    "git-config": "git.config",
    "interpreter": "build.interpreter",
    "ip": "net.ip",
    "jq": "jq.read",
    "ln": "names.ln",
    "make": "make.read",
    "nbconvert": "notebook.nbconvert",
    "npm": "node.read",
    "npx": "npx.read",
    "objcopy": "unpack.objcopy",
    "pager": "pager.read",
    "papermill": "notebook.papermill",
    "parallel": "joined.parallel",
    "patch": "patch.read",
    "php-tool": "php.tool",
    "plain": "plain.read",
    "prefix-command": "npx.prefix",
    "ps": "system.ps",
    "pytest": "python.pytest",
    "python": "python.read",
    "python-archive": "modules.archive",
    "python-gzip": "modules.gzip",
    "python-runpy": "modules.runpy",
    "python-timeit": "modules.timeit",
    "rmdir": "names.rmdir",
    "script": "joined.script",
    "sed": "sed.read",
    "service": "system.service",
    "setting": "system.setting",
    "shell": "shells.read",
    "socat": "net.socat",
    "split": "names.split",
    "sqlite": "sqlite.read",
    "ssh": "joined.ssh",
    "su": "joined.user_shell",
    "sysctl": "system.sysctl",
    "tar": "tar.read",
    "unzip": "unpack.unzip",
    "watch": "joined.watch",
    "xargs": "xargs.read",
    "yarn-workspace": "node.workspace",
}
"""What `grammar:` in a catalog file may name, and the function that reads it."""


@cache
def reader(name: str) -> Reader:
    """The reader called `name` in the catalog. Raises KeyError where there is none."""
    module, _, function = READERS[name].partition(".")
    found: Reader = getattr(import_module(f"{__name__}.{module}"), function)
    return found
