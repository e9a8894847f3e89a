"""Answers the questions of hooks: by the policy, the Gate, and where so configured a human."""

import argparse
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from humanlayer_agent.action import BASH, FUNCTION, Action, tool_arguments
from humanlayer_agent.agents.file_keeper import keeper_of
from humanlayer_agent.agents.run_enclosures import RunEnclosures, directed, run_permitted
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.denial_texts import denial_text
from humanlayer_agent.approvals.gate import MAX_DENIALS, Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Denial, Outcome, Permit
from humanlayer_agent.approvals.stop import STOPPED
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit import events
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.channels import settings
from humanlayer_agent.configuration import build_authority, build_director, build_gate, checked_project
from humanlayer_agent.errors import ActionDenied, AgentsStopped, ConfigError, StoreError
from humanlayer_agent.hooks import client, log_proof
from humanlayer_agent.hooks.coding_agents import CodingAgent
from humanlayer_agent.hooks.obstacles import obstacles
from humanlayer_agent.hooks.permit_use import NOT_RUN
from humanlayer_agent.hooks.permits import USE_BY_MS, Handed, HandedPermits, Shell, replaced, tool_process
from humanlayer_agent.hooks.questions import BadQuestion, Question, Reply, in_bash, other_shells
from humanlayer_agent.locations import is_inside, key_path, state_folder
from humanlayer_agent.policy import layers
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.layers import catalog_files, machine_bundle
from humanlayer_agent.processes.execution import CommandResult, changes_the_shell
from humanlayer_agent.safe_text import one_line, warnings
from humanlayer_agent.shell import DiskReader, keeps_ascii
from humanlayer_agent.store.access import open_store
from humanlayer_agent.store.log_heads import signers_at_start
from humanlayer_agent.tools import catalog
from humanlayer_agent.tools.calls import NotACall, shown

SESSIONS = 32
"""So many of the tools' sessions are kept open; the one that was quiet for longest is ended for another."""

BYPASSED = "This session is not supervised as it should be: {why}. Nothing more of it may run; a human must look at it."
"""What is said of all that a coding agent wants to do after an alarm."""

