"""Two policies over the same commands: what is looser, what was accepted, what only looks the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Diff, acceptable, over_tests, public, unlocked
from humanlayer_agent.policy_tools.diff.acceptance import Accepted, read_accepted
from humanlayer_agent.policy_tools.replay import Engine
from humanlayer_agent.policy_tools.replay.steps import Step, Unreadable
from humanlayer_agent.policy_tools.sarif import diff_log
from tests.policy_tools.test_sarif import check

OLD = """\
version: 1
policy: old
defaults: {unmatched: ask}
rules:
  - id: reads
    decision: allow
    when: {effect: read}
    tests: {match: [cat a]}
  - id: deletes
    decision: ask
    severity: high
    reason: "Deletes."
    when: {effect: delete}
    tests: {match: [rm a]}
  - id: net
    decision: deny
    reason: "No."
    when: {effect: network}
    tests: {match: ["curl https://example.org"]}
"""
COMMANDS = ["cat a", "rm a", "rm a", "curl https://example.org", "frobnicate"]
Policies = Callable[..., Policy]


@pytest.fixture
def policy(tmp_path: Path) -> Policies:
    def make(name: str = "old", *changes: tuple[str, str]) -> Policy:
        text = OLD.replace("policy: old", f"policy: {name}")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return load(path, tested=False)

    return make


def compare(
    old: Policy, new: Policy, commands: list[str] = COMMANDS, accepted: Accepted | None = None, at: str = "/srv/app"
) -> Diff:
    def directors(project: str, confined: bool) -> list[Director]:
        environ = {"HOME": "/home/u"}
        return [Director(p, project=project, environ=environ, observe=p.observe, confined=confined) for p in (old, new)]

    engine = Engine(directors, default=lambda: Path(at), check=Path)
    diff = Diff(accepted or Accepted())
    diff.count(engine.replay(Step("log", f"line {n}", "r", str(n), c, at) for n, c in enumerate(commands)))
    return diff


LOOSER = ("decision: ask\n    severity: high", "decision: allow\n    severity: high")
STRICTER = ("decision: allow", "decision: deny")
DENIED_LESS = ("decision: deny", "decision: ask")


@pytest.mark.parametrize(
    ("changes", "headline", "counts"),
    [
        ((), "no difference found", (0, 0, 5)),
        ((LOOSER,), "looser", (2, 0, 3)),
        ((DENIED_LESS,), "looser", (1, 0, 4)),
        ((("decision: allow", "decision: ask"),), "stricter", (0, 1, 4)),
        ((STRICTER, DENIED_LESS), "mixed", (1, 1, 3)),
    ],
)
def test_headlines(policy: Policies, changes: Any, headline: str, counts: tuple[int, int, int]) -> None:
    diff = compare(policy(), policy("new", *changes))
    assert diff.headline == headline
    assert (diff.loosened, diff.tightened, diff.same) == counts


def test_the_matrix_and_the_order_of_its_cells(policy: Policies) -> None:
    diff = compare(policy(), policy("new", LOOSER, DENIED_LESS, ("unmatched: ask", "unmatched: deny")))
    assert diff.matrix[Verdict.ASK, Verdict.ALLOW] == 2
    cells = [(str(a), str(b), [(c.command, c.count) for c in found]) for a, b, found in diff.cells()]
    assert cells == [
        ("deny", "ask", [("curl https://example.org", 1)]),
        ("ask", "allow", [("rm a", 2)]),
        ("ask", "deny", [("frobnicate", 1)]),
    ]
    assert next(c for _, _, found in diff.cells() for c in found if c.command == "rm a").rules == ("deletes", "deletes")


def test_a_policy_that_only_observes_is_looser(policy: Policies) -> None:
    observing = policy("new", ("version: 1", "version: 1\nobserve: true"))
    diff = compare(policy(), observing)
    assert (diff.headline, diff.loosened) == ("looser", 4)
    assert over_tests(policy(), observing, Accepted()).headline == "looser"
    assert compare(observing, policy()).headline == "stricter"


def test_what_is_asked_with_less_is_counted_apart(policy: Policies) -> None:
    old = policy("old", ("severity: high", "severity: high\n    grant: {max_age: 1h}"))
    diff = compare(old, policy("new", ("severity: high", "severity: low\n    grant: {max_age: 2h}")))
    assert diff.headline == "no difference found"
    assert diff.eased == {"severity high becomes low": 2, "may be remembered for more": 2}
    assert compare(policy(), old).eased == {}, "less may be remembered"


def test_what_is_no_longer_locked_is_named(policy: Policies) -> None:
    locked = policy(
        "locked",
        ("unmatched: ask", "unmatched: ask, locked: true"),
        ("decision: deny", "decision: deny\n    locked: true"),
    )
    assert unlocked(locked, policy()) == ["the policy", "rule net"]
    assert unlocked(policy(), locked) == []
    assert public(over_tests(locked, policy(), Accepted()))["no_longer_locked"] == ["the policy", "rule net"]


def test_over_the_tests_of_both(policy: Policies) -> None:
    new = policy("new", LOOSER, ('match: ["curl https://example.org"]', "match: [nc example.org 80]"))
    diff = over_tests(policy(), new, Accepted())
    assert diff.commands == 4
    assert [c.command for _, _, found in diff.cells() for c in found] == ["rm a"]


# ---- what was accepted ------------------------------------------------------------------------------------


def accepted(tmp_path: Path, text: str) -> Accepted:
    path = tmp_path / "accepted.yaml"
    path.write_text(text)
    return read_accepted(path)


def loosened(diff: Diff) -> list[Any]:
    return [c for _, _, found in diff.cells() for c in found if c.loosened]


def test_a_loosening_can_be_accepted(policy: Policies, tmp_path: Path) -> None:
    old, new = policy(), policy("new", LOOSER, DENIED_LESS)
    written = acceptable(loosened(compare(old, new)))
    with pytest.raises(ConfigError, match="reason"):  # somebody has to say why
        accepted(tmp_path, written)
    some = accepted(tmp_path, written.replace('reason: ""', "reason: agreed"))
    diff = compare(old, new, accepted=some)
    assert (diff.headline, diff.loosened, diff.accepted_count) == ("no difference found", 0, 3)
    assert not some.unused()
    assert {c.accepted for c in loosened(diff)} == {"agreed"}


def test_an_acceptance_holds_for_that_change_only(policy: Policies, tmp_path: Path) -> None:
    old = policy()
    one = acceptable(loosened(compare(old, policy("new", ("decision: deny", "decision: ask")))))
    some = accepted(tmp_path, one.replace('reason: ""', "reason: agreed"))
    diff = compare(old, policy("newer", ("version: 1", "version: 1\nobserve: true")), accepted=some)
    assert diff.loosened == 4
    assert [why for _, why in some.unused()] == ["nothing is loosened so"]


def test_an_acceptance_says_truly_what_it_accepts(policy: Policies, tmp_path: Path) -> None:
    """Whoever reviews the file reads the command, not the digest."""
    old, new = policy(), policy("new", LOOSER)
    lie = acceptable(loosened(compare(old, new))).replace('"rm a"', '"ls"').replace('reason: ""', "reason: harmless")
    some = accepted(tmp_path, lie)
    diff = compare(old, new, accepted=some)
    assert diff.loosened == 2
    assert [why for _, why in some.unused()] == ["its digest is of another command"]


def test_a_digest_is_the_same_on_every_machine_and_not_for_another_place(policy: Policies) -> None:
    old, new = policy(), policy("new", LOOSER)
    here, there = (loosened(compare(old, new, at=at))[0].digest for at in ("/srv/app", "/home/ci/work"))
    assert here == there

    def directors(project: str, confined: bool) -> list[Director]:
        return [Director(p, project=project, environ={"HOME": "/home/u"}) for p in (old, new)]

    engine = Engine(directors, project=Path("/srv/app"), default=Path, check=Path)
    diff = Diff()
    diff.count(
        engine.replay([Step("log", "1", "r", "1", "rm a", "/etc"), Step("log", "2", "r", "2", "rm a", "/srv/app")])
    )
    assert len({c.digest for c in loosened(diff)} - {here}) == 1


CONFINED = (
    "defaults: {unmatched: ask}\n",
    'defaults: {unmatched: ask, confine: project}\nconfinements: {project: {write: ["${PROJECT}/**"]}}\n',
)
CODE = "  - {{id: code, decision: ask, {}when: {{effect: execute}}, tests: {{match: [./a]{}}}}}\n  - id: deletes\n"
CONFINED_CODE = ("  - id: deletes\n", CODE.format("confined: project, ", ", confined: [./a]"))
ASKED_CODE = ("  - id: deletes\n", CODE.format("", ""))


def test_what_runs_in_another_confinement_is_told(policy: Policies) -> None:
    old, new = policy("old", CONFINED), policy("new", CONFINED, ("${PROJECT}/**", "${PROJECT}/build/**"))
    diff = over_tests(old, new, Accepted(), confined=True)
    assert public(diff)["confined_otherwise"] == {"confined to project becomes another one of that name": 1}
    bare = over_tests(policy("bare"), new, Accepted(), confined=True)
    assert bare.rehoused == {"not confined becomes confined to project": 1}
    assert not over_tests(policy("bare"), new, Accepted()).rehoused


def test_what_a_rule_allows_confined_is_compared_so(policy: Policies) -> None:
    old, new = policy("old", CONFINED, CONFINED_CODE), policy("new", CONFINED, ASKED_CODE)
    diff, back = over_tests(old, new, Accepted()), over_tests(new, old, Accepted())
    (change,) = diff.changes.values()
    assert (change.command, change.old, change.new, change.first.confined) == ("./a", Verdict.ALLOW, Verdict.ASK, True)
    assert diff.matrix[Verdict.ASK, Verdict.ASK] == 2  # unconfined, both ask
    assert (diff.headline, back.headline) == ("stricter", "looser")


def test_a_digest_is_another_one_where_it_is_confined(policy: Policies) -> None:
    old, new = policy("old", CONFINED), policy("new", CONFINED, LOOSER)
    found = [over_tests(old, new, Accepted(), confined=confined).changes for confined in (False, True)]
    assert all(found)
    assert not set(found[0]) & set(found[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"accepted\.yaml:1:1"),
        ("accepted: 3", "a list of digest, command and reason"),
        ("accepted: []\nmore: 1", "expected one key"),
        ("accepted:\n  - ls", r"accepted\.yaml:2:5"),
        ("accepted:\n  - {digest: abc, command: ls, reason: x}", "64 hexadecimal digits"),
        ("accepted:\n  - {digest: abc, command: ls}", "each a text"),
        ("accepted:\n" + f"  - {{digest: {'a' * 64}, command: ls, reason: x}}\n" * 2, "there already"),
    ],
)
def test_a_broken_file_of_acceptances_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        accepted(tmp_path, text)


# ---- for programs -----------------------------------------------------------------------------------------


def test_sarif(policy: Policies, tmp_path: Path) -> None:
    old, new = policy(), policy("new", LOOSER)
    diff = compare(old, new)
    data = diff_log(diff, old, new, folder=tmp_path)
    check(json.loads(json.dumps(data)))
    (run,) = data["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "new.yaml", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] == OLD.split("\n").index("  - id: deletes") + 1
    assert "`rm a`: ask (deletes) becomes allow (deletes); 2 times." in result["message"]["text"]
    assert "suppressions" not in result


def test_json_holds_everything(policy: Policies) -> None:
    diff = compare(policy(), policy("new", LOOSER))
    diff.count([Unreadable("f", "line 9", "broken")])
    data = json.loads(json.dumps(public(diff)))
    shape = {
        "required": ["headline", "loosened", "accepted", "tightened", "same", "matrix", "changes", "unreadable"],
        "properties": {"changes": {"items": {"required": ["digest", "command", "old", "new", "count", "first"]}}},
    }
    Draft202012Validator(shape).validate(data)
    assert data["matrix"]["ask"]["allow"] == 2
    assert data["unreadable"]["rows"] == [{"source": "f", "place": "line 9", "why": "broken"}]
