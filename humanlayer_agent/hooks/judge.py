"""Answers the questions of hooks: by the policy, the Gate, and where so configured a human."""

import argparse
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.denial_texts import denial_text
from humanlayer_agent.approvals.gate import MAX_DENIALS, Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Denial, Outcome, Permit
from humanlayer_agent.approvals.stop import STOPPED
from humanlayer_agent.audit import events
from humanlayer_agent.channels import settings
from humanlayer_agent.configuration import build_authority, build_director, build_gate, checked_project
from humanlayer_agent.errors import AgentsStopped, ConfigError
from humanlayer_agent.hooks.coding_agents import BadQuestion, Inputs, Reply, Tool, question_of
from humanlayer_agent.locations import default_store_path, is_inside, key_path, state_folder
from humanlayer_agent.policy import layers
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.processes.execution import changes_the_shell
from humanlayer_agent.safe_text import one_line, warnings
from humanlayer_agent.shell import DiskReader, keeps_ascii
from humanlayer_agent.store.log_heads import signers_at_start
from humanlayer_agent.store.sqlite import SQLiteStore

SESSIONS = 32
"""So many of the tools' sessions are kept open; the one that was quiet for longest is ended for another."""

_MARGIN_S = 2.0
"""A human has so much less time than the hook, so that "nobody answered" is said before the hook is late."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `hla hook` was called with.

    `ask` says what becomes of what the policy asks about: tool (the coding agent's own prompt), wait (for the channels
    here, up to `seconds`), deny. `policy` and `channels` as everywhere.
    """

    ask: str
    seconds: float
    policy: str | None = None
    channels: str | None = None

    @classmethod
    def parse(cls, arguments: list[str]) -> "Options":
        """From the options of the command line, which the client has checked."""
        parser = argparse.ArgumentParser(exit_on_error=False)
        for name in ("--ask", "--policy", "--channels"):
            parser.add_argument(name)
        parser.add_argument("--seconds", type=float)
        return cls(**vars(parser.parse_args(arguments)))


class Elsewhere:
    """The channel of a process without a terminal: it waits for answers that come by others, and gives none."""

    name = "hook"

    def __init__(self) -> None:
        self._waiting = threading.local()

    def waits_while(self, gone: Callable[[], bool]) -> None:
        """Withdraw what this thread asks from now on once `gone` says that nobody waits for it."""
        self._waiting.gone = gone

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        """Wait until somebody else has answered."""
        pause = threading.Event()
        while not cancelled():
            if self._waiting.gone():
                raise ToolGone
            pause.wait(_POLL_S)
        return None


class ToolGone(BaseException):
    """The tool no longer waits: what it asked about is withdrawn."""