_LONGEST_S = 7 * 24 * 3600.0
"""So long a confined command may run; the tool ends it before, where it says so."""
_JUDGED = frozenset(each.name for each in (events.DECISION_EVALUATED, events.DECISION_LEFT, events.HOOK_REPORTED))
_LONGEST_NAME = 200
_MARGIN_S = 2.0
"""A human has so much less time than the hook, so that "nobody answered" is said before the hook is late."""
_POLL_S = 0.05
_MOST_ANSWERS = 64
"""So many calls are remembered of which another hook event may tell once more."""
_LOGIN_BASH = ("bash", "-lc")
_TYPED = "The agent may type into {program}, unseen: it could have it run anything."
_CHANGED = "The policy is not the one that this session began with: what it allows now counts in the next session."


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `hla hook` was called with.

    `ask` says what becomes of what the policy asks about: tool (the coding agent's own prompt), wait (for the channels
    here, up to `seconds`), deny. `policy` and `channels` as everywhere. `confine`: what is allowed is to run confined.
    """

    ask: str
    seconds: float
    policy: str | None = None
    channels: str | None = None
    confine: bool = False

    @classmethod
    def parse(cls, arguments: list[str]) -> "Options":
        """From the options of the command line, which the client has checked."""
        parser = argparse.ArgumentParser(exit_on_error=False)
        for name in ("--ask", "--policy", "--channels"):
            parser.add_argument(name)
        parser.add_argument("--seconds", type=float)
        parser.add_argument(client.CONFINE, action="store_true")
        return cls(**vars(parser.parse_args(arguments)))


class Elsewhere:
    """The channel of a process without a terminal: it waits for answers that come by others, and gives none."""

    name = "hook"
    only_waits = True

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

    Args:
        lasts: it is there when the answer is used, and runs what is confined.

    Example::

        question = Question(AGENTS["claude-code"], data)
        reply = Judge().answer(question, Options("tool", 50), {"CLAUDE_PROJECT_DIR": "/srv/app"})
    """

    def __init__(self, *, lasts: bool = True) -> None:
        self._lasts = lasts
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._handed = HandedPermits()
        self._sessions: OrderedDict[object, _Session] = OrderedDict()

    def answer(
        self,
        question: Question,
        options: Options,
        environ: Mapping[str, str],
        gone: Callable[[], bool] = lambda: False,
    ) -> Reply:
        """Return the reply to a question. The log has it before this returns.

        Args:
            environ: of the hook: where the project is, and which shell there will be.
            gone: whether the tool no longer waits for an answer.

        Raises:
            BadQuestion: it is not understood.
            HumanlayerError: a setting, the policy or the store can't be used.
        """
        agent, call = question.agent, question.call
        question.asked_after = max((entry.seq for entry in self._store().events(last=1)), default=-1)
        if question.ended and not options.confine:
            raise BadQuestion(f"without {client.CONFINE} this hook is for {agent.event} alone")
        if question.ended:
            return self._reported(question)
        project = _project(agent, environ)
        action = _action(question, environ, project)
        session = self._session(agent, options, project, question.called[1], environ)
        if call.kind == "leave" and not session.names(action):
            return self._unjudged(question, options, environ)
        if (before := session.answered_before(action, question)) is not None:
            return self._unjudged(question, options, environ, reply=before)
        decision = None
        if question.runs and agent.rewrites and (why := other_shells(environ, project)):
            raise BadQuestion(why)
        if options.confine and question.runs:
            alone = "" if self._lasts else "the process that judges ends with its answer"
            if why := alone or session.unconfined or _unreplaceable(question, action, environ, project):
                session.note_unconfined(why)
            else:
                answered = session.confined(action, question, environ, ask=options.ask, gone=gone)
                if isinstance(answered, Reply):
                    return answered
                decision = answered
        may_ask = question.mode in agent.prompts
        seen = session.first_sight(action, question)
        reply = session.judged(action, question, ask=options.ask, may_ask=may_ask, gone=gone, at_least=decision)
        session.note_answer(action, seen, reply)
        return reply

    def carry_out(self, permit: str, pid: int | None, shell: Shell) -> None:
        """Run the command of a permit that was handed out, for the shell that has come with it.

        Args:
            permit: its name.
            pid: the process that came with it; None where nobody can say.
        """
        handed = self._handed.find(permit)
        why = handed.why_not(pid) if handed is not None else "there is no such permit"
        if handed is None or why:
            run = {"run": handed.permit.action.run_id, "permit": permit} if handed is not None else {}
            self.note(events.PERMIT_REFUSED, why=why, **run)
            shell.end(NOT_RUN, says=f"it did not run: {why}")
        else:
            handed.session.carry_out(handed, shell)

    def proof(self, question: Question) -> bytes:
        """Return the proof that a question was answered so (see `log_proof`); none where the log does not have it."""
        judged = told = None
        for entry in self._store().events(after=question.asked_after):
            event = entry.event
            if event.get("question") != question.digest:
                continue
            if event["type"] in _JUDGED:
                judged = entry
            if "reply" in event:
                told = entry
        if judged is None or told is None:
            raise StoreError("the log has no answer to this question")
        return log_proof.packed_proof((judged.seq, judged.hash), (told.seq, told.hash))

    def _reported(self, question: Question) -> Reply:
        """Look whether a call that has ended is the one that was answered, and used its permit."""
        handed = self._handed.of(question.called)
        if handed is not None and (why := handed.why_wrong(question.inputs, failed=question.failed)):
            ran = str(question.inputs.get("command"))
            if handed.session.is_bypassed(handed, why, ran=ran):
                self._forget(question)
                return Reply("deny", BYPASSED.format(why=why), stop=True)
        reply = Reply("none")
        permit = handed.permit.id if handed is not None else None
        self._store().record(events.HOOK_REPORTED, agent=question.agent.name, permit=permit, **question.receipt(reply))
        return reply

    def _forget(self, question: Question) -> None:
        """End what is open of a session of the tool: it begins anew by what the log says of it."""
        name, session, _ = question.called
        with self._lock:
            for key in [key for key, each in self._sessions.items() if each.is_of(name, session)]:
                self._sessions.pop(key).end("its tool did not do what its hook had answered")

    def note(self, kind: EventType, **fields: str) -> None:
        """Record what happened to a hook besides being judged.

        Raises:
            StoreError: it can't be written.
        """
        self._store().record(kind, **fields)

    def close(self) -> None:
        """End every session."""
        with self._lock:
            for session in self._sessions.values():
                session.end("ended")
            self._sessions.clear()

    def _unjudged(
        self, question: Question, options: Options, environ: Mapping[str, str], reply: Reply | None = None
    ) -> Reply:
        """No opinion on a call that no policy is about, unless every agent is stopped: then that is none too many.

        Args:
            reply: to a call that was judged when another hook event told of it.
        """
        agent, store = question.agent, self._store()
        wanted = f"{agent.name}: {question.name[:200]}"
        halts = store.halts.standing(None)
        if halts:
            halts = store.halts.standing(build_authority(options.channels, project=_project(agent, environ)))
        if halts:
            store.record(events.SUPERVISION_REFUSED, wanted=wanted, refusal="stopped", halt=halts[0].id)
            return _stopped()
        wanted += " (judged before)" if reply is not None else ""
        reply = reply or Reply("none")
        store.record(events.DECISION_LEFT, wanted=wanted, **question.receipt(reply))
        return reply

    def _store(self) -> Store:
        with self._lock:
            self._opened = self._opened or open_store()
            return self._opened

    def _session(
        self, agent: CodingAgent, options: Options, project: Path, name: str, environ: Mapping[str, str]
    ) -> "_Session":
        key, store = (agent.name, options, project, name), self._store()
        with self._lock:
            found = self._sessions.get(key)
            if found is None or found.outdated():
                if found is not None:
                    found.end("its settings have changed")
                signers = found.signers if found else signers_at_start(store, agent.name, name) if name else None
                reader = found.reader if found else None
                judged = store.first_decision(agent.name, name, str(project)) if name else None
                began = log_proof.policy_of(judged.event) if judged else None
                found = _Session(
                    agent, options, project, name, store, self._handed, environ.get("PATH"), signers, reader, began
                )
                self._sessions[key] = found
            self._sessions.move_to_end(key)
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].end("ended for another session")
            return found


