"""Asking through an object with `query`."""

from dataclasses import replace

import pytest

from humanlayer_agent.action import QUESTION
from humanlayer_agent.channels.user_object import UserAsker, question
from humanlayer_agent.errors import RunTerminated


class User:
    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def query(self, prompt, *, options):
        self.asked.append((prompt, options))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Agreeable(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def ask(user, request, **options):
    return UserAsker(user, **options).ask(request, until=2**60, cancelled=lambda: False)


def test_yes_approves(make_request):
    user = User("Yes")
    answer = ask(user, make_request())
    assert (answer.kind, answer.input_mode, answer.presented_digest) == ("approve", "api", "d" * 64)
    assert (answer.approver.principal, answer.approver.channel, answer.approver.assurance) == (
        "user:User",
        "user",
        "os",
    )
    ((prompt, options),) = user.asked
    assert options == ["No", "Yes"]
    assert prompt.startswith("Blocked: runs code from the network that nobody has read")
    assert '2 │ rm -rf "$CACHE"/* /var/lib/app/cache' in prompt


@pytest.mark.parametrize(
    "other", ["No", "yes", "YES", "Yes ", "y", "", None, True, 1, ["Yes"], object(), Agreeable("No"), ValueError("x")]
)
def test_anything_else_rejects(make_request, other):
    answer = ask(User(other), make_request())
    assert answer.kind == "reject"
    assert answer.comment == ("the question failed: ValueError" if isinstance(other, ValueError) else "")


def test_an_object_without_query_rejects(make_request):
    answer = ask(object(), make_request())
    assert (answer.kind, answer.comment) == ("reject", "the question failed: AttributeError")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RunTerminated("enough")])
def test_a_stop_stops_the_run(make_request, stop):
    with pytest.raises(RunTerminated):
        ask(User(stop), make_request())


def test_other_words(make_request):
    assert ask(User("Run it"), make_request(), options=("Stop", "Later", "Run it")).kind == "approve"
    assert ask(User("Later"), make_request(), options=("Stop", "Later", "Run it")).kind == "reject"
    with pytest.raises(ValueError, match="two or more"):
        UserAsker(User("Yes"), options=("Yes", "Yes"))


def test_it_is_not_asked_when_it_is_too_late(make_request):
    user = User("Yes")
    assert UserAsker(user).ask(make_request(), until=0, cancelled=lambda: False) is None
    assert UserAsker(user).ask(make_request(), until=2**60, cancelled=lambda: True) is None
    assert user.asked == []


def test_each_answer_has_its_own_id(make_request):
    assert ask(User("Yes"), make_request()).decision_id != ask(User("Yes"), make_request()).decision_id


def test_the_question_is_safe(make_request):
    text = question(make_request("echo \x1b[2J\u202e"))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_words_answer_a_question(make_request):
    made = make_request("Which branch?")
    asked = replace(made, action=replace(made.action, type=QUESTION, interpreter=(QUESTION,)))
    user = User("main")
    answer = ask(user, asked)
    assert (answer.kind, answer.comment) == ("respond", "main")
    ((prompt, options),) = user.asked
    assert (options, "Run it once?" in prompt, "asks you something" in prompt) == ([], False, True)
    for nothing in (None, "", True, ValueError()):
        assert ask(User(nothing), asked).kind == "reject"
