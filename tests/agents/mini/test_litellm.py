"""litellm's models against a server that enforces the API's rule: every tool call gets its result."""

from pathlib import Path
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment

from humanlayer_agent.agents.mini import SupervisedAgent
from tests.support.openai_server import OpenAIServer, missing_results


@pytest.fixture
def litellm_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    from minisweagent.models import get_model

    def make(server: OpenAIServer) -> Any:
        kwargs = {"api_base": server.url, "drop_params": True}
        return get_model("openai/test", {"model_kwargs": kwargs, "cost_tracking": "ignore_errors"})

    return make


@pytest.mark.long  # `hla run` with any model of litellm's, in test_run.py, is denied one in the middle as well
def test_a_denied_action_in_the_middle(
    project: Path, judges: Any, litellm_model: Any, templates: dict[str, Any], submit: str
) -> None:
    script = [["echo one", "touch FORBIDDEN", "echo three"], ["env"], [submit]]
    with OpenAIServer(script) as server:
        agent = SupervisedAgent(litellm_model(server), LocalEnvironment(), gate=judges().gate, **templates)
        assert agent.run("t")["exit_status"] == "Submitted"
        assert server.refused == []
        assert len(server.requests) == 3
        results = [m for m in server.requests[1]["messages"] if m["role"] == "tool"]
        assert [m["tool_call_id"] for m in results] == ["call_0_0", "call_0_1", "call_0_2"]
        assert "Not executed" in results[1]["content"]
        assert "supervision" not in str(server.requests)
        # The model had its key, and the command that printed its environment had not.
        assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
        assert "HUMANLAYER_SUPERVISED=1" in str(server.requests[2])
        assert "sk-very-secret" not in str(server.requests)
    assert list(project.iterdir()) == []


@pytest.mark.long
def test_the_server_refuses_what_an_exception_leaves_behind(
    project: Path, litellm_model: Any, templates: dict[str, Any], submit: str
) -> None:
    """Why a denial is no exception; and the test above can fail."""
    from minisweagent.exceptions import InterruptAgentFlow

    class Raising(DefaultAgent):
        def execute_actions(self, message: dict[str, Any]) -> Any:
            if len(message["extra"]["actions"]) > 1:
                raise InterruptAgentFlow({"role": "user", "content": "denied"})
            return super().execute_actions(message)

    with OpenAIServer([["echo one", "echo two"], [submit]]) as server:
        model = litellm_model(server)
        import litellm

        model.abort_exceptions = [*model.abort_exceptions, litellm.exceptions.BadRequestError]
        agent = Raising(model, LocalEnvironment(), **templates)
        with pytest.raises(litellm.exceptions.BadRequestError, match="must be followed by tool messages"):
            agent.run("t")
        assert server.refused


CALL = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
RESULT_A, RESULT_B = ({"role": "tool", "tool_call_id": name} for name in "ab")
USER = {"role": "user"}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([USER], ""),
        ([USER, CALL, RESULT_A, RESULT_B, USER], ""),
        ([CALL, RESULT_B, RESULT_A], ""),
        ([CALL, RESULT_A, USER], "Without a response: b"),
        ([CALL, USER, RESULT_A, RESULT_B], "Without a response: a, b"),
        ([CALL], "Without a response: a, b"),
        ([RESULT_A], "which no preceding tool call has"),
        ([CALL, RESULT_A, RESULT_A, RESULT_B], "which no preceding tool call has"),
    ],
)
def test_missing_results(messages: list[dict[str, Any]], complaint: str) -> None:
    found = missing_results(messages)
    assert complaint in found
    assert bool(found) is bool(complaint)