class _SamePolicy:
    """A Director whose allows hold as long as its policy is the one that a session began with. Then it asks instead.

    Whoever can write the user's policy could allow everything, in the middle of a session.

    Args:
        began: what the session began with; None: with what holds now.
        typed_into: programs into which the agent may type, of which no hook would hear: they ask.
    """

    def __init__(self, director: Director, began: log_proof.Policy | None, typed_into: frozenset[str]) -> None:
        self._director = director
        self._began = began
        self._typed_into = typed_into

    def __getattr__(self, name: str) -> Any:
        return getattr(self._director, name)

    def evaluate(self, action: Action) -> PolicyDecision:
        """Judge `action`: what the tool runs itself nothing holds."""
        decision = self._director.evaluate(action, held=action.interpreter == BASH)
        if decision.verdict is Verdict.ALLOW and (program := self._typed(action)):
            decision = _asked(decision, _TYPED.format(program=program))
        now = decision.policy_digest, decision.enforced
        self._began = self._began or now
        if now == self._began or (decision.enforced and decision.verdict is not Verdict.ALLOW):
            return decision
        return _asked(decision, _CHANGED)

    def _typed(self, action: Action) -> str:
        """The program of an action into which its agent may type; "" where there is none."""
        if not self._typed_into or action.type != "bash":
            return ""
        programs = {each.program for each in self._director.program(action).commands}
        return min((each for each in programs if each in self._typed_into), default="")


def _asked(decision: PolicyDecision, reason: str) -> PolicyDecision:
    verdict = max(decision.verdict, Verdict.ASK)
    return replace(decision, verdict=verdict, enforced=True, reason=reason, rules=(), default_hit=True)


