"""never-matches: entries in a form that nothing is compared with, in rules and in lists."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


RULE = "  - {id: r, decision: ask, when: %s}\n"


@pytest.mark.parametrize(
    ("when", "said", "witness"),
    [
        ("{effect: read, paths: {any_within: ['/srv/*/../x']}}", "without . and ..", "cat /srv/a/../x"),
        ("{effect: read, paths: {none_within: [/srv/**.py]}}", "whole name", "cat /srv/aa.py"),
        ("{effect: read, paths: {all_within: ['**/*.[ch]']}}", "only *, ? and **", "cat a.c"),
        ("{effect: read, paths: {all_within: ['**/*.{key,pem}']}}", "only *, ? and **", "cat a.key"),
        ("{effect: read, paths: {contents_of: ['/srv/{a,b}']}}", "only *, ? and **", "cat /srv/a"),
        ("{effect: network, hosts: {any_in: ['https://a.example/x']}}", "write a.example", "curl https://a.example/a"),
        ("{effect: network, hosts: {none_in: ['a.example:443']}}", "write a.example", "curl https://a.example/a"),
        ("{effect: network, hosts: {none_in: ['bob@a.example']}}", "write a.example", "curl https://a.example/a"),
        ("{effect: environment, env: {any: [MY-NAME]}}", "whole names", "printenv MYNAMEA"),
        ("{program: rm, flags: {any: [r]}}", "write recursive", "rm -r a"),
        ("{program: rm, flags: {none: [--force]}}", "write force", "rm --force a"),
        ("{program: [rm, mv], flags: {any: [frob]}}", "none of rm, mv has one", "rm a"),
        ("{program: git, subcommand: push, options: {frob: x}}", "none of git has one", "git a"),
        ("{flags: {any: ['-r']}}", "by their names in the catalog", "ls -r"),
        ("{program: 'python*'}", "{regex: ...} matches patterns", "python3"),
        ("{program: git push}", "`subcommand` names the second word", "git push"),
        ("{program: /usr/bin/rm}", "write rm", "/usr/bin/rm"),
        ("{any: [{program: ls}, {all: [{program: rm, not: {flags: {any: [f]}}}]}]}", "write force", "rm -f a"),
    ],
)
def test_dead_entries(lint_rules: Lint, when: str, said: str, witness: str) -> None:
    (found,) = lint_rules(RULE % when, "never-matches")
    assert said in found.message
    assert (found.level, found.unknown, found.about) == ("error", False, "r")
    assert found.witness is not None
    assert found.witness.command == witness


@pytest.mark.parametrize(
    "when",
    [
        "{effect: read, paths: {any_within: [/, /srv/x/, '/srv//x', '/srv/../x', '**/x/', /srv/**, '**/.env', ~/x, '${TMPDIR}/a?', '**/x/**']}}",
        "{effect: network, hosts: {any_in: ['*.example.org', '::1', 10.0.0.1, localhost]}}",
        "{effect: environment, env: {any: [PATH, 'AWS_*', _x]}}",
        "{program: rm, flags: {any: [force], none: [recursive]}}",
        "{program: git, subcommand: [push, remote, 'stash drop'], flags: {any: [force]}}",
        "{program: [./run.sh, /opt/x/tool, '[', '[[', our-tool]}",
        "{program: our-tool, flags: {any: [anything]}}",
        "{program: {regex: 'python[0-9.]*'}}",
    ],
)
def test_entries_that_match(lint_rules: Lint, when: str) -> None:
    assert lint_rules(RULE % when, "never-matches") == []


def test_lists_are_judged_by_what_they_are_taken_for(lint_rules: Lint) -> None:
    lists = (
        "{places: ['/srv/[a]', /srv/b], sites: ['https://x.example'], names: [A-B], unused: ['/x/'], inner: [$places]}"
    )
    rules = (
        RULE % "{effect: read, paths: {any_within: [$inner]}}"
        + RULE.replace("id: r", "id: s") % "{effect: network, hosts: {any_in: [$sites]}}"
        + RULE.replace("id: r", "id: t") % "{effect: environment, env: {any: [$names]}}"
        + RULE.replace("id: r", "id: u") % "{effect: read, paths: {any_within: [$places]}}"
    )
    found = lint_rules(rules, "never-matches", lists=lists)
    assert [f.about for f in found] == ["$places", "$sites", "$names"]
    assert all(f.place.line == 3 for f in found)
