"""Readers for arguments that options and slots can't describe: one module a program or family.

A reader has the signature of `invoke.apply`: it notes in `command` what the words do.
"""

from collections.abc import Callable
from typing import Any

from humanlayer_agent.shell.grammars import (
    awk,
    compress,
    dd,
    env,
    find,
    git,
    joined,
    jq,
    names,
    pager,
    patch,
    plain,
    python,
    sed,
    shells,
    tar,
    xargs,
)

Reader = Callable[..., Any]

GRAMMARS: dict[str, Reader] = {
    "at": joined.input_script,
    "awk": awk.read,
    "compress": compress.read,
    "dd": dd.read,
    "env": env.read,
    "find": find.read,
    "flock": joined.flock,
    "git-clone": git.clone,
    "git-config": git.config,
    "git-apply": patch.apply,
    "jq": jq.read,
    "ln": names.ln,
    "pager": pager.read,
    "patch": patch.read,
    "plain": plain.read,
    "python": python.read,
    "rmdir": names.rmdir,
    "sed": sed.read,
    "shell": shells.read,
    "split": names.split,
    "ssh": joined.ssh,
    "su": joined.user_shell,
    "tar": tar.read,
    "watch": joined.watch,
    "xargs": xargs.read,
}
