"""e: a human changes a command, on real terminals, with a real gate behind them."""

import os
import pwd
import select
import shlex
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.filters import Condition
from prompt_toolkit.keys import Keys

from humanlayer_agent.channels.terminal import TerminalAsker
from humanlayer_agent.channels.terminal.inline_editor import CommandEditor
from humanlayer_agent.channels.terminal.key_presses import KeyGuard
from humanlayer_agent.channels.terminal.queue import turn
from humanlayer_agent.store.sqlite import SQLiteStore

PRINCIPAL = f"os:{os.getuid()}:{pwd.getpwuid(os.getuid()).pw_name}"
STAY = "i=0; while [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done"
"""What an editor script does while it is open: it ends by itself where a test could not end it."""
KILL_LINE, SUBMIT, EDITOR, ESC, ALT_ENTER = "\x0b", "\x13", "\x18", "\x1b", "\x1b\r"

PROGRAM = """
import gc
gc.disable()  # it ends soon
import json, os, subprocess, sys
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.channels.terminal import TerminalAsker
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector

options = json.loads(sys.argv[1])
director = ScriptedDirector({"FORBIDDEN": Verdict.DENY, "QUESTION": Verdict.ASK})
gate = Gate(director, SQLiteStore(options["store"]), TerminalAsker())
action = Action(options["command"], cwd=options["cwd"], project=options["cwd"], agent="bot", model_intent="I clean up")
permit = gate.check(action)
if isinstance(permit, Permit) and gate.start(permit, permit.action) is None:
    done = subprocess.run([*permit.action.interpreter, permit.action.content], cwd=permit.action.cwd,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    gate.finish(permit, Outcome(done.returncode))
    result = ["ran", permit.action.content, done.stdout, permit.approved_by, permit.edited_by]
else:
    result = ["denied", permit.by, permit.reason, permit.edited, permit.terminate]
with open(options["result"] + ".new", "w") as file:
    json.dump(result, file)
os.rename(options["result"] + ".new", options["result"])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the command runs."""
    directory = tmp_path / "place"
    directory.mkdir()
    return directory


@pytest.fixture
def ask(open_screen: Callable[..., Any], tmp_path: Path, place: Path, empty_store: bytes) -> Callable[..., Any]:
    """Has the gate ask about a command at a new terminal, and waits until keys count."""
    store = tmp_path / "store"
    store.touch(0o600)
    store.write_bytes(empty_store)

    def start(command: str = "touch QUESTION", **options: Any) -> Any:
        given = {"program_text": PROGRAM, "store": str(store), "cwd": str(place)}
        screen = open_screen(command=command, **given, **options)
        screen.armed("n reject")
        return screen

    return start


def edit(screen: Any, text: str, shown: str = "") -> None:
    """Types `text` in place of the (one line of the) command."""
    screen.send("e")
    screen.shows("Change the command")
    screen.send(KILL_LINE + text)
    screen.shows(shown or f"1 {text}")


def submit(screen: Any, key: str = SUBMIT) -> None:
    screen.armed("Ctrl-S submit")
    screen.send(key)


def states(tmp_path: Path) -> list[str]:
    store = SQLiteStore(tmp_path / "store", create=False)
    assert store.verify().intact
    return [request.state for request in store.requests()]


@pytest.mark.parametrize("key", [SUBMIT, ALT_ENTER], ids=["Ctrl-S", "Alt-Enter"])
def test_what_the_policy_allows_runs(ask: Any, place: Path, tmp_path: Path, key: str) -> None:
    screen = ask()
    edit(screen, "touch changed; echo yq")
    submit(screen, key)
    assert screen.result() == ["ran", "touch changed; echo yq", "yq\n", "", PRINCIPAL]
    assert [path.name for path in place.iterdir()] == ["changed"]
    assert states(tmp_path) == ["superseded"]
    screen.ended()
    assert f"changed by {pwd.getpwuid(os.getuid()).pw_name} to: touch changed" in screen.text()


