"""The terminal channel, on real terminals."""

import json
import os
import pwd
import re
import shlex
import signal
import termios
from pathlib import Path

import pytest

from humanlayer_agent.channels import terminal
from humanlayer_agent.channels.presentation import present
from tests.support import children

PRINCIPAL = f"os:{os.getuid()}:{pwd.getpwuid(os.getuid()).pw_name}"


def test_y_approves_once(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("y")
    assert screen.result() == ["approve", "", PRINCIPAL, "d" * 64, "typed"]
    screen.ended()
    assert "approved by" in screen.text()
    assert "cd build && make clean (+2 lines)" in screen.text()
    assert "y run once" not in screen.text()


@pytest.mark.parametrize("bell", [True, False])
def test_it_rings_once_where_that_is_wanted(open_screen, bell: bool):
    screen = open_screen(bell=bell)
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    screen.result()
    screen.ended()
    assert screen.raw.count(b"\a") == bell


def test_the_screen_says_everything(open_screen):
    screen = open_screen(rows=40)
    screen.armed()
    text = screen.text()
    for expected in (
        "deploy-bot wants to run this",
        "in /srv/app · run 7f3a91 · step 12",
        "runs code from the network that nobody has read (high severity, rule piped-code)",
        '2 │ rm -rf "$CACHE"/* /var/lib/app/cache',
        "ask   curl -fsS https://get.example.com/install.sh",
        "deny  sh",
        "contacts get.example.com",
        'Unknown    "$CACHE"/*',
        "Instead    download the script",
        "says (not verified): The cache is stale",
        "y run once   n reject   e edit   q stop the run",
    ):
        assert expected in text
    assert re.search(r"(10:00|9:\d\d) left", text)
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    assert screen.result()[:2] == ["reject", ""]


def test_n_sends_the_reason(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("use make cache-clean")
    screen.shows("use make cache-clean")
    screen.send("\r")
    assert screen.result()[:2] == ["reject", "use make cache-clean"]
    screen.ended()
    assert "(use make cache-clean)" in screen.text()


def test_tab_answers_in_words_instead(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\t")
    screen.shows("Tell it:")
    screen.send("\t")
    screen.shows("Why not?")
    screen.send("\t")
    screen.shows("Tell it:")
    screen.send("the cache is in /srv")
    screen.shows("Tell it: the cache is in /srv")
    screen.send("\r")
    assert screen.result()[:2] == ["respond", "the cache is in /srv"]
    screen.ended()
    assert "answered by" in screen.text()


def test_a_question_is_answered_in_words(open_screen):
    screen = open_screen(command=["Which branch?\n\n1. main\n2. next"], action={"type": "question"})
    screen.armed("n answer")
    text = screen.text()
    assert "deploy-bot asks you something" in text
    assert all(key not in text for key in ("y run once", "a allow", "e edit"))
    screen.send("y")
    screen.shows("it is answered in words: n")
    screen.armed("n answer")
    screen.send("n")
    screen.shows("Tell it:")
    screen.send("main")
    screen.shows("Tell it: main")
    screen.send("\r")
    assert screen.result()[:2] == ["respond", "main"]


def test_a_question_in_plain_lines(open_screen):
    screen = open_screen(command=["Which branch?"], action={"type": "question"}, env={"TERM": "dumb"}, rows=60)
    screen.shows("Type no REASON to reject it, tell WORDS to answer it")
    screen.send("yes\n")
    screen.until(lambda: screen.text().count("Type no REASON") == 2, "the question again")
    screen.send("tell main\n")
    assert screen.result()[:2] == ["respond", "main"]


def test_a_plan_is_allowed_and_not_run(open_screen):
    screen = open_screen(command=["needs: [{host: x.example}]"], action={"type": "plan"})
    screen.armed("y approve the plan")
    assert "deploy-bot wants to be allowed this before it starts" in screen.text()
    screen.send("y")
    assert screen.result()[0] == "approve"


def test_y_inside_a_reason_is_text_and_escape_goes_back(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("y")
    screen.shows("Why not? y")
    screen.send("\x1b")
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


def test_a_paste_with_a_newline_into_the_reason_does_not_send_it(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("first\rsecond")
    screen.shows("first second")
    screen.send("\x1b[200~ third\nfourth\x1b[201~")
    screen.shows("first secondthird fourth")
    screen.send("\r")
    assert screen.result()[:2] == ["reject", "first secondthird fourth"]


def test_q_asks_again_before_it_stops_the_run(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("q")
    screen.armed("n back")
    screen.send("n")
    screen.armed()
    screen.send("q")
    screen.armed("y stop")
    screen.send("y")
    assert screen.result()[0] == "terminate"


def test_ctrl_c_stops_the_run(open_screen):
    screen = open_screen()
    screen.shows("y run once")
    screen.send("\x03")
    assert screen.result()[0] == "RunTerminated"
    screen.ended()
    assert "run stopped by" in screen.text()


def test_sigint_stops_the_run(open_screen):
    screen = open_screen()
    screen.shows("y run once")
    os.kill(screen.child.pid, signal.SIGINT)
    assert screen.result()[0] == "RunTerminated"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "notice"),
    [
        ("\r", "Enter is not an answer"),
        pytest.param("\n", "Enter is not an answer", marks=pytest.mark.long),
        ("\x1b[200~y\x1b[201~", "a paste is not an answer"),
        ("\x1b[200~y\r\x1b[201~", "a paste is not an answer"),
        ("y\r", "ignored: keys came"),
        pytest.param("yes\r", "ignored: keys came", marks=pytest.mark.long),
        pytest.param("yy", "ignored: keys came", marks=pytest.mark.long),
        ("\ry", "ignored: keys came"),
        ("y\x1b", "ignored: keys came"),
        ("\x1a", "answer first"),
        ("\x04", "answer first"),
        pytest.param("\x1c", "answer first", marks=pytest.mark.long),
    ],
)
def test_enter_pastes_and_control_keys_never_answer(open_screen, keys, notice):
    screen = open_screen()
    screen.armed()
    screen.send(keys)
    screen.shows(notice)
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    assert screen.result()[0] == "reject"


@pytest.mark.long
def test_type_ahead_never_answers(open_screen, tmp_path):
    gate = tmp_path / "go"
    os.mkfifo(gate)
    screen = open_screen(shell=f'stty -echo; echo ready; read -r _ < {gate}; exec "$@"')
    screen.shows("ready")
    screen.send("y\ry\ryyy")
    gate.write_text("\n")
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    assert screen.result()[:2] == ["reject", ""]


def test_time_passes_without_an_answer(open_screen, tmp_path):
    screen = open_screen(late=str(tmp_path / "late"))
    screen.shows("y run once")
    (tmp_path / "late").touch()
    assert screen.result() is None
    screen.ended()
    assert "not answered in time" in screen.text()


def test_it_closes_when_it_was_decided_elsewhere(open_screen, tmp_path):
    screen = open_screen(cancel=str(tmp_path / "decided"))
    screen.armed()
    (tmp_path / "decided").touch()
    assert screen.result() is None
    screen.ended()
    assert "closed without an answer here" in screen.text()


def test_nothing_is_shown_for_a_request_that_is_over(open_screen, tmp_path):
    (tmp_path / "decided").touch()
    screen = open_screen(cancel=str(tmp_path / "decided"))
    assert screen.result() is None
    screen.ended()
    assert screen.raw == b""


def test_stdin_and_stdout_may_be_pipes(open_screen):
    screen = open_screen(shell='echo y | "$@" 2>&1 | cat')
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


@pytest.mark.parametrize(
    ("inside", "key", "kind"),
    [
        ("thread", "y", "approve"),
        ("event loop", "\x03", "RunTerminated"),
        pytest.param("thread", "\x03", "RunTerminated", marks=pytest.mark.long),
        pytest.param("event loop", "y", "approve", marks=pytest.mark.long),
    ],
)
def test_inside_a_thread_or_an_event_loop(open_screen, inside, key, kind):
    screen = open_screen(inside=inside)
    screen.armed()
    screen.resize(30, 90)
    screen.armed()
    screen.send(key)
    assert screen.result()[0] == kind


def test_a_reason_is_kept_as_one_safe_line(open_screen):
    screen = open_screen()
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.child.send(b"\x1b[200~a\x1b[2Jb\xe2\x80\xae \xff c\x1b[201~")
    screen.shows(r"\u{dcff} c")
    screen.send("\r")
    assert screen.result()[:2] == ["reject", r"a\x1b[2Jb\u{202e} \u{dcff} c"]


def test_no_controlling_terminal(ask_argv, ask_env):
    argv, result = ask_argv()
    children.run(argv, env=ask_env, input=b"y\n", start_new_session=True, check=True)
    assert json.loads(result.read_text())[0] == "NoTerminal"


def test_a_background_job_can_ask_nobody(open_screen):
    screen = open_screen(shell='set -m; "$@" & wait')
    assert screen.result()[0] == "NoTerminal"


def test_a_character_set_that_cannot_show_everything(open_screen):
    screen = open_screen(
        env={"LANG": "en_US.ISO-8859-1", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    )
    assert screen.result()[0] == "NoTerminal"


@pytest.mark.long
def test_a_terminal_that_goes_away(open_screen):
    screen = open_screen(shell='trap "" HUP; exec "$@"')
    screen.armed()
    screen.hang_up()
    assert screen.result()[0] == "NoTerminal"


# ---- the whole command, or no approval -------------------------------------------------------------


def test_a_long_command_is_paged_before_it_can_be_approved(open_screen):
    command = "\n".join(f"echo line {n}" for n in range(1, 61)) + "\nrm -rf /"
    screen = open_screen(rows=24, command=[command])
    screen.shows("of 61 lines not seen")
    screen.armed("n reject")
    screen.send("y")
    screen.shows("look at the whole command first")
    while "rm -rf /" not in screen.text():
        before = screen.text()
        screen.send(" ")
        screen.until(lambda before=before: screen.text() != before, "another page")
    screen.armed()
    screen.send("b")
    screen.until(lambda: "rm -rf /" not in screen.text(), "the page before")
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


@pytest.mark.long
def test_one_line_longer_than_the_screen_is_paged_too(open_screen):
    command = "echo " + "x" * 5000 + "; rm -rf /"
    screen = open_screen(rows=24, columns=80, command=[command])
    screen.shows("1 of 1 lines not seen")
    screen.send("v")
    screen.until(lambda: "; rm -rf /" not in screen.text() and "1 of 1 lines not seen" in screen.text(), "page 2")
    while "1 of 1 lines not seen" in screen.text():
        before = screen.text()
        screen.send("v")
        screen.until(lambda before=before: screen.text() != before, "another page")
    assert "rm -rf /" in screen.text()
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


def test_a_window_too_small_to_read_in_approves_nothing(open_screen):
    screen = open_screen()
    screen.armed()
    screen.resize(4, 100)
    screen.until(lambda: not screen.bold("y run once"), "a disarmed y")
    screen.armed("n reject")
    screen.send("y")
    screen.shows("make the window larger")
    screen.resize(34, 100)
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


@pytest.mark.sample(1)
@pytest.mark.parametrize("columns", [40, 100, 200])
def test_narrow_and_wide(open_screen, columns):
    screen = open_screen(rows=60, columns=columns)
    screen.armed()
    assert "curl -fsS https://get.example.com/" in screen.text()
    assert "q stop the run" in screen.text()
    screen.send("y")
    assert screen.result()[0] == "approve"


def test_no_colour(open_screen):
    screen = open_screen(env={"NO_COLOR": "1"})
    screen.armed()
    screen.send("y")
    screen.result()
    screen.ended()
    assert not [code for code in _sgr(screen.raw) if 30 <= code <= 49 or 90 <= code <= 107]


def _sgr(raw: bytes) -> list[int]:
    return [int(n) for found in re.findall(rb"\x1b\[([0-9;]*)m", raw) for n in found.split(b";") if n]


# ---- attacks ---------------------------------------------------------------------------------------

HOSTILE = "echo \x1b]0;owned\x07\x1b[2J\x1b[1;1H\x9b31m\u202e\u200b\u2066harmless\x00\r\x08\x7f\ue000\udc9b"


def test_hostile_text_reaches_the_terminal_spelled_out(open_screen, plain):
    screen = open_screen(columns=200, command=[HOSTILE])
    screen.armed()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    screen.result()
    screen.ended()
    assert b"owned\x07" not in screen.raw
    assert b"\x1b[2J" not in screen.raw.replace(b"\x1b[2J\x1b[", b"")
    assert b"\xc2\x9b" not in screen.raw
    for char in "\u202e\u200b\u2066\ue000\x00\x07\x7f":
        assert char.encode() not in screen.raw
    text = plain(screen.raw)
    assert r"\x1b]0;owned\x07\x1b[2J\x1b[1;1H\x9b31m\u{202e}\u{200b}\u{2066}harmless\x00\x0d\x08\x7f\u{e000}" in text
    assert "RIGHT-TO-LEFT OVERRIDE" in text


@pytest.mark.long
def test_what_another_program_writes_is_painted_over(open_screen):
    screen = open_screen()
    screen.armed()
    tty = os.readlink(f"/proc/{screen.child.pid}/fd/0")
    with open(tty, "wb", buffering=0) as other:
        other.write(b"\x1b[r\x1b[2J\x1b[3;10r\x1b[H\x1b[4h1 | echo harmless\x0e")
    screen.shows("1 | echo harmless")
    screen.until(lambda: "harmless" not in screen.text() and "│ cd build && make clean" in screen.text(), "a repaint")
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


def test_changed_terminal_modes_are_put_back_and_disarm(open_screen):
    screen = open_screen()
    screen.armed()
    raw = termios.tcgetattr(screen.child.child_fd)
    changed = termios.tcgetattr(screen.child.child_fd)
    changed[3] |= termios.ICANON | termios.ECHO | termios.ISIG
    termios.tcsetattr(screen.child.child_fd, termios.TCSANOW, changed)
    screen.shows("changed by another program")
    assert termios.tcgetattr(screen.child.child_fd) == raw
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"


# ---- several at once -------------------------------------------------------------------------------


@pytest.mark.long
def test_two_programs_ask_one_after_the_other(open_screen, ask_argv):
    argv, result_of_other = ask_argv(command=["echo other"])
    screen = open_screen(shell=f'"$@" & {shlex.join(argv)} & wait', command=["echo one"])
    screen.shows("1 more wait")
    screen.armed()
    names = ["one", "other"] if "│ echo one" in screen.text() else ["other", "one"]
    screen.send("y")
    screen.shows(f"│ echo {names[1]}")
    screen.until(lambda: "more wait" not in screen.text(), "an empty queue")
    screen.armed("n reject")
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    kinds = {"one": screen.result()[0], "other": screen.result(result_of_other)[0]}
    assert [kinds[name] for name in names] == ["approve", "reject"]


@pytest.mark.long
def test_a_killed_asker_does_not_block_the_next(open_screen, ask_argv):
    argv, result_of_other = ask_argv(command=["echo other"])
    screen = open_screen(shell=f'"$@" & echo "pid $!"; wait; stty sane; {shlex.join(argv)}', command=["echo one"])
    screen.armed()
    pid = re.search(rb"pid (\d+)", screen.raw)
    os.kill(int(pid[1]), signal.SIGKILL)
    screen.shows("│ echo other")
    screen.armed()
    screen.send("y")
    assert screen.result(result_of_other)[0] == "approve"


# ---- what is left behind ---------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["y", "\x03"])
def test_the_terminal_is_left_as_it_was(open_screen, keys):
    screen = open_screen(shell='"$@"; read -r end')
    screen.armed()
    screen.send(keys)
    screen.result()
    screen.until(lambda: termios.tcgetattr(screen.child.child_fd) == screen.modes, "the old modes")
    for on, off in ((b"?1049h", b"?1049l"), (b"?2004h", b"?2004l"), (b"?2026h", b"?2026l"), (b"?25l", b"?25h")):
        screen.until(lambda on=on, off=off: screen.raw.rfind(off) >= screen.raw.rfind(on), f"{off!r}")


@pytest.mark.long
def test_sigterm_kills_but_restores_first(open_screen):
    screen = open_screen(shell='trap : TERM; "$@"; echo "ended $?"; read -r end')
    screen.armed()
    (child,) = Path(f"/proc/{screen.child.pid}/task/{screen.child.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    screen.shows("ended 143")
    assert "y run once" not in screen.text()  # the alternate screen was left
    assert termios.tcgetattr(screen.child.child_fd) == screen.modes


# ---- a terminal that can only print lines ----------------------------------------------------------


@pytest.mark.long
def test_dumb_terminal_wants_the_word(open_screen):
    screen = open_screen(env={"TERM": "dumb"}, command=["echo \x1b[2J"])
    screen.shows("Type yes to run it once")
    assert "1 │ echo \\x1b[2J" in screen.text()
    assert b"\x1b" not in screen.raw
    for wrong in ("\r", "y\r", "yes please\r", "nope\r"):
        asked = screen.raw.count(b"Type yes")
        screen.send(wrong)
        screen.until(lambda asked=asked: screen.raw.count(b"Type yes") > asked, "the question again")
    screen.send("yes\r")
    assert screen.result()[0] == "approve"


def test_dumb_terminal_takes_no_paste(open_screen):
    screen = open_screen(env={"TERM": "dumb"})
    screen.shows("Type yes to run it once")
    screen.send("yes\rls\r")
    screen.until(lambda: screen.raw.count(b"Type yes") == 2, "the question again")
    screen.send("no too risky\r")
    assert screen.result()[:2] == ["reject", "too risky"]


def test_dumb_terminal_answers_in_words(open_screen):
    screen = open_screen(env={"TERM": "dumb"})
    screen.shows("Type yes to run it once")
    screen.send("tell\r")
    screen.until(lambda: screen.raw.count(b"Type yes") == 2, "the question again")
    screen.send("tell it is in /srv\r")
    assert screen.result()[:2] == ["respond", "it is in /srv"]


@pytest.mark.long
def test_dumb_terminal_stops_and_times_out(open_screen, tmp_path):
    screen = open_screen(env={"TERM": ""})
    screen.shows("Type yes to run it once")
    screen.send("stop\r")
    assert screen.result()[0] == "terminate"
    screen = open_screen(env={"TERM": "dumb"}, late=str(tmp_path / "late"))
    screen.shows("Type yes to run it once")
    (tmp_path / "late").touch()
    assert screen.result() is None
    screen = open_screen(env={"TERM": "dumb"})
    screen.shows("Type yes to run it once")
    screen.send("\x03")
    assert screen.result()[0] == "RunTerminated"


class Typist:
    """Lines that come at given seconds; time passes only where somebody waits for them."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.now = 0.0
        self.asked = []

    def select(self, reading, writing, failing, timeout):
        if self.lines and self.lines[0][0] <= self.now + timeout:
            self.now = max(self.now, self.lines[0][0])
            return reading, [], []
        self.now += timeout
        return [], [], []

    def read(self, fd):
        return self.lines.pop(0)[1]

    def write(self, fd, text):
        if "Type yes" in text:
            self.asked.append(self.now)


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        ([(0.2, "yes\n"), (0.5, "yes\n"), (0.8, "yes\n"), (3, "no\n")], [pytest.approx(1.2)]),
        ([(1, "yes\n"), (1.05, "ls\n"), (3, "no\n")], [0.4, pytest.approx(1.45)]),
    ],
    ids=["what still comes when it would ask", "a paste"],
)
def test_a_dumb_terminal_asks_in_a_silence_and_takes_a_line_that_came_alone(monkeypatch, make_request, lines, asked):
    typist = Typist(*lines)
    monkeypatch.setattr(terminal.select, "select", typist.select)
    monkeypatch.setattr(terminal, "_read", typist.read)
    monkeypatch.setattr(terminal.tty, "write", typist.write)
    monkeypatch.setattr(terminal.tty, "discard_input", lambda fd: None)
    request = make_request()
    assurance = terminal._Assurance(None, "", lambda: None)
    question = terminal._Question(request, present(request), 0, None, 2**60, lambda: False, assurance)
    assert terminal._plain_question(question) == terminal.Decision("reject")
    assert typist.asked == asked
