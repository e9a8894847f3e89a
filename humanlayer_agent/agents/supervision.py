"""The common part of all adapters: the settings, the gate, and a record of each command."""

import difflib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.denial_texts import denial_text, edited_text, text
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.errors import ConfigError, NotAsJudged, RunTerminated, StoreError, did_you_mean
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.redaction.redactor import Redactor

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate

logger = logging.getLogger("humanlayer_agent")


class Supervision(BaseModel):
    """The settings under `supervision:`. An unknown name is an error.

    Example:
        >>> Supervision(policy="strict", timeout=600).max_denials
        5
    """

    model_config = ConfigDict(extra="forbid")

    policy: str | None = None
    """Name of a shipped policy, or path of a policy file: then it is the whole policy. Default: the policies of the
    machine, the user and the project; where there are none, the shipped policy "default"."""
    project: Path | None = None
    """Directory the agent works for; default: the git top level of where the supervisor was started, else that."""
    channels: Path | None = None
    """Path of a channels file that is the whole. Default: those of the machine, the user and a trusted project."""
    observe: bool = False
    """Only observe: the policy is evaluated and recorded, and stops nothing."""
    timeout: int | None = Field(default=None, gt=0)
    """Seconds to wait for a human; then the command is denied."""
    after_denial: Literal["continue", "skip_rest"] = "continue"
    """What happens to the rest of a message with several commands, when one of them was not allowed."""
    max_denials: int = Field(default=5, ge=0)
    """End the run after this many denials in a row. 0 means no limit. A gate that is given has its own limit,
    where nothing is said here."""
    pass_env: list[str] = []
    """Names of further environment variables that commands get."""
    confine: bool | None = None
    """Hold what the policy allows to its confinement: then what nobody can read of a command does no harm outside the
    project, and is not asked about. Default: what $HUMANLAYER_CONFINE says (true or false), else wherever this machine
    can, by bubblewrap; where that is installed and can't be used, Landlock holds what is allowed to less, and verdicts
    are as without. true: the agent does not start where it can't be confined. false: nothing is confined."""
    keep_background: bool = False
    """Leave alone what a command still has running when its shell ends. Then nothing is confined."""
    show: bool | None = None
    """Show the run on standard output: the model's words, each command and what was decided about it, and a table at
    the end. Default: where that is a terminal."""
    store: Path | None = None
    """Path of the store; default: the user's own."""
    agent: str = "mini-swe-agent"
    """Name of the agent in requests and in the audit log."""
    instance: str = ""
    """What stays the same when this agent is started again; default: user, host and project."""


def supervision_settings(raw: object) -> Supervision:
    """Return `raw`, the value of `supervision:`, as settings.

    Raises:
        ConfigError: names every key that is wrong, and what was expected.

    Example:
        >>> supervision_settings({"policy": "ci"}).policy
        'ci'
    """
    if isinstance(raw, Supervision):
        return raw
    try:
        return Supervision.model_validate({} if raw is None else raw)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(e) for e in error.errors())) from None


def refuse_misspelled_section(names: Iterable[str], known: Container[str]) -> None:
    """Refuse a misspelled `supervision:`. mini ignores unknown keys, so it would silently mean the default policy.

    Raises:
        ConfigError: a name in `names` that is not in `known` and looks like "supervision".
    """
    for name in names:
        if name != "supervision" and name not in known and difflib.get_close_matches(name, ["supervision"], cutoff=0.7):
            raise ConfigError(f"{name}: no such setting; did you mean supervision?")


def _explain(error: Any) -> str:
    key = ".".join(str(part) for part in ("supervision", *error["loc"]))
    if error["type"] != "extra_forbidden":
        return f"{key}: {error['msg']}"
    names = list(Supervision.model_fields)
    return f"{key}: no such setting; {did_you_mean(str(error['loc'][-1]), names)}"