def test_what_the_policy_denies_does_not_and_the_human_is_told(ask: Any, place: Path, tmp_path: Path) -> None:
    screen = ask()
    edit(screen, "touch FORBIDDEN")
    submit(screen)
    kind, by, reason, edited, _ = screen.result()
    assert (kind, by, edited) == ("denied", "policy", "touch FORBIDDEN")
    screen.ended()
    assert f"not run: {reason}" in " ".join(screen.text().split())
    assert "the policy denies the edited command (rule FORBIDDEN)" in reason
    assert list(place.iterdir()) == []
    assert states(tmp_path) == ["superseded"]


def test_what_the_policy_asks_about_is_shown_again(ask: Any, place: Path, tmp_path: Path) -> None:
    screen = ask()
    assert "bot wants to run this" in screen.text()
    edit(screen, "touch QUESTION-2")
    submit(screen)
    screen.shows("bot would run this, as it was changed")
    screen.shows("1 │ touch QUESTION-2")
    assert "I clean up" not in screen.text()
    screen.armed()
    assert list(place.iterdir()) == []
    screen.send("y")
    assert screen.result() == ["ran", "touch QUESTION-2", "", PRINCIPAL, PRINCIPAL]
    assert [path.name for path in place.iterdir()] == ["QUESTION-2"]
    assert states(tmp_path) == ["superseded", "approved"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("keys", "terminate"),
    [
        (["n", "\r"], False),
        (["q", "y"], True),
        (["\x03"], True),
    ],
)
def test_the_second_question_may_be_answered_with_no(
    ask: Any, place: Path, tmp_path: Path, keys: list[str], terminate: bool
) -> None:
    screen = ask()
    edit(screen, "touch QUESTION-2")
    submit(screen)
    screen.shows("as it was changed")
    screen.armed()
    labels = {"\r": "Enter reject", "y": "y stop"}
    for key in keys:
        if key in labels:
            screen.armed(labels[key])
        screen.send(key)
    assert screen.result()[0:2] == ["denied", "human"]
    assert screen.result()[3:] == ["touch QUESTION-2", terminate]
    assert list(place.iterdir()) == []


@pytest.mark.long
def test_an_edit_of_an_edit(ask: Any, tmp_path: Path) -> None:
    screen = ask()
    edit(screen, "touch QUESTION-2")
    submit(screen)
    screen.shows("as it was changed")
    screen.armed("e edit")
    edit(screen, "echo third")
    submit(screen)
    assert screen.result()[:3] == ["ran", "echo third", "third\n"]
    assert states(tmp_path) == ["superseded", "superseded"]


def test_escape_goes_back_and_keeps_the_change(ask: Any, place: Path) -> None:
    screen = ask()
    edit(screen, "touch changed")
    screen.armed("Ctrl-S submit")
    screen.send(ESC)
    screen.shows("not submitted: e goes on with your change, y runs the command above as it is")
    screen.shows("1 │ touch QUESTION")
    screen.armed("e edit")
    screen.send("e")
    screen.shows("1 touch changed")
    screen.armed("Ctrl-S submit")
    screen.send(ESC)
    screen.armed()
    screen.send("y")
    assert screen.result()[:2] == ["ran", "touch QUESTION"]


@pytest.mark.long
def test_nothing_changed_goes_back(ask: Any) -> None:
    screen = ask()
    screen.send("e")
    screen.shows("Change the command")
    screen.send("x")
    screen.shows("1 xtouch")
    screen.armed("Ctrl-S submit")
    screen.send("\x7f")
    screen.until(lambda: "xtouch" not in screen.text(), "the old text")
    submit(screen)
    screen.shows("nothing was changed")
    screen.armed("n reject")
    screen.send("n")
    screen.armed("Enter reject")
    screen.send("\r")
    assert screen.result()[:3] == ["denied", "human", f"rejected by {PRINCIPAL}"]


