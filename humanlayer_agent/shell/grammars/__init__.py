"""Readers for arguments that options and slots can't describe: one module a program or family.

A reader has the signature of `invoke.apply`: it notes in `command` what the words do.
"""

from collections.abc import Callable
from typing import Any

from humanlayer_agent.shell.grammars import (
    awk,
    build,
    cloud,
    compress,
    dd,
    env,
    find,
    git,
    joined,
    jq,
    names,
    net,
    pager,
    patch,
    plain,
    python,
    sed,
    shells,
    tar,
    unpack,
    xargs,
)

Reader = Callable[..., Any]

GRAMMARS: dict[str, Reader] = {
    "at": joined.input_script,
    "awk": awk.read,
    "cloud": cloud.read,
    "compiler": build.compiler,
    "compress": compress.read,
    "dd": dd.read,
    "as-user": joined.as_user,
    "cpio": unpack.cpio,
    "django": python.django,
    "entr": joined.entr,
    "env": env.read,
    "find": find.read,
    "flock": joined.flock,
    "gh": cloud.gh,
    "git-clone": git.clone,
    "git-config": git.config,
    "git-apply": patch.apply,
    "interpreter": build.interpreter,
    "ip": net.ip,
    "jq": jq.read,
    "ln": names.ln,
    "make": build.make,
    "pager": pager.read,
    "parallel": joined.parallel,
    "patch": patch.read,
    "script": joined.script,
    "unzip": unpack.unzip,
    "plain": plain.read,
    "python": python.read,
    "rmdir": names.rmdir,
    "sed": sed.read,
    "shell": shells.read,
    "socat": net.socat,
    "split": names.split,
    "ssh": joined.ssh,
    "su": joined.user_shell,
    "tar": tar.read,
    "watch": joined.watch,
    "xargs": xargs.read,
}