class SimpleDirector:
    """An adapter for an object that has only `should_allow(action) -> (bool, reason)`.

    True allows, False asks a human. Anything else, and an exception, denies: it is not known what was meant.

    Args:
        director: the object.

    Example:
        >>> class OnlyLists:
        ...     def should_allow(self, action):
        ...         return action.content == "ls", "only ls"
        >>> SimpleDirector(OnlyLists()).evaluate(Action("rm x")).verdict
        <Verdict.ASK: 1>
    """

    def __init__(self, director: Any) -> None:
        self.director = director
        kind = type(director)
        self._policy = f"{kind.__module__}.{kind.__qualname__}"

    def evaluate(self, action: Action) -> PolicyDecision:
        """Return the answer of `should_allow` as a decision."""
        try:
            answer = self.director.should_allow(action)
        except Exception as error:
            return self._decision(Verdict.DENY, f"the director failed: {type(error).__name__}: {error}")
        match answer:
            case (bool(allowed), reason) if isinstance(reason, str) or reason is None:
                return self._decision(Verdict.ALLOW if allowed else Verdict.ASK, reason or "")
        return self._decision(Verdict.DENY, "the director's answer was not (True or False, reason)")

    def should_allow(self, action: Action) -> tuple[bool, str]:
        """Return (True, reason) only where `evaluate` allows."""
        decision = self.evaluate(action)
        return decision.verdict is Verdict.ALLOW, decision.reason

    def _decision(self, verdict: Verdict, reason: str) -> PolicyDecision:
        digest = hashlib.sha256(self._policy.encode()).hexdigest()
        return PolicyDecision(verdict=verdict, reason=reason, policy=self._policy, policy_digest=digest)


def open_gate(
    settings: Supervision,
    *,
    director: Any = None,
    user: Any = None,
    gate: "Gate | None" = None,
    project: Path | None = None,
    parts: Mapping[str, Any] | None = None,
) -> "Gate":
    """Return the gate that was given, else one built from `settings`.

    Args:
        director: has `evaluate(action)`, or only the simple `should_allow(action) -> (bool, reason)`.
        user: has `query(prompt, options=[...])`.
        project: default of `settings.project`.
        parts: what whoever runs the commands has for the gate: `keeper` and `holder` (see `approvals.gate`).

    Raises:
        ConfigError: a gate and a part of one were both given, or a part can't be used, or the project's own `.env` says
            where our files are (see `agents.dotenv`).
    """
    if gate is not None:
        if director is not None or user is not None:
            raise ConfigError("give either gate, or director and user: a gate has its own")
        if "max_denials" in settings.model_fields_set:
            gate.max_denials = settings.max_denials
        return gate
    from humanlayer_agent.agents.dotenv import refuse_env_file
    from humanlayer_agent.configuration import build_gate

    refuse_env_file(settings.project or project)
    if director is not None and not hasattr(director, "evaluate"):
        if not hasattr(director, "should_allow"):
            raise ConfigError(f"the director ({type(director).__name__}) has neither evaluate nor should_allow")
        director = SimpleDirector(director)
    options: dict[str, Any] = {"instance": settings.instance, "max_denials": settings.max_denials}
    if settings.timeout is not None:
        options["timeout_ms"] = settings.timeout * 1000
    options.update({name: value for name, value in (parts or {}).items() if value is not None})
    opened: Gate = build_gate(
        director=director,
        user=user,
        policy=settings.policy,
        observe=settings.observe,
        channels=settings.channels,
        project=settings.project or project,
        store=settings.store,
        agent=settings.agent,
        **options,
    )
    return opened


def close_gate(gate: "Gate", status: str = "ended") -> None:
    """End the gate's run. A store that can't be written then is logged: there is nothing left to deny."""
    try:
        gate.close(status)
    except StoreError as error:
        logger.warning("the end of the run could not be recorded: %s", error)