def test_no_command_is_left(ask: Any) -> None:
    screen = ask()
    screen.send("e")
    screen.shows("Change the command")
    screen.send(KILL_LINE)
    screen.until(lambda: "touch QUESTION" not in screen.text(), "an empty line")
    submit(screen)
    screen.shows("there is no command left")
    screen.send("\x03")
    assert screen.result()[4]


@pytest.mark.long
def test_several_lines_and_tabs(ask: Any) -> None:
    screen = ask()
    edit(screen, "cat <<-END")
    screen.send("\r\tone\n\t\ttwo\rEND")
    screen.shows("→   →   two")
    submit(screen)
    assert screen.result()[:3] == ["ran", "cat <<-END\n\tone\n\t\ttwo\nEND", "one\ntwo\n"]


def test_ctrl_c_stops_the_run(ask: Any, place: Path) -> None:
    screen = ask()
    edit(screen, "touch changed")
    screen.send("\x03")
    assert screen.result()[0] == "denied"
    assert screen.result()[4]
    assert list(place.iterdir()) == []


# Pastes


def test_a_paste_is_text_and_submits_nothing(ask: Any) -> None:
    screen = ask()
    edit(screen, "echo")
    screen.send("\x1b[200~ a\r  b\x13\x18\x1b[201~" + SUBMIT)
    screen.shows(r"b\x13\x18")
    screen.shows("ignored: keys came all at once")
    screen.armed("Ctrl-S submit")
    screen.send("\x7f" * 8)
    screen.until(lambda: "\\x" not in screen.text(), "the text without what can't be seen")
    submit(screen)
    assert screen.result()[1] == "echo a\n  b"


@pytest.mark.parametrize("end", ["\x13", *(pytest.param(key, marks=pytest.mark.long) for key in ("\x1b\r", "\x18"))])
def test_a_paste_without_brackets_submits_nothing(ask: Any, end: str, tmp_path: Path) -> None:
    screen = ask()
    edit(screen, "echo")
    screen.send(" pasted" + end)
    screen.shows("ignored: keys came all at once")
    screen.shows("1 echo pasted")
    assert states(tmp_path) == ["pending"]
    submit(screen)
    assert screen.result()[2] == "pasted\n"


def test_what_can_not_be_seen_is_spelled_out(ask: Any) -> None:
    """What runs is what was on the screen: the spelling, not the character."""
    screen = ask()
    edit(screen, "echo")
    screen.send("\x1b[200~ 'a\u200bb\u202ec\x1b[2Jd'\x1b[201~")
    screen.shows(r"echo 'a\u{200b}b\u{202e}c\x1b[2Jd'")
    screen.shows("what can't be seen is spelled out here")
    submit(screen)
    assert screen.result()[2] == "a\\u{200b}b\\u{202e}c\\x1b[2Jd\n"
    assert "\u200b".encode() not in screen.raw
    assert "\u202e".encode() not in screen.raw


def test_a_command_with_what_can_not_be_seen(ask: Any, tmp_path: Path) -> None:
    """It can't be edited in place; in the human's editor it is what it is, to the byte."""
    editor = script(tmp_path, 'cp "$1" "$HOME/seen"; sed -i "s/QUESTION/changed/" "$1"')
    command = "echo 'QUESTION\u200b\u202e \x1b[2J\r\n'"
    screen = ask(command, env={"EDITOR": editor})
    screen.send("e")
    screen.shows("not in place: it has characters that can't be seen (Ctrl-X opens it in your editor)")
    screen.armed("e edit")
    screen.send(EDITOR)
    assert screen.result()[1] == command.replace("QUESTION", "changed")
    assert (tmp_path / "seen").read_bytes() == command.encode() + b"\n"


