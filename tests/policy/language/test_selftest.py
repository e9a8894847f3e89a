"""The tests in a policy's own rules run when it is loaded, once for what was tested."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_director
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language import examples as selftest
from humanlayer_agent.policy.language.loader import cache_folder, find, load
from humanlayer_agent.policy.layers import find_layers, trust
from tests.support import extent

GOOD = """\
version: 1
policy: p
rules:
  - id: no-frob
    decision: deny
    when: {program: frobnicate}
    tests:
      match: [frobnicate x]
      not_match: [ls]
"""
BAD = GOOD.replace("[frobnicate x]", "[frobnicate x, ls -la]")
FAILS = r"p\.yaml:8:29: rule no-frob: match: 'ls -la': expected no-frob applies, got ask \(no rule\)"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The examples that are judged, in order."""
    seen: list[str] = []
    judge = examples.judge

    def counted(director: Director, example: examples.Example, *more: object) -> examples.Result:
        seen.append(example.command)
        return judge(director, example, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(examples, "judge", counted)
    return seen


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(GOOD)
    return path


def test_a_policy_that_fails_its_own_tests_is_broken(policy: Path) -> None:
    assert load(policy).name == "p"
    policy.write_text(BAD)
    with pytest.raises(PolicyError, match=FAILS) as caught:
        load(policy)
    assert str(caught.value).splitlines()[1:] == ["          match: [frobnicate x, ls -la]", " " * 32 + "^^^^^^"]
    with pytest.raises(PolicyError, match=FAILS):
        load(policy)
    with pytest.raises(PolicyError, match=FAILS):
        Director.load(policy, project="/nowhere/project")


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("{match: [ls]}", "7:21: rule no-frob: match: 'ls': expected no-frob applies, got ask"),
        (
            '{maybe: ["$X"], not_match: [frobnicate]}',
            "rule no-frob: not_match: 'frobnicate': expected no-frob does not",
        ),
        (
            "{maybe: [frobnicate]}",
            "rule no-frob: maybe: 'frobnicate': expected no-frob may apply, uncertainly, got deny",
        ),
        ("{match: [a, b, c]}", "match: 'a': .*, got ask .* .and 2 more: hla policy test shows all."),
        ('{match: ["ls \\e[2J\\n\\u202e"]}', r"match: 'ls \\x1b\[2J\\n\\u202e'"),
        (f"{{match: [ls {'x' * 3_000}]}}", r"match: 'ls x{197}\.\.\.'"),
    ],
)
def test_what_it_says(policy: Path, tests: str, message: str) -> None:
    policy.write_text(GOOD.partition("    tests:")[0] + f"    tests: {tests}\n")
    with pytest.raises(PolicyError, match=message) as caught:
        load(policy)
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_the_place_is_that_of_the_right_rule(policy: Path) -> None:
    rule = "{id: %s, decision: deny, when: {program: %s}, tests: {match: [%s]}}"
    policy.write_text(f"version: 1\npolicy: p\nrules: [{rule % ('a', 'x', 'x')}, {rule % ('b', 'y', 'x')}]\n")
    with pytest.raises(PolicyError, match=r"p\.yaml:3:135: rule b: match: 'x'"):
        load(policy)


def test_a_failure_in_an_extended_file_names_that_file(policy: Path) -> None:
    above = policy.with_name("above.yaml")
    above.write_text("version: 1\npolicy: above\nextends: [p.yaml]\n")
    assert load(above).name == "above"
    policy.write_text(BAD)
    with pytest.raises(PolicyError, match=FAILS):
        load(above)


# ---- what is tested -------------------------------------------------------------------------------------


def test_shipped_rules_are_not_tested_again(tmp_path: Path, runs: list[str]) -> None:
    for name in ("default", "strict", "guard"):
        load(find(name))
    assert runs == []
    mine = tmp_path / "mine.yaml"
    # What a file adds to a shipped list changes what shipped rules do: that is what it is for.
    mine.write_text('version: 1\npolicy: mine\nextends: [builtin:default]\nlists: {temp: {add: ["/srv/**"]}}\n')
    director = Director.load(mine, project="/nowhere/project")
    assert str(director.evaluate(Action("rm -rf /srv/x", cwd="/nowhere/project")).verdict) == "allow"
    assert runs == []


