"""A newcomer, who types what README.md and docs/tutorial.md print and nothing else, gets from a clone to a supervised agent.

Nobody has set anything up: a home with nothing in it, and a PATH without our programs. The commands are taken from the
pages, so that a page that changes changes what is typed here. What people read off the screen is read off it: the id of
a request, and what is asked. One thing is spared but in the long form of this test (`make soak`): `make demo` would install
for a minute from the network; here the clone's .venv borrows the libraries of the one that the tests run in.
"""

import os
import pwd
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from humanlayer_agent.testing.patience import PATIENCE
from tests.support import extent
from tests.support.openai_server import OpenAIServer
from tests.support.pages import ROOT, Block, blocks, steps

TUTORIAL = ROOT / "docs/tutorial.md"
PASSPHRASE = "correct horse battery staple"
READY = "newcomer> "
MODEL = [
    ["cat shop.py"],
    ["sed -i 's/n \\* 3/n * 4/' shop.py && python3 -c 'import shop; print(shop.price(2))'"],
    ["git -c user.name=me -c user.email=me@example.com commit -qam 'Raise the price'"],
    ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"],
]
"""What the model on this machine wants to run."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone: git has nothing to clone from")


@pytest.fixture
def home() -> Iterator[Path]:
    """Not below a folder for temporary files: there the policy would allow too much."""
    with tempfile.TemporaryDirectory(prefix="hla-newcomer-", dir=pwd.getpwuid(os.getuid()).pw_dir) as folder:
        yield Path(folder)


@pytest.fixture
def clone(home: Path) -> Path:
    """What `git clone` makes of this checkout, with its .venv where that is spared."""
    made = home / "humanlayer-agent"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(made)], check=True)
    if extent.SOAK:
        return made
    venv = made / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    libraries = next(venv.glob("lib/python*/site-packages"))
    (libraries / "borrowed.pth").write_text(f"{made}\n{sysconfig.get_path('purelib')}\n")
    program = venv / "bin/hla"
    program.write_text(f"#!{venv}/bin/python\nimport sys\nfrom humanlayer_agent.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    for stamp in (venv / "bin/python", venv / ".run"):
        stamp.touch()
    return made


class Terminal:
    """A terminal in which somebody types."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.environment = {
            "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm", "PS1": READY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the network when it is imported
        }  # fmt: skip
        self._bash = pexpect.spawn(
            "/bin/bash", ["--norc", "--noprofile"], cwd=str(folder), env=self.environment, encoding="utf-8",
            timeout=PATIENCE, dimensions=(48, 100), echo=False,
        )  # fmt: skip
        self.read(READY)

    @property
    def before(self) -> str:
        """What came before the text that was waited for."""
        return _ESCAPES.sub("", str(self._bash.before))

    def read(self, wanted: str) -> str:
        """Wait for a text; returns all that came before it."""
        self._bash.expect_exact(wanted)
        return self.before

    def asks(self) -> bool:
        """Wait for a question, or for the end of what runs."""
        return bool(self._bash.expect_exact(["y run once", READY]) == 0)

    def type(self, line: str) -> None:
        self._bash.sendline(line)

    def press(self, key: str, until: str) -> str:
        """Press a key until it was heard: what is typed before a question stands there is not taken for its answer."""
        while True:
            self._bash.send(key)
            if self._bash.expect_exact([until, pexpect.TIMEOUT], timeout=2) == 0:
                return self.before

    def run(self, command: str) -> str:
        """Type a command, and return what it printed; it has to be known."""
        self.type(command)
        printed = self.read(READY)
        self.type("echo it ended with $?.")
        code = re.search(r"it ended with (\d+)\.", self.read(READY))
        assert code is not None
        assert int(code[1]) not in (2, 126, 127), f"$ {command}\n{printed}"
        return printed

    def close(self) -> None:
        self._bash.close(force=True)


def commands(block: Block) -> list[str]:
    return [step.command for step in steps(block.text)] if block.language == "console" else []


@pytest.mark.long
def test_from_a_clone_to_a_supervised_agent(home: Path, clone: Path) -> None:
    first = Terminal(home, clone)
    second = None
    seen: dict[str, str] = {}
    with OpenAIServer(MODEL) as model:
        for block in blocks(TUTORIAL):
            if block.title:
                path = home / block.title.removeprefix("~/")
                assert path.is_file(), "hla init has made it"
                path.write_text(block.text)
            for command in commands(block):
                if command == "make demo":
                    first.type(command)
                    while first.asks():
                        first.press("y", "approved by")
                    seen[command] = first.before
                elif command == "hla init":
                    seen[command] = set_up(first)
                elif command.startswith("hla run -m anthropic"):
                    continue  # nobody here has a key
                elif command.startswith("hla run"):
                    assert "http://127.0.0.1:11434/v1" in command
                    first.type(command.replace("http://127.0.0.1:11434/v1", model.url))
                    seen["asked"] = first.read("y run once")
                elif command.startswith("hla requests"):
                    second = second or activated(home, clone)
                    if command.startswith("hla requests approve"):
                        seen[command] = approve(second, command, seen["hla requests ls"])
                        seen["hla run"] = first.read(READY)
                    else:
                        seen[command] = second.run(command)
                else:
                    seen[command] = first.run(command)
    first.close()
    assert second is not None
    second.close()
    assert "Next: " in seen["make demo"]
    assert "hla doctor shows what works" in seen["hla init"]
    assert "Makes a commit." in seen["asked"]
    assert "approved" in seen["hla run"]
    assert "The run ended Submitted" in seen["hla run"]
    assert "intact: " in seen["hla audit verify"]
    log = subprocess.run(["git", "log", "--format=%s"], cwd=home / "app", capture_output=True, text=True, check=True)
    assert log.stdout == "Raise the price\n"
    assert "Raise the price" in (home / "app/report.html").read_text()


def set_up(terminal: Terminal) -> str:
    """`hla init`, which asks whether, and for a passphrase twice."""
    terminal.type("hla init")
    shown = terminal.read("anything else not to: ")
    assert "policy.yaml" in shown
    terminal.type("y")
    terminal.read("is made for you): ")
    terminal.type(PASSPHRASE)
    terminal.read(": ")
    terminal.type(PASSPHRASE)
    return terminal.read(READY)


def activated(home: Path, clone: Path) -> Terminal:
    """A second terminal, in which the same environment is activated."""
    made = Terminal(home, clone)
    activate = [each for block in blocks(TUTORIAL) for each in commands(block) if "activate" in each]
    made.run(activate[0])
    made.run("cd ~/app")
    return made


def approve(terminal: Terminal, command: str, listed: str) -> str:
    """Approve the one request that is listed."""
    found = re.search(r"^([0-9a-f]{6,})\s+pending", listed, re.MULTILINE)
    assert found is not None, listed
    terminal.type(command.replace(command.split()[-1], found[1]))
    assert "Makes a commit." in terminal.read("anything else not to: ")
    terminal.type("approve")
    terminal.read("assphrase")
    terminal.type(PASSPHRASE)
    return terminal.read(READY)
