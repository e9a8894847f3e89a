"""What stands in examples/fleet does what it is there for: the same commands as processes, with a real PostgreSQL."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board
from tests.support import children
from tests.support.keys import PASSPHRASE, make_key
from tests.support.postgres import LocalServer, local_server

FLEET = Path(__file__).parents[1] / "examples" / "fleet"
HLA = """\
#!{python}
import sys
from humanlayer_agent.channels import registry
registry.FACTORIES = {{"slack": "humanlayer_agent.testing.scripted_channel:build"}}
from humanlayer_agent.cli import main
sys.exit(main(sys.argv[1:]))
"""
CHANNELS = """\
version: 1
people: {{alice: {{slack: T0123ABCD/U0456EFGH}}, operator: {{os_user: {user}}}}}
channels:
  slack: {{type: slack, post_to: C0123456789}}
routes:
  default: {{approvers: [alice], steps: [{{to: slack}}]}}
signers: ["{signer}"]
"""


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FLEET / "compose.yaml").read_text())
    return found


def instructions() -> dict[str, list[str]]:
    """Those of the Dockerfile, by their names."""
    text = re.sub(r"\\\n\s*", "", (FLEET / "Dockerfile").read_text())
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest)
    return found


def service() -> dict[str, list[str]]:
    """What the unit says under [Service], each key with all its values."""
    found: dict[str, list[str]] = {}
    for line in (
        (FLEET / "humanlayer-hub.service").read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines()
    ):
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


class Place:
    """A machine on which what the containers run is run by hand, below a folder in the place of theirs."""

    def __init__(self, folder: Path, server: LocalServer, port: int) -> None:
        self.server = server
        self.port = port
        self.secrets = folder / "secrets"
        self.secrets.mkdir(mode=0o700)
        for name in compose()["secrets"]:
            (self.secrets / name).write_text(f"{PASSPHRASE if name == 'passphrase' else f'of {name} its'}\n")
            (self.secrets / name).chmod(0o600)
        (folder / "bin").mkdir()
        hla = folder / "bin" / "hla"
        hla.write_text(HLA.format(python=sys.executable))
        hla.chmod(0o700)
        psql = shutil.which("psql")
        assert psql is not None
        self.board = Board(folder / "board")
        self.environ = {
            **{name: value for name, value in os.environ.items() if name != "HUMANLAYER_STORE"},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HUMANLAYER_TEST_BOARD": str(self.board.folder),
            "SLACK_BOT_TOKEN": "xoxb-1",
            "SLACK_APP_TOKEN": "xapp-1",
        }

    def local(self, text: str) -> str:
        """The text as it is meant here."""
        text = text.replace("$$", "$").replace("/run/secrets", str(self.secrets)).replace("9187", str(self.port))
        text = re.sub(r"postgresql://(\w+)@db/humanlayer", lambda found: self.url(found[1]), text)
        return text.replace("/logins.sql", str(FLEET / "logins.sql"))

    def url(self, user: str) -> str:
        return self.server.url("humanlayer", user)

    def start(self, name: str, about: dict[str, Any], **more: Any) -> subprocess.Popen[str]:
        """Start what a service runs: its own words, or those of the image."""
        image = instructions()
        entry = about.get("entrypoint") or json.loads(image["ENTRYPOINT"][0])
        command = about.get("command") or json.loads(image["CMD"][0])
        said = dict(each.split("=", 1) for each in image["ENV"] if not each.startswith("HOME="))
        said |= about.get("environment", {})
        words = [str(self.server.folder) if word == "db" else self.local(word) for word in (*entry, *command)]
        environ = {**self.environ, **{key: self.local(value) for key, value in said.items()}}
        return children.Popen(words, env=environ, text=True, stdin=subprocess.DEVNULL, start_new_session=True, **more)

    def healthy(self) -> bool:
        """Whether the image's own check says so."""
        check = instructions()["HEALTHCHECK"][0].partition(" CMD ")[2]
        words = [self.local(word) for word in json.loads(check)]
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, env=self.environ)
        return done.returncode == 0


@pytest.fixture
def place(tmp_path: Path, own_user: Path) -> Iterator[Place]:
    with local_server() as server:
        server.administer("CREATE ROLE owner LOGIN SUPERUSER", "CREATE DATABASE humanlayer OWNER owner")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        yield Place(tmp_path, server, port)


@pytest.mark.long
def test_the_services_in_order_and_a_hub_that_is_well_while_its_database_is(place: Place, own_user: Path) -> None:
    services = compose()["services"]
    for name in ("store", "store", "logins", "logins"):  # each again, as with every `docker compose up`
        process = place.start(name, services[name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
    for login, part in (("hub", "approver"), ("agents", "agent"), ("auditor", "auditor")):
        with closing(PostgresStore(place.url(login), create=False)) as store:
            assert store.access()[0] == part
    (signer,) = {make_key().fingerprint}
    config = own_user / ".config" / "humanlayer-agent"
    config.mkdir(parents=True, exist_ok=True)
    (config / "channels.yaml").write_text(CHANNELS.format(user=os_user().split(":")[2], signer=signer))
    hub = place.start("hub", services["hub"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: hub.poll() is not None or place.healthy(), "that the hub is well")
        assert hub.poll() is None, hub.communicate()[0]
        place.server.kill()
        until(lambda: not place.healthy(), "that the check sees it")
        (place.server.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        place.server.start()
        until(place.healthy, "that the hub is well again")
        hub.send_signal(getattr(signal, instructions()["STOPSIGNAL"][0]))
        assert hub.wait(timeout=600) == 0
    finally:
        hub.kill()
        hub.communicate()


def test_no_secret_stands_in_an_example() -> None:
    made = compose()
    text = (FLEET / "compose.yaml").read_text() + (FLEET / "Dockerfile").read_text()
    assert not re.search(r"(?i)password\s*[:=]\s*['\"]?\w", text.replace("PASSWORD_FILE", "").replace("_password", ""))
    used = {name for each in made["services"].values() for name in each.get("secrets", ())}
    assert used == made["secrets"].keys()
    for each in made["services"].values():
        assert not each.get("ports"), "nothing is reached from outside but what somebody opens"
        for name, value in each.get("environment", {}).items():
            assert "PASS" not in name or value.startswith("/run/secrets/"), name
    user = instructions()["RUN"][0]
    assert "--uid 10001" in user
    assert "10001" in (FLEET / "compose.yaml").read_text()
    assert instructions()["USER"] == ["humanlayer"]
    assert made["services"]["hub"]["read_only"] is True


def test_the_unit_starts_what_the_image_starts() -> None:
    image = [*json.loads(instructions()["ENTRYPOINT"][0]), *json.loads(instructions()["CMD"][0])]
    (started,) = service()["ExecStart"]
    program, *words = shlex.split(started)
    assert [Path(program).name, *words] == image
    said = [each.partition("=")[0] for each in service()["Environment"]]
    assert PASSPHRASE_VARIABLE in said
    assert service()["KillSignal"] == instructions()["STOPSIGNAL"]
    configparser.ConfigParser(strict=False, interpolation=None).read_string(
        (FLEET / "humanlayer-hub.service").read_text()
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd (allowed in CI)")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (FLEET / "humanlayer-hub.service").read_text().replace("/opt/humanlayer-agent/bin/hla", "/bin/true")
    unit = tmp_path / "humanlayer-hub.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
