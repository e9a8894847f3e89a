"""The Gate: the only place that turns a decision into execution.

    check   the Director judges; a human is asked where it says so; the answer is a `Permit` or a `Denial`
    start   the permit is consumed for exactly the action that is about to run, durably, before it does
    admit   check, and start in the same transaction where the policy itself allows the action
    finish  how it ended is recorded
    submit, collect   check in two steps, between which nobody waits and the process may end

Every way out of `check` and `start` that is not a recorded yes is a denial: an exception of the Director, the channel
or the store, an answer that is late or for something else, a run that was stopped.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from humanlayer_agent.action import INERT, PLAN, Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.conversation import Asking, describe
from humanlayer_agent.approvals.delivery_failures import Reach
from humanlayer_agent.approvals.grants import Grant
from humanlayer_agent.approvals.model import (
    Answer,
    AnswerKind,
    Approver,
    Asker,
    Denial,
    Execution,
    Outcome,
    Permit,
    Refused,
    Run,
    VoteResult,
    Waiting,
)
from humanlayer_agent.approvals.questions import (
    HumanAnswer,
    Question,
    action_of,
    answer_of,
    decision_on,
    question_of,
)
from humanlayer_agent.approvals.spans import DECISION, Spans
from humanlayer_agent.approvals.stop import Halt, Halted
from humanlayer_agent.approvals.store_interface import NEVER_RUNS, Store
from humanlayer_agent.approvals.submissions import Submission, nonce_of
from humanlayer_agent.approvals.validity import Leads, changed, ended, leads, may_change
from humanlayer_agent.approvals.wait import Waits, on_thread
from humanlayer_agent.audit import events
from humanlayer_agent.confine.confinement import Bounds, Confinement, Unenforceable
from humanlayer_agent.errors import (
    LOST,
    ActionDenied,
    AgentsStopped,
    ConfigError,
    NotAsJudged,
    RunLost,
    StoreError,
)
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import Ask, HeldRun, Limits, PolicyDecision, Verdict
from humanlayer_agent.policy.plan import read_plan
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.shell import View

if TYPE_CHECKING:
    from humanlayer_agent.undo.kept_files import Kept

TIMEOUT_MS = 600_000
"""How long the one person who is there without any configuration may take."""

VALID_FOR_MS = 60_000
"""How long such an approval may wait to be used."""

RADIUS_S = 5.0
"""Seconds that a question waits for what is at stake to be looked up."""
LATE_RADIUS = "What is at stake could not be looked up in time."
MAX_DENIALS = 5
"""So many denials in a row end a run: whoever is refused that often tries the same again, or has lost their way."""

NOT_HELD = "It could not be run held first: {why}."
_NOT_SEEN = "what it does for certain would not be seen by that, or is open to it only after a yes"
_NOT_HERE = "nothing here can apply what it changes"
"""Why a human is shown nothing of what a command changes that was to be run held."""

UNWATCHED = "a command ended what watches over it: nobody knows what it did then, nor what it has left"
"""Why a run is stopped whose command got out of sight."""

UNKEPT = "Not all is known that it writes in the project, and the files that no commit has can't be kept first: {why}."
"""Why a human is asked about an action that would have been allowed confined."""

CHANGED = "something else changed what a command was judged by while it ran, and may have run in its place: {paths}"
"""Why a run is stopped under whose command the judged files were changed."""


_OTHERWISE = "the policy does not ask about it any more: propose it again"
_NOT_MINE = (
    "this agent, requester and instance have asked nothing of that name that would run now: it is another's, or the "
    "action, the policy, a file, or where a path leads is another than when a human was asked"
)
USED = "the approval was already used"
_LED_TO_NOTHING = frozenset({"expired", "withdrawn", "lapsed", "invalidated"})
"""States of a request of which nothing has come, and nothing will."""
_ATTEMPTS = 100
_KNOWN_BY_PROGRAMS = ("os", "chat", "login")
_given_out: set[tuple[str, str]] = set()
"""Requests, by store, whose approval this process has given out: rows that say otherwise were made to."""


class Judge(Protocol):
    """The part of a Director that the Gate needs."""

    def evaluate(self, action: Action) -> PolicyDecision: ...


class Completed(Protocol):
    """The part of a command that ran that the Gate needs (`subprocess.CompletedProcess` has it).

    It may also have `unwatched`, `moved` (see `Outcome`) and `timed_out`.
    """

    @property
    def returncode(self) -> int | None: ...


class FileKeeper(Protocol):
    """Keeps the files of the project that would be lost, before something runs of which nobody knows what it writes;
    and what each command replaces, where the policy says so.
    """

    def keep(self, run: str, confinement: Confinement, bounds: Bounds) -> "Kept":
        """Keep them, once for a run.

        Args:
            run: names the run.
            confinement: what is about to run is held to that.
            bounds: so much is kept.

        Raises:
            OSError: they can't be kept.
            Unenforceable: they would be kept where commands can write, or the project can't be looked through.
        """
        ...

    def before(self, run: str, permit: Permit) -> "Kept | None":
        """Keep what the command of a permit may replace, right before it starts; None where it changes no file.

        Raises:
            OSError: it can't be kept.
        """
        ...

    def after(self, permit: str) -> "Kept | None":
        """Note what the command of a permit has changed, when it has ended; None where nothing was kept before it.

        Raises:
            OSError: that can't be written.
        """
        ...


class Holder(Protocol):
    """Runs commands held: what they change lies in a layer until a human has seen it. Whoever has one runs all permits
    of the Gate: those whose action names a layer by applying it.
    """

    def hold(self, action: Action, decision: PolicyDecision) -> tuple[str, HeldRun]:
        """Run a command held. Returns the digest of its layer ("" where that can't be applied), and what was seen.

        Raises:
            OSError, Unenforceable, NotAsJudged: it was not run.
        """
        ...

    def drop(self, layer: str) -> None:
        """Throw a layer away, where it was not applied."""
        ...

    def close(self) -> None:
        """Throw all away that still waits."""
        ...


C = TypeVar("C", bound=Completed)

_Asks = Callable[[Action, PolicyDecision, str, JudgedFiles], Permit | Denial | Waiting]
"""Asks about an action, or comes back to what was asked: it, the decision, the digest and the files as judged."""

Allowed = Callable[[Action, PolicyDecision, str, JudgedFiles], Permit | Denial]
"""Makes a permit of what the policy itself allows: an action, the decision, the digest and the files as judged."""


class Gate:
    """Stands between one run of an agent and its shell. Thread-safe: threads that ask at once queue for the human.

    Args:
        director: judges actions.
        store: where requests, permits and the audit log are.
        asker: the channel that reaches a human; None where there is none: every ask is denied.
        run_id: names the run; one is made where it is None.
        agent: who proposes the actions.
        requester: the principal who started the run; the OS user where it is empty.
        instance: stays the same when the agent is restarted; requester, host and project where it is empty.
        authority: who may decide. Where it is None: one person, who started the run and is the OS user of this process,
            or whoever the asker says that it brings answers from (its `identities`).
        signer: signs the answers that come by the asker; a key that only this process has where it is None.
        clock: the time in ms since the epoch. monotonic: seconds that no change of the clock touches. sleep: waits;
            None: as the store does.
        timeout_ms: how long humans may take; then it is a denial. None, or more than the route says: what that says.
        valid_for_ms: how long an approval may wait to be used; None, or more than the route says: what that says.
        use_by_ms: how long a permit may wait to be used.
        max_denials: so many denials in a row end the run; 0 means that any number may come.
        runner: executes an action, for `run`.
        reach: brings requests to humans by other channels as well; started before the first request, closed at the end.
        keeper: keeps the files of the project before the first action of which not all is known that it writes, and
            what each action replaces, where the policy says so; whoever runs actions here has one.
        holder: runs commands held that a rule or a human wants to be.
        durable: what is asked stays when the process ends, until it expires: a later run of the same agent, requester
            and instance collects the answer. What was approved has to be used within `valid_for_ms`.

    Raises:
        ConfigError: a time that is not positive, or fewer than no denials.

    Example::

            with Gate(director, SQLiteStore("store.db"), asker) as gate:
                permit = gate.check(Action("make test", cwd="/srv/app", project="/srv/app"))
                if isinstance(permit, Permit) and gate.start(permit, permit.action) is None:
                    gate.finish(permit, Outcome(execute(permit.action)))
    """

    def __init__(
        self,
        director: Judge,
        store: Store,
        asker: Asker | None,
        *,
        run_id: str | None = None,
        agent: str = "",
        requester: str = "",
        instance: str = "",
        authority: Authority | None = None,
        signer: Signer | None = None,
        clock: Callable[[], int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        timeout_ms: int | None = None,
        valid_for_ms: int | None = None,
        use_by_ms: int = 10_000,
        max_denials: int = MAX_DENIALS,
        runner: Callable[[Action], Completed] | None = None,
        reach: Reach | None = None,
        keeper: FileKeeper | None = None,
        holder: Holder | None = None,
        durable: bool = False,
    ) -> None:
        if min(limit for limit in (timeout_ms, valid_for_ms, use_by_ms) if limit is not None) <= 0:
            raise ConfigError("timeout_ms, valid_for_ms and use_by_ms must be positive")
        if max_denials < 0:
            raise ConfigError("max_denials must be a number from 0")
        if durable and not instance:
            raise ConfigError("durable: name the instance, by which a later run is known as the same agent's")
        self.director = director
        self.store = store
        if hasattr(director, "count_by"):
            director.count_by(store.used)
        self.asker = asker
        self.run_id = run_id or secrets.token_hex(16)
        self.agent = agent
        self.requester = requester or os_user()
        self.instance = instance
        self.authority = authority or Authority.alone(
            *(self.requester, os_user(), *getattr(asker, "identities", ())),
            timeout_ms=timeout_ms or TIMEOUT_MS,
            valid_for_ms=valid_for_ms or VALID_FOR_MS,
        )
        self._monotonic = monotonic
        self._sleep = sleep or store.pause
        self._spans = Spans(self.run_id, lambda command: store.redactor().command(command).text)
        self._asking = Asking(
            store,
            asker,
            self._judge,
            authority=self.authority,
            signer=signer,
            requester=self.requester,
            clock=clock or store.now,
            monotonic=monotonic,
            timeout_ms=timeout_ms,
            valid_for_ms=valid_for_ms,
            use_by_ms=use_by_ms,
            hold=self._held,
            drop=self._drop,
            can_hold=lambda: self.holder is not None,
            spans=self._spans,
        )
        self._use_by_ms = use_by_ms
        self.max_denials = max_denials
        self._runner = runner
        self._reach = reach
        self._keeper = keeper
        self._holder = holder
        self._durable = durable
        self._keeping = threading.Lock()  # for `_kept`, which may take long
        self._kept = False
        self._lock = threading.Lock()  # for what follows
        self._opened = False
        self._denials = 0  # in a row
        self._policies: set[str] = set()
        self._use_by: dict[str, float] = {}  # by permit, in monotonic seconds
        self._led: dict[str, Leads] = {}  # by permit that humans gave: where its paths led when they were asked
        self._told: set[str] = set()  # requests: their refusal has been counted
        self._entered: set[str] = set()  # permits that were started when they were issued, and used since
        self._started: set[str] = set()  # permits: one that was used is used, whatever its row says later
        self._unrecorded: dict[str, Outcome] = {}  # by permit: what `finish` could not write

    def check(self, action: Action) -> Permit | Denial:
        """Judge an action, and wait for a human where the policy asks for one. A denial is returned, never raised.

        Args:
            action: what the agent wants to do.

        Returns:
            A `Permit`, to be consumed by `start`, or a `Denial` that says why it may not run.

        Raises:
            BaseException: only what is no `Exception` (`SystemExit`); a pending request is withdrawn then. Ctrl-C while
                the human is asked is not raised: it stops the run.
        """
        return on_thread(self.waits(action), self._sleep)

    def waits(self, action: Action) -> Waits[Permit | Denial]:
        """Return the steps of `check`, for whoever waits otherwise than on a thread (`wait`)."""
        return self._checked(action, self._allowed)

    def admit(self, action: Action, *, outcome: Callable[[PolicyDecision], Outcome] | None = None) -> Permit | Denial:
        """Check an action as `check` does, and start it at once where the policy itself allows it.

        That is one durable write instead of two. What a human has approved is started by `start`, as ever.

        Args:
            action: what is about to run, as it will be executed.
            outcome: says of a decision that allows it how it ends, where that is known before it runs (somebody else
                runs it): then `finish` is not called for what is `started`.

        Returns:
            A `Permit`: where it is `started` the action may run now, else once `start` lets it; or a `Denial`.
        """

        def admitted(action: Action, decision: PolicyDecision, digest: str, files: JudgedFiles) -> Permit | Denial:
            return self._admitted(action, decision, digest, files, outcome(decision) if outcome else None)

        return on_thread(self._checked(action, admitted), self._sleep)

    def submit(self, action: Action, *, key: str = "") -> Permit | Denial | Waiting:
        """Judge an action, and ask a human where the policy says so, but wait for nobody.

        The human at the channel of this process is not asked: what nobody waits for goes to the other channels, to
        `hla requests`, and to whoever calls `answer`.

        Args:
            action: what the agent wants to do. An agent's question (`hla ask`) is not submitted: it is judged as any
                command.
            key: names this wish of the agent, and no other of its wishes (the conversation, and the id of the tool
                call). Submitted once more with the same key, also by a later run, it is the same request: a human is
                asked once, and an approval is used once. One that led to nothing (nobody answered, or it was not used)
                is asked about anew.

        Returns:
            A `Permit`, to be consumed by `start`; a `Denial`; or what is `Waiting`, whose id `collect` takes.
        """

        def ask(own: Action, decision: PolicyDecision, digest: str, files: JudgedFiles) -> Permit | Denial | Waiting:
            wish, name = self._submission(own, decision, digest), ""
            for attempt in range(_ATTEMPTS if key else 1):
                name = wish.id(nonce_of(key, attempt), kept=self._durable)
                known = self.store.get(name) if key and self._asks(decision) else None
                if known is not None and known.state not in _LED_TO_NOTHING:
                    return self._come_back(own, decision, digest, files, name, wish.led, kept=self._durable)
                if known is None:
                    break
            answered = self._without_humans(own, decision, digest, files, self._allowed)
            if answered is not None:
                return answered
            decision = self._with_radius(own, decision)
            request = self._asking.put(own, decision, digest, name=name, kept=self._durable)
            return request if isinstance(request, Denial) else Waiting(request.id, request)

        answer = self._without_waiting(action, ask)
        return self._counted(answer) if isinstance(answer, Denial) else answer

    def collect(self, request_id: str, action: Action | None = None) -> Permit | Denial | Waiting:
        """Come back for the answer to what was submitted by this run, or by an earlier one of the same agent, requester
        and instance whose Gate was `durable`. An answer is given out once.

        It is judged again: where the action, the policy, a file that it was judged by, or where a path leads is
        another than when the human was asked, the answer does not count.

        Args:
            request_id: of `Waiting`.
            action: what was submitted; None: as it was written down then. Where it has variables or standard input, of
                which only digests are written down, or an agent of its own, it has to be given.
        """

        def ask(own: Action, decision: PolicyDecision, digest: str, files: JudgedFiles) -> Permit | Denial | Waiting:
            if not self._asks(decision):  # no answer is needed, or none would do
                self.store.record_decision(own, decision, digest, authority=self.authority, request=request_id)
                denied = decision.verdict is Verdict.DENY and decision.enforced
                return Denial(decision.reason if denied else _OTHERWISE, by="policy", decision=decision)
            wish = self._submission(own, decision, digest)
            for kept in (True, False):
                if wish.has(request_id, kept=kept):
                    return self._come_back(own, decision, digest, files, request_id, wish.led, kept=kept)
            return Denial(_NOT_MINE, by="store", decision=decision, request_id=request_id)

        if action is None:
            try:
                found = self.store.get(request_id)
            except StoreError as error:
                return self._failed(error)
            if found is None:
                return Denial(f"there is no request called {request_id}", by="store")
            action = replace(found.action, agent="")
        answer = self._without_waiting(action, ask)
        if not isinstance(answer, Denial) or answer.by != "human":
            return answer
        with self._lock:  # whoever only asks again and again is told the same
            told = request_id in self._told
            self._told.add(request_id)
        return answer if told else self._counted(answer)

    def answer(
        self,
        request_id: str,
        kind: AnswerKind,
        *,
        by: str,
        assurance: str = "os",
        words: str = "",
        digest: str = "",
    ) -> VoteResult:
        """Record the answer of a human that the program which embeds this Gate has heard itself (an interrupt of an
        agent framework, a form of its own).

        It counts as any other does: whoever gave it has to be one of the people who may, by an identity (`app:NAME`)
        that the channels file names, and known well enough for what is asked. It is signed with the key of the Gate's
        `signer`; without one, with that of this process, which no other believes: then it is for a request of a run of
        this process, and collected by it.

        Args:
            request_id: of `Waiting`.
            kind: approve, reject, respond (`words` is what the model gets instead), escalate, or terminate.
            by: who the program says that it is, as a stable identity: "app:alice".
            assurance: how the program knows that: "os" where it has only been told, "chat", or "login".
            words: the human's words.
            digest: of the request that they were shown (`Waiting.request.digest`); "" where it is what waits now.

        Raises:
            ConfigError: `by` is no `app:NAME`, or the assurance is none that a program can have of its users.
            StoreError: it can't be written.
        """
        if not by.startswith("app:") or by == "app:":
            raise ConfigError(f"by: {by[:60]!r} is no user of a program: app:NAME, as the channels file names them")
        if assurance not in _KNOWN_BY_PROGRAMS:
            raise ConfigError(f"assurance: {assurance[:60]!r} is none of {', '.join(_KNOWN_BY_PROGRAMS)}")
        found = self.store.get(request_id)
        shown = digest or (found.digest if found else "")
        who = Approver(by, "application", assurance)
        said = Answer(kind, who, shown, f"application {secrets.token_hex(16)}", words, input_mode="api")
        return self._asking.say(request_id, said, self.run_id)

    def start(self, permit: Permit, action: Action, *, watched: bool = True) -> Denial | None:
        """Consume `permit` for exactly `action`, before it runs.

        Args:
            permit: from `check`.
            action: what is about to run, made anew from what will be executed.
            watched: `finish` is called when it has ended. Else nothing is kept of what it replaces.

        Returns:
            None where it may run now; a `Denial` where it may not.
        """
        try:
            denial = self._start(permit, replace(self._own(action), cost=permit.action.cost))
            if denial is None and watched:
                self._keep_replaced(permit)
        except Exception as error:
            denial = self._failed(error)
        if denial is not None:
            return self._counted(denial)
        with self._lock:
            self._denials = 0
        self._spans.begin(permit.id, action.content, permit.digest, request=permit.request_id)
        return None

    def finish(self, permit: Permit, outcome: Outcome) -> str:
        """Record how the action of a consumed permit ended, and which of the files that it was judged by have changed.

        One that has got out of sight ends the run (`stop`), and so does one whose files somebody else has changed.
        Where that can't be written it is kept, and every further action is denied until it was.

        Returns:
            Why the run has ended with it; "" where it goes on.
        """
        if permit.judged is not None and (changes := permit.judged.changes()):
            outcome = replace(
                outcome,
                changed=tuple(replace(each, own=may_change(permit.decision, each.path)) for each in changes),
            )
        if files := self._changes_of(permit):
            outcome = replace(outcome, files=files)
        self._spans.end(
            permit.id, exit_code=outcome.returncode, detail="" if outcome.returncode is not None else "none"
        )
        with self._lock:
            self._unrecorded[permit.id] = outcome
            with suppress(StoreError):
                self._write_outcomes()
        why = UNWATCHED if outcome.unwatched else ""
        if outcome.started and (paths := [each.path for each in outcome.changed if not each.own]):
            why = CHANGED.format(paths=", ".join(paths))
        if why:
            self.stop(why)
        return why

    @contextmanager
    def using(self, permit: Permit, action: Action) -> Iterator[None]:
        """Use a permit for what the body does: it is started before, and how it ended is recorded after it.

        Args:
            permit: from `check` or `collect`.
            action: what the body does, made anew from what it will do.

        Raises:
            ActionDenied: it may not be done; the body is not entered.

        Example::

            with gate.using(permit, permit.action):
                pay(300)
        """
        if denial := self._used_once(permit, action) if permit.started else self.start(permit, action):
            raise ActionDenied(denial)
        began = self._monotonic()
        try:
            yield
        except BaseException as error:
            self.finish(permit, Outcome(None, describe(error), self._since(began)))
            raise
        self.finish(permit, Outcome(0, "", self._since(began)))

    def _used_once(self, permit: Permit, action: Action) -> Denial | None:
        """What speaks against the use of a permit that is `started` already."""
        decision = permit.decision
        same = self._own(action).digest(decision.policy_digest, decision.files) == permit.digest
        with self._lock:
            again = permit.id in self._entered
            self._entered.add(permit.id)
        why = (
            "the permit was already used" if again else "" if same else "what is about to run is not what was permitted"
        )
        return Denial(why, by="policy", decision=decision) if why else None

    def refuse(self, what: str, why: str) -> Denial:
        """The denial of what can't even be judged. It is in the log, and counts as any other.

        Args:
            what: names it. why: what is wrong with it.
        """
        here = os.getcwd()
        try:
            self._begin(self._own(Action("", cwd=here, project=here)))
            self.store.record(events.POLICY_ERROR, run=self.run_id, agent=self.agent, command=what[:200], error=why)
        except Exception as error:
            return self._counted(self._failed(error))
        return self._counted(Denial(why, by="policy"))

    def not_started(self, permit: Permit, error: NotAsJudged | Unenforceable) -> Denial:
        """Record that the action of a consumed permit did not start, and return the denial.

        Args:
            permit: consumed by `start`.
            error: what `run_command` raised.
        """
        self.finish(permit, Outcome(None, f"not started: {error}", started=False))
        return self._counted(Denial(str(error), by="policy", decision=permit.decision, request_id=permit.request_id))

    def ask_human(self, question: str, options: Sequence[str] = ()) -> HumanAnswer:
        """Ask a human something, by the channels that approvals go by. The answer decides nothing.

        Args:
            question: the agent's own words.
            options: answers that are offered, at most nine; any other words may be given as well.

        Returns:
            The answer: false, with `why`, where nobody gave one in time or a human declined. Never raised.

        Raises:
            ConfigError: it is no question that could be put (empty, too long, an option twice).

        Example::

            answer = gate.ask_human("Which branch is released?", ["main", "next"])
            branch = answer.text or "main"
        """
        put = Question(question, tuple(options))
        here = os.getcwd()
        try:
            action = self._own(Action("", cwd=here, project=here))
            self._begin(action)
            denial = on_thread(self._put_question(put, action), self._sleep)
        except Exception as error:
            denial = self._failed(error)
        return answer_of(put, denial)

    def stop(self, why: str, *, in_a_row: int = 0) -> None:
        """End the run at once: what waits is withdrawn, and every further action denied.

        That holds in this process even where it can't be written.

        Args:
            why: for the log, and for whoever asks further.
            in_a_row: it is because of so many denials in a row.
        """
        self._asking.stop(Denial(why, by="policy", terminate=True, in_a_row=in_a_row))
        with suppress(StoreError):
            self.store.stop_run(self.run_id, why)

    def request_plan(self, plan: str, *, project: str = "", why: str = "") -> Grant | Denial:
        """Put before a human what a task will need, before it starts, and wait. What they approve is not asked again;
        everything else is asked about as ever, and nothing runs by it.

        Args:
            plan: YAML, or lines such as "network example.org by curl" (see `policy.plan`).
            project: the directory that the agent works for; paths in the plan are relative to it. That of the Director
                where it is empty.
            why: the agent's own words.

        Returns:
            The `Grant`: to the end of this run, or for as long as the plan says. Or a `Denial` that says why not: what
            is of high severity, or denied, is never approved ahead.

        Raises:
            ConfigError: it says what no plan says.

        Example::

            granted = gate.request_plan("read /srv/docs, network example.org by curl", project="/srv/app")
        """
        project = project or str(getattr(self.director, "project", "") or os.getcwd())
        read = read_plan(plan, project)
        action = self._own(
            Action(read.text, type=PLAN, cwd=project, project=project, interpreter=(), model_intent=why or read.why)
        )
        try:
            answer = self._plan(action)
        except Exception as error:
            answer = self._failed(error)
        return self._counted(answer) if isinstance(answer, Denial) else answer

    def _plan(self, action: Action) -> Grant | Denial:
        self._begin(action)
        decision = self._judge(action)
        if isinstance(decision, Denial):
            return decision
        digest = action.digest(decision.policy_digest)
        if earlier := self._asking.refusal(digest):
            return earlier
        if decision.verdict is not Verdict.ASK:
            self.store.record_decision(action, decision, digest, authority=self.authority)
            return Denial(decision.reason, by="policy", decision=decision)
        if self._reach is not None:
            self._reach.start()
        asked = self._asking.ask(action, decision, digest, instance=self.instance)
        answered = on_thread(asked, self._sleep)
        if isinstance(answered, Permit):  # there is none for a plan
            return Denial(NEVER_RUNS, by="store", decision=decision)
        # Approved, it is no permit but a grant. What that gives is counted from its votes at each use.
        grant = self.store.grants.get(answered.request_id) if answered.by == "nobody" and answered.request_id else None
        return grant if grant is not None and grant.revoked is None else answered

    def record(self, action: Action, decision: PolicyDecision, **fields: str | None) -> None:
        """Record a decision that others act upon (a coding agent's own prompt): it gets neither permit nor request.

        Raises:
            StoreError: it can't be written.
            AgentsStopped: every agent is stopped; nobody may act upon it.
        """
        action = self._own(action)
        self._begin(action)
        digest = action.digest(decision.policy_digest, decision.files)
        self._spans.decided(digest)
        self.store.record_decision(action, decision, digest, authority=self.authority, **fields)

    def run(
        self, command: str, cwd: str | None = None, *, project: str = "", env: Mapping[str, str] | None = None
    ) -> Completed:
        """Judge, ask, run and record one command.

        Args:
            command: for bash.
            cwd: the absolute directory it starts in; that of this process where it is None.
            project: the directory the agent works for; `cwd` where it is empty.
            env: all variables that the command gets.

        Raises:
            ActionDenied: it may not run; `denial` says why.
            ConfigError: the Gate was built without a runner.
        """
        if self._runner is None:
            raise ConfigError("this Gate has no runner: build it with Gate(..., runner=...) to execute commands")
        cwd = cwd or os.getcwd()
        runner = self._runner
        action = Action(command, cwd=cwd, project=project or cwd, env=dict(env or {}))

        def execute(permit: Permit) -> Completed:
            if permit.action.layer:
                raise Unenforceable("this Gate's runner applies nothing of a held run")
            if (permit.decision.confinement or permit.decision.reduced) is not None:
                raise Unenforceable(f"it is to run {permit.decision.runs}: this Gate's runner does not see to that")
            return runner(permit.action)

        return self._run(action, execute)

    def _run(self, action: Action, runner: Callable[[Permit], C]) -> C:
        checked = self.admit(action)
        if isinstance(checked, Denial):
            raise ActionDenied(checked)
        return self.carry_out(checked, runner)

    def carry_out(self, permit: Permit, runner: Callable[[Permit], C]) -> C:
        """Use a permit: start it where it is not `started`, run its action, and record how that ended.

        Args:
            permit: from `check` or `admit`.
            runner: runs the action of a permit.

        Raises:
            ActionDenied: it may not run, or could not be started as it was judged; `denial` says why.
        """
        if not permit.started and (denial := self.start(permit, permit.action)):
            raise ActionDenied(denial)
        began = self._monotonic()
        try:
            completed = runner(permit)
        except (NotAsJudged, Unenforceable) as error:
            raise ActionDenied(self.not_started(permit, error)) from error
        except BaseException as error:
            self.finish(permit, Outcome(None, describe(error), self._since(began)))
            raise
        detail = "timed out" if getattr(completed, "timed_out", False) else ""
        self.finish(
            permit,
            Outcome(
                completed.returncode,
                detail,
                self._since(began),
                getattr(completed, "unwatched", False),
                moved=getattr(completed, "moved", ()),
                network=getattr(completed, "network", {}),
            ),
        )
        return completed

    def close(self, status: str = "finished") -> None:
        """End the run: what still waits is withdrawn, and nothing of it may run any more.

        Args:
            status: how it ended, for the log.

        Raises:
            StoreError: that can't be written.
        """
        stopped = self._asking.stopped
        self._asking.stop(Denial("the run has ended", by="policy", terminate=True))
        try:
            with self._lock:
                if self._opened:
                    self._write_outcomes()
                    if stopped is not None:  # written once more: nothing of it stays for a later run
                        self.store.stop_run(self.run_id, stopped.reason)
                    self.store.close_run(self.run_id, status)
        finally:
            if self._holder is not None:
                self._holder.close()
            self._spans.close()
            if self._reach is not None:  # last: what was withdrawn just now is to be seen everywhere
                self._reach.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("finished" if kind is None else "failed")

    # Checking

    def _checked(self, action: Action, allowed: Allowed) -> Waits[Permit | Denial]:
        try:
            answer = yield from self._check(self._own(action), allowed)
        except Exception as error:
            answer = self._failed(error)
        return self._counted(answer) if isinstance(answer, Denial) else answer

    def _check(self, action: Action, allowed: Allowed) -> Waits[Permit | Denial]:
        if action.type in INERT:
            return Denial(NEVER_RUNS, by="policy")
        self._begin(action)
        if (question := question_of(action)) is not None:
            return replace((yield from self._put_question(question, action)), question=True)
        directory = WorkingDirectory.at(action.cwd)
        decision = self._judge(action)
        if isinstance(decision, Denial):
            return decision
        digest = action.digest(decision.policy_digest, decision.files)
        self._spans.decided(digest)
        files = JudgedFiles(directory, decision.files, decision.view)
        answered = self._without_humans(action, decision, digest, files, allowed)
        if answered is not None:
            return answered
        led = leads(action, decision)
        decision = self._with_radius(action, decision)
        answered = yield from self._asking.ask(action, decision, digest, instance=self.instance)
        return self._approved(answered, files, led) if isinstance(answered, Permit) else answered

    def _without_humans(
        self, action: Action, decision: PolicyDecision, digest: str, files: JudgedFiles, allowed: Allowed
    ) -> Permit | Denial | None:
        """The answer that needs nobody; None where a human has to be asked."""
        if earlier := self._asking.refusal(digest):
            self.store.record_decision(
                action,
                decision,
                digest,
                authority=self.authority,
                denied="the run was stopped" if earlier.terminate else "refused before",
                earlier=earlier.request_id or None,
            )
            return earlier
        # A policy that is only observed stops nothing. What it said is recorded, with the permit.
        if decision.verdict is Verdict.ALLOW or not decision.enforced:
            return allowed(action, decision, digest, files)
        if decision.verdict is not Verdict.ASK:
            self.store.record_decision(action, decision, digest, authority=self.authority)
            return Denial(decision.reason, by="policy", decision=decision)
        led = leads(action, decision)
        if (granted := self._granted(action, decision, digest)) is not None:
            return self._approved(granted, files, led)
        if self._reach is not None:
            self._reach.start()
        return None

    def _without_waiting(self, action: Action, ask: _Asks) -> Permit | Denial | Waiting:
        try:
            own = self._own(action)
            if own.type in INERT:
                return Denial(NEVER_RUNS, by="policy")
            self._begin(own)
            directory = WorkingDirectory.at(own.cwd)
            decision = self._judge(own)
            if isinstance(decision, Denial):
                return decision
            digest = own.digest(decision.policy_digest, decision.files)
            return ask(own, decision, digest, JudgedFiles(directory, decision.files, decision.view))
        except Exception as error:
            return self._failed(error)

    def _submission(self, action: Action, decision: PolicyDecision, digest: str) -> Submission:
        return Submission(self.agent, self.instance, self.requester, digest, leads(action, decision))

    def _come_back(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        files: JudgedFiles,
        name: str,
        led: Leads,
        *,
        kept: bool,
    ) -> Permit | Denial | Waiting:
        """The answer to a request that is this agent's, and about this action: no grant stands in for it."""
        if earlier := self._asking.refusal(digest):
            return earlier
        request = self._asking.collect(action, decision, digest, name=name, kept=kept)
        if isinstance(request, Denial):
            return request
        answered = self._asking.become(request)
        if not isinstance(answered, Permit):
            return answered or Waiting(request.id, request)
        given = (str(getattr(self.store, "path", id(self.store))), name)
        with self._lock:
            twice = given in _given_out
            _given_out.add(given)
        if twice:  # whatever the rows say
            self.store.void(answered.id, USED)
            return Denial(USED, by="store", decision=decision, request_id=name)
        return self._approved(answered, files, led)

    @staticmethod
    def _asks(decision: PolicyDecision) -> bool:
        return decision.verdict is Verdict.ASK and decision.enforced

    def _approved(self, permit: Permit, files: JudgedFiles, led: Leads) -> Permit:
        """The permit of what humans have approved, or remembered. What they saw of an edited command holds."""
        if permit.edited_by:
            led = leads(permit.action, permit.decision)
            files = JudgedFiles(files.directory, permit.decision.files, permit.decision.view)
        with self._lock:
            self._led[permit.id] = led
        return self._issued(permit, files)

    def _put_question(self, question: Question, action: Action) -> Waits[Denial]:
        if self._asking.stopped:
            return self._asking.stopped
        if self._reach is not None:
            self._reach.start()
        asked, decision = action_of(question, action), decision_on(question, self.authority.routes)
        decision = self.authority.routed(decision, asked)
        digest = asked.digest(decision.policy_digest)
        answered = yield from self._asking.ask(asked, decision, digest, instance=self.instance)
        if isinstance(answered, Permit):  # the store gives none of a question
            return Denial("a question was answered as if it were a command", by="store")
        if answered.answer == "respond":
            answered = replace(answered, comment=question.chosen(answered.comment))
        return answered

    def _allowed(self, action: Action, decision: PolicyDecision, digest: str, files: JudgedFiles) -> Permit:
        return self._issued(
            self.store.allow(action, decision, digest, use_by_ms=self._use_by_ms, authority=self.authority), files
        )

    def _granted(self, action: Action, decision: PolicyDecision, digest: str) -> Permit | None:
        """The permit of what grants let through without anybody being asked; None where they do not."""
        return self.store.grants.use(
            action,
            decision,
            digest,
            requester=self.requester,
            authority=lambda: self._asking.authority,
            use_by_ms=self._use_by_ms,
        )

    def _admitted(
        self, action: Action, decision: PolicyDecision, digest: str, files: JudgedFiles, outcome: Outcome | None
    ) -> Permit | Denial:
        if why := ended(self.director, decision):
            return Denial(why, by="policy", decision=decision)
        looked = files.look()
        about_to_run = digest if looked == files.files else action.digest(decision.policy_digest, looked)
        result = self.store.admit(
            action, decision, digest, about_to_run,
            use_by_ms=self._use_by_ms, authority=self.authority, outcome=outcome,
        )  # fmt: skip
        if isinstance(result, Permit) and result.started and result.digest == about_to_run:
            self._is_first_start(result)
            with self._lock:
                self._denials = 0
            if outcome is None:  # else somebody else runs it, and nobody would say when it has ended
                self._keep_replaced(result)
                self._spans.begin(result.id, action.content, result.digest)
            return replace(result, judged=files)
        reason = result.reason if isinstance(result, Refused) else "the store did not confirm the permit"
        return Denial(reason, by="policy", decision=decision)

    def _own(self, action: Action) -> Action:
        """The action as one of this run."""
        return replace(action, run_id=self.run_id, agent=action.agent or self.agent, requester=self.requester)

    def _begin(self, action: Action) -> None:
        """Open the run before its first action, and write what `finish` could not."""
        with self._lock:
            if not self._opened:
                instance = self.instance or f"{self.requester}@{os.uname().nodename}:{action.project}"
                self.store.open_run(Run(self.run_id, self.agent, instance, self.requester, action.project))
                self.instance, self._opened = instance, True
            self._write_outcomes()

    def _write_outcomes(self) -> None:
        for permit_id, outcome in list(self._unrecorded.items()):
            self.store.finish(permit_id, outcome)
            del self._unrecorded[permit_id]

    def _judge(self, action: Action) -> PolicyDecision | Denial:
        with self._spans.of(DECISION, action.content, agent=action.agent) as span:
            found = self._judgement(action)
            if isinstance(found, PolicyDecision):
                span(verdict=str(found.verdict), rule=found.rules[0] if found.rules else "", severity=found.severity)
            else:
                span(verdict="error")
            return found

    def _judgement(self, action: Action) -> PolicyDecision | Denial:
        began = time.perf_counter_ns()
        try:
            decision = self._evaluated(action)
            if not isinstance(decision, PolicyDecision):
                raise TypeError(f"the Director answered with {type(decision).__name__}, not a PolicyDecision")
        except Exception as error:
            self.store.record(
                events.POLICY_ERROR, run=self.run_id, agent=action.agent, command=action.content, error=describe(error)
            )
            return Denial(f"the policy could not be evaluated: {describe(error)}", by="policy")
        with self._lock:
            if decision.policy_digest not in self._policies:
                self.store.record(
                    events.POLICY_LOADED,
                    run=self.run_id,
                    policy=decision.policy,
                    policy_digest=decision.policy_digest,
                    **_catalogs(self.director),
                    **_bundle(self.director),
                )
                self._policies.add(decision.policy_digest)
        took = (time.perf_counter_ns() - began) // 1000
        timed = decision if decision.microseconds else replace(decision, microseconds=took)
        return self.authority.routed(self._with_files_kept(timed), action)

    def _with_files_kept(self, decision: PolicyDecision) -> PolicyDecision:
        """Keep the files of the project where the decision says so, before anything is done by it. Where that can't be,
        a human is asked, and told so: what is lost then can't be brought back.
        """
        if self._keeper is None or decision.keep is None or decision.confinement is None:
            return decision
        with self._keeping:
            if self._kept:
                return decision
            try:
                kept = self._keeper.keep(self.run_id, decision.confinement, decision.keep)
            except (OSError, Unenforceable) as error:
                why = str(error)
                if isinstance(error, OSError) and error.filename:
                    why = f"{error.filename}: {error.strerror}"
                self.store.record(events.FILES_UNKEPT, run=self.run_id, why=why)
                reason = f"{decision.reason} {UNKEPT.format(why=why)}".strip()
                unkept = Ask("", "", "unkept", limits=Limits(scopes=()))
                return replace(
                    decision,
                    verdict=max(decision.verdict, Verdict.ASK),
                    reason=reason,
                    asks=(*decision.asks, unkept),
                )
            self.store.record(events.FILES_KEPT, run=self.run_id, **kept.logged)
            self._kept = True
        return decision

    def _keep_replaced(self, permit: Permit) -> None:
        """Keep what the action of a permit may replace, right before it starts, where the policy says so. Where that
        can't be, it can't be undone, and the log says why.
        """
        if self._keeper is None or permit.decision.undo is None:
            return
        try:
            kept = self._keeper.before(self.run_id, permit)
        except OSError as error:
            self.store.record(events.FILES_UNKEPT, run=self.run_id, permit=permit.id, why=describe(error))
            return
        if kept is None:
            return
        try:
            self.store.record(events.FILES_KEPT, run=self.run_id, permit=permit.id, **kept.logged)
        except BaseException:  # it will not run
            with suppress(OSError):
                self._keeper.after(permit.id)
            raise

    def _changes_of(self, permit: Permit) -> dict[str, Any]:
        """What the log says of the files that the action of a permit has changed; nothing where nothing was kept."""
        if self._keeper is None or permit.decision.undo is None:
            return {}
        try:
            kept = self._keeper.after(permit.id)
        except OSError as error:
            return {"why": describe(error)}
        return kept.changes_logged if kept is not None else {}

    def _with_radius(self, action: Action, decision: PolicyDecision) -> PolicyDecision:
        """The decision, with what is at stake for the human who is asked. It decides nothing, so nothing that goes
        wrong with it is in the way of the question.
        """
        look: Callable[[Action, View], tuple[str, ...]] | None = getattr(self.director, "blast_radius", None)
        if look is None:
            return decision
        found: list[tuple[str, ...]] = []

        def looking() -> None:
            try:
                found.append(look(action, decision.view))
            except Exception as error:
                found.append((f"What is at stake could not be looked up: {describe(error)}.",))

        # A disk that does not answer, such as that of a network, would hold up the question for ever.
        thread = threading.Thread(target=looking, name="blast-radius", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            found.append((f"What is at stake could not be looked up: {describe(error)}.",))
        else:
            thread.join(RADIUS_S)
        return replace(decision, radius=found[0] if found else (LATE_RADIUS,))

    @property
    def holder(self) -> Holder | None:
        """Return whatever runs commands held, and applies what is approved of that; None where nothing does."""
        return self._holder

    def _held(self, action: Action, decision: PolicyDecision) -> tuple[Action, PolicyDecision]:
        """An action that is asked about, and the decision, once it was run held: it is the layer then that is approved,
        once and for nothing else. Where that can't be, it is what it was, and the human is told so.
        """
        why = _NOT_HERE if self.holder is None else _NOT_SEEN if decision.holds is None else ""
        if not why and self.holder is not None:
            try:
                layer, held = self.holder.hold(action, decision)
            except (OSError, Unenforceable, NotAsJudged, ValueError) as error:
                why = describe(error) if not isinstance(error, Unenforceable) else str(error)
            else:
                self.store.record(
                    events.COMMAND_HELD,
                    run=action.run_id,
                    agent=action.agent,
                    step=action.step,
                    command=action.content,
                    cwd=action.cwd,
                    layer=layer or None,
                    ended=held.ended,
                    partial=held.partial,
                )
                once = Ask("", "", "held", limits=Limits(scopes=()))
                return replace(action, layer=layer), replace(decision, held=held, asks=(*decision.asks, once))
        return action, replace(decision, radius=(*decision.radius, NOT_HELD.format(why=why)))

    def _drop(self, layer: str) -> None:
        if layer and self.holder is not None:
            self.holder.drop(layer)

    def _evaluated(self, action: Action) -> PolicyDecision:
        return self.director.evaluate(action)

    def _issued(self, permit: Permit, files: JudgedFiles) -> Permit:
        with self._lock:
            self._use_by[permit.id] = self._monotonic() + self._use_by_ms / 1000
        return replace(permit, judged=files)

    # Starting

    def _start(self, permit: Permit, action: Action) -> Denial | None:
        if self._asking.stopped:
            return self._asking.stopped
        self._begin(action)
        with self._lock:
            use_by = self._use_by.pop(permit.id, None)
            led = self._led.pop(permit.id, {})
        if use_by is not None and self._monotonic() >= use_by:
            self.store.void(permit.id, "the permit was not used in time")
        decision = permit.decision
        judged_once = permit.request is None and not permit.granted and not decision.momentary
        if not judged_once and (why := changed(self.director, action, decision, led)):
            self.store.void(permit.id, why)
            return Denial(why, by="policy", decision=decision, request_id=permit.request_id)
        if not permit.request and (why := ended(self.director, decision)):
            self.store.void(permit.id, why)
            return Denial(why, by="policy", decision=decision)
        files = permit.judged or JudgedFiles(WorkingDirectory.at(action.cwd), decision.files, decision.view)
        digest = action.digest(decision.policy_digest, files.look())
        # Where nobody was asked there are no votes to count, and the key of this process is not needed.
        authority = self._asking.authority if permit.request or permit.granted else self.authority
        # Not the permit's own word: it is this run that is about to use it.
        result = self.store.consume(replace(permit, action=action), digest, authority)
        if isinstance(result, Halted):
            return self._asking.halted(result.halt, decision, permit.request_id)
        if isinstance(result, Execution) and result.permit_id == permit.id and result.digest == digest:
            used = Denial("the permit was already used", by="policy", decision=permit.decision)
            return None if self._is_first_start(permit) else used
        if permit.request and isinstance(result, Refused) and (revoked := self._asking.revoked(permit.request)):
            return revoked
        reason = result.reason if isinstance(result, Refused) else "the store did not confirm the permit"
        return Denial(reason, by="policy", decision=decision, request_id=permit.request_id)

    def _is_first_start(self, permit: Permit) -> bool:
        """Note that what a permit lets run is about to start; False where it did in this process before, although its
        row says that it did not.
        """
        with self._lock:
            first = permit.id not in self._started
            self._started.add(permit.id)
            self._asking.held = self._asking.held and permit.decision.confinement is not None
        return first

    def _counted(self, denial: Denial) -> Denial:
        """The denial, as one more in a row: the last that is borne ends the run. (A stop of all agents is none.)"""
        if denial.halted or (denial.question and not denial.terminate):
            return denial
        with self._lock:
            self._denials += 1
            count = self._denials
        if denial.terminate or not 0 < self.max_denials <= count:
            return denial
        self.stop(f"the run was stopped after {count} denials in a row", in_a_row=count)
        return replace(denial, terminate=True, in_a_row=count)

    def _failed(self, error: Exception) -> Denial:
        """The denial for what kept a decision from being recorded. A run that was stopped stays stopped."""
        if isinstance(error, AgentsStopped) and isinstance(error.halt, Halt):
            decision = error.decision if isinstance(error.decision, PolicyDecision) else None
            return self._asking.halted(error.halt, decision)
        if isinstance(error, RunLost):
            decision = error.decision if isinstance(error.decision, PolicyDecision) else None
            self._asking.stop(Denial(LOST, by="store", decision=decision, terminate=True))
        if self._asking.stopped:
            return self._asking.stopped
        if isinstance(error, StoreError):
            return Denial(f"the audit log can't be written: {error}", by="store")
        return Denial(f"the supervision failed: {describe(error)}", by="store")

    def _since(self, began: float) -> int:
        return int((self._monotonic() - began) * 1000)


def _catalogs(director: object) -> dict[str, Any]:
    """What the log says of the catalogs that do not ship: owner, path and SHA-256 of each file."""
    found = getattr(getattr(director, "catalogs", None), "digests", None)
    return {"catalogs": found} if found else {}


def _bundle(director: object) -> dict[str, Any]:
    """What the log says of a signed policy bundle in force. (Each decision has its name and version in `policy`.)"""
    bundles = (getattr(layer, "bundle", None) for layer in getattr(director, "layers", ()))
    found = next((bundle for bundle in bundles if bundle is not None), None)
    return {"bundle": found.about()} if found is not None else {}
