"""Which requests stand in one list, which don't, and what differs."""

from dataclasses import replace

import pytest

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.batches import LONGEST, SEVERAL, alike, differences, labels, why_alone
from humanlayer_agent.policy.decision import Ask
from tests.channels.asking import build_request


def request(command: str, id: str = "", host: str = "", **fields) -> ApprovalRequest:
    made = build_request(command, **{name: fields.pop(name) for name in ("project",) if name in fields})
    asks = (Ask("network", "curl", "network", "host", operand=host),) if host else ()
    decision = replace(made.decision, severity=fields.pop("severity", "medium"), asks=asks)
    return replace(made, id=id or command, decision=replace(decision, **fields))


def test_those_of_the_same_rule_severity_and_project_stand_together() -> None:
    first, second = request("make a"), request("make b")
    others = [
        request("make c", rules=("other",)),
        request("make d", severity="low"),
        request("make e", project="/srv/other"),
    ]
    groups, alone = alike([first, *others, second])
    assert [[each.id for each in group.requests] for group in groups] == [["make a", "make b"], ["make c"], ["make d"], ["make e"]]  # fmt: skip
    assert alone == ()


def test_a_list_that_is_full() -> None:
    groups, alone = alike(request("make x", id=str(n)) for n in range(SEVERAL + 2))
    assert [len(group.requests) for group in groups] == [SEVERAL]
    assert [(each.id, why) for each, why in alone] == [(str(SEVERAL), "the list is full"), (str(SEVERAL + 1), "the list is full")]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (request("make", severity="high"), "it is of high severity"),
        (request("make", severity="unheard of"), "it is of unheard of severity"),
        (request("x" * (LONGEST + 1)), "it is too long for a list"),
        (request("\u202e" * (LONGEST // 8 + 1)), "it is too long for a list"),
        (request("make", parse="partial"), "not all of it could be read"),
        (replace(request("make"), parent="p"), "a human has changed it"),
        (replace(request("make"), body={"stdin": "0" * 64}), "it gets an input, which a list does not show"),
        (request("x" * LONGEST), ""),
    ],
)
def test_what_is_answered_alone(made: ApprovalRequest, why: str) -> None:
    assert why_alone(made) == why


def test_labels_say_what_differs() -> None:
    hosts = [request("curl a", host="a.example"), request("curl b", host="b.example")]
    assert labels(hosts) == ["a.example", "b.example"]
    same = [request("curl https://x/one -o a", host="x"), request("curl https://x/two -o a", host="x")]
    assert labels(same) == ["https://x/one", "https://x/two"]
    assert labels([request("make", id="1"), request("make", id="2")]) == ["make", "make"]
    assert labels([request("make a\u202eb"), request("make c")]) == ["a\\u{202e}b", "c"]
    assert labels([request("make"), request("make all")]) == ["make", "make all"]
    assert all(len(label) <= 120 for label in labels([request("x" * 900), request("y" * 900)]))


def test_differences_are_between_what_all_begin_and_all_end_with() -> None:
    assert differences([request("make a x"), request("make bc x")]) == [(5, 6), (5, 7)]
    assert differences([request("aa"), request("aaa")]) == [(2, 2), (2, 3)]
    assert differences([]) == []
