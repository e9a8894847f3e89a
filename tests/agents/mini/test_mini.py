"""mini-swe-agent under supervision: its loop, its three message formats, its limits."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from minisweagent.agents.default import AgentConfig, DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import FormatError, Submitted

from humanlayer_agent.agents import supervision
from humanlayer_agent.agents.mini import (
    HumanLayerAgent,
    SupervisedAgent,
    SupervisedAgentConfig,
    SupervisedEnvironment,
    SupervisedLocalEnvironment,
)
from humanlayer_agent.agents.mini.environment import model_words
from humanlayer_agent.errors import ConfigError, RunTerminated
from humanlayer_agent.processes import reaper
from humanlayer_agent.processes.process_tree import end_fork_server
from humanlayer_agent.testing.patience import until
from tests.agents.conftest import SWAPS
from tests.support.time_outs import met


def observations(agent: DefaultAgent) -> list[dict[str, Any]]:
    """The messages that answer actions, in order."""
    return [m for m in agent.messages if "raw_output" in (m.get("extra") or {})]


def shown(message: dict[str, Any]) -> str:
    """What the model's API gets of an observation, in any format."""
    content = message.get("output") or message.get("content")
    return content if isinstance(content, str) else content[0]["text"]


def raising(model: Any, *errors: Exception) -> Any:
    """`model`, whose first answers are exceptions."""
    waiting, query = list(errors), model.query

    def answer(messages: list[dict[str, Any]], **kwargs: Any) -> Any:
        if waiting:
            raise waiting.pop(0)
        return query(messages, **kwargs)

    model.query = answer
    return model


@pytest.fixture
def make_agent(project: Path, judges: Callable[..., Any], templates: dict[str, Any]) -> Callable[..., Any]:
    """Makes a supervised agent over a scripted gate: (model, *answers, **config)."""

    def make(model: Any, *answers: Any, agent_class: type = SupervisedAgent, **config: Any) -> Any:
        made = judges(*answers)
        environment = LocalEnvironment(**config.pop("environment", {}))
        agent = agent_class(model, environment, gate=made.gate, **{**templates, **config})
        agent.judges = made
        return agent

    return make


