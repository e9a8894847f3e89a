"""Readers for arguments that options and slots can't describe: one module a program or family.

A reader has the signature of `spec_reader.apply`: it notes in `run` what the words do. Modules are imported when a
program that needs them is met.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

Reader = Callable[..., Any]

READERS = {
    "ar": "archives.ar",
    "as-user": "shell_text.as_user",
    "at": "shell_text.input_script",
    "awk": "awk.read",
    "aws": "cloud.aws",
    "az": "cloud.az",
    "code-host-api": "code_hosts.api",
    "code-host-clone": "code_hosts.clone",
    "compiler": "compilers.compiler",
    "compress": "compressors.read",
    "copy": "clusters.copy",
    "cpio": "archives.cpio",
    "dd": "dd.read",
    "device": "system.device",
    "django": "python.django",
    "docker-inspect": "clusters.inspect",
    "download": "network.download",
    "entr": "shell_text.entr",
    "env": "env_sudo.read",
    "find": "find.read",
    "flock": "shell_text.flock",
    "git-apply": "patch.apply",
    "git-clone": "git.clone",
    "git-config": "git.config",
    "git-names": "git.names",
    "interpreter": "compilers.interpreter",
    "ip": "network.ip",
    "javac": "compilers.javac",
    "jq": "jq.read",
    "kubectl-get": "clusters.get",
    "ln": "file_names.ln",
    "make": "make.read",
    "mysql": "servers.mysql",
    "nbconvert": "notebooks.nbconvert",
    "node": "node.read",
    "npm": "node_packages.read",
    "npx": "npx.read",
    "objcopy": "archives.objcopy",
    "pager": "pager.read",
    "pane": "shell_text.pane",
    "papermill": "notebooks.papermill",
    "parallel": "shell_text.parallel",
    "patch": "patch.read",
    "php-tool": "php.tool",
    "pdftotext": "file_names.pdftotext",
    "plantuml": "file_names.plantuml",
    "plain": "system.read",
    "prefix-command": "npx.prefix",
    "ps": "system.ps",
    "psql": "servers.psql",
    "pytest": "python.pytest",
    "python": "python.read",
    "python-archive": "python.archive",
    "python-gzip": "python.gzip",
    "python-runpy": "python.runpy",
    "python-timeit": "python.timeit",
    "rmdir": "file_names.rmdir",
    "script": "shell_text.script",
    "sed": "sed.read",
    "service": "system.service",
    "setting": "system.setting",
    "shell": "shells.read",
    "socat": "network.socat",
    "split": "file_names.split",
    "sqlite": "sqlite.read",
    "ssh": "shell_text.ssh",
    "su": "shell_text.user_shell",
    "sysctl": "system.sysctl",
    "tar": "archives.read",
    "terraform-output": "clusters.output",
    "unzip": "archives.unzip",
    "submodules": "shell_text.submodules",
    "watch": "shell_text.watch",
    "xargs": "xargs.read",
    "yarn-workspace": "node_packages.workspace",
}
"""What `grammar:` in a catalog file may name, and the function that reads it."""


@cache
def reader(name: str) -> Reader:
    """The reader called `name` in the catalog. Raises KeyError where there is none."""
    module, _, function = READERS[name].partition(".")
    found: Reader = getattr(import_module(f"{__name__}.{module}"), function)
    return found