@dataclass(frozen=True)
class Record:
    """An account of one proposed command. It goes into the trajectory as `extra.supervision`.

    Args:
        command: as the agent proposed it.
        executed: True where it ran.
        verdict: the Director's (allow, ask, deny; "" where it was not asked).
        rule, reason: the deciding rule, and why.
        by: who decided: policy, human, grant, nobody, store, run, message or harness.
        approver, comment: the human who decided, and their words; of grants, the people who gave them.
        grants: the grants by which it ran without anybody being asked ("grant 7f3a by alice (12 of 50)").
        digest: of the action, as the audit log names it.
        request: id of the request that a human was asked with.
        returncode: of the command.
        waited_ms: milliseconds it took to decide.
        runs: what it ran in ("confined to project", "not confined"); "" where nothing could be confined.
        edited: the command that a human made of it: that is what ran, or was denied, and what verdict, rule, reason and
            digest are about.
        text: the words to the model where its command did not run as it proposed it.
    """

    command: str
    executed: bool
    verdict: str = ""
    rule: str = ""
    reason: str = ""
    by: str = "policy"
    approver: str = ""
    comment: str = ""
    grants: tuple[str, ...] = ()
    digest: str = ""
    request: str = ""
    returncode: int | None = None
    waited_ms: int = 0
    runs: str = ""
    edited: str = ""
    text: str = ""

    def public(self) -> dict[str, Any]:
        """Return the record for the trajectory, without secrets, and without command and text: these stand there
        anyway.
        """
        fields = self.listed()
        del fields["command"]
        return fields

    def listed(self) -> dict[str, Any]:
        """Return the record for a list, without secrets, with the command."""
        return dict(self._without_secrets)

    @cached_property
    def _without_secrets(self) -> dict[str, Any]:
        """Made once: an agent saves its trajectory after each step, with all records in it."""
        redactor = Redactor()
        fields = asdict(self)
        del fields["text"]
        for name in ("command", "edited"):  # first: what they hold is looked for in the rest
            fields[name] = redactor.command(fields[name]).text
        for name in ("reason", "comment"):
            fields[name] = redactor.text(fields[name]).text
        return fields


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a run by supervision: the exit status, and the sentence for the trajectory."""

    status: Literal["SupervisionTerminated", "SupervisionDenials"]
    content: str


class Supervisor:
    """Judges one command after the other, runs what is permitted, and remembers what became of each.

    Args:
        gate: decides.
        settings: `after_denial` is used here.
    """

    def __init__(self, gate: "Gate", settings: Supervision) -> None:
        self.gate = gate
        self.settings = settings
        self.records: list[Record] = []
        self.exit: Exit | None = None
        self._denied_in_message = False
        self._waited = 0.0

    def new_run(self) -> None:
        """Forget why the last run was ended."""
        self.exit, self._denied_in_message = None, False

    def new_message(self) -> None:
        """Begin another message of the model: the commands that follow belong to it."""
        self._denied_in_message = False

    def take_waited(self) -> float:
        """Return the seconds spent on deciding since the last call: they are not the agent's."""
        waited, self._waited = self._waited, 0.0
        return waited

    def supervise(self, action: Action, run: Callable[[Permit], Outcome]) -> Record:
        """Judge `action`, and call `run` with the permit, whose action a human may have changed.

        `run` may raise: that is recorded as the outcome, and passed on.
        """
        if self.exit is not None:
            return self._remember(Record(action.content, executed=False, by="run", text=text("stopped")))
        if self._denied_in_message and self.settings.after_denial == "skip_rest":
            return self._remember(Record(action.content, executed=False, by="message", text=text("skipped")))
        begin = time.monotonic()
        answer = self._decide(action)
        waited = time.monotonic() - begin
        self._waited += waited
        if isinstance(answer, Denial):
            return self._denied(action, answer, int(waited * 1000))
        record = replace(_permitted(action, answer, int(waited * 1000)), digest=self._logged(answer.digest))
        try:
            outcome = run(answer)
        except (NotAsJudged, Unenforceable) as error:
            return self._denied(action, self.gate.not_started(answer, error), int(waited * 1000))
        except BaseException as error:
            self._finish(answer, Outcome(None, f"interrupted: {type(error).__name__}"))
            self._remember(record)
            raise
        self._finish(answer, outcome)
        return self._remember(replace(record, returncode=outcome.returncode))

    def _decide(self, action: Action) -> Permit | Denial:
        try:
            answer: Permit | Denial = self.gate.admit(action)
            if isinstance(answer, Permit) and not answer.started:
                answer = self.gate.start(answer, answer.action) or answer
            return answer
        except RunTerminated as error:
            return Denial(str(error) or "the run was stopped at the prompt", by="human", terminate=True)
        except Exception as error:  # whatever went wrong, the command does not run, and the model is told
            logger.exception("supervision failed")
            return Denial(f"Supervision failed: {type(error).__name__}: {error}", by="store")

    def _denied(self, action: Action, denial: Denial, waited_ms: int) -> Record:
        self._denied_in_message = self._denied_in_message or not denial.question
        if denial.in_a_row:
            self.exit = Exit("SupervisionDenials", text("exit.SupervisionDenials", count=denial.in_a_row))
        elif denial.halted:
            self.exit = Exit("SupervisionTerminated", text("exit.halted"))
        elif denial.terminate:
            reason = denial.comment or denial.reason
            self.exit = Exit("SupervisionTerminated", text("exit.SupervisionTerminated", reason=reason))
        decision = denial.decision
        return self._remember(
            Record(
                command=action.content,
                executed=False,
                verdict=str(decision.verdict) if decision else "",
                rule=decision.rule if decision else "",
                reason=denial.reason,
                by=denial.by,
                approver=denial.approver,
                comment=denial.comment,
                digest=self._logged(_digest(replace(action, content=denial.edited or action.content), decision)),
                edited=denial.edited,
                request=denial.request_id,
                waited_ms=waited_ms,
                text=denial_text(denial),
            )
        )

    def _finish(self, permit: Permit, outcome: Outcome) -> None:
        why = ""
        try:
            why = self.gate.finish(permit, outcome)
        except Exception:
            # It did run: the model must see its output. The next command fails at the gate if the store is broken.
            logger.exception("the outcome of a command could not be recorded")
        if outcome.unwatched:
            self.exit = Exit("SupervisionTerminated", text("exit.unwatched"))
        elif why:
            self.exit = Exit("SupervisionTerminated", text("exit.changed", reason=why))

    def _logged(self, digest: str) -> str:
        """Return a digest as the audit log names it: the command can't be guessed by that. "" where the log can't be
        read.
        """
        try:
            return self.gate.store.redactor().digest(digest)
        except StoreError:
            return ""

    def _remember(self, record: Record) -> Record:
        self.records.append(record)
        return record


