"""All interleavings of giving, using, revoking, expiry, clock jumps, other policies, restarts, stops and leaving people:
hypothesis looks for an action that ran by a grant which its signed votes do not give.

What is covered is computed a second time here, from who has said what about which command, in other words than the
program's. Two connections to one file play two processes.
"""

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.grants import Scope
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Permit, Run
from humanlayer_agent.approvals.stop import Halt
from humanlayer_agent.errors import AgentsStopped, RunLost
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import Ask, Limits, PolicyDecision, Verdict
from humanlayer_agent.processes import identity as process
from humanlayer_agent.store import grants as store_grants
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import answer
from tests.support import extent

AGE, USES, USE_BY, TIMEOUT = 20_000, 3, 2_000, 10_000
HOUR = 3_600_000
LIMITS = Limits(max_age=AGE, max_uses=USES)
ANN, EVE = "os:1:ann", "os:9:eve"
BOB = Approver("slack:T/U", "slack", "chat")
CARL = Approver("os:3:carl", "terminal", "terminal")
DORA = Approver("os:4:dora", "terminal", "terminal")
"""Who ends a stop: she never leaves, and approves nothing."""
WHO = {"bob": BOB, "carl": CARL}
PEOPLE = (
    Person("ann", ("os:1",)),
    Person("bob", (BOB.principal,)),
    Person("carl", ("os:3",)),
    Person("dora", ("os:4",)),
    Person("eve", ("os:9",)),
)
OUR_KEY, STRANGE_KEY = Signer(), Signer()
QUORUM = {"one": 1, "two": 2}
"""The routes, and how many of bob and carl must approve what takes each."""


def reading(path: str, **fields: Any) -> Ask:
    return replace(Ask("files", "cat", "read", "operand", path, places=(path,), limits=LIMITS), **fields)


def installing(name: str) -> Ask:
    return Ask("packages", "pip", "package", "operand", name, verb=("install",), limits=LIMITS)


HOST = Ask("hosts", "curl", "network", "operand", "example.org", "443", verb=("",), limits=LIMITS)
COMMANDS: dict[str, tuple[Ask, ...]] = {
    "cat a/1": (reading("/srv/a/1"),),
    "cat a/2": (reading("/srv/a/2"),),
    "cat b/1": (reading("/srv/b/1"),),
    "curl": (HOST,),
    "cat a/2; curl": (reading("/srv/a/2"), HOST),
    "cat a/1 b/1": (reading("/srv/a/1"), reading("/srv/b/1")),
    "cat a/?": (reading("/srv/a/1", operand=None),),
    "pip one": (installing("one"),),
    "pip two": (installing("two"),),
    "pip one two": (installing("one"), installing("two")),
    "pip ./x": (installing("./x"),),
    "cat secret": (reading("/srv/a/secret", severity="high"),),
    "cat never": (reading("/srv/a/never", limits=Limits(())),),
    "cat worst": (reading("/srv/a/worst", severity="critical"),),
}
NEVER = {"cat never", "cat worst"}
EXACT_ONLY = {"cat a/?", "cat secret"}


def kinds(command: str, scope: str) -> set[str]:
    """What a scope that was chosen for a command covers of all commands, besides that very command: in words."""
    said = {
        "cat a/1": {"below a"}, "cat a/2": {"below a"}, "cat b/1": {"below b"}, "curl": {"host"},
        "cat a/2; curl": {"below a", "host"}, "cat a/1 b/1": {"below a", "below b"},
        "pip one": {"one"}, "pip two": {"two"}, "pip one two": {"one", "two"}, "pip ./x": {"./x"},
    }  # fmt: skip
    found = said.get(command, set()) if scope != "action" else set()
    return found | {"one", "two"} if scope == "any" else found


