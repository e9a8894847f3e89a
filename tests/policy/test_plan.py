"""Plans: what they may say, and what is asked about, refused, or allowed anyway of each thing that they need."""

from pathlib import Path

import pytest

from humanlayer_agent.action import PLAN, Action
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.plan import MAX_NEEDS, read_plan

pytestmark = pytest.mark.usefixtures("compiled")

PROJECT = "/srv/app"


def decide(text: str, policy: str = "default", *, confined: bool = False) -> PolicyDecision:
    director = Director.load(policy, project=PROJECT, environ={"HOME": "/home/u"}, confined=confined, tested=False)
    action = Action(read_plan(text, PROJECT).text, type=PLAN, cwd=PROJECT, project=PROJECT, interpreter=())
    return director.evaluate(action)


# What it says


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("read /srv/docs", ["read /srv/docs"]),
        ("# needs: read ../docs, write out/", ["read /srv/docs", "write /srv/app/out"]),
        (
            "network Example.ORG by curl\n# a remark\n\nwrite /srv/a b",
            ["network example.org:443 by curl", "write /srv/a b"],
        ),
        ("network [::1]:80 by wget", ["network [::1]:80 by wget"]),
        ("needs: [{effect: network, host: 'example.org:8080', program: git}]", ["network example.org:8080 by git"]),
        (
            "needs:\n- {effect: package, name: requests, program: pip}\n- read docs",
            ["package requests by pip", "read /srv/app/docs"],
        ),
        ("write /srv/data by cp", ["write /srv/data by cp"]),
    ],
)
def test_it_is_read_as_yaml_or_as_lines(text: str, needs: list[str]) -> None:
    plan = read_plan(text, PROJECT)
    assert [str(need) for need in plan.needs] == needs
    assert read_plan(plan.text, "/elsewhere") == plan


def test_it_lasts_until_the_run_ends_or_for_a_time() -> None:
    assert read_plan("read /srv/docs", PROJECT).text == "until the run ends\nread /srv/docs"
    timed = read_plan("needs: [read /srv/docs]\nfor: 2h\nwhy: the report", PROJECT)
    assert (timed.text, timed.lasts_ms, timed.why) == ("for 2h\nread /srv/docs", 7_200_000, "the report")
    assert read_plan(timed.text, PROJECT).lasts == "2h"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "from 1 to 50"),
        ("needs: []", "from 1 to 50"),
        ("\n".join(f"read /srv/docs/{n}" for n in range(MAX_NEEDS + 1)), "needs 51"),
        ("run rm -rf /", "no effect that can be planned"),
        ("unconfined", "no effect that can be planned"),
        ("delete /srv/data", "no effect that can be planned"),
        ("network", "has to be written out"),
        ("network example.org", "programs that only fetch"),
        ("network example.org by ssh", "programs that only fetch"),
        ("network * by curl", "has to be written out"),
        ("network printer by curl", "may be any host"),
        ("network example.org:0 by curl", "no port"),
        ("network example.org:x by curl", "no port"),
        ("read /srv/*.md", "has to be written out"),
        ("read ~/notes", "has to be written out"),
        ("write $HOME/x", "has to be written out"),
        ("write `id`", "has to be written out"),
        ("read /srv/\x1b[2Jdocs", "has to be written out"),
        ("read /srv/\u202edocs", "has to be written out"),
        ("package requests", "by one of"),
        ("package ./evil.whl by pip", "by its name"),
        ("package git+https://example.org/x by pip", "by its name"),
        ("package requests by npx", "by one of"),
        ("read /srv/docs by cat;id", "has to be written out|no program"),
        ("for 3 weeks\nread /srv/docs", "no effect"),
        ("for 2y\nread /srv/docs", "expected a duration"),
        ("needs: [{effect: teleport, path: /srv}]", "teleport is no effect"),
        ("needs: [{effect: write, path: /srv/data, recursive: 'no'}]", "keys effect, path and program"),
        ("needs: [{effect: write}]", "keys effect, path and program"),
        ("needs: [{effect: write, path: [/srv/data]}]", "a need is a line"),
        ("needs: [[read /srv/docs]]", "a need is a line"),
        ("needs: [read /srv/docs]\npolicy: off", "and no others"),
        ("needs: [read /srv/docs]\nfor: 120", "expected a duration"),
        ("needs: {read: /srv/docs}", "and no others"),
        ("needs: [read /srv/docs", "not YAML"),
        ("needs: [!!python/name:os.system read]", "not read here|needs"),
    ],
)
def test_it_says_nothing_that_is_not_certain(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_plan(text, PROJECT)


@pytest.mark.parametrize("path", ["/srv/a by cp", "/srv/a  b", "/srv/a,read /etc", "/srv/a, # needs"])
def test_a_path_that_would_read_as_another_need_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be planned|no effect"):
        read_plan(f"needs: [{{effect: write, path: {path!r}}}]", PROJECT)


# What becomes of it


def test_each_thing_is_asked_about_by_its_rule() -> None:
    decision = decide("network example.org by curl\nread /srv/docs\nwrite /srv/data\npackage requests by pip")
    assert (decision.verdict, decision.severity) == (Verdict.ASK, "medium")
    assert "4 things, until the run ends. Nothing runs by it." in decision.reason
    assert {ask.rule for ask in decision.asks} == {
        "network",
        "read-outside-project",
        "list-outside-project",
        "write-outside-project",
        "packages",
    }
    assert [part.command for part in decision.parts][:2] == ["network example.org:443 by curl", "read /srv/docs"]
    text = read_plan("network example.org by curl\nread /srv/docs", PROJECT).text
    assert text[slice(*decision.parts[1].span)] == "read /srv/docs"


def test_it_is_judged_the_same_where_commands_are_confined() -> None:
    text = "network example.org by curl\nwrite /srv/data"
    assert decide(text).asks == decide(text, confined=True).asks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("read /home/u/.ssh", "rule secrets is of high severity"),
        ("write /etc/cron.d", "rule startup-files is of high severity"),
        ("write /home/u/.bashrc", "high severity"),
        ("read /", "too much"),
        ("read /home/u", "too much"),
        ("write /srv", "too much"),
        ("write /srv/app/out", "the policy allows all of it"),
        ("for 9h\nread /srv/docs", "and 9h is more"),
        ("read /srv/docs\nwrite /etc/cron.d", "write /etc/cron.d: rule startup-files"),
    ],
)
def test_what_is_never_approved_ahead_is_refused_with_the_reason(text: str, why: str) -> None:
    decision = decide(text)
    assert decision.verdict is Verdict.DENY
    assert why in decision.reason
    assert not decision.asks


