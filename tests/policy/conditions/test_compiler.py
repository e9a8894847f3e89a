"""Each clause of a condition: what it matches, leaves alone, and is unsure about."""

from collections.abc import Callable

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director

Judge = Callable[..., PolicyDecision]

YES, MAYBE, NO = "deny", "ask", "allow"


@pytest.mark.sample(40)
@pytest.mark.parametrize(
    ("when", "command", "expected"),
    [
        ("program: rm", "rm x", YES),
        ("program: rm", "/bin/rm x", YES),
        ("program: rm", "./rm x", YES),
        ("program: rm", "ls x", NO),
        ("program: rm", "$X x", MAYBE),
        ('program: {regex: "python[0-9.]*"}', "python3.11 x", YES),
        ('program: {regex: "python[0-9.]*"}', "/opt/bin/python3 x", YES),
        ('program: {regex: "python[0-9.]*"}', "pythonic x", NO),
        ("program: {in: [rm, ls], regex: 'l.*'}", "ls", YES),
        ("program: {in: [rm, ls], regex: 'l.*'}", "rm x", NO),
        ("program: {resolved: false}", "$X y", YES),
        ("program: {resolved: false}", "frobnicate", YES),
        ("program: {resolved: false}", "ls", NO),
        ('program: {path: ["/srv/**"]}', "/srv/bin/x", YES),
        ('program: {path: ["/srv/**"]}', "/usr/bin/ls", NO),
        ('program: {path: ["${PROJECT}/**"]}', "./x", YES),
        ('program: {path: ["/srv/**"]}', "ls", MAYBE),
        ("program: git, subcommand: push", "git push", YES),
        ("program: git, subcommand: push", "git $X", MAYBE),
        ("program: git, subcommand: push", "git status", NO),
        ("program: rm, flags: {any: [force]}", "rm -rf x", YES),
        ("program: rm, flags: {any: [force]}", "rm x", NO),
        ("program: rm, flags: {any: [force]}", "rm $X", MAYBE),
        ("program: frobnicate, flags: {any: [force]}", "frobnicate --force", MAYBE),
        ("program: rm, flags: {none: [force]}", "rm x", YES),
        ("program: rm, flags: {none: [force]}", "rm $X", MAYBE),
        ("program: head, options: {lines: '5*'}", "head -n 50 a", YES),
        ("program: head, options: {lines: {regex: '[0-9]{2}'}}", "head -n 5 a", NO),
        ("program: head, options: {lines: '5'}", 'head -n "$N" a', MAYBE),
        ("program: head, options: {lines: '5'}", "head a", NO),
        ("program: chmod, operands: {any: ['777']}", "chmod 777 x", YES),
        ("program: chmod, operands: {any: ['777']}", "chmod 755 x", NO),
        ("program: chmod, operands: {any: ['777']}", 'chmod "$M" x', MAYBE),
        ("program: cat, operands: {all: ['*.md']}", "cat a.md b.md", YES),
        ("program: cat, operands: {all: ['*.md']}", "cat a.md b.py", NO),
        ("program: cat, operands: {all: ['*.md']}", 'cat a.md "$X"', MAYBE),
        ("program: cat, operands: {none: ['*.md']}", "cat a.py", YES),
        ("program: cat, operands: {none: ['*.md']}", 'cat "$X"', MAYBE),
        ("program: cat, operands: {none: ['*.md']}", "cat a.md", NO),
        ("argv: [git, push, '...', {regex: '\\+.*'}]", "git push origin +main", YES),
        ("argv: [git, push, '...', {regex: '\\+.*'}]", "git push origin main", NO),
        ("argv: [git, push, '...', {regex: '\\+.*'}]", "git push origin $REF", MAYBE),
        ("env: {any: [LD_PRELOAD]}", "LD_PRELOAD=x ls", YES),
        ("env: {any: [LD_PRELOAD]}", "PATH=x ls", NO),
        ("env: {any: [LD_PRELOAD]}", "ls", NO),
        ("effect: delete", "rm x", YES),
        ("effect: delete", "ls x", NO),
        ("effects: {any: [delete, network]}", "curl https://example.org", YES),
        ("effects: {any: [delete, network]}", "frobnicate", MAYBE),
        ("effects: {all: [read, write]}", "cp a b", YES),
        ("effects: {all: [read, write]}", "cat a", NO),
        ("effects: {only: [read]}", "cat a", YES),
        ("effects: {only: [read]}", "cat a > b", NO),
        ('paths: {any_within: ["/srv/**"]}', "cat a /srv/x", YES),
        ('paths: {any_within: ["/srv/**"]}', "cat a", NO),
        ('paths: {any_within: ["/srv/**"]}', "frobnicate /srv/x", MAYBE),
        ('paths: {all_within: ["/srv/**"]}', "cat a /srv/x", NO),
        ('paths: {all_within: ["/srv/**"]}', "cat /srv/y /srv/x", YES),
        ('paths: {none_within: ["/srv/**"]}', "cat a", YES),
        ('paths: {none_within: ["/srv/**"]}', "cat a /srv/x", NO),
        ('paths: {any_within: ["/srv/**"], role: redirect}', "cat /srv/x > a", NO),
        ('paths: {any_within: ["/srv/**"], role: redirect}', "cat a > /srv/x", YES),
        ('effect: read, paths: {none_within: ["/srv/**"], resolved: true}', 'cat "$X"', NO),
        ('effect: network, hosts: {any_in: ["*.example.org"]}', "curl https://a.example.org", YES),
        ('effect: network, hosts: {any_in: ["*.example.org"]}', 'curl "$U"', MAYBE),
        ('effect: network, hosts: {none_in: ["*.example.org"]}', "curl https://example.com", YES),
        ("program: rm, via: sudo", "sudo rm x", YES),
        ("program: rm, via: sudo", "rm x", NO),
        ("program: rm, inside: substitution", "echo $(rm x)", YES),
        ("resolved: false", "ls --frobnicate", YES),
        ("resolved: false", "ls", NO),
        ("effect: execute, unread: true", "python x.py", YES),
        ("parse: [failed, partial]", "ls; echo 'x", YES),
        ("parse: [failed, partial]", "'", YES),
        ("parse: [failed, partial]", "ls", NO),
        ("agent: 'm*'", "ls", YES),
        ("agent: {regex: '[0-9]+'}", "ls", NO),
        ("all: [{program: rm}, {effect: delete}]", "rm x", YES),
        ("any: [{program: mv}, {effect: delete}]", "rm x", YES),
        ("program: rm, not: {flags: {any: [force]}}", "rm x", YES),
        ("program: rm, not: {flags: {any: [force]}}", "rm $X", MAYBE),
        ("program: frobnicate, not: {effect: network}", "frobnicate", MAYBE),
    ],
)
def test_clause(director_of: Callable[..., Director], when: str, command: str, expected: str) -> None:
    director = director_of(f"  - {{id: r, decision: deny, when: {{{when}}}}}\n", defaults="{unmatched: allow}")
    decision = director.evaluate(Action(command, cwd=director.project, agent="mini"))
    if expected == NO:
        assert "r" not in decision.rules
    else:
        assert decision.rules[:1] == ("r",)
        assert str(decision.verdict) == expected