class Typed:
    """A command editor, the keys that it gets, and what it says; time passes as the test wants."""

    def __init__(self, command: str) -> None:
        self.now = 100.0
        self.guard = KeyGuard(lambda: self.now)
        self.heard: list[tuple[str, str]] = []
        self.editor = CommandEditor(
            command,
            command,
            guard=self.guard,
            clock=lambda: self.now,
            note=lambda text: self.heard.append(("note", text)) if text else None,
            back=lambda text: self.heard.append(("back", text)),
            submit=lambda text: self.heard.append(("submit", text)),
            leave=lambda text: self.heard.append(("leave", text)),
        )
        self.keys = self.editor.keys(Condition(lambda: True))

    def press(self, *keys: Keys, after: float = 1.0, data: str = "") -> None:
        """One read of `keys`, `after` seconds."""
        self.now += after
        self.guard.deliberate(len(keys))
        for binding in self.keys.get_bindings_for_keys(keys):
            binding.handler(SimpleNamespace(data=data))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [Keys.ControlS, Keys.ControlX])
@pytest.mark.parametrize(("after", "counts"), [(0.05, False), (0.3, False), (0.5, True)])
def test_a_key_soon_after_a_paste_does_not_count(key: Keys, after: float, counts: bool) -> None:
    typed = Typed("echo")
    typed.press(Keys.BracketedPaste, data=" a\r\nb\rc")
    typed.press(key, after=after)
    ((what, text),) = typed.heard
    if counts:
        assert (what, text) == ("submit" if key is Keys.ControlS else "leave", " a\nb\ncecho")
    else:
        assert (what, text[:7]) == ("note", "ignored")


@pytest.mark.parametrize(("after", "counts"), [(0.05, False), (0.15, True)])
def test_a_key_in_the_middle_of_typing_does_not_count(after: float, counts: bool) -> None:
    typed = Typed("echo")
    typed.press(Keys.Tab)
    typed.press(Keys.ControlS, after=after)
    assert [what for what, _ in typed.heard] == ["submit" if counts else "note"]


# The human's own editor


def script(tmp_path: Path, text: str) -> str:
    """An editor that is a shell script."""
    path = tmp_path / "my editor"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"'{path}' --wait" if "$2" in text else f"'{path}'"


def test_the_editor_gets_a_private_file_that_is_gone_afterwards(ask: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    look = f'{{ echo "$1"; stat -c %a "$(dirname "$2")"; echo "$2"; cat "$2"; }} > {seen}'
    editor = script(tmp_path, look + '; cp "$2" "$2~"; echo "echo changed" > "$2"')
    screen = ask(env={"VISUAL": editor, "EDITOR": "false"})
    screen.send(EDITOR)
    assert screen.result()[:3] == ["ran", "echo changed", "changed\n"]
    option, mode, path, content = seen.read_text().splitlines()
    assert (option, mode, content) == ("--wait", "700", "touch QUESTION")
    assert path.endswith("/command.sh")
    assert Path(path).parent.parent == tmp_path / "humanlayer-agent" / "run"
    assert not Path(path).parent.exists()


@pytest.mark.long
def test_the_editor_goes_on_with_what_was_changed_in_place(ask: Any, tmp_path: Path) -> None:
    screen = ask(env={"EDITOR": script(tmp_path, 'sed -i "s/one/two/" "$1"')})
    edit(screen, "echo one")
    submit(screen, EDITOR)
    assert screen.result()[:3] == ["ran", "echo two", "two\n"]


def test_a_command_that_ends_in_a_newline_keeps_it(ask: Any, tmp_path: Path) -> None:
    screen = ask("echo QUESTION\n", env={"EDITOR": script(tmp_path, 'sed -i "s/QUESTION/x/" "$1"')})
    screen.send(EDITOR)
    assert screen.result()[1] == "echo x\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("editor", "notice"),
    [
        ("true", "left it as it was"),
        ('echo "echo x" > "$1"; exit 3', "failed (3)"),
        ("kill -9 $$", "failed (-9)"),
        ('printf "\\n \\n" > "$1"', "is no command"),
        ('printf "a\\\\0b" > "$1"', "is no command"),
        ('printf "\\\\377" > "$1"', "is not UTF-8"),
        ('rm "$1"', "No such file"),
        ('rm "$1"; ln -s /etc/hostname "$1"', "Too many levels"),
        ('head -c 200000 /dev/zero | tr "\\\\0" x > "$1"', "too long"),
    ],
)
def test_an_editor_that_comes_to_nothing_goes_back(ask: Any, tmp_path: Path, editor: str, notice: str) -> None:
    screen = ask(env={"EDITOR": script(tmp_path, editor)})
    screen.send(EDITOR)
    screen.shows(notice)
    screen.shows("1 │ touch QUESTION")
    screen.armed()
    screen.send("y")
    assert screen.result()[1] == "touch QUESTION"
    assert list((tmp_path / "humanlayer-agent" / "run").glob("edit-*")) == []