def test_what_is_allowed_anyway_is_said_and_not_asked() -> None:
    decision = decide("read /srv/docs\nwrite /srv/app/out")
    assert "1 of them allowed anyway" in decision.reason
    assert {ask.rule for ask in decision.asks} == {"read-outside-project", "list-outside-project"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("decision: deny\n    severity: high", "rule r denies it"),
        ("decision: ask\n    severity: critical", "of critical severity"),
        ("decision: ask\n    grant: never", "lets no such approval"),
        ("decision: ask\n    grant: {scopes: [action]}", "lets no such approval"),
        ("decision: ask\n    grant: {max_age: 10m}", "may be remembered for 600 seconds"),
    ],
)
def test_the_rule_decides_whether_it_may_be_approved_ahead(rule: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"version: 1\npolicy: p\nextends: ['builtin:default']\nrules:\n  - id: r\n    {rule}\n    reason: x\n"
        "    suggestion: y\n    when: {effect: write, paths: {any_within: ['/srv/data/**']}}\n"
        "    tests: {match: ['touch /srv/data/x'], not_match: [ls]}\n"
    )
    director = Director.load(path, project=PROJECT, environ={"HOME": "/home/u"}, tested=False)
    text = read_plan("for 1h\nwrite /srv/data/x", PROJECT).text
    decision = director.evaluate(Action(text, type=PLAN, cwd=PROJECT, project=PROJECT, interpreter=()))
    assert decision.verdict is Verdict.DENY
    assert why in decision.reason


def test_what_no_plan_says_is_never_allowed() -> None:
    director = Director.load("default", project=PROJECT, environ={"HOME": "/home/u"})
    with pytest.raises(ConfigError):
        director.evaluate(Action("ls", type=PLAN, cwd=PROJECT, project=PROJECT))
    program = director.program(Action("read /srv/docs", type=PLAN, cwd=PROJECT, project=PROJECT))
    assert program.status != "ok"
