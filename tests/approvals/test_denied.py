"""What is told of a denied action where it is raised."""

from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.errors import ActionDenied


def test_it_says_everything_in_one_plain_paragraph() -> None:
    denial = Denial(
        "rejected by alice", by="human", request_id="4f1c", approver="alice", comment="use\nstaging \x1b[1m"
    )
    denied = ActionDenied(denial)
    assert (denied.reason, denied.rule, denied.who, denied.request) == ("rejected by alice", "", "alice", "4f1c")
    assert denied.comment == "use\nstaging \x1b[1m"
    assert str(denied) == 'rejected by alice (by alice, request 4f1c). Comment: "use staging \ufffd[1m"'
