"""From channels files to who may decide."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import Approver, Permit
from humanlayer_agent.approvals.votes import Refusal, Seat, seat_of
from humanlayer_agent.channels import settings
from humanlayer_agent.channels.settings.authority_loader import ListedSigner, authority_of
from humanlayer_agent.configuration import build_authority, build_gate, build_signer, requester
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.locations import audit_key_path
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from tests.support.keys import make_key

ME = "os:1000:alice"
TEAM = """\
version: 1
people:
  alice: {os_user: alice, slack: T012AB/U034CD, email: Alice@example.com}
  bob: {os_user: "1001"}
groups:
  oncall: [bob, alice]
  platform: {slack_usergroup: T012AB/S078GH}
channels: {terminal: {type: terminal}}
routes:
  default:
    approvers: [bob, "group:oncall", alice]
    quorum: 2
    min_assurance: chat
    usergroup_high: true
    timeout: 2h
    valid_for: 90s
    steps: [{to: terminal}, {to: terminal, after: 2m, approvers: [alice]}]
  theirs: {approvers: ["group:platform"], solo: true, steps: [{to: terminal}]}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/humanlayer-agent"
    folder.mkdir(parents=True)
    return folder


def found(text: str, tmp_path: Path, *also: str, **limits: int) -> Authority:
    path = tmp_path / "given.yaml"
    path.write_text(text)
    return authority_of(settings.load(file=path), ME, *also, **limits)


def test_a_route_as_it_stands(tmp_path: Path) -> None:
    rule = found(TEAM, tmp_path).routes["default"]
    assert rule.approvers == ("bob", "alice")  # each once, in order
    assert (rule.quorum, rule.solo, rule.min_assurance, rule.usergroup_high) == (2, False, "chat", True)
    assert (rule.timeout_ms, rule.valid_for_ms) == (7_200_000, 90_000)
    assert [(step.to, step.after_ms, step.approvers) for step in rule.steps] == [
        ("terminal", 0, ()),
        ("terminal", 120_000, ("alice",)),
    ]


@pytest.mark.parametrize(
    ("principal", "person"),
    [
        ("os:1000:alice", "alice"),
        ("os:7:alice", "alice"),
        ("os:1001:anybody", "bob"),
        ("slack:T012AB/U034CD", "alice"),
        ("email:alice@EXAMPLE.com", "alice"),
        ("os:1000:mallory", None),
        ("slack:T999ZZ/U034CD", None),
        ("slack-usergroup:T012AB/S078GH", None),  # a group is nobody who answers
    ],
)
def test_who_is_who(principal: str, person: str | None, tmp_path: Path) -> None:
    known = found(TEAM, tmp_path).person_of(principal)
    assert (known and known.id) == person


def test_who_is_in_a_user_group_is_one_of_its_approvers(tmp_path: Path) -> None:
    """Left out it would leave `solo` with no approvers, and that means whoever started the run."""
    authority = found(TEAM, tmp_path)
    rule = authority.routes["theirs"]
    assert rule.approvers == ("group:platform",)
    for principal in (ME, "os:1001:bob", "slack:T012AB/U056EF", "slack:T012AB/U999"):
        assert isinstance(seat_of(authority, rule, ME, Approver(principal, "slack", "chat")), Refusal)
        inside = Approver(principal, "slack", "chat", ("slack-usergroup:T012AB/S078GH",))
        assert isinstance(seat_of(authority, rule, ME, inside), Seat) == principal.startswith("slack:")


def test_with_no_people_whoever_started_the_run_is_known(tmp_path: Path) -> None:
    authority = found("version: 1\nsigners: [" + "a" * 64 + "]\n", tmp_path, "user:Script")
    (alone,) = authority.people
    assert (alone.id, alone.identities) == ("alice", (ME, "user:Script"))
    assert authority.signers == {"a" * 64}
    rule = authority.routes["default"]
    assert (rule.solo, rule.timeout_ms) == (True, 600_000)
    assert isinstance(seat_of(authority, rule, ME, Approver("user:Script", "user", "login")), Seat)