@pytest.mark.parametrize(("when", "verdict"), [("agent: mini", "ask"), ("not: {agent: mini}", "ask")])
def test_an_agent_without_a_name_may_be_any(judge: Judge, when: str, verdict: str) -> None:
    decision = judge(f"  - {{id: r, decision: deny, when: {{{when}}}}}\n", "ls")
    assert (str(decision.verdict), decision.rules) == (verdict, ("r",))


@pytest.mark.parametrize(
    ("when", "command"),
    [
        ("effects: {only: [read]}", "frobnicate"),
        ("program: cat, operands: {all: ['*.md']}", 'cat "$X"'),
        ("program: cat, operands: {all: ['*.md']}", "cat"),
        ("program: cat, argv: [cat, '*.md']", "cat *.md"),
        ("program: cat, options: {x: '*'}", "cat a"),
        ("program: cat, flags: {none: [x]}", "cat $X"),
        ("program: cat, not: {operands: {any: ['/etc*']}}", 'cat "$X"'),
        ("program: {in: cat, path: ['/bin/**']}", "cat"),
        ("program: cat, agent: 'other'", "cat"),
    ],
)
def test_an_allow_needs_every_clause_proven(judge: Judge, when: str, command: str) -> None:
    decision = judge(f"  - {{id: r, decision: allow, when: {{{when}}}}}\n", command)
    assert decision.verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("condition", "command", "holds"),
    [
        ("program: curl, options: {request: [GET, HEAD]}", "curl -X GET localhost", True),
        ("program: curl, options: {request: [GET, HEAD]}", "curl -X GET -X HEAD localhost", True),
        ("program: curl, options: {request: [GET, HEAD]}", "curl -X GET -X DELETE localhost", False),
        ("program: curl, options: {request: [GET, HEAD]}", "curl -X DELETE -X GET localhost", False),
        ("program: curl, options: {request: [GET, HEAD]}", 'curl -X GET -X "$M" localhost', False),
        ("program: curl, options: {request: [GET, HEAD]}", "curl localhost", False),
        ("program: curl, hosts: {any_in: [a.example]}", "curl a.example", True),
        ("program: curl, hosts: {any_in: [a.example]}", "curl a.example b.example", False),
        ("program: pip, names: {any_in: [a, install]}", "pip install a", True),
        ("program: pip, names: {any_in: [a, install]}", "pip install a b", False),
        ("program: ls, env: {any: [PATH]}", "PATH=/x ls", True),
        ("program: ls, env: {any: [PATH]}", "PATH=/x LD_PRELOAD=./y ls", False),
        ("program: ls, flags: {any: [color]}", "ls --color", True),
        ("program: ls, flags: {any: [color]}", "ls --color=none", False),
        ("program: ls, flags: {all: [color]}", "ls --color --color=no", False),
    ],
)
def test_what_lets_something_through_holds_of_every_value(
    judge: Judge, condition: str, command: str, holds: bool
) -> None:
    """And what makes a verdict stricter of one; `not` turns the one into the other."""
    unless = f"  - {{id: r, decision: deny, when: {{program: [curl, pip, ls]}}, unless: {{{condition}}}}}\n"
    assert ("r" not in judge(unless, command).rules) is holds
    negated = f"  - {{id: r, decision: deny, when: {{program: [curl, pip, ls], not: {{{condition}}}}}}}\n"
    assert ("r" not in judge(negated, command).rules) is holds