@pytest.mark.parametrize(("editor", "notice"), [("/no/such/editor", "no such program"), ("'unclosed", "can't be read")])
def test_an_editor_that_can_not_be_started_goes_back(ask: Any, editor: str, notice: str) -> None:
    screen = ask(env={"EDITOR": editor})
    screen.send(EDITOR)
    screen.shows(notice)
    screen.send("\x03")
    assert screen.result()[4]


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.long) for way in ("in the project", "a link to it")), "a link in it"]
)
def test_an_editor_that_the_agent_could_have_written_is_not_started(
    ask: Any, tmp_path: Path, place: Path, way: str
) -> None:
    """The project's own `.venv/bin` often comes first in PATH."""
    honest = Path(shlex.split(script(tmp_path, 'echo "echo x" > "$1"'))[0])
    planted, tools = place / "bin" / "vim", tmp_path / "tools"
    planted.parent.mkdir()
    tools.mkdir()
    if way == "a link in it":
        planted.symlink_to(honest)
    else:
        honest.rename(planted)
    if way == "a link to it":
        (tools / "vim").symlink_to(planted)
    directory = tools if way == "a link to it" else planted.parent
    screen = ask(env={"EDITOR": "vim", "PATH": f"{directory}:{os.environ['PATH']}"})
    screen.send(EDITOR)
    screen.shows("vim is not started, the agent could have written it: /")
    screen.send("\x03")
    assert screen.result()[4]


def test_the_editor_is_not_started_in_the_project(ask: Any, tmp_path: Path) -> None:
    screen = ask(env={"EDITOR": script(tmp_path, 'echo "echo $PWD" > "$1"')})
    screen.send(EDITOR)
    assert Path(screen.result()[1].removeprefix("echo ")).parent == tmp_path / "humanlayer-agent" / "run"


# Telling


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """The other end of a pty that is taken for the controlling terminal."""
    ours, theirs = os.openpty()

    @contextmanager
    def opened() -> Iterator[int]:
        yield theirs

    monkeypatch.setattr("humanlayer_agent.processes.tty.controlling_terminal", opened)
    monkeypatch.setattr("humanlayer_agent.processes.tty.terminal_name", lambda: "test")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield ours
    os.close(ours)
    os.close(theirs)


def test_what_is_told_is_one_safe_line(terminal: int) -> None:
    TerminalAsker().tell("not run: a\nb\x1b[2J\u202e")
    assert os.read(terminal, 1000) == b"not run: a\\x0ab\\x1b[2J\\u{202e}\r\n"