def test_with_people_nobody_is_added(tmp_path: Path) -> None:
    """Whoever started the run may be one of the approvers, under an identity that the file leaves out."""
    text = TEAM.replace("os_user: alice, ", "").replace("quorum: 2", "quorum: 1")
    authority = found(text, tmp_path, "user:Script")
    assert {person.id for person in authority.people} == {"alice", "bob", "group:platform"}
    assert authority.person_of(ME) is None
    refusal = seat_of(authority, authority.routes["default"], ME, Approver("slack:T012AB/U034CD", "slack", "chat"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unknown-requester"


def test_further_principals_belong_to_whoever_started_the_run(tmp_path: Path) -> None:
    authority = found(TEAM, tmp_path, "user:Script")
    assert authority.person_of("user:Script") == authority.person_of(ME)
    refusal = seat_of(authority, authority.routes["default"], ME, Approver("user:Script", "user", "login"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "requester"


def test_only_the_shipped_route_takes_other_limits(tmp_path: Path) -> None:
    limits = {"timeout_ms": 5_000_000, "valid_for_ms": 7}
    rule = found("version: 1\n", tmp_path, **limits).routes["default"]
    assert (rule.timeout_ms, rule.valid_for_ms) == (5_000_000, 7)
    rule = found(TEAM, tmp_path, **limits).routes["default"]
    assert (rule.timeout_ms, rule.valid_for_ms) == (7_200_000, 90_000)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("quorum: 2", "quorum: 3", "3 approvals can't come from 2 people"),
        ('os_user: "1001"', "email: ALICE@example.com", "can't be both"),
        ("approvers: [alice]}]", 'approvers: ["group:platform"]}]', "is not one of its approvers"),
    ],
)
def test_what_could_never_be_met_names_its_file(before: str, after: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        found(TEAM.replace(before, after), tmp_path)
    assert str(tmp_path / "given.yaml") in str(error.value)


names = st.sampled_from(["alice", "bob", "carol", "group:ab", "group:all", "group:slack"])


@given(approvers=st.lists(names, min_size=1, max_size=5), solo=st.booleans())
def test_nobody_answers_who_is_no_approver(
    approvers: list[str], solo: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = (
        "version: 1\npeople: {alice: {os_user: alice}, bob: {os_user: bob}, carol: {os_user: carol}}\n"
        "groups: {ab: [alice, bob], all: [carol, alice, bob], slack: {slack_usergroup: T012AB/S078GH}}\n"
        "channels: {terminal: {type: terminal}}\nroutes:\n"
        f"  default: {{approvers: {approvers}, solo: {str(solo).lower()}, steps: [{{to: terminal}}]}}\n"
    )
    path = tmp_path_factory.mktemp("given") / "given.yaml"
    path.write_text(text)
    authority = authority_of(settings.load(file=path), ME)
    members = {"group:ab": {"alice", "bob"}, "group:all": {"alice", "bob", "carol"}, "group:slack": set()}
    meant = {person for name in approvers for person in members.get(name, {name})}
    for person in ("alice", "bob", "carol", "dave"):
        approver = Approver(f"os:{person}", "terminal", "terminal")
        seated = isinstance(seat_of(authority, authority.routes["default"], ME, approver), Seat)
        assert seated == (person in meant and (solo or person != "alice"))


# ---- the Gate -------------------------------------------------------------------------------------------


class Judge:
    def evaluate(self, action: object) -> PolicyDecision:
        return PolicyDecision(Verdict.ASK, reason="a test", policy="test", policy_digest="0" * 64)


def gate_authority(tmp_path: Path, **given: object) -> Authority:
    gate = build_gate(director=Judge(), store=tmp_path / "store.sqlite3", **given)  # type: ignore[arg-type]
    return gate.authority


def test_without_a_file_whoever_started_the_run_may_answer(tmp_path: Path) -> None:
    project = tmp_path / "project"
    assert build_authority(project=project) is None
    authority = gate_authority(tmp_path, project=project, timeout_ms=5_000_000)
    assert authority.routes["default"].timeout_ms == 5_000_000
    assert authority.person_of(requester()) == authority.people[0]


def test_the_users_file_counts(tmp_path: Path, config: Path) -> None:
    (config / "channels.yaml").write_text(TEAM)
    assert gate_authority(tmp_path).routes["default"].quorum == 2


def test_a_file_that_is_given_is_the_whole(tmp_path: Path, config: Path) -> None:
    (config / "channels.yaml").write_text("version: 2")
    (tmp_path / "given.yaml").write_text(TEAM)
    assert "theirs" in gate_authority(tmp_path, channels=tmp_path / "given.yaml").routes


def test_an_authority_that_is_given_wins(tmp_path: Path, config: Path) -> None:
    (config / "channels.yaml").write_text("version: 2")
    mine = Authority.alone("os:1:x")
    assert gate_authority(tmp_path, authority=mine) is mine


def test_a_broken_file_stops_everything(tmp_path: Path, config: Path) -> None:
    (config / "channels.yaml").write_text("version: 2")
    with pytest.raises(ConfigError, match=r"channels\.yaml:1:10"):
        gate_authority(tmp_path)


def test_a_link_that_leads_nowhere_is_not_taken_for_no_file(tmp_path: Path, config: Path) -> None:
    (config / "channels.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match=r"channels\.yaml: can't be read"):
        gate_authority(tmp_path)


def test_a_projects_file_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project = tmp_path / "project"
    path = project / ".humanlayer/channels.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TEAM)
    assert set(gate_authority(tmp_path, project=project).routes) == {"default"}
    assert f"{path} is ignored: nobody has trusted it" in caplog.text


def test_the_users_key_signs_only_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    listed = Authority((), {}, frozenset({"a" * 64}))
    assert build_signer(None) is None
    assert build_signer(listed) is None  # there is no key: that of this process
    key = make_key()
    assert build_signer(Authority((), {})) is None  # nobody says that it counts
    signer = build_signer(listed)
    assert isinstance(signer, ListedSigner)
    with pytest.raises(ConfigError, match="is not named under `signers:`"):
        _ = signer.fingerprint  # so whatever is asked is denied
    signer = build_signer(Authority((), {}, frozenset({key.fingerprint})))
    assert signer is not None
    assert signer.fingerprint == key.fingerprint


class Yes:
    """Approves whatever it is asked."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        return options[-1]


@pytest.mark.parametrize("signers", ["nobody", "own", "another"])
def test_an_answer_here_needs_no_key_of_the_user(
    signers: str, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is signed with a key that only this process has, so nobody types a passphrase to start an agent."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    key = make_key().fingerprint
    named = {"nobody": [], "own": [key], "another": ["a" * 64]}[signers]
    (config / "channels.yaml").write_text(f"version: 1\nsigners: {named}\n")
    with build_gate(director=Judge(), user=Yes(), store=tmp_path / "store.sqlite3") as gate:
        answer = gate.check(Action("ls", cwd=str(tmp_path), project=str(tmp_path)))
        assert isinstance(answer, Permit)
        (vote,) = gate.store.votes(answer.request_id)
        assert vote.signer == process_signer().fingerprint
        assert gate.start(answer, answer.action) is None


def test_whose_signatures_count_is_logged_when_it_changes(tmp_path: Path, config: Path) -> None:
    def start(*signers: str) -> list[Any]:
        (config / "channels.yaml").write_text(f"version: 1\nsigners: [{', '.join(signers)}]\n")
        with build_gate(director=Judge(), user=Yes(), store=tmp_path / "store.sqlite3") as gate:
            return [(e.event["former"], e.event["signers"]) for e in gate.store.events(type="signers.changed")]

    one, other = "a" * 64, "b" * 64
    assert start() == []
    assert start(one) == start(one) == [([], [one])]
    assert start(other, one)[1:] == [([one], [one, other])]
    assert start()[2:] == [([one, other], [])]


def test_the_audit_key_is_no_signer(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no passphrase, so whatever runs as this user could sign with it: no agent starts."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    audit = AuditKey.create(audit_key_path()).fingerprint
    (config / "channels.yaml").write_text(f"version: 1\nsigners: [{'a' * 64}, {audit}]\n")
    with pytest.raises(ConfigError, match="one of the signers, or of those who sign a list of them, is the audit key"):
        build_gate(director=Judge(), user=Yes(), store=tmp_path / "store.sqlite3")
    (config / "channels.yaml").write_text(f"version: 1\nsigners: [{'a' * 64}]\n")
    build_gate(director=Judge(), user=Yes(), store=tmp_path / "store.sqlite3").close()
