"""The passphrase of a signing key: typed at the controlling terminal, or the first line of a file.

It goes from there to the key and nowhere else: no argument, no variable, no log and no message ever holds it.
"""

import os
import secrets
import stat
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, is_inside
from humanlayer_agent.processes.memory_protection import protect_secrets
from humanlayer_agent.processes.tty import discard_input, listeners, read_line, restored, write

SHORTEST, LONGEST = 12, 1000
"""Characters of a passphrase."""
_FEWEST_DIFFERENT = 6
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""What is told from each other in any typeface."""
_GROUPS, _GROUP = 6, 5
_READ_BY_OTHERS, _ROOTS_GROUP = 0o077, 0o040
_LFLAG, _CC = 3, 6


def made() -> str:
    """A new passphrase that nobody guesses: 30 letters and digits (148 bits) in groups.

    Example:
        >>> len(made()), made().count("-")
        (35, 5)
    """
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))


def fault(passphrase: str) -> str:
    """Return why this can't be the passphrase of a key; "" if it can."""
    if len(passphrase) < SHORTEST:
        return f"it has fewer than {SHORTEST} characters"
    if len(passphrase) > LONGEST:
        return f"it has more than {LONGEST} characters"
    if len(set(passphrase)) < _FEWEST_DIFFERENT:
        return f"it has fewer than {_FEWEST_DIFFERENT} different characters"
    return "" if passphrase.isprintable() else "it has characters that can't be seen"


@contextmanager
def silenced(fd: int) -> Iterator[None]:
    """Show nothing of what is typed in the block, be it before, between or after the prompts in it. What is left of it
    goes to nobody.

    Raises:
        NoTerminal: the terminal can't be silenced.
    """
    with restored(fd):
        modes = termios.tcgetattr(fd)
        modes[_LFLAG] &= ~termios.ECHO
        modes[_LFLAG] |= termios.ICANON | termios.ISIG
        modes[_CC][termios.VSUSP] = b"\0"  # stopped, the shell would make the terminal show what is typed afterwards
        termios.tcsetattr(fd, termios.TCSAFLUSH, modes)
        try:
            yield
        finally:
            discard_input(fd)


def typed(fd: int, prompt: str, over: Callable[[], bool] | None = None) -> str:
    """One line that a human types; nothing of it is shown. What was typed before the prompt does not count.

    The human is warned of processes that could read along.

    Args:
        fd: the controlling terminal.
        over: nobody waits for it any more; then it is "".

    Raises:
        NoTerminal: the terminal can't be silenced.
        KeyboardInterrupt: Ctrl-C; the terminal is as it was before.
    """
    protect_secrets()
    with silenced(fd):
        for each in listeners():
            write(
                fd,
                f"Warning: {each} has this terminal open, and could read what you type. Ctrl-C if you don't know it.\n",
            )
        discard_input(fd)
        write(fd, prompt)
        try:
            return read_line(fd, over)
        finally:
            write(fd, "\n")


def chosen(fd: int) -> str:
    """A new passphrase, typed twice; Enter alone has one made, which is shown once.

    Raises:
        NoTerminal, KeyboardInterrupt: see `typed`.
    """
    with silenced(fd):
        write(
            fd,
            "A passphrase locks your signing key, because agents' commands run as you: without it none of them signs\n"
            "an answer in your name. You type it when you answer with hla requests, when a hub starts, and at an\n"
            "agent's prompt where other programs can type too (tmux).\n",
        )
        while True:
            first = typed(fd, f"Passphrase ({SHORTEST} characters or more; Enter alone: one is made for you): ")
            if not first:
                return _shown(fd, made())
            if problem := fault(first):
                write(fd, f"Not that one: {problem}.\n")
            elif typed(fd, "The same again: ") != first:
                write(fd, "These were two different ones.\n")
            else:
                return first


def in_file(project: Path | None = None) -> str | None:
    """The first line of the file that $HUMANLAYER_PASSPHRASE_FILE names; None where that is not set.

    Args:
        project: the file must not lie in there.

    Raises:
        ConfigError: the file can't be used.
    """
    named = os.environ.get(PASSPHRASE_VARIABLE)
    if not named:
        return None
    protect_secrets()
    path = Path(named)
    if not path.is_absolute():
        raise ConfigError(f"{PASSPHRASE_VARIABLE}: {path} is no absolute path")
    if is_inside(path, project):
        raise ConfigError(f"{PASSPHRASE_VARIABLE}: {path} lies in the project, where agents work")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()) or _is_open(about):
                why = "must be a file of yours, or root's, that nobody else may read: chmod 600"
                raise ConfigError(f"{PASSPHRASE_VARIABLE}: {path} {why}")
            line = file.readline(4 * LONGEST + 2)
    except OSError as error:
        raise ConfigError(f"{PASSPHRASE_VARIABLE}: {path} can't be read: {error.strerror}") from error
    try:
        said = line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        said = ""
    if not said:
        raise ConfigError(f"{PASSPHRASE_VARIABLE}: {path} has no passphrase on its first line")
    return said


def _is_open(about: os.stat_result) -> bool:
    """Tell whether others may read it. (systemd's LoadCredential gives root's group the right that its ACL means for
    us.)
    """
    for_others = about.st_mode & _READ_BY_OTHERS
    return bool(for_others & ~_ROOTS_GROUP if about.st_uid == about.st_gid == 0 else for_others)


def _shown(fd: int, passphrase: str) -> str:
    """Show a passphrase until Enter; then it is gone from the screen."""
    write(fd, f"\n    {passphrase}\n\n")
    write(fd, "Put it in a password manager now: it is not shown again, and there is no other copy.\n")
    typed(fd, "Enter when it is there: ")
    write(fd, "\x1b[5A\x1b[J")
    return passphrase