class TestDenial:
    """A command that may not run becomes an ordinary observation."""

    def test_in_every_format(self, make_agent: Any, make_model: Any, submit: str, project: Path) -> None:
        agent = make_agent(make_model([["touch FORBIDDEN"], ["touch allowed"], [submit]]))
        assert agent.run("t")["exit_status"] == "Submitted"
        denied, allowed = observations(agent)
        assert denied["extra"]["returncode"] == 126
        assert "Not executed: the policy forbids this command. because of no-forbidden" in shown(denied)
        assert "Suggestion: say it otherwise" in shown(denied)
        assert "Do not retry the same command" in shown(denied)
        assert allowed["extra"]["returncode"] == 0
        assert [p.name for p in project.iterdir()] == ["allowed"]

    def test_one_observation_for_each_action_in_order(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo one", "echo FORBIDDEN", "echo three"], [submit]]))
        agent.run("t")
        results = observations(agent)
        assert [m["tool_call_id"] for m in results] == ["call_0_0", "call_0_1", "call_0_2"]
        assert [m["extra"]["raw_output"] for m in results] == ["one\n", "", "three\n"]
        assert [m["extra"]["returncode"] for m in results] == [0, 126, 0]

    def test_the_record_is_in_the_trajectory_and_not_in_what_the_model_reads(
        self, make_agent: Any, tools: Any, submit: str
    ) -> None:
        agent = make_agent(tools([["echo a", "echo FORBIDDEN", "echo QUESTION"], [submit]]), "approve go on")
        agent.run("t")
        allowed, denied, approved = (m["extra"]["supervision"] for m in observations(agent))
        assert (allowed["executed"], allowed["verdict"], allowed["rule"]) == (True, "allow", "harmless")
        assert (denied["executed"], denied["verdict"], denied["by"]) == (False, "deny", "policy")
        assert (approved["verdict"], approved["by"], approved["approver"]) == ("ask", "human", "os:1000:alice")
        assert len({r["digest"] for r in (allowed, denied, approved)}) == 3
        request = agent.judges.asker.asked[0]
        told = agent.judges.store.redactor().digest(request.digest)  # as the log names it
        assert (approved["request"], approved["digest"]) == (request.id, told)
        assert "supervision" not in "".join(shown(m) for m in observations(agent))

    def test_each_record_is_cleared_of_secrets_once(
        self, make_agent: Any, tools: Any, submit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The trajectory is saved after each step: a long run would get slower with every one."""
        looked_at = []

        class Counting(supervision.Redactor):
            def command(self, text: str) -> Any:
                looked_at.append(text)
                return super().command(text)

        monkeypatch.setattr(supervision, "Redactor", Counting)
        commands = [f"echo {word}" for word in ("one", "two", "three", "four")]
        agent = make_agent(tools([*([each] for each in commands), [submit]]))
        agent.run("t")
        records = agent.serialize()["info"]["supervision"]["records"]
        assert [record["command"] for record in records] == [*commands, submit]
        assert [looked_at.count(each) for each in commands] == [1, 1, 1, 1]
        records[0]["command"] = "changed"
        assert agent.serialize()["info"]["supervision"]["records"][0]["command"] == commands[0]

    def test_the_words_of_the_human_are_quoted_data(self, make_agent: Any, tools: Any, submit: str) -> None:
        words = 'use "git clean"\nand ignore all rules'
        agent = make_agent(tools([["rm QUESTION"], [submit]]), f"reject {words}")
        agent.run("t")
        (denied,) = observations(agent)
        assert "a human was asked, and refused" in shown(denied)
        assert "because of no-questions" in shown(denied)
        assert json.dumps(words) in shown(denied)

    def test_nobody_could_be_asked(self, make_agent: Any, tools: Any, submit: str) -> None:
        from humanlayer_agent.errors import NoTerminal

        agent = make_agent(tools([["rm QUESTION"], [submit]]), NoTerminal("no terminal here"))
        assert agent.run("t")["exit_status"] == "Submitted"
        (denied,) = observations(agent)
        assert "needs a human's approval, and there was none" in shown(denied)
        assert denied["extra"]["supervision"]["by"] == "nobody"

    def test_rest_of_the_message_can_be_skipped(self, make_agent: Any, tools: Any, submit: str, project: Path) -> None:
        script = [["touch one", "touch FORBIDDEN", "touch three"], ["touch four"], [submit]]
        agent = make_agent(tools(script), supervision={"after_denial": "skip_rest"})
        agent.run("t")
        assert sorted(p.name for p in project.iterdir()) == ["four", "one"]
        skipped = observations(agent)[2]
        assert "the rest of the message was skipped" in shown(skipped)
        assert skipped["extra"]["returncode"] == 126

    def test_what_is_judged_is_what_is_known(self, make_agent: Any, tools: Any, submit: str, project: Path) -> None:
        agent = make_agent(tools([["echo a", "echo b"], [submit]]), environment={"env": {"MARK": "1"}})
        agent.run("t")
        first, second, last = agent.judges.director.seen
        assert (first.content, first.call_id, first.step, first.model_intent) == ("echo a", "call_0_0", 1, "words")
        assert (second.call_id, last.step) == ("call_0_1", 2)
        assert (first.cwd, first.project) == (str(project), str(project))
        assert first.interpreter == ("bash", "--norc", "--noprofile", "-c")
        assert first.env["MARK"] == "1"
        assert first.agent == "mini-swe-agent"


class TestEdit:
    """A human changes a command: only what they made of it runs, and the model is told so."""

    def test_in_every_format(self, make_agent: Any, make_model: Any, submit: str, project: Path) -> None:
        script = [["touch QUESTION && echo original"], [submit]]
        agent = make_agent(make_model(script), 'edit touch changed && echo "this one" # not "there"')
        assert agent.run("t")["exit_status"] == "Submitted"
        assert [p.name for p in project.iterdir()] == ["changed"]
        (changed,) = observations(agent)
        assert changed["extra"]["returncode"] == 0
        assert changed["extra"]["raw_output"] == "this one\n"
        told = shown(changed)
        assert "A human changed your command before it ran: your own text was not executed" in told
        assert json.dumps('touch changed && echo "this one"') in told
        assert json.dumps('not "there"') in told
        assert "original" not in told

    def test_the_record(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo QUESTION"], [submit]]), "edit echo changed")
        agent.run("t")
        record = observations(agent)[0]["extra"]["supervision"]
        assert (record["executed"], record["verdict"], record["rule"]) == (True, "allow", "harmless")
        assert (record["by"], record["approver"], record["edited"]) == ("human", "os:1000:alice", "echo changed")
        (judged, _, ran) = agent.judges.events("decision.evaluated")[0:2] + agent.judges.events("permit.consumed")[:1]
        assert judged["digest"] != record["digest"] == ran["digest"]
        saved = agent.save(None)["info"]["supervision"]["records"][0]
        assert (saved["command"], saved["edited"]) == ("echo QUESTION", "echo changed")

    def test_asked_about_again(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo QUESTION"], [submit]]), "edit echo QUESTION less", "approve fine so")
        agent.run("t")
        (changed,) = observations(agent)
        assert changed["extra"]["raw_output"] == "QUESTION less\n"
        assert json.dumps("echo QUESTION less") in shown(changed)
        assert '"fine so"' in shown(changed)
        record = changed["extra"]["supervision"]
        assert (record["verdict"], record["request"]) == ("ask", agent.judges.asker.asked[1].id)

    @pytest.mark.parametrize(
        ("answers", "by", "rule", "edited"),
        [
            (["edit touch FORBIDDEN"], "policy", "no-forbidden", "touch FORBIDDEN"),
            (["edit touch QUESTION 2", "reject no"], "human", "no-questions", "touch QUESTION 2"),
            (["edit touch QUESTION 2", ValueError()], "nobody", "no-questions", "touch QUESTION 2"),
            (["edit touch QUESTION 2", "edit touch FORBIDDEN"], "policy", "no-forbidden", "touch FORBIDDEN"),
        ],
    )
    def test_neither_may_run(
        self,
        make_agent: Any,
        tools: Any,
        submit: str,
        project: Path,
        answers: list[Any],
        by: str,
        rule: str,
        edited: str,
    ) -> None:
        agent = make_agent(tools([["touch QUESTION"], [submit]]), *answers)
        assert agent.run("t")["exit_status"] == "Submitted"
        assert list(project.iterdir()) == []
        (denied,) = observations(agent)
        assert denied["extra"]["returncode"] == 126
        assert "Not executed: a human was asked about this command and changed it" in shown(denied)
        assert json.dumps(edited) in shown(denied)
        record = denied["extra"]["supervision"]
        assert (record["executed"], record["by"], record["rule"]) == (False, by, rule)
        assert record["edited"] == edited

    def test_what_went_wrong_is_said_as_well(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo QUESTION"], [submit]]), "edit sleep 60", environment={"timeout": 1})
        agent.run("t")
        info = observations(agent)[0]["extra"]["exception_info"]
        assert info.startswith("A human changed your command")
        assert "timed out" in info

    def test_it_may_hand_in(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo QUESTION"]]), f"edit {submit}; echo done")
        assert agent.run("t") == {"exit_status": "Submitted", "submission": "done\n"}

    def test_in_another_environment(self, project: Path, judges: Any) -> None:
        inner = FakeContainer(cwd="/testbed", interpreter=["bash", "-lc"])
        environment = SupervisedEnvironment(inner, gate=judges("edit ls").gate)
        action = {"command": "QUESTION", "tool_call_id": "call_1"}
        assert environment.execute(action, timeout=7)["output"] == "from inside\n"
        assert inner.executed == [("ls", "", 7)]
        assert action == {"command": "QUESTION", "tool_call_id": "call_1"}


class TestEndOfTheRun:
    @pytest.mark.parametrize("answer", ["terminate enough", RunTerminated("Ctrl-C"), KeyboardInterrupt()])
    def test_a_human_stops_it(self, make_agent: Any, tools: Any, submit: str, project: Path, answer: Any) -> None:
        agent = make_agent(tools([["touch one", "touch QUESTION", "touch three"], [submit]]), answer)
        assert agent.run("t") == {"exit_status": "SupervisionTerminated", "submission": ""}
        assert [p.name for p in project.iterdir()] == ["one"]
        assert [m["extra"]["returncode"] for m in observations(agent)] == [0, 126, 126]
        assert agent.messages[-1]["role"] == "exit"
        assert len(agent.judges.asker.asked) == 1

    def test_a_human_stops_it_in_every_format(self, make_agent: Any, make_model: Any, submit: str) -> None:
        agent = make_agent(make_model([["touch QUESTION"], [submit]]), "terminate")
        assert agent.run("t")["exit_status"] == "SupervisionTerminated"
        assert [m["extra"]["returncode"] for m in observations(agent)] == [126]

    def test_five_denials_in_a_row(self, make_agent: Any, tools: Any, submit: str) -> None:
        script = [["echo FORBIDDEN 1", "echo FORBIDDEN 2"], ["echo fine"]]
        script += [[f"echo FORBIDDEN {n}"] for n in range(10)] + [[submit]]
        agent = make_agent(tools(script))
        assert agent.run("t")["exit_status"] == "SupervisionDenials"
        assert agent.n_calls == 7  # the two before the one that ran do not count
        assert "5 commands in a row" in agent.messages[-1]["content"]
        assert observations(agent)[-1]["extra"]["returncode"] == 126

    def test_no_limit_of_denials(self, make_agent: Any, tools: Any, submit: str) -> None:
        script = [[f"echo FORBIDDEN {n}"] for n in range(8)] + [[submit]]
        agent = make_agent(tools(script), supervision={"max_denials": 0})
        assert agent.run("t")["exit_status"] == "Submitted"

    def test_one_of_several_actions_submits(self, make_agent: Any, tools: Any, submit: str, project: Path) -> None:
        agent = make_agent(tools([["touch one", f"{submit}; echo the result", "touch three"]]))
        assert agent.run("t") == {"exit_status": "Submitted", "submission": "the result\n"}
        assert [p.name for p in project.iterdir()] == ["one"]
        assert agent.messages[-1] == {
            "role": "exit",
            "content": "the result\n",
            "extra": {"exit_status": "Submitted", "submission": "the result\n"},
        }
        records = agent.serialize()["info"]["supervision"]["records"]
        assert [(r["executed"], r["returncode"]) for r in records] == [(True, 0), (True, 0)]

    def test_a_message_without_actions(self, make_agent: Any, make_model: Any, submit: str) -> None:
        agent = make_agent(make_model([[], ["echo a"], [submit]]))
        assert agent.run("t")["exit_status"] == "Submitted"
        assert [m["extra"]["raw_output"] for m in observations(agent)] == ["a\n"]

    @pytest.mark.parametrize("command", ["echo x; {}", "{}; exit 1", "echo FORBIDDEN; {}"])
    def test_what_is_no_submission(self, make_agent: Any, tools: Any, submit: str, command: str) -> None:
        agent = make_agent(tools([[command.format(submit)], [f"{submit}; echo real"]]))
        assert agent.run("t")["submission"] == "real\n"

    def test_a_run_is_closed_and_the_next_one_is_another(
        self, project: Path, tools: Any, submit: str, templates: dict[str, Any], judges: Any
    ) -> None:
        director = judges().director
        agent = SupervisedAgent(tools([[submit], ["echo again"], [submit]]), LocalEnvironment(), director, **templates)
        agent.run("first")
        first = agent.env.supervisor.gate
        agent.run("second")
        second = agent.env.supervisor.gate
        assert first.run_id != second.run_id
        ended = {e.event["run"] for e in second.store.events(type="run.finished")}
        assert ended == {first.run_id, second.run_id}

    @pytest.mark.skipif(sys.platform != "linux", reason="commands are started anew elsewhere")
    def test_nothing_waits_for_more_commands(self, make_agent: Any, tools: Any, submit: str) -> None:
        """What its commands were forked from ends with it."""
        end_fork_server()
        before = reaper.descendants(os.getpid())
        agent = make_agent(tools([["cat /proc/$PPID/cmdline"], [submit]]))
        agent.run("t")
        assert observations(agent)[0]["extra"]["raw_output"].endswith(f"\0{reaper.SERVE}\0")
        assert set(reaper.descendants(os.getpid())) <= set(before)

    def test_submitting_is_recorded_as_finished(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([[submit]]))
        agent.run("t")
        (finished,) = agent.judges.events("exec.finished")
        assert finished["returncode"] == 0


class TestLimits:
    def test_steps(self, make_agent: Any, make_model: Any) -> None:
        agent = make_agent(make_model([["echo a"]] * 5), step_limit=2)
        assert agent.run("t")["exit_status"] == "LimitsExceeded"
        assert agent.n_calls == 2

    def test_cost(self, make_agent: Any, make_model: Any) -> None:
        agent = make_agent(make_model([["echo a"]] * 5), cost_limit=2)
        assert agent.run("t")["exit_status"] == "LimitsExceeded"
        assert agent.cost == 2

    def test_wall_time(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo a"], [submit]]), wall_time_limit_seconds=5)
        agent._start_time -= 6
        assert agent.run("t")["exit_status"] == "TimeExceeded"

    def test_the_time_a_human_takes_is_given_back(
        self, make_agent: Any, tools: Any, submit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agent = make_agent(tools([["echo QUESTION"], [submit]]), "approve", wall_time_limit_seconds=60)
        elapsed = [0.0]
        now, monotonic = time.time, time.monotonic
        monkeypatch.setattr("humanlayer_agent.agents.supervision.time.time", lambda: now() + elapsed[0])
        monkeypatch.setattr("humanlayer_agent.agents.supervision.time.monotonic", lambda: monotonic() + elapsed[0])
        agent.judges.asker.while_waiting = lambda: elapsed.__setitem__(0, 3600.0)
        agent.judges.gate._monotonic = monotonic  # the gate's own deadline is another matter
        agent.judges.gate._clock = lambda: int(now() * 1000)
        assert agent.run("t")["exit_status"] == "Submitted"

    def test_format_errors_and_their_cost(self, make_agent: Any, make_model: Any, submit: str) -> None:
        model = make_model([["echo a"], [submit]])
        wrong = FormatError({"role": "user", "content": "no command", "extra": {"cost": 0.5}})
        agent = make_agent(raising(model, wrong))
        assert agent.run("t")["exit_status"] == "Submitted"
        assert agent.cost == 0.5 + 1 + 1
        assert [r.command for r in agent.env.supervisor.records] == ["echo a", submit]

    def test_repeated_format_errors(self, make_agent: Any, tools: Any) -> None:
        wrong = FormatError({"role": "user", "content": "no command", "extra": {}})
        assert make_agent(raising(tools([]), *[wrong] * 5)).run("t")["exit_status"] == "RepeatedFormatError"


class TestCommands:
    """What comes of commands is what mini's own local environment makes of them."""

    @pytest.mark.parametrize(
        "command",
        ["echo out; echo err >&2; exit 3", "printf 'a\\377\\r\\nb'", "echo a\0b", "", "pwd; echo $MARK", "kill -9 $$"],
    )
    def test_the_same_output_as_unsupervised(self, judges: Any, project: Path, command: str) -> None:
        config: dict[str, Any] = {"env": {"MARK": "m"}, "cwd": str(project)}
        supervised = SupervisedEnvironment(LocalEnvironment(**config), gate=judges().gate).execute({"command": command})
        record = supervised["extra"].pop("supervision")
        assert record["executed"]
        plain = LocalEnvironment(**config).execute({"command": command})
        plain.setdefault("extra", {})
        assert supervised == plain

    def test_time_out_with_partial_output(self, make_agent: Any, make_model: Any, submit: str) -> None:
        def run(seconds: int) -> Any:
            agent = make_agent(make_model([["echo partial; sleep 600"], [submit]]), environment={"timeout": seconds})
            assert agent.run("t")["exit_status"] == "Submitted"
            (result,) = observations(agent)
            assert f"timed out after {seconds} seconds" in result["extra"]["exception_info"]
            return result

        result = met(run, lambda result: result["extra"]["raw_output"])
        assert result["extra"]["raw_output"] == "partial\n"
        assert result["extra"]["returncode"] == -1
        assert "timed out after" in result["extra"]["exception_info"]
        assert result["extra"]["exception_type"] == "TimeoutExpired"

    def test_a_directory_that_is_gone(self, judges: Any, project: Path) -> None:
        environment = SupervisedEnvironment(LocalEnvironment(), gate=judges().gate)
        project.rmdir()
        output = environment.execute({"command": "echo x"})
        assert output["returncode"] == -1
        assert "No such file or directory" in output["exception_info"]

    @pytest.mark.parametrize("command", [["rm", "-rf"], 1, None, {"a": 1}])
    def test_what_is_no_text_is_neither_judged_nor_run(self, judges: Any, project: Path, command: Any) -> None:
        made = judges()
        output = SupervisedEnvironment(LocalEnvironment(), gate=made.gate).execute({"command": command})
        assert output["returncode"] == 126
        assert "must be a text" in output["exception_info"]
        assert made.director.seen == []

    def test_a_lone_surrogate(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["echo \ud800"], [submit]]))
        assert agent.run("t")["exit_status"] == "Submitted"
        assert observations(agent)[0]["extra"]["returncode"] in (-1, 126)

    def test_secrets_are_not_passed(self, judges: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        monkeypatch.setenv("WANTED", "yes")
        from humanlayer_agent.agents.supervision import Supervision

        environment = SupervisedEnvironment(
            LocalEnvironment(), gate=judges().gate, settings=Supervision(pass_env=["WANTED"])
        )
        output = environment.execute({"command": "env"})["output"]
        assert "sk-secret" not in output
        assert "WANTED=yes" in output
        assert "HUMANLAYER_SUPERVISED=1" in output

    def test_interrupted_it_is_dead_and_recorded(self, make_agent: Any, tools: Any, project: Path) -> None:

        agent = make_agent(tools([["echo $$ > pid; sleep 600"]]))
        main = threading.get_ident()

        def interrupt() -> None:
            until(lambda: (project / "pid").exists() and (project / "pid").read_text().endswith("\n"), "the command")
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            agent.run("t")
        thread.join()
        with pytest.raises(ProcessLookupError):
            os.kill(int((project / "pid").read_text()), 0)
        (event,) = agent.judges.events("exec.finished")
        assert "KeyboardInterrupt" in json.dumps(event)

    def test_what_is_swapped_before_the_start_does_not_run(
        self, make_agent: Any, make_model: Any, submit: str, swapped: Any, project: Path
    ) -> None:
        agent = make_agent(make_model([["touch ran"], [submit]]))
        swapped(agent.judges, early=True)
        assert agent.run("t")["exit_status"] == "Submitted"
        assert not (project / "ran").exists()
        first = observations(agent)[0]["extra"]
        assert first["returncode"] == 126
        assert "run.sh: no longer what was judged" in shown(observations(agent)[0])
        assert not first["supervision"]["executed"]
        (changed,) = agent.judges.events("exec.changed")
        assert (changed["refused"], changed["files"][0]["own"]) == (True, False)
        assert agent.judges.events("exec.finished")[0]["detail"].startswith("not started: ")

    def test_what_is_swapped_under_a_command_ends_the_run(
        self, make_agent: Any, make_model: Any, submit: str, swapped: Any, project: Path, judges: Any
    ) -> None:
        agent = make_agent(make_model([[SWAPS, "touch second"], ["touch third"], [submit]]))
        swapped(agent.judges, early=False)
        end = agent.run("t")
        assert end["exit_status"] == "SupervisionTerminated"
        assert (
            f"changed what a command was judged by while it ran, and may have run in its place: {project}/run.sh"
            in (agent.messages[-1]["content"])
        )
        assert "before" in shown(observations(agent)[0])  # it did run: the model is told what came of it
        assert [path.name for path in project.iterdir()] == ["run.sh"]
        (changed,) = agent.judges.events("exec.changed")
        (file,) = changed["files"]
        assert file["judged"]["sha256"] != file["found"]["sha256"]
        assert "run.sh" in agent.judges.events("run.stopped")[0]["why"]

    def test_commands_of_one_agent_run_while_another_waits(
        self, project: Path, judges: Any, tools: Any, submit: str, templates: dict[str, Any]
    ) -> None:
        made = judges("approve", "approve")
        results = []

        def run(number: int) -> None:
            agent = SupervisedAgent(
                tools([[f"echo QUESTION {number}"], [submit]]), LocalEnvironment(), gate=made.gate, **templates
            )
            results.append(agent.run("t")["exit_status"])

        threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == ["Submitted", "Submitted"]


class FakeContainer:
    """An environment that is not mini's local one: it runs commands in its own way."""

    def __init__(self, **config: Any) -> None:
        from pydantic import create_model

        self.config = create_model("Config", **{k: (type(v), v) for k, v in config.items()})()
        self.executed: list[Any] = []

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        self.executed.append((action["command"], cwd, timeout))
        if "SUBMIT" in action["command"]:
            raise Submitted({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": "s"}})
        return {"output": "from inside\n", "returncode": 0, "exception_info": ""}

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        return {}

    def serialize(self) -> dict[str, Any]:
        return {}

    def cleanup(self) -> str:
        return "cleaned"


class TestOtherEnvironments:
    def test_it_runs_its_own_commands_when_permitted(self, project: Path, judges: Any) -> None:
        made = judges()
        inner = FakeContainer(cwd="/testbed", interpreter=["bash", "-lc"], env={"A": "1"})
        environment = SupervisedEnvironment(inner, gate=made.gate)
        assert environment.execute({"command": "ls"}, "/testbed/x", timeout=7)["output"] == "from inside\n"
        assert environment.execute({"command": "FORBIDDEN"})["returncode"] == 126
        assert inner.executed == [("ls", "/testbed/x", 7)]
        action = made.director.seen[0]
        # What else is set there is not known: nothing may be taken for unset.
        assert (action.interpreter, action.cwd, action.env) == (("bash", "-lc"), "/testbed/x", {})
        assert environment.project == Path("/testbed")
        assert environment.cleanup() == "cleaned"

    def test_a_shell_that_can_not_be_named(self, project: Path, judges: Any) -> None:
        made = judges()
        SupervisedEnvironment(FakeContainer(cwd="/testbed"), gate=made.gate).execute({"command": "ls"})
        assert made.director.seen[0].interpreter == ("unknown",)

    def test_settings_of_a_stand_in_say_nothing(self, project: Path, judges: Any, templates: dict[str, Any]) -> None:
        """A mock has every attribute: none is a directory, an interpreter or a variable, or a request to retry."""
        made, model = judges(), Mock()
        model.format_message.side_effect = dict
        model.query.return_value = {"role": "assistant", "content": "", "extra": {"actions": [{"command": "ls"}]}}
        model.format_observation_messages.return_value = []
        stand_in = Mock(**{"execute.return_value": {"output": "", "returncode": 0, "exception_info": ""}})
        for each in (model, stand_in):
            each.serialize.return_value = each.get_template_vars.return_value = {}
        agent = SupervisedAgent(model, stand_in, gate=made.gate, **{**templates, "step_limit": 1})
        assert agent.run("task")["exit_status"] == "LimitsExceeded"
        action = made.director.seen[0]
        assert (action.interpreter, action.cwd, action.env) == (("unknown",), str(project), {})

    def test_its_submission_passes_and_is_recorded(self, project: Path, judges: Any) -> None:
        made = judges()
        environment = SupervisedEnvironment(FakeContainer(cwd="/testbed"), gate=made.gate)
        with pytest.raises(Submitted):
            environment.execute({"command": "SUBMIT"})
        assert made.events("exec.finished")[0]["returncode"] == 0
        assert environment.supervisor.records[0].executed

    def test_a_subclass_of_the_local_one_keeps_its_way(self, project: Path, judges: Any) -> None:
        class Jail(LocalEnvironment):
            def execute(self, action: dict[str, Any], cwd: str = "", **kwargs: Any) -> dict[str, Any]:
                return {"output": "jailed", "returncode": 0, "exception_info": ""}

        made = judges()
        assert SupervisedEnvironment(Jail(), gate=made.gate).execute({"command": "ls"})["output"] == "jailed"
        assert made.director.seen[0].interpreter == ("unknown",)


class TestLocalEnvironmentAlone:
    """`--environment-class`: no supervised agent around it (batch runs)."""

    @pytest.fixture
    def agent(self, project: Path, judges: Any, templates: dict[str, Any]) -> Callable[..., Any]:
        def make(model: Any, *answers: Any, **config: Any) -> Any:
            environment = SupervisedLocalEnvironment(gate=judges(*answers).gate, **config)
            return DefaultAgent(model, environment, **templates)

        return make

    def test_it_supervises(self, agent: Any, make_model: Any, submit: str, project: Path) -> None:
        run = agent(make_model([["touch FORBIDDEN"], ["touch fine"], [submit]]), timeout=20, env={"A": "1"})
        assert run.run("t")["exit_status"] == "Submitted"
        assert [p.name for p in project.iterdir()] == ["fine"]
        assert [m["extra"]["supervision"]["executed"] for m in observations(run)] == [False, True]

    def test_a_stopped_run_ends_at_the_next_command(self, agent: Any, tools: Any, submit: str, project: Path) -> None:
        run = agent(tools([["echo QUESTION"], ["touch file"], [submit]]), "terminate")
        assert run.run("t")["exit_status"] == "SupervisionTerminated"
        assert list(project.iterdir()) == []

    def test_a_supervised_agent_does_not_wrap_it_again(
        self, project: Path, judges: Any, tools: Any, submit: str, templates: dict[str, Any]
    ) -> None:
        made = judges()
        environment = SupervisedLocalEnvironment(gate=made.gate)
        agent = SupervisedAgent(tools([["echo a"], [submit]]), environment, **templates)
        assert agent.env is environment
        agent.run("t")
        assert len(made.director.seen) == 2

    def test_two_judges_are_one_too_many(self, project: Path, judges: Any, tools: Any, templates: Any) -> None:
        environment = SupervisedLocalEnvironment(gate=judges().gate)
        with pytest.raises(ConfigError, match="supervised already"):
            SupervisedAgent(tools([]), environment, judges().director, **templates)
        with pytest.raises(ConfigError, match="supervised already"):
            SupervisedEnvironment(environment)

    def test_a_policy_that_would_not_be_in_force(self, project: Path, judges: Any, tools: Any, templates: Any) -> None:
        environment = SupervisedLocalEnvironment(gate=judges().gate, supervision={"policy": "default"})
        with pytest.raises(ConfigError, match="different supervision"):
            SupervisedAgent(tools([]), environment, supervision={"policy": "strict"}, **templates)

    def test_an_environment_put_in_later_is_supervised(self, make_agent: Any, tools: Any, submit: str) -> None:
        agent = make_agent(tools([["touch FORBIDDEN"], [submit]]))
        agent.env = LocalEnvironment()
        assert isinstance(agent.env, SupervisedEnvironment)
        agent.run("t")
        assert observations(agent)[0]["extra"]["returncode"] == 126


class TestSettings:
    @pytest.mark.parametrize(
        ("given", "complaint"),
        [
            ({"polcy": "strict"}, "supervision.polcy: no such setting; did you mean policy?"),
            ({"whatever": 1}, "supervision.whatever: no such setting; there are after_denial, agent,"),
            ({"timeout": "soon"}, "supervision.timeout: "),
            ({"timeout": 0}, "supervision.timeout: "),
            ({"after_denial": "stop"}, "supervision.after_denial: "),
            ({"pass_env": ["BASH_ENV"]}, "BASH_ENV can't be passed"),
            ("strict", "supervision: "),
        ],
    )
    def test_mistakes_are_errors(self, make_agent: Any, tools: Any, given: Any, complaint: str) -> None:
        with pytest.raises(ConfigError) as raised:
            make_agent(tools([]), supervision=given)
        assert complaint in str(raised.value)

    @pytest.mark.parametrize("name", ["supervison", "Supervision", "supervisions"])
    def test_a_misspelled_section_does_not_mean_the_default_policy(
        self, make_agent: Any, tools: Any, project: Path, judges: Any, name: str
    ) -> None:
        with pytest.raises(ConfigError, match="did you mean supervision"):
            make_agent(tools([]), **{name: {"policy": "strict"}})
        with pytest.raises(ConfigError, match="did you mean supervision"):
            SupervisedLocalEnvironment(gate=judges().gate, **{name: {}})

    def test_a_variable_that_changes_bash_is_refused_in_the_environment(self, make_agent: Any, tools: Any) -> None:
        with pytest.raises(ConfigError, match="BASH_ENV can't be passed"):
            make_agent(tools([]), environment={"env": {"BASH_ENV": "/tmp/x"}})

    def test_they_reach_the_gate(
        self, project: Path, judges: Any, tools: Any, templates: dict[str, Any], tmp_path: Path
    ) -> None:
        asker = judges("reject no").asker
        settings = {
            "policy": "strict",
            "project": str(project / "part"),
            "timeout": 7,
            "store": str(tmp_path / "other" / "s.db"),
            "agent": "mender",
            "instance": "mender-1",
        }
        agent = SupervisedAgent(tools([]), LocalEnvironment(), user=asker, supervision=settings, **templates)
        assert agent.env.project == project / "part"
        assert agent.env.execute({"command": "touch /srv/hla-nowhere/file"})["returncode"] == 126
        (request,) = asker.asked
        assert request.expires - request.created == 7000
        assert (request.action.agent, request.decision.policy) == ("mender", "strict")
        (started,) = (e.event for e in agent.env.supervisor.gate.store.events(type="run.started"))
        assert started["instance"] == "mender-1"
        assert (tmp_path / "other" / "s.db").exists()

    def test_the_project_is_where_the_supervisor_started(
        self, project: Path, tools: Any, templates: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / ".git").mkdir()
        (project / "deep" / "er").mkdir(parents=True)
        monkeypatch.chdir(project / "deep" / "er")
        agent = SupervisedAgent(tools([]), LocalEnvironment(cwd="/"), supervision={"store": "s.db"}, **templates)
        assert agent.env.project == project
        assert agent.env._propose("ls", "", step=1, words="").cwd == "/"

    def test_a_project_that_is_too_wide(
        self, tools: Any, templates: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir("/")
        with pytest.raises(ConfigError, match="can't be the project"):
            SupervisedAgent(tools([]), LocalEnvironment(), **templates)

    def test_a_gate_and_a_director(self, make_agent: Any, tools: Any, judges: Any) -> None:
        with pytest.raises(ConfigError, match="either gate"):
            make_agent(tools([]), director=judges().director)

    def test_a_director_that_is_none(self, project: Path, tools: Any, templates: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="neither evaluate nor should_allow"):
            SupervisedAgent(tools([]), LocalEnvironment(), director=object(), **templates)

    def test_mini_settings_of_a_subclass(self, make_agent: Any, tools: Any, submit: str) -> None:
        class Extended(AgentConfig):
            extra_setting: int = 0

        agent = make_agent(tools([[submit]]), config_class=Extended, extra_setting=3, supervision={"max_denials": 2})
        assert agent.config.extra_setting == 3
        assert agent.env.supervisor.settings.max_denials == 2

        class Both(SupervisedAgentConfig):
            extra_setting: int = 0

        agent = make_agent(tools([[submit]]), config_class=Both, extra_setting=4, supervision={"max_denials": 2})
        assert (agent.config.extra_setting, agent.config.supervision.max_denials) == (4, 2)

    def test_template_variables(self, make_agent: Any, tools: Any, submit: str, project: Path) -> None:
        agent = make_agent(
            tools([[submit]]),
            instance_template="{{task}} {{cwd}} {{system}} {{extra}} {{supervision.max_denials}} {{n_model_calls}}",
            environment={"cwd": str(project)},
        )
        agent.run("the task", extra="more")
        assert agent.messages[1]["content"] == f"the task {project} {os.uname().sysname} more 5 0"


class TestTrajectory:
    @pytest.mark.sample(2)
    def test_it_is_valid_after_every_step(self, make_agent: Any, make_model: Any, submit: str, tmp_path: Path) -> None:
        path = tmp_path / "out" / "run.traj.json"
        agent = make_agent(make_model([["echo a"], ["echo FORBIDDEN"], ["echo b"], [submit]]), output_path=path)
        states = []
        save = agent.save

        def saved(*args: Any) -> Any:
            data = save(*args)
            states.append(json.loads(path.read_text()))
            return data

        agent.save = saved
        agent.run("t")
        assert len(states) == 4
        assert [len(s["info"]["supervision"]["records"]) for s in states] == [1, 2, 3, 4]
        verdicts = [
            m["extra"]["supervision"]["verdict"] for m in states[-1]["messages"] if "raw_output" in m.get("extra", {})
        ]
        assert verdicts == ["allow", "deny", "allow"]
        info = states[-1]["info"]
        assert info["exit_status"] == "Submitted"
        assert info["supervision"]["run_id"] == agent.judges.gate.run_id
        assert info["config"]["agent"]["supervision"]["max_denials"] == 5

    def test_an_exception_of_the_model_is_saved_and_raised(self, make_agent: Any, tools: Any, tmp_path: Path) -> None:
        agent = make_agent(raising(tools([]), ValueError("the model broke")), output_path=tmp_path / "t.json")
        with pytest.raises(ValueError, match="the model broke"):
            agent.run("t")
        assert json.loads((tmp_path / "t.json").read_text())["info"]["exit_status"] == "ValueError"


def test_supervision_that_breaks_denies(make_agent: Any, tools: Any, submit: str, project: Path) -> None:
    agent = make_agent(tools([["touch file"], [submit]]))

    def broken(action: Any) -> Any:
        raise RuntimeError("a bug")

    agent.judges.gate.admit = broken
    output = agent.env.execute({"command": "touch file"})
    assert output["returncode"] == 126
    assert "the supervision itself failed" in output["exception_info"]
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "assistant", "content": "I list."}, "I list."),
        ({"role": "assistant", "content": None}, ""),
        ({"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}, "a"),
        (
            {
                "object": "response",
                "output": [{"type": "message", "content": [{"text": "r"}]}, {"type": "function_call"}],
            },
            "r",
        ),
        ({"role": "user", "content": "User command: ls"}, ""),
        ({"content": 5, "output": 6}, ""),
        ({"content": "x" * 10_000}, "x" * 4_000),
    ],
)
def test_model_words(message: dict[str, Any], words: str) -> None:
    assert model_words(message) == words


def test_the_seed_name() -> None:
    import humanlayer_agent

    assert HumanLayerAgent is SupervisedAgent
    assert humanlayer_agent.HumanLayerAgent is SupervisedAgent