def test_it_does_not_wait_for_ever_to_tell(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not into the question of another, who may take their time."""
    monkeypatch.setattr("humanlayer_agent.channels.terminal.PATIENCE", 0)
    with turn("test", give_up=lambda: False):
        TerminalAsker().tell("not run")
    assert select.select([terminal], [], [], 0)[0] == []


@pytest.mark.long
def test_back_to_the_original_is_no_change(ask: Any, tmp_path: Path) -> None:
    screen = ask(env={"EDITOR": script(tmp_path, 'echo "touch QUESTION" > "$1"')})
    edit(screen, "touch changed")
    submit(screen, EDITOR)
    screen.shows("nothing was changed")
    screen.send("\x03")
    assert screen.result()[4]


@pytest.mark.long
def test_ctrl_c_and_ctrl_z_are_the_editor_s(ask: Any, tmp_path: Path) -> None:
    """It is the foreground job: its Ctrl-C does not stop our run, and a stopped editor goes on."""
    lines = 'echo "# stopped" >> "$1"; echo ready; kill -TSTP $$; echo going; read -r line; echo "# $line" >> "$1"; echo noted'
    interrupted = 'trap \'echo "# interrupted" >> "$1"; exit 0\' INT; '
    screen = ask(env={"EDITOR": script(tmp_path, f"{interrupted}{lines}; {STAY}")})
    screen.send(EDITOR)
    screen.shows("going")
    screen.send("typed\r")
    screen.shows("noted")
    screen.send("\x03")
    screen.shows("as it was changed")
    screen.armed()
    screen.send("y")
    assert screen.result()[1] == "touch QUESTION\n# stopped\n# typed\n# interrupted"


@pytest.mark.sample(1)
@pytest.mark.parametrize("stubborn", ["", "trap '' TERM INT HUP; "])
def test_the_editor_is_ended_with_the_question(open_screen: Any, tmp_path: Path, stubborn: str) -> None:
    editor = script(tmp_path, f"{stubborn}echo $$ > '{tmp_path}/pid'; echo editing; {STAY}")
    screen = open_screen(cancel=str(tmp_path / "decided"), env={"EDITOR": editor})
    screen.armed("n reject")
    screen.send(EDITOR)
    screen.shows("editing")
    pid = int((tmp_path / "pid").read_text())
    (tmp_path / "decided").touch()
    assert screen.result() is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list((tmp_path / "humanlayer-agent" / "run").glob("edit-*")) == []


def test_time_passes_while_editing_in_place(open_screen: Any, tmp_path: Path) -> None:
    screen = open_screen(command=["touch QUESTION"], cancel=str(tmp_path / "decided"))
    screen.armed("n reject")
    edit(screen, "touch changed")
    (tmp_path / "decided").touch()
    assert screen.result() is None


@pytest.mark.long
def test_sigterm_ends_the_editor_and_restores_the_terminal(open_screen: Any, tmp_path: Path) -> None:
    editor = script(tmp_path, f"stty -echo; echo $$ > '{tmp_path}/pid'; echo editing; {STAY}")
    screen = open_screen(shell='trap : TERM; "$@"; echo "ended $?"; read -r end', env={"EDITOR": editor})
    screen.armed("n reject")
    screen.send(EDITOR)
    screen.shows("editing")
    (child,) = Path(f"/proc/{screen.child.pid}/task/{screen.child.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    screen.shows("ended 143")
    assert termios.tcgetattr(screen.child.child_fd) == screen.modes
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.long
@pytest.mark.parametrize("columns", [30, 200])
def test_narrow_and_wide(ask: Any, columns: int) -> None:
    screen = ask("touch QUESTION; " + "x" * 100, columns=columns, rows=40)
    edit(screen, "echo hi")
    assert "Esc back" in screen.text()
    submit(screen)
    assert screen.result()[2] == "hi\n"


def test_a_long_command_that_was_not_read_may_be_edited_but_not_approved(ask: Any) -> None:
    """Editing shows other rows than the request: they don't count as seen."""
    screen = ask("\n".join(["echo QUESTION", *("true" for _ in range(80))]), rows=20)
    screen.send("e")
    screen.shows("Change the command")
    screen.send("\x1b[6~" * 3)
    screen.send("\x1b>")
    screen.shows("81 true")
    screen.send(ESC)
    screen.shows("1 │ echo QUESTION")
    screen.armed("n reject")
    screen.send("y")
    screen.shows("look at the whole command first")
    screen.send("\x03")
    assert screen.result()[4]
