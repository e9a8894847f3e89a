"""A question of an agent to a human: answered in words, by whoever may answer, and never a reason for anything to run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.denial_texts import denial_text
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.grants import offers
from humanlayer_agent.approvals.model import Denial, Permit, Refused
from humanlayer_agent.approvals.questions import HumanAnswer, Question, question_of
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedApprovers, answer

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]


def test_the_words_come_back(make_gate: Make) -> None:
    gate = make_gate([("respond", "on Friday")])
    assert gate.ask_human("When is it released?") == HumanAnswer("on Friday", TEST_APPROVER.principal)
    (request,) = gate.store.requests()
    assert (request.state, request.action.content, request.action.type) == (
        "answered",
        "When is it released?",
        "question",
    )
    assert request.answers == {"respond", "reject", "escalate", "terminate"}
    assert offers(request) == ()


def test_an_option_is_chosen_by_its_number(make_gate: Make) -> None:
    gate = make_gate([("respond", "2"), ("respond", "neither"), ("respond", "3")])
    said = [gate.ask_human("Which branch?", ["main", "next"]).text for _ in range(3)]
    assert said == ["next", "neither", "3"], "and the same question is asked again"
    assert gate.store.requests()[0].action.content == "Which branch?\n\n1. main\n2. next"


def test_no_answer(make_gate: Make) -> None:
    gate = make_gate([("reject", "find out yourself"), None])
    declined = gate.ask_human("Which branch?")
    assert not declined
    assert declined.why == f"declined by {TEST_APPROVER.principal}: find out yourself"
    nobody = gate.ask_human("Which branch?")
    assert not nobody
    assert "nobody could" in nobody.why


@pytest.mark.parametrize("kind", ["approve", ("edit", "rm -rf /")])
def test_it_can_t_be_approved(make_gate: Make, kind: Any) -> None:
    gate = make_gate([kind])
    assert not gate.ask_human("rm -rf /srv/data")
    (request,) = gate.store.requests()
    assert request.state == "withdrawn"
    refused = next(iter(gate.store.events(type="vote.refused"))).event
    assert refused["refusal"] == "no-such-answer"
    assert list(gate.store.events(type="permit")) == []


def test_no_row_makes_a_permit_of_it(store: SQLiteStore, make_gate: Make, path: Any) -> None:
    """Somebody with the file makes an approval of an answer: the store gives no permit, whatever the rows say."""
    seen = []

    def late(request: Any) -> Any:
        seen.append(request)
        return answer(request, "respond", "yes")

    gate = make_gate([late])
    gate.ask_human("Shall I?")
    team = ScriptedApprovers()
    permit = store.permit(replace(seen[0], state="approved"), team.authority, use_by_ms=10_000)
    assert isinstance(permit, Refused)
    assert "never runs" in permit.reason


def test_an_agent_with_a_shell_asks_by_a_command(make_gate: Make, act: Callable[..., Action]) -> None:
    gate = make_gate([("respond", "1"), ("reject", "no time"), None, "terminate"])
    command = act("hla ask 'Which \"branch\"?' --option main -o next")
    read = []
    for _ in range(4):
        denial = gate.check(command)
        assert isinstance(denial, Denial)
        assert denial.question
        read.append(denial_text(denial))
    assert (
        read[0]
        == 'A human read your question, and answers in words.\nThe human\'s words, quoted as they were written: "main"'
    )
    assert read[1].startswith("A human read your question, and declines")
    assert '"no time"' in read[1]
    assert read[2].startswith("Nobody has answered your question.")
    assert read[3] == "A human read your question, and stopped the whole run."
    assert isinstance(gate.check(act("ls")), Denial), "the run is over"


def test_questions_are_no_denials_in_a_row(make_gate: Make, act: Callable[..., Action]) -> None:
    gate = make_gate([("respond", "yes")] * 7)
    for _ in range(7):
        gate.check(act("hla ask 'Again?'"))
    assert isinstance(gate.check(act("ls")), Permit)


@pytest.mark.parametrize(
    "command",
    [
        "hla ask 'Which?'; make", "hla ask \"$(cat /etc/passwd)\"", "hla ask $X", "hla ask 'Which?' > out",
        "hla ask", "hla ask a b", "hla ask --yes 'Which?'", "X=1 hla ask 'Which?'", "hla ask 'Which?' &", "./hla ask x",
        "hla ask 'Which?' | tee a", "hla requests approve 1", "hla ask 'Which", "hla ask ''", "hla ask x -o", "hla ask *",
        "hla ask x -o a -o a", "hlaask x", "sudo hla ask x", "hla ask ~", "hla ask {a,b}", "hla ask x # y",
    ],
)  # fmt: skip
def test_what_is_no_question(command: str, act: Callable[..., Action]) -> None:
    assert question_of(act(command)) is None


def test_what_is_one(act: Callable[..., Action]) -> None:
    for command in ("hla ask 'Why?' --option=a", "humanlayer-agent ask Why? -o a".replace("Why?", "'Why?'")):
        assert question_of(act(command)) == Question("Why?", ("a",))
    assert question_of(act("hla ask 'two\nlines'")) == Question("two\nlines")
    assert question_of(act("hla ask x", interpreter=("sh", "-c"))) is None


@pytest.mark.parametrize(
    ("text", "options"),
    [("", ()), ("  ", ()), ("x" * 4_001, ()), ("x", ("a", "a")), ("x", ("",)), ("x", tuple("abcdefghij"))],
)
def test_what_can_t_be_asked(text: str, options: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        Question(text, options)


@given(st.text(), st.lists(st.text(min_size=1), max_size=3, unique=True))
def test_any_words_are_an_answer(words: str, options: list[str]) -> None:
    question = Question("Which?", tuple(option for option in options if option.strip() and "\n" not in option))
    assert question.chosen(words) in (*question.options, words.strip())
