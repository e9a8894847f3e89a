"""Dovecot on loopback, for tests: the IMAP server that most mailboxes are on. Debian's package is dovecot-imapd."""

import getpass
import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from humanlayer_agent.testing.patience import PATIENCE
from tests.support.certificates import Certificates
from tests.support.mail_servers import PASSWORD, ImapServer, await_port, free_port

_CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{certificate}
ssl_key = <{key}
auth_mechanisms = plain login
default_internal_user = {internal}
default_internal_group = {group}
default_login_user = {internal}
mail_location = maildir:{folder}/mail/%n
mail_fsync = never
first_valid_uid = 0
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%n allow_all_users=yes
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
"""


def find_dovecot() -> str | None:
    """The program, where a version is installed whose settings we know (2.3)."""
    program = shutil.which("dovecot") or shutil.which("/usr/sbin/dovecot")
    if program is None:
        return None
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return program if found.stdout.startswith("2.3.") else None


@contextmanager
def dovecot(folder: Path, certificates: Certificates) -> Iterator[ImapServer]:
    """A server on a free port, with an empty mailbox, over STARTTLS.

    Args:
        folder: for its files; as root, every folder above must be open for the users that it changes to.
    """
    program = find_dovecot()
    if program is None:
        raise RuntimeError("there is no Dovecot 2.3 here: apt-get install dovecot-imapd")
    (folder / "mail").mkdir(parents=True)
    root = os.getuid() == 0
    internal = pwd.getpwnam("dovecot" if root else getpass.getuser())
    owner = pwd.getpwnam("nobody") if root else internal
    if root:
        os.chown(folder / "mail", owner.pw_uid, owner.pw_gid)
        for each in (folder, *folder.parents):
            if each.stat().st_uid == 0 and not each.stat().st_mode & 0o001:
                each.chmod(each.stat().st_mode | 0o011)
    port = free_port()
    (folder / "dovecot.conf").write_text(
        _CONFIGURATION.format(
            folder=folder,
            certificate=certificates.certificate,
            key=certificates.key,
            internal=internal.pw_name,
            group=grp.getgrgid(internal.pw_gid).gr_name,
            uid=owner.pw_uid,
            gid=owner.pw_gid,
            password=PASSWORD,
            port=port,
        )
    )
    process = subprocess.Popen(
        [program, "-F", "-c", str(folder / "dovecot.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await_port(port, process)
        yield ImapServer(port, certificates)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
