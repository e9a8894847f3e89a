"""Unlocks the user's signing key in this process: with what a human types at its terminal, or what a file says."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.keys import passphrase
from humanlayer_agent.keys.key_file import WrongPassphrase
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from humanlayer_agent.processes.tty import controlling_terminal, write

TRIES = 3
"""So often a passphrase may be typed."""

_PROMPT = "Passphrase of your key: "
_OR_FILE = f"(or let {PASSPHRASE_VARIABLE} name a file that holds it)"

PROOF_S = 900
"""So many seconds a typed passphrase proves who answers at a terminal where other programs can type as well."""

_lock = threading.Lock()
_proofs: dict[tuple[int, str], float] = {}  # by process and key: until when, in monotonic seconds
_runs: dict[tuple[int, str], Signer | None] = {}  # by process and key: None where the human did not want it


def unlock(signer: Signer, *, project: Path | None = None) -> None:
    """Unlock `signer` with the file that $HUMANLAYER_PASSPHRASE_FILE names, else ask at the controlling terminal.

    Args:
        project: the file must not lie in there.

    Raises:
        ConfigError: it is still locked, and why.
    """
    if (said := passphrase.in_file(project)) is not None:
        try:
            signer.unlock(said)
        except WrongPassphrase as error:
            raise ConfigError(f"{PASSPHRASE_VARIABLE}: {error}") from None
        return
    try:
        with controlling_terminal() as fd:
            if not ask(fd, signer):
                raise ConfigError("your key stays locked: nothing was started")
    except NoTerminal as error:
        raise ConfigError(f"your key is locked, and its passphrase can't be asked for: {error} {_OR_FILE}") from error


def ask(
    fd: int,
    signer: Signer,
    prompt: str = _PROMPT,
    wrong: Callable[[], None] = lambda: None,
    over: Callable[[], bool] | None = None,
) -> bool:
    """Have a human type the passphrase, and tell whether it has unlocked `signer`. Enter alone gives up.

    Args:
        fd: the controlling terminal.
        wrong: called after each passphrase that is not the one.
        over: nobody waits for it any more.

    Raises:
        ConfigError: the key file can't be used. NoTerminal: the terminal can't be silenced.
    """
    with passphrase.silenced(fd):  # also while a try is looked at: the next one may be typed already
        for left in reversed(range(TRIES)):
            said = passphrase.typed(fd, prompt, over)
            if not said:
                return False
            try:
                signer.unlock(said)
            except WrongPassphrase:
                more = "" if left else f" {TRIES} tries are enough."
                write(fd, f"That does not unlock it.{more}\n")
                wrong()
            else:
                return True
    return False


def has_proved(signer: Signer) -> bool:
    """Tell whether the passphrase of `signer` was typed for `prove` in this process within `PROOF_S` seconds.

    Raises:
        ConfigError: the key file can't be used.
    """
    return time.monotonic() < _proofs.get((os.getpid(), signer.fingerprint), float("-inf"))


def prove(fd: int, signer: Signer, over: Callable[[], bool], wrong: Callable[[], None] = lambda: None) -> bool:
    """Have a human type the passphrase of `signer`, as proof that no other process types; once for `PROOF_S` seconds.

    This process remembers that it was typed, and nothing else of it: hand over a key of its own for this, and drop it.

    Args:
        fd: the controlling terminal.
        over, wrong: see `ask`.

    Raises:
        ConfigError: the key file can't be used. NoTerminal: the terminal can't be silenced.
    """
    if has_proved(signer):
        return True
    known = (os.getpid(), signer.fingerprint)
    prompt = f"Passphrase of your key (once for {PROOF_S // 60} minutes; Enter alone: back): "
    if proved := ask(fd, signer, prompt, wrong, over):
        _proofs[known] = time.monotonic() + PROOF_S
    return proved


def unlock_for_runs(signer: Signer, channels: Sequence[str], *, asked: bool, project: Path | None = None) -> Signer:
    """The same key, unlocked for every run of this process that is to serve `channels` itself.

    A human is asked once a process, however many runs it has.

    Args:
        asked: whether there is somebody at this process's terminal.

    Raises:
        ConfigError: it is locked, and why.
    """
    known = (os.getpid(), signer.fingerprint)
    with _lock:
        if known not in _runs:
            if asked and not os.environ.get(PASSPHRASE_VARIABLE):
                _runs[known] = _asked(signer, channels)
            elif (said := passphrase.in_file(project)) is not None:
                signer.unlock(said)
                _runs[known] = signer
            else:
                raise ConfigError(f"your key is locked: let hla hub serve them {_OR_FILE}")
        unlocked = _runs[known]
    if unlocked is None:
        raise ConfigError("your key stays locked here: hla hub serves them")
    return unlocked


def _asked(signer: Signer, channels: Sequence[str]) -> Signer | None:
    try:
        with controlling_terminal() as fd:
            prompt = f"Passphrase of your key, to serve {', '.join(channels)} from here (Enter alone: not from here): "
            return signer if ask(fd, signer, prompt) else None
    except NoTerminal as error:
        raise ConfigError(f"your key is locked: {error} {_OR_FILE}") from error
