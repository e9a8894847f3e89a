"""The semantics of design/policy.md, one test a clause of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director

Judge = Callable[..., PolicyDecision]

READS = '  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}}\n'
QUIET = "  - {id: quiet, decision: allow, when: {resolved: true, effects: {only: []}}}\n"
DELETES = '  - {id: deletes, decision: ask, reason: "Deletes {{ paths }}", when: {effect: delete, paths: {none_within: ["${PROJECT}/**"]}}}\n'
NEVER = '  - {id: never, decision: deny, when: {effect: delete, paths: {any_within: ["/etc/**"]}}}\n'


def test_what_a_rule_allows_runs(judge: Judge) -> None:
    decision = judge(READS, "cat a.py")
    assert decision.verdict is Verdict.ALLOW
    assert decision.rule == "reads"
    assert not decision.default_hit


def test_nothing_matched_is_told_apart_from_a_rule(judge: Judge) -> None:
    decision = judge(READS, "cat /srv/x")
    assert (decision.verdict, decision.rules, decision.default_hit) == (Verdict.ASK, (), True)
    assert decision.reason == "Reads /srv/x: no rule allows it."
    decision = judge(READS + DELETES, "rm /srv/x")
    assert (decision.verdict, decision.rule, decision.default_hit) == (Verdict.ASK, "deletes", False)
    assert decision.reason == "Deletes /srv/x"


def test_the_strictest_verdict_wins_in_any_order(judge: Judge) -> None:
    rules = [READS, QUIET, DELETES, NEVER]
    for order in (rules, rules[::-1]):
        decision = judge("".join(order), "cat a; rm /srv/x; rm /etc/passwd; echo hi")
        assert decision.verdict is Verdict.DENY
        assert decision.rules == ("never", "deletes")
        assert [str(p.verdict) for p in decision.parts] == ["allow", "ask", "deny", "allow"]


def test_an_allow_covers_only_its_own_effects(judge: Judge) -> None:
    assert judge(READS, "cat a").verdict is Verdict.ALLOW
    assert judge(READS, "cat a > b").verdict is Verdict.ASK, "the redirect writes"
    assert judge(READS, "cat a | tee b").verdict is Verdict.ASK
    assert judge(READS, "LD_PRELOAD=./x.so cat a").verdict is Verdict.ASK
    assert judge(READS, "cat $(rm a)").verdict is Verdict.ASK, "what is nested needs its own allow"


def test_an_allow_of_a_program_covers_only_that_it_runs(judge: Judge) -> None:
    rule = "  - {id: tests, decision: allow, when: {program: pytest}}\n"
    assert judge(rule, "pytest -q").verdict is Verdict.ALLOW
    assert judge(rule, "pytest --junitxml=/srv/x").verdict is Verdict.ASK
    assert judge(rule, "pytest -q > out").verdict is Verdict.ASK


def test_allow_needs_proof_ask_and_deny_fire_on_maybe(judge: Judge) -> None:
    assert judge(READS, 'cat "$F"').verdict is Verdict.ASK
    decision = judge(READS + DELETES, 'rm -- "$F"')
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "deletes")
    assert decision.reason == "Deletes an unknown path; the rule deletes may apply."
    assert judge(NEVER, 'rm -- "$F"').verdict is Verdict.ASK, "a deny that may apply becomes defaults.maybe"
    assert judge(NEVER, 'rm -- "$F"', defaults="{maybe: deny}").verdict is Verdict.DENY


def test_an_exception_must_be_proven(judge: Judge) -> None:
    rule = (
        "  - {id: deletes, decision: ask, when: {effect: delete},"
        ' unless: {paths: {all_within: ["${PROJECT}/tmp/**"]}}}\n'
        '  - {id: ok, decision: allow, when: {effect: delete, paths: {all_within: ["${PROJECT}/**"]}}}\n'
    )
    assert judge(rule, "rm tmp/x").verdict is Verdict.ALLOW
    assert judge(rule, "rm src/x").verdict is Verdict.ASK
    assert judge(rule, 'rm -- "$X"').verdict is Verdict.ASK


def test_an_exception_to_an_allow_must_be_ruled_out(judge: Judge) -> None:
    rule = (
        '  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}},'
        ' unless: {paths: {any_within: ["**/.env"]}}}\n'
    )
    assert judge(rule, "cat a").verdict is Verdict.ALLOW
    assert judge(rule, "cat .env").verdict is Verdict.ASK
    assert judge(rule, "cat .e*").verdict is Verdict.ASK


@pytest.mark.parametrize("default", ["ask", "deny"])
def test_what_cannot_be_parsed(judge: Judge, default: str) -> None:
    decision = judge(QUIET, "echo 'unterminated", defaults=f"{{unparsed: {default}}}")
    assert str(decision.verdict) == default
    assert decision.parse == "failed"
    assert "not fully understood" in decision.reason


def test_deny_rules_run_over_what_could_be_seen(judge: Judge) -> None:
    decision = judge(NEVER, "rm /etc/passwd; echo 'unterminated")
    assert (decision.verdict, decision.rule, decision.parse) == (Verdict.DENY, "never", "failed")


def test_unmatched_can_be_deny_or_allow(judge: Judge) -> None:
    assert judge(READS, "frobnicate", defaults="{unmatched: deny}").verdict is Verdict.DENY
    assert judge(NEVER, "rm /srv/x", defaults="{unmatched: allow}").verdict is Verdict.ALLOW


def test_blank_lines_and_comments_do_nothing(judge: Judge) -> None:
    for command in ("", "  \n\t", "# rm -rf /"):
        assert judge(NEVER, command).verdict is Verdict.ALLOW


def test_flags_by_canonical_name(judge: Judge) -> None:
    rule = "  - {id: force, decision: deny, when: {program: git, subcommand: push, flags: {any: [force]}}}\n"
    for spelled in ("git push -f", "git push --force origin", "git -C x push -uf o", "command git push --forc"):
        found = judge(rule, spelled)
        assert (spelled, str(found.verdict)) in ((spelled, "deny"), ("command git push --forc", "ask")), spelled
    assert judge(rule, "git push origin").verdict is Verdict.ASK
    assert "force" in judge(rule, "git push $X").rules


def test_flags_all_and_none(judge: Judge) -> None:
    rule = "  - {id: r, decision: deny, when: {program: rm, flags: {all: [recursive, force], none: [interactive]}}}\n"
    assert judge(rule, "rm -rf x").verdict is Verdict.DENY
    assert judge(rule, "rm -r x").verdict is Verdict.ASK
    assert judge(rule, "rm -rf --interactive x").verdict is Verdict.ASK


def test_hosts(judge: Judge) -> None:
    rule = '  - {id: net, decision: deny, when: {effect: network, hosts: {none_in: ["*.example.org", example.org]}}}\n'
    assert judge(rule, "curl https://evil.test/x").verdict is Verdict.DENY
    assert judge(rule, "curl https://a.example.org/x").verdict is Verdict.ASK
    assert judge(rule, "curl https://example.org.evil.test").verdict is Verdict.DENY
    decision = judge(rule, 'curl "$URL"')
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "net")


def test_via_and_inside(judge: Judge) -> None:
    rule = "  - {id: r, decision: deny, when: {program: rm, via: [xargs, sudo]}}\n  - {id: s, decision: deny, when: {program: rm, inside: substitution}}\n"
    assert judge(rule, "sudo rm x").rules[0] == "r"
    assert judge(rule, "echo $(rm x)").rules[0] == "s"
    assert judge(rule, "rm x").verdict is Verdict.ASK


def test_any_all_not(judge: Judge) -> None:
    rule = "  - {id: r, decision: deny, when: {any: [{program: rm}, {all: [{program: mv}, {not: {flags: {any: [no-clobber]}}}]}]}}\n"
    assert judge(rule, "rm x").verdict is Verdict.DENY
    assert judge(rule, "mv a b").verdict is Verdict.DENY
    assert judge(rule, "mv -n a b").verdict is Verdict.ASK


def test_lists(judge: Judge) -> None:
    rule = "  - {id: r, decision: allow, when: {effect: read, paths: {all_within: [$mine]}}}\n"
    assert judge(rule, "cat /data/x", lists='{mine: ["/data/**"]}').verdict is Verdict.ALLOW


def test_reasons_are_plain_substitution(judge: Judge) -> None:
    rule = '  - {id: r, decision: ask, reason: "{{ paths }} {{ nothing }} {% raw %} {{ command }}", when: {effect: delete}}\n'
    assert judge(rule, "rm '{{ command }}'").reason.startswith(
        "\"/nowhere/project/{{ command }}\" {{ nothing }} {% raw %} rm '{{ command }}'"
    )


def test_spans_point_at_what_decides(judge: Judge) -> None:
    command = "echo hi && rm -f /srv/x"
    decision = judge(DELETES + QUIET, command)
    assert [command[a:b] for a, b in decision.spans] == ["/srv/x"]


def test_the_digest_is_of_the_policy_and_its_variables(director_of: Callable[..., Director]) -> None:
    first, again, other = director_of(READS), director_of(READS), director_of(DELETES)
    assert first.digest == again.digest
    assert first.digest != other.digest
    assert first.digest != director_of(READS, variables={"STORE": "/x"}).digest


def test_another_shell_or_type_is_not_understood(director_of: Callable[..., Director]) -> None:
    director = director_of(QUIET)
    assert director.evaluate(Action("true", cwd="/x")).verdict is Verdict.ALLOW
    assert director.evaluate(Action("true", cwd="/x", interpreter=("bash", "-lc"))).verdict is Verdict.ALLOW
    for interpreter in (("sh", "-c"), ("unknown",), (), ("bash", "-O", "extglob", "-c"), ("/tmp/bash", "-c")):
        decision = director.evaluate(Action("true", cwd="/x", interpreter=interpreter))
        assert (decision.verdict, decision.parse) == (Verdict.ASK, "partial"), interpreter
    assert director.evaluate(Action("true", type="python", cwd="/x")).verdict is Verdict.ASK


def test_should_allow(director_of: Callable[..., Director]) -> None:
    director = director_of(READS + DELETES)
    assert director.should_allow(Action("cat a", cwd=director.project)) == (True, "")
    assert director.should_allow(Action("rm /srv/x", cwd=director.project)) == (False, "Deletes /srv/x")


def test_an_unknown_policy_names_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no policy is called 'nope'; shipped: ci, default, guard, sandbox, strict"):
        Director.load("nope", project=tmp_path)


@given(command=st.text(max_size=60))
def test_no_text_is_allowed_by_a_policy_that_allows_nothing(director_of: Callable[..., Director], command: str) -> None:
    decision = director_of(NEVER).evaluate(Action(command, cwd="/x"))
    # Only a text without any command may pass.
    assert decision.verdict is not Verdict.ALLOW or not decision.parts


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("cat .ENV", "secrets"),
        ("grep x Config/.Env.Local", "secrets"),
        ("echo x > .GIT/Hooks/pre-commit", "startup-files"),
        ("rm -rf .GIT", "delete-whole-project"),
        ("echo x >> Claude.MD", "startup-files"),
    ],
)
def test_where_the_volume_folds_case(command: str, rule: str) -> None:
    for folds in (False, True):
        judge = Director.load("default", project="/srv/app", environ={"HOME": "/nowhere/home"}, folds=folds)
        decision = judge.evaluate(Action(command, cwd="/srv/app"))
        assert (decision.rule == rule) is folds
        assert judge.should_allow(Action("ls; cat README.md; rm -r Build", cwd="/srv/app"))[0]
    # Another case proves nothing: this may be another project.
    assert not judge.should_allow(Action("rm -rf /SRV/APP/build", cwd="/srv/app"))[0]


FINDINGS = """
  - {id: sends, decision: ask, severity: high, reason: "Sends {{ paths }}.", when: {effect: [delete, write], paths: {any_within: ["/srv/**"]}}}
  - {id: keeps, decision: deny, severity: critical, reason: "Never {{ paths }}.", when: {effect: delete, paths: {any_within: ["/keep/**"]}}}
  - {id: contacts, decision: ask, reason: "{{ does }}.", when: {effect: network}}
  - {id: unknown, decision: ask, severity: low, reason: "Can't tell: {{ unresolved }}.", when: {resolved: false}}
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm /srv/a /srv/b; rm /srv/c", [("high", ("sends",), "Sends /srv/a, /srv/b and /srv/c.")]),
        (
            "rm /keep/x; rm /srv/a",
            [("critical", ("keeps",), "Never /keep/x."), ("high", ("sends",), "Sends /srv/a.")],
        ),
        (
            'curl https://example.org; rm "$X"',
            [
                (
                    "high",
                    ("sends", "unknown", "keeps"),
                    'Deletes an unknown path ("$X"); the rules sends and keeps may apply.',
                ),
                ("medium", ("contacts",), "Requests data from example.org: `curl https://example.org`."),
            ],
        ),
        ("scp /etc/x web1:", [("medium", ("contacts",), "Copies /etc/x to web1: `scp /etc/x web1:`.")]),
        (
            'ssh "$H" ls; rm /srv/a',
            [
                ("high", ("sends",), "Sends /srv/a."),
                ("medium", ("contacts", "unknown"), 'Runs on an unknown host ("$H"): ls.'),
            ],
        ),
    ],
)
def test_each_thing_that_speaks_against_it_is_found_once_and_the_severe_first(
    judge: Judge, command: str, expected: list[tuple[str, tuple[str, ...], str]]
) -> None:
    decision = judge(FINDINGS, command)
    assert [(each.severity, each.rules, each.text) for each in decision.findings if each.rules] == expected
    assert decision.reason == decision.findings[0].text
    assert {rule for each in decision.findings for rule in each.rules} == set(decision.rules)


def test_what_is_severe_but_not_certain_is_not_behind_what_is_certain_but_light() -> None:
    # By the severity of a decision people are chosen: a light question beside it must not lower it.
    director = Director.load("default", project="/srv/app", environ={"HOME": "/nowhere/home"})
    decision = director.evaluate(Action('ls -R /srv; rm -rf "$X"', cwd="/srv/app"))
    assert (decision.severity, decision.rule) == ("high", "delete-outside-project")
