"""`names`: what an effect is about where that is neither a path nor a host."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.compiler import Compiler, Situation
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Among, Match
from humanlayer_agent.shell import Effect, SimpleCommand

PROJECT, HOME = "/nowhere/project", "/nowhere/home"


@pytest.mark.parametrize(
    ("when", "command", "expected"),
    [
        ("effect: package, names: {any_in: [requests]}", "pip install requests", "deny"),
        ("effect: package, names: {any_in: [requests]}", "pip install flask", "allow"),
        ("effect: package, names: {any_in: ['types-*', re]}", "pip install types-toml", "deny"),
        ("effect: package, names: {any_in: [requests]}", "pip install $X", "ask"),
        ("effect: package, names: {none_in: [$known]}", "pip install flask", "deny"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy", "allow"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy flask", "deny"),
        ("effect: package, names: {none_in: [$known]}", "pip install $X", "ask"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy -r more.txt", "ask"),
        ("effect: package, names: {none_in: [$known]}", "pip install -r more.txt", "ask"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy /srv/evil", "deny"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy ./evil", "deny"),
        ("effect: package, names: {none_in: [$known]}", "pip install numpy -f ./evil", "deny"),
        ("effect: package, names: {any_in: [evil]}", "npm ci", "ask"),
        ("effect: package, names: {any_in: [evil]}", "gem install evil", "ask"),
        ("effect: package, role: operand, names: {none_in: [$known]}", "pip install numpy", "allow"),
        ("effect: system, names: {any_in: ['*.socket', ssh*]}", "systemctl stop sshd", "deny"),
        ("effect: system, names: {any_in: ['*.socket', ssh*]}", "systemctl stop cron", "allow"),
        ("effect: execute, role: module, names: {any_in: [frob.*]}", "python -m frob.server", "deny"),
        ("effect: execute, role: module, names: {any_in: [frob]}", "python -m frob.server", "allow"),
        ("effect: execute, role: subcommand, names: {any_in: [frob*]}", "git frobnicate", "deny"),
        ("effect: execute, role: subcommand, names: {any_in: [frob*]}", "git $X", "ask"),
        ("effect: environment, names: {any_in: ['LD_*']}", "LD_PRELOAD=$X ls", "deny"),
        ("effect: environment, names: {any_in: ['LD_*']}", "PATH=x ls", "allow"),
        ("effect: persist, names: {any_in: [user.*]}", "git config --global user.name x", "deny"),
        ("names: {any_in: [requests]}", "pip install requests", "deny"),
        ("names: {any_in: [requests]}", "ls", "allow"),
        ("names: {any_in: [requests]}", "frobnicate", "ask"),
        # Paths and hosts are not names.
        ("effect: delete, names: {any_in: ['*']}", "rm x", "allow"),
        ("effect: network, names: {any_in: ['*']}", "curl https://example.org", "allow"),
        ("effect: execute, names: {any_in: ['*']}", "bash ./x.sh", "allow"),
    ],
)
def test_names(director_of: Callable[..., Director], when: str, command: str, expected: str) -> None:
    rule = f"  - {{id: r, decision: deny, when: {{{when}}}}}\n"
    director = director_of(rule, defaults="{unmatched: allow}", lists="{known: [numpy, 'pandas*']}")
    decision = director.evaluate(Action(command, cwd=PROJECT))
    if expected == "allow":
        assert "r" not in decision.rules
    else:
        assert decision.rules[:1] == ("r",)
        assert str(decision.verdict) == expected


@pytest.mark.parametrize(
    ("command", "excused"),
    [
        ("pip install numpy", True),
        ("pip install numpy pandas-x", True),
        ("pip install numpy evil", False),
        ("pip install -r more.txt", False),
        ("pip install numpy -r more.txt", False),
    ],
)
def test_packages_are_excused_by_their_names(director_of: Callable[..., Director], command: str, excused: bool) -> None:
    rule = "  - {id: r, decision: deny, when: {effect: package}, unless: {names: {any_in: [$known]}}}\n"
    director = director_of(rule, defaults="{unmatched: allow}", lists="{known: [numpy, 'pandas*']}")
    assert ("r" not in director.evaluate(Action(command, cwd=PROJECT)).rules) is excused


def test_an_allow_needs_the_name_for_certain(director_of: Callable[..., Director]) -> None:
    rule = "  - {id: r, decision: allow, when: {effect: package, names: {any_in: [numpy]}}}\n"
    director = director_of(rule)

    def verdict(command: str) -> str:
        decision = director.evaluate(Action(command, cwd=PROJECT))
        return {e.operand: str(v.verdict) for p in decision.parts for e, v in zip(p.effects, p.judged, strict=True)}[
            "numpy" if "$" not in command else None
        ]

    assert verdict("pip install numpy") == "allow"
    assert verdict("pip install $X") == "ask"


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("{effect: package, names: {}}", "say which: any_in or none_in"),
        ("{effect: network, hosts: {}}", "say which: any_in or none_in"),
        ("{effect: package, names: {some: [x]}}", "unknown key 'some'; known here: any_in, none_in"),
        ("{effect: package, names: {none_in: ['(?i)numpy']}}", "begins as a regular expression, and is a glob"),
        ("{program: pip, operands: {any: ['(?i)num.*']}}", "Write {regex: '\\(\\?i\\)num"),
        ("{effect: package, names: {any_in: [$x]}}", r"the list \$x is not defined"),
        ("{effect: environment, env: {value_in: [/x]}}", "the key 'any' is missing"),
        ("{effect: environment, env: {any: [X], value_in: [$x]}}", r"the list \$x is not defined"),
    ],
)
def test_mistakes(tmp_path: Path, when: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\npolicy: p\nrules:\n  - {{id: r, decision: ask, when: {when}}}\n")
    with pytest.raises(PolicyError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("names", "refused"),
    [("{any_in: ['*']}", True), ("{any_in: [x, '?*']}", True), ("{none_in: [x]}", True), ("{any_in: ['x.*']}", False)],
)
def test_an_allow_of_code_by_any_name_is_too_broad(tmp_path: Path, names: str, refused: bool) -> None:
    path = tmp_path / "p.yaml"
    when = f"{{effect: execute, names: {names}}}"
    path.write_text(f"version: 1\npolicy: p\nrules:\n  - {{id: r, decision: allow, when: {when}}}\n")
    if not refused:
        assert load(path).rules[0].when.names == Among(any=("x.*",))
        return
    with pytest.raises(PolicyError, match="too broad"):
        load(path)


# ---- modules that code imports ------------------------------------------------------------------------


@cache
def shipped(policy: str) -> Director:
    return Director.load(policy, project=PROJECT, environ={"HOME": HOME})


def imported(policy: str, module: str | None) -> set[tuple[str, str]]:
    """What the rules of a shipped policy say of importing `module`: (verdict, rule)."""
    command = SimpleCommand("python", ["python", "-c", "..."], (0, 1), "python -c ...")
    effect = Effect("execute", "import", module, module is not None, (0, 1), "python")
    command.effects.append(effect)
    found = shipped(policy).in_force().rules.command(command, Situation())
    return {(str(hit.verdict), hit.rule.rule.id if hit.rule else "") for hit in found.effects[0]}


@pytest.mark.parametrize("policy", ["default", "ci", "sandbox"])
def test_importing_libraries_is_allowed(policy: str) -> None:
    assert {verdict for verdict, _ in imported(policy, "numpy.linalg")} == {"allow"}
    assert {verdict for verdict, _ in imported(policy, "humanlayer_agents")} == {"allow"}


def test_the_strict_policy_asks() -> None:
    assert imported("strict", "numpy") == {("ask", "runs-code")}


@pytest.mark.parametrize("policy", ["guard", "default", "strict", "ci", "sandbox"])
def test_importing_the_supervision_is_denied(policy: str) -> None:
    for module in ("humanlayer_agent", "humanlayer_agent.cli", "humanlayer_agent.approvals.store_interface"):
        assert ("deny", "own-module") in imported(policy, module)
    unknown = imported(policy, None)
    assert "own-module" in {rule for _, rule in unknown}
    assert {verdict for verdict, _ in unknown} != {"allow"}


def test_a_name_that_is_not_certain() -> None:
    """Of code the name stands there, whatever it does; of the rest it may be another."""
    compiler = Compiler({}, {})
    clause = compiler.match(Match(names=Among(any=("x",))))
    command = SimpleCommand("frob", ["frob"], (0, 1), "frob")
    for kind, role, operand, resolved, expected in (
        ("execute", "program", "x", False, YES),
        ("execute", "program", "y", False, NO),
        ("execute", "program", None, False, MAYBE),
        ("environment", "assignment", "x", False, YES),
        ("package", "operand", "x", False, MAYBE),
        ("package", "operand", "y", False, MAYBE),
        ("package", "operand", "x", True, YES),
        ("execute", "script", "/x", False, NO),
    ):
        effect = Effect(kind, role, operand, resolved, (0, 1))
        assert clause(command, effect, Situation()) == expected, (kind, role, operand)