class _Session:
    """One session of a tool in one project: a run of its own in the log.

    Args:
        handed: where permits are kept that it hands out.
        path: PATH of the tool's commands.
        signers: whose signatures counted when the session began: a key that a channels file has named since does not
            count in it, as it does not in any other run that goes on. None: it begins now.
        reader: what another session with older settings knew to be under version control: later additions don't count.
        began: the policy of its first decision; None: this will be the first.
    """

    def __init__(
        self,
        agent: CodingAgent,
        options: Options,
        project: Path,
        name: str,
        store: Store,
        handed: HandedPermits,
        path: str | None = None,
        signers: frozenset[str] | None = None,
        reader: Any = None,
        began: log_proof.Policy | None = None,
    ) -> None:
        self._paths = list(_settings(project, options))
        self._seen = _state(self._paths)
        self._name, self._project, self._store, self._handed = name, project, store, handed
        self._noted: set[str] = set()
        self._lock = threading.Lock()  # for what follows
        self._has_replaced = False
        self._unused: list[Handed] = []
        self._answers: list[_Answered] = []
        self.unconfined = ""
        """Why nothing of it runs confined; "" where that is possible."""
        self._enclosures: RunEnclosures | None = None
        run = f"{agent.name} {name}" if name else None
        if options.confine:
            try:
                director, self._enclosures = directed(options.policy, project=project, confine=True, run=run, path=path)
            except ConfigError as error:
                self.unconfined = str(error)
        if self._enclosures is None:
            director = build_director(options.policy, project=project, run=run)
        if not name:
            director.reader = reader or director.reader or DiskReader(project)
        self.reader = director.reader
        self._paths += [source.path for layer in director.layers for source in layer.policy.sources]
        self._seen = self._seen | _state(self._paths)
        self._asker = Elsewhere()
        self._director = _SamePolicy(director, began, catalog.load().agents[agent.name].typed_into)
        self._gate: Gate = build_gate(
            director=self._director,
            asker=self._asker,
            project=project,
            store=store,
            agent=agent.name,
            channels=options.channels,
            instance=name,
            signers=signers,
            timeout_ms=max(1, int((options.seconds - _MARGIN_S) * 1000)),
            max_denials=0 if options.ask == "tool" else MAX_DENIALS,  # 0: there is a person, who sees them
            use_by_ms=USE_BY_MS,
            keeper=keeper_of(self._enclosures, project, run or ""),
        )
        alarms = (each.event for each in store.events(type=events.HOOK_BYPASSED.name))
        self._alarm = next((event["why"] for event in alarms if self._is_ours(event)), "")

    @property
    def signers(self) -> frozenset[str]:
        """The keys whose signatures count in it."""
        return self._gate.authority.signers

    def names(self, action: Action) -> bool:
        """Tell whether a rule that names a tool is about a call that is left to the agent otherwise."""
        hit = set(self._director.evaluate(action).rules)
        rules = (rule for layer in self._director.layers for rule in layer.policy.rules if rule.id in hit)
        return any(_speaks_of_tools(rule.written) for rule in rules)

    def outdated(self) -> bool:
        """Tell whether a file has changed that says how to judge."""
        return _state(self._paths) != self._seen

    def end(self, status: str) -> None:
        """Nothing of it may run any more."""
        self._gate.close(status)

    def confined(
        self, action: Action, question: Question, environ: Mapping[str, str], *, ask: str, gone: Callable[[], bool]
    ) -> Reply | PolicyDecision:
        """The reply to a command that would be run here, confined; or what was decided of it, where the tool is to run
        it.

        Args:
            action: as the tool would run it.
            environ: of the tool: its commands get what of it holds no secret and leads nowhere outside.
            ask: see `Options`.
        """
        if self._alarm:
            return self._bypassed()
        assert self._enclosures is not None
        env = self._enclosures.environment(environ, project=str(self._project))
        ours = replace(action, interpreter=BASH, env=env)
        decision = self._director.evaluate(ours)
        held = decision.confinement is not None and decision.confinement.reads(action.cwd)
        if decision.verdict is not Verdict.DENY:
            if not held or (decision.verdict is Verdict.ASK and ask != "wait"):
                return decision
            if not self._replaces() and self._director.evaluate(action).verdict is not Verdict.ALLOW:
                return decision
        self._asker.waits_while(gone)
        try:
            checked = self._gate.check(ours)
        except ToolGone:
            return Reply("deny", "the tool no longer waits")
        if isinstance(checked, Denial):
            return Reply("deny", denial_text(checked), stop=checked.terminate)
        return self._replaced(question, checked, gone)

    def _replaced(self, question: Question, permit: Permit, gone: Callable[[], bool]) -> Reply:
        """Hand a permit out: the tool is to run what uses it."""
        tool = tool_process(question.hook)
        why = "the tool no longer waits" if gone() else "" if tool else "nobody can say which process has asked"
        if permit.decision.confinement is None:
            why = why or "what a human has made of it can't run confined: propose that by itself"
        if why:
            self._gate.store.void(permit.id, why)
            return Reply("deny", why)
        decision = permit.decision
        said = f"{_why_allowed(decision, permit)}; it runs {decision.runs}"
        reply = Reply("allow", f"{one_line(permit.action.content)} ({said})", command=replaced(permit.id))
        handed = Handed(permit, self, str(question.inputs["command"]), reply.command, tool)
        self._handed.add(handed, question.called)
        with self._lock:
            self._unused.append(handed)
        self._store.record(
            events.PERMIT_HANDED,
            run=permit.action.run_id,
            permit=permit.id,
            request=permit.request_id or None,
            digest=permit.digest,
            call_id=permit.action.call_id or None,
            **question.receipt(reply),
        )
        return reply

    def _replaces(self) -> bool:
        """Tell whether the tool is known to run what it is answered: it did in this session, each time until now.

        Some versions of Claude Code drop `updatedInput` without a word. Until it has used a permit, nothing is answered
        by one that may not run unconfined as well.
        """
        now = time.monotonic()
        with self._lock:
            if any(each.lapses <= now and not each.presented.is_set() for each in self._unused):
                self._has_replaced = False
            self._unused = [each for each in self._unused if each.lapses > now and not each.presented.is_set()]
            return self._has_replaced

    def carry_out(self, handed: Handed, shell: Shell) -> None:
        """Run the command of a permit, for the shell of the tool that waits for it."""
        handed.presented.set()
        with self._lock:
            self._has_replaced = True

        def run(permit: Permit) -> CommandResult:
            return run_permitted(permit, self._enclosures, timeout=_LONGEST_S, caller=shell)

        try:
            result = self._gate.carry_out(handed.permit, run)
        except ActionDenied as denied:
            shell.end(NOT_RUN, says=f"it did not run: {denied.denial.reason}")
        except Exception as error:
            shell.end(NOT_RUN, says=f"it could not be started: {describe(error)}")
        else:
            code = 128 + signal.SIGKILL if result.returncode is None else result.returncode
            shell.end(code if code >= 0 else 128 - code, result.directory, result.note)

    def is_bypassed(self, handed: Handed, why: str, *, ran: str) -> bool:
        """Record that the tool did not do what its hook had answered, and deny everything from now on.

        It is told apart that the tool has never done so in this session, and runs what was proposed: that was allowed
        unconfined as well, as is from now on what it is to run.

        Args:
            handed: the permit of the call.
            why: what is wrong.
            ran: the command that the tool says it ran.

        Returns:
            Whether it was an alarm.
        """
        permit = handed.permit
        if not self._has_replaced and ran == handed.proposed:
            self.unconfined = "the coding agent runs its own commands, whatever its hook answers"
            self._gate.store.void(permit.id, self.unconfined)
            self.note_unconfined(self.unconfined)
            return False
        self._alarm = why
        self._store.record(
            events.HOOK_BYPASSED,
            run=permit.action.run_id,
            agent=permit.action.agent,
            session=self._name,
            project=str(self._project),
            permit=permit.id,
            digest=permit.digest,
            why=why,
            command=ran,
        )
        self._gate.stop(why)
        return True

    def note_unconfined(self, why: str) -> None:
        """Record once why commands are judged as for an unconfined agent."""
        if why not in self._noted:
            self._noted.add(why)
            self._store.record(events.HOOK_UNCONFINED, agent=self._gate.agent, session=self._name, why=why)

    def is_of(self, tool: str, name: str) -> bool:
        """Tell whether it is this session of a tool."""
        return (tool, name) == (self._gate.agent, self._name)

    def _is_ours(self, event: Mapping[str, Any]) -> bool:
        about = self._gate.agent, self._name, str(self._project)
        return bool(self._name) and (event["agent"], event["session"], event["project"]) == about

    def _bypassed(self) -> Reply:
        return Reply("deny", BYPASSED.format(why=self._alarm), stop=True)

    def first_sight(self, action: Action, question: Question) -> str | None:
        """Return what the policy says before a call is judged that other hook events tell of as well; None where none
        does, or where this event does not have all that the call is given.
        """
        tells_all = question.agent.also and question.event == question.agent.event and self._name
        return self._sight(action) if tells_all else None

    def _sight(self, action: Action) -> str:
        """Return the SHA-256 of all that the policy says of a call, to tell whether it says the same later."""
        said = repr(replace(self._director.evaluate(action), microseconds=0))
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    def note_answer(self, action: Action, seen: str | None, reply: Reply) -> None:
        """Remember what was let through.

        Args:
            seen: see `first_sight`.
        """
        if seen is not None and reply.verdict in ("allow", "none"):
            now = time.monotonic()
            answer = _Answered(_essence(action), seen, reply, now + USE_BY_MS / 1000)
            with self._lock:
                kept = [each for each in self._answers if each.lapses > now]
                self._answers = [*kept, answer][-_MOST_ANSWERS:]  # of most calls no other event tells

    def answered_before(self, action: Action, question: Question) -> Reply | None:
        """Return what was answered when the event that has all of a call told of it just before, where this one tells
        of it once more and nothing has changed since of what it is judged by; else None. It counts once: nobody is
        asked twice about one call, and one answer lets one call through.
        """
        if question.event not in question.agent.also:
            return None
        now, essence = time.monotonic(), _essence(action)
        with self._lock:
            self._answers = [each for each in self._answers if each.lapses > now]
            before = next((each for each in self._answers if each.essence == essence), None)
            if before is None:
                return None
            self._answers.remove(before)
        return before.reply if self._sight(action) == before.seen else None

    def judged(
        self,
        action: Action,
        question: Question,
        *,
        ask: str,
        may_ask: bool,
        gone: Callable[[], bool],
        at_least: PolicyDecision | None = None,
    ) -> Reply:
        """The reply to one call that the tool makes itself.

        Args:
            ask: see `Options`. may_ask: the tool's own prompt is there.
            at_least: what was decided of it as a confined command: it is not allowed where that was not.
        """
        if self._alarm:
            return self._bypassed()
        if ask != "wait":
            decision = self._director.evaluate(action)
            if at_least is not None and decision.verdict < at_least.verdict:
                decision = at_least
            if decision.verdict is Verdict.ASK and decision.enforced:
                try:
                    return self._not_asked_here(action, question, decision, ask=ask, may_ask=may_ask)
                except AgentsStopped:
                    return _stopped()
        self._asker.waits_while(gone)
        if gone():
            return Reply("deny", "the tool no longer waits")
        try:
            checked = self._gate.admit(
                action, outcome=lambda by: _not_reported(question, _allowed(question, action.cwd, by))
            )
        except ToolGone:
            return Reply("deny", "the tool no longer waits")
        if isinstance(checked, Denial):
            return Reply("deny", denial_text(checked), stop=checked.terminate)
        return self._permitted(action, question, checked, gone=gone)

    def _not_asked_here(
        self, action: Action, question: Question, decision: PolicyDecision, *, ask: str, may_ask: bool
    ) -> Reply:
        if ask == "tool" and may_ask:
            reply = Reply("ask", _for_the_user(action, decision))
            left = {"left_to": "the tool's own prompt", "reply": question.receipt(reply)["reply"]}
            self._gate.record(action, decision, **left)
            return reply
        why = "the tool's own prompt is off" if ask == "tool" else "nobody is asked here"
        self._gate.record(action, decision, denied=why)
        return Reply("deny", denial_text(Denial(f"a human must approve this, and {why}", "nobody", decision)))

    def _permitted(self, action: Action, question: Question, permit: Permit, *, gone: Callable[[], bool]) -> Reply:
        edited = permit.action.content if permit.action.content != action.content else ""
        if edited and not (question.runs and question.agent.edits):
            self._gate.store.void(permit.id, "only commands can be edited")
            with_what = "commands" if question.agent.edits else "other coding agents"
            return Reply("deny", f"A human would have changed this call. That is only possible with {with_what}.")
        if gone():
            self._gate.store.void(permit.id, "the tool no longer waits")
            return Reply("deny", "the tool no longer waits")
        reply = _allowed(question, action.cwd, permit.decision, permit, edited=edited)
        if not permit.started:
            if denial := self._gate.start(permit, permit.action, watched=False):
                return Reply("deny", denial_text(denial), stop=denial.terminate)
            self._gate.finish(permit, _not_reported(question, reply))
        return reply


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call that was let through when a hook event told of all of it: what the policy said, and what was answered. It
    counts until `lapses`.
    """

    essence: tuple[str, ...]
    seen: str
    reply: Reply
    lapses: float


def _essence(action: Action) -> tuple[str, ...]:
    """Return what a call does, whichever hook event tells of it: these know more or less of what it is given."""
    return action.content, action.type, action.cwd, *action.interpreter


def _allowed(
    question: Question, directory: str, decision: PolicyDecision, permit: Permit | None = None, *, edited: str = ""
) -> Reply:
    """Return the reply to a call that may be made: none where the policy is only observed, or has no say, and for what
    is to run outside the tool's own sandbox.
    """
    approved = permit is not None and bool(permit.request_id or permit.granted)
    if question.call.unsandboxed or (not approved and (decision.verdict is not Verdict.ALLOW or not question.runs)):
        return Reply("none")
    if question.agent.rewrites:
        if not question.runs:
            return Reply("none")  # it knows an allow only with a command to run instead
        edited = in_bash(edited or question.call.text, directory)
    return Reply("allow", _why_allowed(decision, permit), command=edited)


def _why_allowed(decision: PolicyDecision, permit: Permit | None) -> str:
    granted = f"allowed by {permit.by_grants}" if permit is not None and permit.granted else ""
    return one_line("; ".join(filter(None, (decision.reason, granted))) or "allowed by the policy")


def _not_reported(question: Question, reply: Reply) -> Outcome:
    """Return what the log says of the end of a call that the tool makes, and of the answer to it."""
    return Outcome(None, "the tool runs it; how it ends is not reported", receipt=question.receipt(reply))


def _for_the_user(action: Action, decision: PolicyDecision) -> str:
    """Return why the tool's own prompt asks. The tool shows the command by itself, so what is hidden in it is told."""
    rule = f" (rule {decision.rule})" if decision.rule else ""
    hidden = "".join(f". Warning: {each}" for each in warnings(action.content))
    return one_line(f"{decision.reason}{rule}{hidden}")