NEEDED: dict[str, list[str]] = {
    "cat a/1": ["below a"], "cat a/2": ["below a"], "cat b/1": ["below b"], "curl": ["host"],
    "cat a/2; curl": ["below a", "host"], "cat a/1 b/1": ["below a", "below b"],
    "pip one": ["one"], "pip two": ["two"], "pip one two": ["one", "two"], "pip ./x": ["./x"],
    "cat a/?": ["a/?"], "cat secret": ["secret"], "cat never": ["never"], "cat worst": ["worst"],
}  # fmt: skip
"""What each command needs, one by one in the order of its asks."""


def offered(command: str) -> set[str]:
    if command in NEVER:
        return set()
    if command in EXACT_ONLY:
        return {"action"}
    return {"action", "run", "any"} if command in ("pip one", "pip two", "pip one two") else {"action", "run", "hour"}


def team(*without: str) -> Authority:
    """The people who may decide, but for those who have left."""
    here = tuple(name for name in WHO if name not in without)
    routes = {name: ApprovalRule(name, here, quorum=min(count, len(here))) for name, count in QUORUM.items()}
    routes["default"] = ApprovalRule("default", ("dora",))  # that of who resumes
    return Authority(PEOPLE, routes, frozenset((OUR_KEY.fingerprint,)))


@dataclass(frozen=True)
class Place:
    """Where a command runs, and for whom."""

    run: str
    agent: str
    requester: str
    project: str


@dataclass
class Given:
    """What this test knows of a grant: what was approved where, and who said what."""

    command: str
    place: Place
    policy: str
    votes: list[tuple[str, str, int]] = field(default_factory=list)  # who, scope, when
    uses: int = 0
    over: bool = False
    """It was revoked, or somebody saw the end of it."""


MEMORY = "/dev/shm"
CLOCKS = [1, 1_999, 5_000, AGE - 1, AGE, -1, -5_000, -AGE, HOUR, -HOUR]
TROUBLE = st.sampled_from(
    [
        *(
            "use",
            "use",
            "use",
            "use the same",
            "use another",
            "use both",
            "use both packages",
            "last",
            "start",
            "start",
            "start wrong",
        ),
        *(
            "revoke",
            "unapprove",
            "left",
            "back",
            "policy",
            "policy back",
            "restart",
            "new run",
            "other",
            "stop",
            "resume",
        ),
        *("close", *(f"clock {ms}" for ms in CLOCKS)),
    ]
)
SCRIPTS = st.lists(TROUBLE, min_size=2, max_size=9)