def _permitted(action: Action, permit: Permit, waited_ms: int) -> Record:
    return Record(
        command=action.content,
        executed=True,
        verdict=str(permit.decision.verdict),
        rule=permit.decision.rule,
        reason=permit.decision.reason,
        by="grant" if permit.granted else "human" if permit.approved_by or permit.edited_by else "policy",
        approver=permit.approved_by or permit.edited_by,
        comment=permit.comment,
        grants=tuple(map(str, permit.granted)),
        request=permit.request_id,
        waited_ms=waited_ms,
        runs=permit.decision.runs if permit.decision.confinable else "",
        edited=permit.action.content if permit.edited_by else "",
        text=edited_text(permit) if permit.edited_by else "",
    )


def _digest(action: Action, decision: PolicyDecision | None) -> str:
    return "" if decision is None else action.digest(decision.policy_digest, decision.files)


def project_of(settings: Supervision, director: Any = None, default: Path | None = None) -> Path:
    """Return the project directory: the setting, else the director's own, else `default`, else found from here.

    Raises:
        ConfigError: it is too wide to be a project.
    """
    from humanlayer_agent.configuration import checked_project, find_project

    known = settings.project or getattr(director, "project", None) or default
    return find_project(Path(os.getcwd())) if known is None else checked_project(known)