def test_a_rule_that_is_replaced_is_not_tested(policy: Path) -> None:
    policy.write_text(BAD)
    above = policy.with_name("above.yaml")
    override = "override: {rule: no-frob, reason: x, expires: %s}"
    rule = "  - {id: mine, %s, decision: ask, when: {program: frobnicate}, tests: {match: [frobnicate]}}\n"
    above.write_text(f"version: 1\npolicy: above\nextends: [p.yaml]\nrules:\n{rule % override % '2999-12-31'}")
    assert load(above).name == "above"
    above.write_text(f"version: 1\npolicy: above\nextends: [p.yaml]\nrules:\n{rule % override % '2000-01-01'}")
    with pytest.raises(PolicyError, match=FAILS):
        load(above)


def test_which_overrides_hold_is_part_of_what_was_tested(policy: Path) -> None:
    above = policy.with_name("above.yaml")
    override = "override: {rule: no-frob, reason: x, expires: 2100-06-01}"
    above.write_text(
        "version: 1\npolicy: above\nextends: [p.yaml]\nrules:\n"
        f"  - {{id: mine, {override}, decision: ask, when: {{program: frobnicate}}}}\n"
    )
    merged = load(above)
    assert selftest.identity(merged, now="2100-06-01") != selftest.identity(merged, now="2100-06-02")
    assert selftest.identity(merged, now="2100-06-01") == selftest.identity(merged, now="2100-05-01")
    assert selftest.identity(load(find("default"))) is None