class Granting(RuleBasedStateMachine):
    given: Bundle[str] = Bundle("given")
    permits: Bundle[Permit] = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.now = 1_700_000_000_000
        self.process = 1
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(process, "identity", lambda: f"boot:ns:{self.process}:0")
        self.patches.setattr(process, "lives", lambda identity: identity == process.identity())
        self.path = Path(self.folder.name) / "store.sqlite3"
        self.stores = self.opened()
        self.authority, self.here = team(), set(WHO)
        self.policy = "0" * 64
        self.known: dict[str, Given] = {}
        self.halts: list[Halt] = []
        self.started: set[str] = set()
        self.jumped = False
        self.count = 0
        self.place = self.new_run("agent", ANN, "/srv/app")

    def opened(self) -> list[SQLiteStore]:
        return [SQLiteStore(self.path, clock=lambda: self.now) for _ in range(2)]

    def teardown(self) -> None:
        try:
            self.judge()
        finally:
            self.end()

    def judge(self) -> None:
        self.all_goes_well()
        mine, theirs = ([replace(each, request=None) for each in store.grants.given()] for store in self.stores)  # type: ignore[type-var]
        assert mine == theirs
        assert {each.id for each in mine} == set(self.known)
        assert {each.id: each.uses for each in mine} == {id_: known.uses for id_, known in self.known.items()}
        found = self.stores[0].verify()
        assert found.intact, found

    def end(self) -> None:
        for store in self.stores:
            store.close()
        self.patches.undo()
        self.folder.cleanup()

    def wrote(self) -> None:
        """Something was written at this moment: whatever ended before is over for good."""
        for known in self.known.values():
            known.over = known.over or any(self.now >= at + AGE for _, _, at in known.votes)

    # Agents

    def new_run(self, agent: str, requester: str, project: str) -> Place:
        self.count += 1
        place = Place(f"run-{self.count}", agent, requester, project)
        self.stores[0].open_run(Run(place.run, agent, "instance", requester, project))
        self.is_open = True
        self.wrote()
        return place

    @rule(
        agent=st.sampled_from(["agent", "agent", "other"]),
        requester=st.sampled_from([ANN, ANN, EVE]),
        project=st.sampled_from(["/srv/app", "/srv/app", "/srv/shop"]),
    )
    def another_run(self, agent: str, requester: str, project: str) -> None:
        self.place = self.new_run(agent, requester, project)

    @rule()
    def restart(self) -> None:
        """kill -9 of everything, and a new start: other connections, another process, another run."""
        self.process += 1
        for store in self.stores:
            store.close()
        self.stores = self.opened()
        self.place = self.new_run(self.place.agent, self.place.requester, self.place.project)

    @rule()
    def close_run(self) -> None:
        self.stores[0].close_run(self.place.run, "finished")
        self.is_open = False
        self.wrote()

    @rule(policy=st.sampled_from(["0", "0", "1"]))
    def policy_changes(self, policy: str) -> None:
        self.policy = policy * 64

    def action(self, command: str) -> Action:
        place = self.place
        return Action(command, cwd=place.project, project=place.project, run_id=place.run, agent=place.agent)

    def decision(self, command: str, route: str) -> PolicyDecision:
        asks = COMMANDS[command]
        severity = max((ask.severity for ask in asks), key=["low", "medium", "high", "critical"].index)
        return PolicyDecision(Verdict.ASK, "asks", "test", self.policy, route=route, severity=severity, asks=asks)

    # Humans

    @rule(
        target=given,
        command=st.sampled_from(list(COMMANDS)),
        route=st.sampled_from(list(QUORUM)),
        votes=st.lists(
            st.tuples(
                st.sampled_from(["bob", "carl"]), st.sampled_from(["run", "run", "hour", "any", "action", "", "reject"])
            ),
            min_size=1,
            max_size=3,
        ),
        ours=st.sampled_from([True, True, True, False]),
        side=st.integers(0, 1),
    )
    def give(self, command: str, route: str, votes: list[tuple[str, str]], ours: bool, side: int) -> Any:
        if self.halts or not self.is_open:
            return multiple()
        request = self.asked(command, route)
        signer = OUR_KEY if ours else STRANGE_KEY  # another process, that trusts its own key
        authority = self.authority.trusting(signer.fingerprint)
        mine = Given(command, self.place, self.policy)
        answered: set[str] = set()
        needed, approvals, closed, scoped = request.needed, 0, False, True
        for who, scope in votes:
            kind: Any = "reject" if scope == "reject" else "approve"
            chosen = "" if kind == "reject" else scope
            given = answer(request, kind, approver=WHO[who], scope=chosen)
            result = self.stores[side].decide(request.id, given, authority, signer)
            may = who in self.here and (who == "carl" or command != "cat worst")  # not by chat
            fine = may and who not in answered and (not chosen or chosen in offered(command))
            assert result.outcome == ("late" if closed and may else "recorded" if fine else "refused"), result
            if result.outcome != "recorded":
                continue
            answered.add(who)
            if kind == "reject":
                closed, approvals = True, 0
            else:
                approvals += 1
                scoped = scoped and bool(chosen)
                mine.votes.append((who, chosen, self.now))
                closed = approvals >= needed
        self.wrote()
        if not (closed and approvals >= needed and scoped):
            assert self.stores[0].grants.get(request.id) is None
            return multiple()
        assert self.stores[0].grants.get(request.id) is not None
        self.known[request.id] = mine
        if not ours:
            mine.over = True  # it was signed by nobody's key: it never gives anything
        return request.id

    def asked(self, command: str, route: str) -> ApprovalRequest:
        self.count += 1
        action, decision = self.action(command), self.decision(command, route)
        rule = self.authority.rule_for(decision)
        draft = ApprovalRequest(
            id=f"{self.count:032x}",
            idempotency_key=f"{self.count:064x}",
            digest=action.digest(self.policy),
            body=action.body(self.policy),
            action=action,
            decision=decision,
            requester=self.place.requester,
            created=self.now,
            expires=self.now + TIMEOUT,
            valid_for=TIMEOUT,
            rule=rule,
            needed=rule.quorum,
        )
        return self.stores[0].create_request(draft, self.authority)

    @rule(grant=given, side=st.integers(0, 1))
    def revoke(self, grant: str, side: int) -> None:
        before = self.stores[side].grants.get(grant)
        assert before is not None
        assert self.stores[side].grants.revoke(grant, CARL.principal, "enough") == (before.revoked is None)
        self.known[grant].over = True
        self.wrote()

    @rule(grant=given, who=st.sampled_from(["bob", "carl"]))
    def take_the_approval_back(self, grant: str, who: str) -> None:
        request = self.stores[0].get(grant)
        assert request is not None
        result = self.stores[0].revoke(grant, answer(request, "revoke", approver=WHO[who]), self.authority, OUR_KEY)
        if result.outcome == "recorded":
            self.known[grant].over = True
        self.wrote()

    @rule(who=st.sampled_from(["bob", "carl"]))
    def somebody_leaves(self, who: str) -> None:
        """The configuration changes: their votes count no more, those that were given before neither."""
        self.authority, self.here = team(who), set(WHO) - {who}

    @rule()
    def everybody_is_back(self) -> None:
        self.authority, self.here = team(), set(WHO)

    @rule()
    def stop(self) -> None:
        self.halts.append(self.stores[0].halts.stop("os:3:carl", "test"))
        self.wrote()

    @rule()
    def resume(self) -> None:
        if self.halts:
            self.now = max(self.now, *(halt.at for halt in self.halts), 0)  # nobody resumes what is still to come
            assert self.stores[1].halts.resume(self.halts, DORA, "", team(), OUR_KEY) is None
            self.halts = []
            self.wrote()

    # What is given, said once more

    def gives(self, known: Given, command: str, route: str) -> set[str]:
        """What of the needs of a command a grant gives at this moment, here."""
        place, then = self.place, known.place
        if known.over or any(self.now >= at + AGE for _, _, at in known.votes):
            return set()
        if (place.project, place.agent, place.requester) != (then.project, then.agent, then.requester):
            return set()
        if known.policy != self.policy or command in NEVER:
            return set()
        if len([who for who, _, _ in known.votes if who in self.here]) < max(
            min(QUORUM[route], len(self.here)), len(known.votes)
        ):
            return set()
        found = set(NEEDED[command])
        for _, scope, _ in known.votes:
            if scope != "hour" and place.run != then.run:
                return set()
            if command != known.command or scope != "action":
                found &= kinds(known.command, scope)
        return found

    def is_covered(self, command: str, route: str) -> bool:
        free = [known for known in self.known.values() if known.uses < USES]
        return set(NEEDED[command]) <= set().union(*(self.gives(each, command, route) for each in free))

    # The Gate

    @rule(
        target=permits,
        command=st.sampled_from(list(COMMANDS)),
        route=st.sampled_from(["one", "one", "two"]),
        side=st.integers(0, 1),
    )
    def use(self, command: str, route: str, side: int) -> Any:
        action, decision = self.action(command), self.decision(command, route)
        expected = self.is_covered(command, route)
        try:
            permit = self.stores[side].grants.use(
                action,
                decision,
                action.digest(self.policy),
                requester=self.place.requester,
                authority=lambda: self.authority,
                use_by_ms=USE_BY,
            )
        except AgentsStopped:
            assert self.halts
            self.wrote()
            return multiple()
        except RunLost:
            assert not self.is_open
            return multiple()
        if permit is None:
            assert not expected or self.jumped or not self.is_open, f"{command} is covered, and was not let through"
            return multiple()
        assert not self.halts
        assert expected, f"{command} is not covered"
        covered: set[str] = set()
        for each in permit.granted:
            known = self.known[each.grant]
            covered |= self.gives(known, command, route)
            known.uses += 1
            assert (each.use, each.uses) == (known.uses, USES)
            assert known.uses <= USES
            assert set(each.by) == {who for who, _, _ in known.votes}
        assert covered >= set(NEEDED[command])
        assert permit.use_by <= self.now + USE_BY
        self.wrote()
        return permit

    @rule(permit=permits, digest=st.sampled_from(["right", "right", "right", "wrong"]), side=st.integers(0, 1))
    def start(self, permit: Permit, digest: str, side: int) -> None:
        command, route = permit.action.content, permit.decision.route
        assert isinstance(route, str)
        here, self.place = self.place, self.place_of(permit)
        policy, self.policy = self.policy, permit.decision.policy_digest
        given = set().union(*(self.gives(self.known[each.grant], command, route) for each in permit.granted))
        self.place, self.policy = here, policy
        about_to_run = permit.digest if digest == "right" else "f" * 64
        result = self.stores[side].consume(permit, about_to_run, self.authority)
        self.wrote()
        if isinstance(result, Execution):
            assert digest == "right"
            assert permit.id not in self.started, "used twice"
            assert not self.halts
            assert self.now < permit.use_by
            assert given >= set(NEEDED[command]), f"{command} ran, and its grants do not give it"
            self.started.add(permit.id)

    def place_of(self, permit: Permit) -> Place:
        action = permit.action
        return Place(action.run_id, action.agent, permit.requester, action.project)

    def all_goes_well(self) -> None:
        """Given, used, started: whatever came before, what nothing is wrong with runs."""
        self.everybody_is_back()
        self.resume()
        self.place = self.new_run("agent", ANN, "/srv/app")
        self.give("cat a/1", "two", [("bob", "run"), ("carl", "hour")], True, 0)
        self.jumped = False
        permit = self.use("cat a/2", "one", 1)
        assert isinstance(permit, Permit)
        self.start(permit, "right", 0)
        assert permit.id in self.started

    # All of it, about one grant: what comes at random seldom meets

    def story(self, command: str, scopes: tuple[str, ...], script: list[str]) -> None:
        self.everybody_is_back()
        self.resume()
        self.policy = "0" * 64
        self.place = self.new_run("agent", ANN, "/srv/app")
        route = "two" if len(scopes) == 2 else "one"
        grant = self.give(command, route, list(zip(WHO, scopes, strict=False)), True, 0)
        if not isinstance(grant, str):
            return
        permit: Any = None
        for scene in script:
            match scene.split():
                case ["use"]:
                    permit = self.use("cat a/2", "one", 0)
                case ["use", "the", "same"]:
                    permit = self.use(command, route, 1)
                case ["use", "another"]:
                    permit = self.use("cat b/1", "one", 0)
                case ["use", "both", "packages"]:
                    permit = self.use("pip one two", "one", 0)
                case ["use", "both"]:
                    permit = self.use("cat a/2; curl", "one", 0)
                case ["last"]:
                    for side in (0, 1, 0, 1):
                        permit = self.use(command, route, side)
                case ["start", *how] if isinstance(permit, Permit):
                    self.start(permit, "wrong" if how else "right", 1)
                case ["revoke"]:
                    self.revoke(grant, 1)
                case ["unapprove"]:
                    self.take_the_approval_back(grant, "bob")
                case ["left"]:
                    self.somebody_leaves("bob")
                case ["back"]:
                    self.everybody_is_back()
                case ["policy", *back]:
                    self.policy_changes("0" if back else "1")
                case ["restart"]:
                    self.restart()
                case ["new", "run"]:
                    self.another_run("agent", ANN, "/srv/app")
                case ["other"]:
                    self.another_run("other", EVE, "/srv/shop")
                case ["stop"]:
                    self.stop()
                case ["resume"]:
                    self.resume()
                case ["close"]:
                    self.close_run()
                case ["clock", ms]:
                    self.clock(int(ms))

    about = rule(
        command=st.sampled_from([name for name in COMMANDS if name not in NEVER]),
        scopes=st.sampled_from(
            [
                ("run",),
                ("hour",),
                ("action",),
                ("any",),
                ("run", "run"),
                ("run", "hour"),
                ("hour", "action"),
                ("any", "run"),
            ]
        ),
        script=SCRIPTS,
    )
    one_story, another_story, a_third_story = about(story), about(story), about(story)

    # The world

    @rule(ms=st.sampled_from(CLOCKS))
    def clock(self, ms: int) -> None:
        self.now += ms
        self.jumped = self.jumped or ms < 0

    @invariant()
    def never_more_than_was_signed(self) -> None:
        with self.stores[1]._database.read() as connection:
            rows = connection.execute(
                "SELECT grant_id, count(*) AS times, max(use) AS last FROM grant_use GROUP BY grant_id"
            ).fetchall()
        assert {row["grant_id"]: (row["times"], row["last"]) for row in rows} == {
            id_: (known.uses, known.uses) for id_, known in self.known.items() if known.uses
        }
        assert all(known.uses <= USES for known in self.known.values())


