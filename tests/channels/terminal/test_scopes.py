"""The key `a` at the prompt: more than this once, by a scope that was shown with what it would have let through."""

import pytest

from tests.channels.asking import build_grantable

EARLIER = [
    "curl -s https://get.example.com/1",
    ["curl -s https://get.example.com/2", "rejected"],
    "curl -s https://other.example.com/3",
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("digit", "scope"), [("1", "action"), ("2", "run"), ("3", "hour")])
def test_a_digit_chooses_a_scope(open_screen, digit, scope):
    screen = open_screen(rows=45, earlier=EARLIER)
    screen.armed("a allow more than once")
    screen.send("a")
    screen.armed(f"{digit} allow {digit}")
    text = screen.text()
    for expected in (
        " 1  this exact command, in this run",
        " 2  curl contacting get.example.com:443, in this run",
        " 3  curl contacting get.example.com:443, for 1 hour",
        "at most 50 times and for 8 hours, for agent deploy-bot in /srv/app",
        "of 3 earlier requests in this project it would have answered 2, 1 of which a human did not",
        "curl -s https://get.example.com/1",
        "Not other programs, options or hosts, and whatever else a command does",
        "curl -s https://other.example.com/3",
    ):
        assert expected in text
    screen.send(digit)
    assert screen.result()[0] == "approve"
    assert screen.result()[-1] == scope
    screen.ended()
    assert "approved by" in screen.text()


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["b", "\x1b", "\x07"])
def test_back_is_to_the_question_and_y_is_once(open_screen, key):
    screen = open_screen(earlier=[])
    screen.armed("a allow more than once")
    screen.send("a")
    screen.armed("b back")
    screen.send(key)
    screen.armed()
    screen.send("y")
    assert screen.result()[0] == "approve"
    assert screen.result()[-1] == "typed"  # and no scope


@pytest.mark.long
def test_on_a_small_screen_a_scope_counts_once_it_was_shown(open_screen):
    screen = open_screen(rows=22, columns=40, earlier=EARLIER)
    screen.armed("a allow more than once")
    screen.send("a")
    screen.shows("scopes not seen")
    screen.armed("b back")
    assert not screen.bold("3 allow 3")
    screen.send("3")
    screen.shows("look at it first")
    while not screen.bold("3 allow 3"):
        first = screen.text().split("\n")[0]
        screen.send(" ")
        screen.until(lambda first=first: first not in screen.text() or screen.bold("3 allow 3"), "the next page")
    screen.armed("3 allow 3")
    assert all(len(line) <= 40 for line in screen.text().split("\n"))
    screen.send("3")
    assert screen.result()[-1] == "hour"


@pytest.mark.sample(2)
@pytest.mark.parametrize("typed", ["a2", "aa", "a\r", "a\x1b[200~2\x1b[201~", "\x1b[200~a2\x1b[201~"])
def test_what_comes_at_once_chooses_nothing(open_screen, typed):
    screen = open_screen(rows=45, earlier=[])
    screen.armed("a allow more than once")
    screen.send(typed)
    screen.until(lambda: "too early or all at once" in screen.text() or "a paste is not" in screen.text(), "a refusal")
    assert not screen._result.exists()


@pytest.mark.long
def test_y_is_no_answer_where_scopes_are_shown(open_screen):
    screen = open_screen(rows=45, earlier=[])
    screen.armed("a allow more than once")
    screen.send("a")
    screen.armed("2 allow 2")
    screen.send("y")
    screen.shows("that is not an answer here")
    screen.armed("2 allow 2")
    screen.send("2")
    assert screen.result()[-1] == "run"


def test_ctrl_c_stops_the_run(open_screen):
    screen = open_screen(rows=45, earlier=[])
    screen.armed("a allow more than once")
    screen.send("a")
    screen.armed("1 allow 1")
    screen.send("\x03")
    assert screen.result()[0] == "RunTerminated"


def test_a_command_that_was_not_seen_whole_has_no_scopes(open_screen):
    command = "curl -s https://get.example.com/tool\n" + "\n".join(f"# {n}" for n in range(60))
    screen = open_screen(command=[command], earlier=[])
    screen.armed("n reject")
    screen.send("a")
    screen.shows("look at the whole command first")
    assert not screen.bold("a allow more than once")


def test_where_there_are_none_it_says_why(open_screen):
    screen = open_screen()
    screen.armed()
    assert "allow more than once" not in screen.text()
    screen.send("a")
    screen.shows("it can't be remembered: it is not known what of it must be approved")


def test_a_history_that_cannot_be_read_is_said(open_screen):
    screen = open_screen(rows=45, earlier=None)
    screen.armed("a allow more than once")
    screen.send("a")
    screen.shows("what it would have let through before is not known")
    screen.armed("1 allow 1")
    screen.send("1")
    assert screen.result()[-1] == "action"


@pytest.mark.long
def test_plain_lines(open_screen):
    screen = open_screen(rows=60, env={"TERM": "dumb"}, earlier=EARLIER)
    screen.shows("Type yes to run it once, more to allow more than once,")
    screen.send("more\n")
    screen.shows("Type 1 or 2 or 3 to allow that, anything else to go back:")
    assert "2  curl contacting get.example.com:443, in this run" in screen.text()
    screen.send("4\n")
    screen.until(lambda: screen.text().count("Type yes to run it once") == 2, "the question again")
    screen.send("more\n")
    screen.until(lambda: screen.text().count("Type 1 or 2 or 3") == 2, "the scopes again")
    screen.send("2\n")
    assert screen.result()[-1] == "run"


def test_plain_lines_say_why_there_are_none(open_screen):
    screen = open_screen(rows=60, env={"TERM": "dumb"})
    screen.shows("Type yes to run it once, no REASON")
    screen.send("more\n")
    screen.shows("It can't be remembered: it is not known what of it must be approved")


def test_the_request_that_tests_ask_with_has_three_scopes():
    assert len(build_grantable().decision.asks) == 1


def test_who_was_too_quick_types_what_it_is_about(open_screen):
    screen = open_screen(to_type="get.example.com")
    screen.armed("y run once")
    screen.send("a")
    screen.shows("approved once, by y, and typed")
    screen.armed("y run once")
    screen.send("y")
    screen.shows("Type what this is about: get.example.com")
    screen.send("ok, get.example.com")
    screen.shows("Type it: ok, get.example.com")
    screen.send("\r")
    assert screen.result()[0] == "approve"