def test_where_the_project_and_the_home_are_does_not_matter(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[str]
) -> None:
    when = '{effect: write, paths: {any_within: ["${PROJECT}/a", ~/b, "${TMPDIR}/c"]}}'
    tests = '{match: ["echo > a", "echo > ~/b", "echo > /tmp/c"], not_match: ["echo > /srv/a", "echo > x"]}'
    policy.write_text(f"version: 1\npolicy: p\nrules:\n  - {{id: r, decision: deny, when: {when}, tests: {tests}}}\n")
    for variable in ("TMPDIR", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert load(policy).name == "p"
    assert len(runs) == 5


def test_variables_that_are_given_later(policy: Path) -> None:
    policy.write_text(GOOD.replace("{program: frobnicate}", '{effect: write, paths: {any_within: ["${MINE}/**"]}}'))
    with pytest.raises(PolicyError, match="MINE is not known"):
        load(policy)
    policy.write_text(policy.read_text().replace("[frobnicate x]", "[echo > /nowhere/MINE/x]"))
    director = Director.load(policy, project="/nowhere/project", variables={"MINE": "/srv/mine"})
    assert str(director.evaluate(Action("echo > /srv/mine/x", cwd="/nowhere/project")).verdict) == "deny"


@settings(max_examples=extent.examples(40))
@given(
    match=st.lists(st.sampled_from(["frobnicate x", "sudo frobnicate", "ls", "$X"]), max_size=3),
    not_match=st.lists(st.sampled_from(["ls", "echo frobnicate", "frobnicate"]), max_size=3),
)
def test_it_loads_where_every_example_passes(tmp_path: Path, match: list[str], not_match: list[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        GOOD.partition("    tests:")[0] + f"    tests: {json.dumps({'match': match, 'not_match': not_match})}\n"
    )
    passes = all(r.passed for r in examples.run(load(path, tested=False)))
    assert passes == ("ls" not in match and "$X" not in match and "frobnicate" not in not_match)
    if passes:
        assert load(path).name == "p"
    else:
        with pytest.raises(PolicyError, match="rule no-frob"):
            load(path)


# ---- it is remembered -----------------------------------------------------------------------------------


def kept() -> dict[str, object]:
    (path,) = cache_folder().glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


def test_what_has_passed_is_remembered(policy: Path, runs: list[str]) -> None:
    load(policy)
    assert runs == ["frobnicate x", "ls"]
    assert kept()["tested"] == []
    load(policy)
    assert len(runs) == 2, "not again"
    policy.write_text(GOOD + "# a comment\n")
    load(policy)
    assert len(runs) == 4, "another text"


def test_a_change_of_an_extended_file_is_another_policy(policy: Path, runs: list[str]) -> None:
    above = policy.with_name("above.yaml")
    above.write_text("version: 1\npolicy: above\nextends: [p.yaml]\n")
    load(above)
    load(above)
    assert len(runs) == 2
    policy.write_text(GOOD + "# a comment\n")
    load(above)
    assert len(runs) == 4


def test_what_has_failed_is_not_remembered_as_passed(policy: Path, runs: list[str]) -> None:
    policy.write_text(BAD)
    for _ in range(2):
        with pytest.raises(PolicyError):
            load(policy)
    assert len(runs) == 6
    assert "tested" not in kept()


def test_looking_at_a_policy_does_not_pass_it(policy: Path) -> None:
    policy.write_text(BAD)
    assert load(policy, tested=False).name == "p"
    assert "tested" not in kept()
    with pytest.raises(PolicyError, match=FAILS):
        load(policy)


def test_where_nothing_can_be_kept_they_run_every_time(
    policy: Path, monkeypatch: pytest.MonkeyPatch, runs: list[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    load(policy)
    load(policy)
    assert len(runs) == 4
    policy.write_text(BAD)
    with pytest.raises(PolicyError, match=FAILS):
        load(policy)


@pytest.mark.parametrize("tested", [None, True, "yes", ["x"], {}])
def test_a_pass_for_something_else_does_not_count(policy: Path, tested: object) -> None:
    policy.write_text(BAD)
    load(policy, tested=False)
    (path,) = cache_folder().glob("*.json")
    path.write_text(json.dumps({**kept(), "tested": tested}))
    with pytest.raises(PolicyError, match=FAILS):
        load(policy)


# ---- tests that would take our time ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ([f"ls {n}" for n in range(selftest.MAX_EXAMPLES + 1)], "too many tests"),
        (["ls " + "x" * selftest.MAX_TEXT], "too many tests"),
        (
            [
                f"f() {{ rm {' a' * 200}; }}; g() {{ f;f;f;f;f;f;f;f; }}; h() {{ g;g;g;g;g;g;g;g; }}; h; h; h; # {n}"
                for n in range(9)
            ],
            "hold too many commands",
        ),
    ],
)
def test_a_hostile_policys_tests_are_bounded(policy: Path, commands: list[str], message: str, runs: list[str]) -> None:
    policy.write_text(GOOD.partition("    tests:")[0] + f"    tests: {json.dumps({'not_match': commands})}\n")
    with pytest.raises(PolicyError, match=f"p.yaml: .*{message}"):
        load(policy)
    assert len(runs) <= 3, "of nine, each of which ends with the budget of a decision"


# ---- where policies are read ----------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".humanlayer").mkdir(parents=True)
    return tmp_path / "project"


Write = Callable[[str], Path]


@pytest.fixture(params=["user", "project"])
def layer(request: pytest.FixtureRequest, project: Path, own_user: Path) -> Write:
    """Writes the policy of a layer."""
    folder = own_user / ".config" / "humanlayer-agent" if request.param == "user" else project / ".humanlayer"

    def write(text: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "policy.yaml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def test_every_layer_is_tested(layer: Write, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer(GOOD)
    assert main(["check", "--project", str(project), "frobnicate"]) == 1
    path = layer(BAD.replace("p\n", "q\n", 1))
    for observe in (False, True):
        with pytest.raises(PolicyError, match=r"policy\.yaml:8:29: rule no-frob"):
            build_director(project=project, observe=observe)
    assert main(["check", "--project", str(project), "ls"]) == 2
    assert f"{path}:8:29: rule no-frob" in capsys.readouterr().err


def test_a_policy_that_is_named_is_tested(policy: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(BAD)
    assert main(["check", "--policy", str(policy), "--project", str(project), "ls"]) == 2
    assert "rule no-frob" in capsys.readouterr().err


def test_it_can_still_be_looked_at(policy: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(BAD.replace("not_match: [ls]", "not_match: [ls, frobnicate y]"))
    assert main(["policy", "test", str(policy)]) == 1
    shown = capsys.readouterr().out
    assert "match: ls -la" in shown
    assert "not_match: frobnicate y" in shown, "every failure is shown"
    assert main(["policy", "show", "--policy", str(policy), "--project", str(project)]) == 0
    assert main(["policy", "explain", "ls -la", "--policy", str(policy), "--project", str(project)]) == 0


@pytest.mark.sample(1)
def test_the_layers_can_be_tested(layer: Write, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer(BAD)
    assert main(["policy", "test", "--project", str(project)]) == 1
    assert "match: ls -la" in capsys.readouterr().out


def test_trust_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".humanlayer" / "policy.yaml").write_text(BAD)
    assert main(["policy", "trust", "--project", str(project)]) == 2
    assert "policy.yaml:8:29: rule no-frob" in capsys.readouterr().err
    assert not trust.is_trusted(
        project, trust.policy_files(load(project / ".humanlayer" / "policy.yaml", tested=False))
    )


def test_what_was_trusted_and_fails_now_stops_the_engine(project: Path) -> None:
    path = project / ".humanlayer" / "policy.yaml"
    path.write_text(BAD)
    trust.record(project, trust.policy_files(load(path, within=project, tested=False)))
    with pytest.raises(PolicyError, match="rule no-frob"):
        find_layers(project)
    assert find_layers(project, tested=False)[-1].trusted