class Judge:
    """Answers questions, and keeps open what they need: the store, and a Gate for each session of a tool. Thread-safe.

    Example::

        reply = Judge().answer(TOOLS["claude-code"], Options("tool", 50), {"CLAUDE_PROJECT_DIR": "/srv/app"}, data)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: SQLiteStore | None = None
        self._sessions: OrderedDict[object, _Session] = OrderedDict()

    def answer(
        self,
        tool: Tool,
        options: Options,
        environ: Mapping[str, str],
        data: bytes,
        gone: Callable[[], bool] = lambda: False,
    ) -> tuple[Reply, Inputs]:
        """The reply to the question `data`, and the inputs of the call that it is about.

        Args:
            environ: of the hook: where the project is, and which shell there will be.
            gone: whether the tool no longer waits for an answer.

        Raises:
            BadQuestion: it is not understood.
            HumanlayerError: a setting, the policy or the store can't be used.
        """
        question = question_of(data)
        if question.get("hook_event_name") != tool.event:
            raise BadQuestion(f"this hook is for {tool.event}, and was called for {question.get('hook_event_name')!r}")
        name, inputs = question.get("tool_name"), question.get("tool_input")
        if not isinstance(name, str) or not isinstance(inputs, dict):
            raise BadQuestion("tool_name or tool_input is missing")
        find = tool.runs.get(name) or tool.touches.get(name)
        if find is None:
            return self._unjudged(tool, options, environ, name), inputs
        project = _project(tool, environ)
        action = Action(
            content=find(inputs),
            cwd=_directory(question, inputs, project),
            project=str(project),
            interpreter=_interpreter(tool, environ, project),
            agent=tool.name,
            call_id=str(question.get("tool_use_id") or ""),
            model_intent=str(inputs.get("description") or "")[:4_000],
        )
        session = self._session(tool, options, project, str(question.get("session_id") or ""))
        may_ask = question.get("permission_mode", "default") in tool.prompts
        reply = session.judged(action, ask=options.ask, may_ask=may_ask, runs=name in tool.runs, gone=gone)
        return reply, inputs

    def close(self) -> None:
        """End every session."""
        with self._lock:
            for session in self._sessions.values():
                session.end("ended")
            self._sessions.clear()

    def _unjudged(self, tool: Tool, options: Options, environ: Mapping[str, str], name: str) -> Reply:
        """No opinion on a call that no policy is about, unless every agent is stopped: then that is none too many."""
        with self._lock:
            store = self._store = self._store or SQLiteStore(default_store_path())
        if not store.halts.standing(None):
            return Reply("none")
        halts = store.halts.standing(build_authority(options.channels, project=_project(tool, environ)))
        if not halts:
            return Reply("none")
        store.record(
            events.SUPERVISION_REFUSED, wanted=f"{tool.name}: {name[:200]}", refusal="stopped", halt=halts[0].id
        )
        return _stopped()

    def _session(self, tool: Tool, options: Options, project: Path, name: str) -> "_Session":
        key = (tool.name, options, project, name)
        with self._lock:
            found = self._sessions.get(key)
            if found is None or found.outdated():
                if found is not None:
                    found.end("its settings have changed")
                self._store = self._store or SQLiteStore(default_store_path())
                signers = found.signers if found else signers_at_start(self._store, tool.name, name) if name else None
                reader = found.reader if found else None
                found = _Session(tool, options, project, name, self._store, signers, reader)
                self._sessions[key] = found
            self._sessions.move_to_end(key)
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].end("ended for another session")
            return found


class _Session:
    """One session of a tool in one project: a run of its own in the log.

    Args:
        signers: whose signatures counted when the session began: a key that a channels file has named since does not
            count in it, as it does not in any other run that goes on. None: it begins now.
        reader: what another session with older settings knew to be under version control: later additions don't count.
    """

    def __init__(
        self,
        tool: Tool,
        options: Options,
        project: Path,
        name: str,
        store: SQLiteStore,
        signers: frozenset[str] | None = None,
        reader: Any = None,
    ) -> None:
        self._paths = list(_settings(project, options))
        self._seen = _state(self._paths)
        director = build_director(options.policy, project=project)
        director.reader = reader or director.reader or DiskReader(project)
        self.reader = director.reader
        self._paths += [source.path for layer in director.layers for source in layer.policy.sources]
        self._seen = self._seen | _state(self._paths)
        self._asker = Elsewhere()
        self._director: Director = director
        self._gate: Gate = build_gate(
            director=director,
            asker=self._asker,
            project=project,
            store=store,
            agent=tool.name,
            channels=options.channels,
            instance=name,
            signers=signers,
            timeout_ms=max(1, int((options.seconds - _MARGIN_S) * 1000)),
            max_denials=0 if options.ask == "tool" else MAX_DENIALS,  # 0: there is a person, who sees them
        )

    @property
    def signers(self) -> frozenset[str]:
        """The keys whose signatures count in it."""
        return self._gate.authority.signers

    def outdated(self) -> bool:
        """Tell whether a file has changed that says how to judge."""
        return _state(self._paths) != self._seen

    def end(self, status: str) -> None:
        """Nothing of it may run any more."""
        self._gate.close(status)

    def judged(self, action: Action, *, ask: str, may_ask: bool, runs: bool, gone: Callable[[], bool]) -> Reply:
        """The reply to one call.

        Args:
            ask: see `Options`. may_ask: the tool's own prompt is there.
            runs: it is a command; else another call that is judged as one.
        """
        if ask != "wait":
            decision = self._director.evaluate(action)
            if decision.verdict is Verdict.ASK and decision.enforced:
                try:
                    return self._not_asked_here(action, decision, ask=ask, may_ask=may_ask)
                except AgentsStopped:
                    return _stopped()
        self._asker.waits_while(gone)
        try:
            checked = self._gate.check(action)
        except ToolGone:
            return Reply("deny", "the tool no longer waits")
        if isinstance(checked, Denial):
            return Reply("deny", denial_text(checked), stop=checked.terminate)
        return self._permitted(action, checked, runs=runs, gone=gone)

    def _not_asked_here(self, action: Action, decision: PolicyDecision, *, ask: str, may_ask: bool) -> Reply:
        if ask == "tool" and may_ask:
            self._gate.record(action, decision, left_to="the tool's own prompt")
            return Reply("ask", _for_the_user(action, decision))
        why = "the tool's own prompt is off" if ask == "tool" else "nobody is asked here"
        self._gate.record(action, decision, denied=why)
        return Reply("deny", denial_text(Denial(f"a human must approve this, and {why}", "nobody", decision)))

    def _permitted(self, action: Action, permit: Permit, *, runs: bool, gone: Callable[[], bool]) -> Reply:
        edited = permit.action.content if permit.action.content != action.content else ""
        if edited and not runs:
            self._gate.store.void(permit.id, "only commands can be edited")
            return Reply("deny", "A human would have changed this call. That is only possible with commands.")
        if gone():
            self._gate.store.void(permit.id, "the tool no longer waits")
            return Reply("deny", "the tool no longer waits")
        if denial := self._gate.start(permit, permit.action):
            return Reply("deny", denial_text(denial), stop=denial.terminate)
        self._gate.finish(permit, Outcome(None, "the tool runs it; how it ends is not reported"))
        if permit.decision.verdict is not Verdict.ALLOW and not permit.request_id:  # only observed: nothing is changed
            return Reply("none")
        if not runs and not permit.request_id:
            return Reply("none")
        return Reply("allow", one_line(permit.decision.reason) or "allowed by the policy", command=edited)


def _for_the_user(action: Action, decision: PolicyDecision) -> str:
    """Return why the tool's own prompt asks. The tool shows the command by itself, so what is hidden in it is told."""
    rule = f" (rule {decision.rule})" if decision.rule else ""
    hidden = "".join(f". Warning: {each}" for each in warnings(action.content))
    return one_line(f"{decision.reason}{rule}{hidden}")