def _stopped() -> Reply:
    """The reply to whatever an agent wants to do while every agent is stopped."""
    return Reply("deny", denial_text(Denial(STOPPED, "human", terminate=True, halted=True)), stop=True)


def _unreplaceable(question: Question, action: Action, environ: Mapping[str, str], project: Path) -> str:
    """Return why the tool is to run a command itself; "" where it may be replaced by one that runs confined."""
    if not all(question.called):
        return "the call or its session has no name, so nobody could tell what became of it"
    if question.mode not in question.agent.replaceable:
        return f"in the permission mode {one_line(str(question.mode))} commands are not replaced"
    if question.call.unsandboxed:
        return "it is to run outside of the agent's own sandbox"
    if action.interpreter != _LOGIN_BASH:
        return f"its commands are run by {action.interpreter[0]}"
    return "; ".join(obstacles(environ, project))


def _action(question: Question, environ: Mapping[str, str], project: Path) -> Action:
    """Return what a call does as an action: the command that does the same, where all of it is known; else the call."""
    agent, call = question.agent, question.call
    known = call.kind in ("command", "touch") and not call.doubts
    shell = _interpreter(agent, environ, project) if call.shell else _LOGIN_BASH
    try:
        content = call.text if known else shown(question.name, question.inputs)
    except NotACall as error:
        raise BadQuestion(str(error)) from None
    return Action(
        content=content,
        type="bash" if known else FUNCTION,
        cwd=question.directory(project),
        project=str(project),
        interpreter=shell if known else (agent.name, "call"),
        agent=agent.name,
        call_id=question.called[2],
        model_intent=str(question.inputs.get("description") or "")[:4_000],
        question=question.digest,
        subagent=str(question.said("subagent") or "")[:_LONGEST_NAME],
        tool=question.name,
        arguments=_arguments(question),
    )


