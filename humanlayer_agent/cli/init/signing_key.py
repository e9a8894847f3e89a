"""The signing key in `hla init`: a passphrase for a new one, and its place among the signers; and `hla key`.

A key that is there already is named as a signer only after it was unlocked: an agent's command may have put it there.
"""

import os
import re
import sys
from pathlib import Path

from humanlayer_agent.cli.init.signer_list import app as signers_app
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.keys import passphrase
from humanlayer_agent.keys.key_file import LockedKey, parsed, read_locked, read_private, write_new
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, key_path
from humanlayer_agent.processes.tty import controlling_terminal

_LONGEST = 10_000
_NO_SIGNERS = "signers: []"
_EMPTY = re.compile(rf"^{re.escape(_NO_SIGNERS)}[ \t]*$", re.MULTILINE)


def source() -> str:
    """Return where the passphrase of a new key comes from, in words."""
    named = os.environ.get(PASSPHRASE_VARIABLE)
    return f"the first line of {named!a} ({PASSPHRASE_VARIABLE})" if named else "a passphrase that you type"


def can_lock(project: Path | None) -> bool:
    """Tell whether a passphrase is to be had here: from the file, or from a human at the terminal.

    Raises:
        ConfigError: the file can't be used.
    """
    if _in_file(project) is not None:
        return True
    try:
        with controlling_terminal():
            return True
    except NoTerminal:
        return False


def new_passphrase(project: Path | None) -> str:
    """The passphrase of a new key.

    Raises:
        ConfigError: there is none to be had.
    """
    said = _in_file(project)
    if said is not None:
        return said
    try:
        with controlling_terminal() as fd:
            return passphrase.chosen(fd)
    except NoTerminal as error:
        raise ConfigError(f"a passphrase for your signing key can't be asked for: {error}") from error


def is_ours(signer: Signer, project: Path | None) -> bool:
    """Tell whether a key that is there may be named as a signer: it is one, or the human here can unlock it.

    Raises:
        ConfigError: the file with the passphrase can't be used, or does not unlock it.
    """
    from humanlayer_agent.keys.unlock import ask, unlock

    if not os.path.lexists(key_path()):
        return False
    if signer.fingerprint in listed():
        return True
    if os.environ.get(PASSPHRASE_VARIABLE):
        unlock(signer, project=project)
        return True
    try:
        with controlling_terminal() as fd:
            return ask(fd, signer, "Passphrase of the key that is there, to name it as a signer: ")
    except NoTerminal:
        return False


def signers(fingerprint: str) -> str:
    """The lines of a channels file that name one signer, or none."""
    return f'signers:\n  - "{fingerprint}"' if fingerprint else _NO_SIGNERS


def has_no_signers(path: Path) -> bool:
    """Tell whether a channels file has the empty list that `signers` writes. (One that is a link is somebody's own
    work.)
    """
    try:
        return not path.is_symlink() and len(_EMPTY.findall(path.read_text(encoding="utf-8"))) == 1
    except (OSError, UnicodeDecodeError):
        return False


def with_signer(path: Path, fingerprint: str) -> str:
    """The text of such a file, with a signer."""
    return _EMPTY.sub(signers(fingerprint), path.read_text(encoding="utf-8"))


def _in_file(project: Path | None) -> str | None:
    said = passphrase.in_file(project)
    if said is not None and (problem := passphrase.fault(said)):
        raise ConfigError(f"{PASSPHRASE_VARIABLE}: that can't be a passphrase: {problem}")
    return said


def listed() -> frozenset[str]:
    """The signers that the channels files name; none where they can't be read."""
    from humanlayer_agent.channels import settings

    try:
        return frozenset(settings.load().signers)
    except ConfigError:
        return frozenset()


def others_beside(fingerprint: str) -> list[str]:
    """The signers that the channels files themselves name, and no signed list, but for one."""
    from humanlayer_agent.channels import settings

    try:
        found = settings.load()
    except ConfigError:
        return []
    return sorted(found.signers - {fingerprint} - (found.fleet.list.names.keys() if found.fleet else set()))


app = Commands(
    help="""Bring your signing key to another machine, locked with your passphrase on the way, and see whose keys count.

    Examples: hla key export | ssh other hla key import;  hla key signers ls"""
)
app.add_typer(signers_app, name="signers")


@app.command("export")
def export() -> None:
    """Print your signing key as its file has it: locked with your passphrase.

    Example: hla key export > my.key
    """
    read_locked(key_path())
    sys.stdout.write(read_private(key_path()).decode())


@app.command("import")
def import_() -> None:
    """Make the locked key on standard input your signing key on this machine. One that is there already stays.

    It counts once a channels file of this machine names it: hla init does that, and asks for its passphrase.

    Example: hla key import < my.key
    """
    text = sys.stdin.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ConfigError("what stands on standard input is too long for a key")
    parsed(text.encode(), key_path(), LockedKey.of)
    write_new(key_path(), text)
    print(f"your signing key is {Signer(key_path()).fingerprint} here as well; hla init names it as a signer")
