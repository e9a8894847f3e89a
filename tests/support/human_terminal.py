"""A human at a terminal of their own, who runs `hla`, and types a word and the passphrase when asked."""

import os
import sys
from typing import Any

import pexpect

from tests.support import children
from tests.support.keys import PASSPHRASE


def typed(*arguments: str, wanted: str, word: str, passphrase: str = PASSPHRASE, **environ: str) -> tuple[int, str]:
    """Return the exit code, and all that was shown.

    Args:
        arguments: of `hla`.
        wanted: the word that it asks for (`Type "away"`).
        word: what is typed then, as often as it asks; `passphrase` likewise.
        environ: variables that it gets besides ours.
    """
    env = {**os.environ, "LC_ALL": "C.UTF-8", **environ}
    command = ["-m", "humanlayer_agent.cli", *arguments]
    child: Any = children.spawn(sys.executable, command, env=env, timeout=600, encoding="utf-8", dimensions=(50, 200))
    shown = ""
    while (found := child.expect_exact(["Passphrase of your key: ", f'Type "{wanted}"', pexpect.EOF])) != 2:
        shown += child.before + str(child.after)
        child.sendline(passphrase if found == 0 else word)
    shown += child.before
    child.close()
    return child.exitstatus, shown