def _project(agent: CodingAgent, environ: Mapping[str, str]) -> Path:
    """The project's directory, by the agent's own word. Never the directory of the call: its model chooses that."""
    named = environ.get(agent.project, "")
    if not os.path.isabs(named) or not os.path.isdir(named):
        raise ConfigError(f"{agent.project} does not name the project's directory: the agent must set it")
    return checked_project(named)


def _arguments(question: Question) -> str:
    """Return what a call is given. The description of a command is left out: in other words it is the same action."""
    words = question.call.notes if question.runs else frozenset[str]()
    try:
        return tool_arguments({name: value for name, value in question.inputs.items() if name not in words})
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"what {question.name[:100]} is given can't be told: {error}") from None


def _speaks_of_tools(condition: object) -> bool:
    """Tell whether a condition, as a policy has it written, names a tool."""
    if isinstance(condition, Mapping):
        return "tool" in condition or any(map(_speaks_of_tools, condition.values()))
    return isinstance(condition, list | tuple) and any(map(_speaks_of_tools, condition))


def _interpreter(agent: CodingAgent, environ: Mapping[str, str], project: Path) -> tuple[str, ...]:
    """Return what runs the tool's commands, where that is bash as it is judged; else something that is not taken for
    bash.
    """
    shell = next((environ[name] for name in agent.shells if environ.get(name)), "") if agent.shells else "/bin/bash"
    if changing := sorted(name for name in environ if client.is_passed(name) and changes_the_shell(name)):
        return (f"bash with {' and '.join(changing)}", "-c")
    if os.path.basename(shell) != "bash" or not _is_the_users(shell, project):
        return (f"the shell {shell!r}", "-c")  # never a name that the Director knows
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not keeps_ascii(locale):
        return (f"bash in the locale {locale}", "-c")
    for name in agent.around:
        if environ.get(name) and not _is_the_users(environ[name].split(" ")[0], project):
            return (f"bash with {name}", "-c")
    return _LOGIN_BASH


def _is_the_users(path: str, project: Path) -> bool:
    """Not what an agent can write while it works: where that is, and what a name without a directory means, it says."""
    return os.path.isabs(path) and not is_inside(Path(path), project)


def _settings(project: Path, options: Options) -> Iterator[str]:
    """The files that say how to judge, there or not."""
    yield from (str(path) for _, path in layers.places(project))
    yield from machine_bundle.files()
    yield from (str(path) for _, path in settings.places(project))
    for _, folder in catalog_files.folders(project):
        yield folder
        with suppress(OSError):
            yield from (os.path.join(folder, name) for name in os.listdir(folder))
    yield str(state_folder() / "trusted")  # every change puts another file in place
    yield str(key_path())
    yield from (os.path.abspath(path) for path in (options.policy, options.channels) if path and "/" in path)
    found = settings.load(project, file=options.channels)
    yield from found.files
    if found.fleet is not None:
        yield from found.fleet.files


def _state(paths: list[str]) -> frozenset[tuple[str, object]]:
    return frozenset((path, _stat(path)) for path in paths)


def _stat(path: str) -> object:
    try:
        about = os.stat(path)
    except OSError as error:
        return error.errno
    return about.st_ino, about.st_dev, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_mode, about.st_uid