TestGranting = Granting.TestCase
TestGranting.settings = settings(
    max_examples=int(os.environ.get("HLA_HISTORIES", extent.some(300, 15, soak=2000))),
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
if extent.SOAK:
    pytestmark = pytest.mark.timeout(7_200)


def retold(command: str, scopes: tuple[str, ...], *script: str) -> None:
    """One story that shows the mistake, told outright: a search might take any time to come by it."""
    machine = Granting()
    try:
        machine.story(command, scopes, [*script])
        machine.judge()
    finally:
        machine.end()


STORIES = {
    "expired": ("cat a/1", ("hour",), f"clock {AGE}", "restart", f"clock {-AGE}", "use"),
    "another run": ("cat a/1", ("run",), "new run", "use"),
}


def _ignoring(name: str) -> Any:
    """`Scope.why_not` that does not see one of its reasons."""
    why_not = Scope.why_not

    def blind(self: Scope, *arguments: Any) -> str:
        why = why_not(self, *arguments)
        return "" if name in why else why

    return blind


@pytest.mark.parametrize("what", STORIES)
def test_the_machine_notices_a_bound_that_is_not_kept(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """So that we know it can fail."""
    retold(*STORIES[what])  # type: ignore[arg-type]
    monkeypatch.setattr(Scope, "why_not", _ignoring(what))
    monkeypatch.setattr(store_grants, "_PAST", "SELECT 1 WHERE ? AND ? AND 0")
    with pytest.raises(AssertionError):
        retold(*STORIES[what])  # type: ignore[arg-type]


def test_the_machine_notices_scopes_of_which_one_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two approvers, the one who lets more through would decide."""

    def covers(self: Any, decision: PolicyDecision, digest: str) -> frozenset[int]:
        exact = store_grants.exact_action(decision, digest)
        return frozenset(
            number for number, ask in enumerate(decision.asks) if any(each.covers(ask, exact) for each in self.scopes)
        )

    retold("pip one", ("any", "run"), "use both packages")
    monkeypatch.setattr(store_grants._Proved, "covers", covers)
    with pytest.raises(AssertionError):
        retold("pip one", ("any", "run"), "use both packages")