def _stopped() -> Reply:
    """The reply to whatever an agent wants to do while every agent is stopped."""
    return Reply("deny", denial_text(Denial(STOPPED, "human", terminate=True, halted=True)), stop=True)


def _project(tool: Tool, environ: Mapping[str, str]) -> Path:
    """The project's directory, by the tool's own word. Never the directory of the call: the agent chooses that."""
    named = environ.get(tool.project, "")
    if not os.path.isabs(named) or not os.path.isdir(named):
        raise ConfigError(f"{tool.project} does not name the project's directory: the tool must set it")
    return checked_project(named)


def _directory(question: Mapping[str, Any], inputs: Inputs, project: Path) -> str:
    cwd = question.get("cwd") or str(project)
    own = inputs.get("dir_path") or inputs.get("directory") or ""  # where a command of Gemini CLI runs
    if not isinstance(cwd, str) or not isinstance(own, str) or not os.path.isabs(cwd):
        raise BadQuestion("cwd is no absolute path")
    return os.path.normpath(os.path.join(cwd, own))


def _interpreter(tool: Tool, environ: Mapping[str, str], project: Path) -> tuple[str, ...]:
    """Return what runs the tool's commands, where that is bash as it is judged; else something that is not taken for
    bash.
    """
    shell = next((environ[name] for name in tool.shells if environ.get(name)), "") if tool.shells else "/bin/bash"
    if changing := sorted(name for name in environ if changes_the_shell(name)):
        return (f"bash with {' and '.join(changing)}", "-c")
    if os.path.basename(shell) != "bash" or not _is_the_users(shell, project):
        return (f"the shell {shell!r}", "-c")  # never a name that the Director knows
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not keeps_ascii(locale):
        return (f"bash in the locale {locale}", "-c")
    for name in tool.around:
        if environ.get(name) and not _is_the_users(environ[name].split(" ")[0], project):
            return (f"bash with {name}", "-c")
    return ("bash", "-lc")


def _is_the_users(path: str, project: Path) -> bool:
    """Not what an agent can write while it works: where that is, and what a name without a directory means, it says."""
    return os.path.isabs(path) and not is_inside(Path(path), project)


def _settings(project: Path, options: Options) -> Iterator[str]:
    """The files that say how to judge, there or not."""
    yield from (str(path) for _, path in layers.places(project))
    yield from (str(path) for _, path in settings.places(project))
    yield str(state_folder() / "trusted")  # every change puts another file in place
    yield str(key_path())
    yield from (os.path.abspath(path) for path in (options.policy, options.channels) if path and "/" in path)
    yield from settings.load(project, file=options.channels).files


def _state(paths: list[str]) -> frozenset[tuple[str, object]]:
    return frozenset((path, _stat(path)) for path in paths)


def _stat(path: str) -> object:
    try:
        about = os.stat(path)
    except OSError as error:
        return error.errno
    return about.st_ino, about.st_dev, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_mode, about.st_uid
