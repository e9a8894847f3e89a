"""`attributes`: which account, cluster or place a command means, as far as it says so itself."""

from collections.abc import Callable

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import explain
from humanlayer_agent.policy.explanation.why_not import changes

PROJECT = "/nowhere/project"
PROD = "attributes: {context: ['prod*']}"


@pytest.mark.parametrize(
    ("when", "command", "expected"),
    [
        (PROD, "kubectl --context production delete pod x", "deny"),
        (PROD, "kubectl delete pod x --context=prod-2", "deny"),
        (PROD, "helm --kube-context prod list", "deny"),
        (PROD, "kubectl --context dev delete pod x", "allow"),
        # What the kubeconfig says is not known.
        (PROD, "kubectl delete pod x", "ask"),
        (PROD, 'kubectl --context "$C" get pods', "ask"),
        (PROD, "kubectl --context dev $MORE get pods", "ask"),
        # Two values: one suffices to deny.
        (PROD, "kubectl --context dev --context prod get pods", "deny"),
        (PROD, "kubectl --context prod --context dev get pods", "deny"),
        # Another server may be any context's.
        (PROD, "kubectl --context dev -s https://c.example get pods", "ask"),
        (PROD, "docker --context prod ps", "deny"),
        # Programs without such a thing, and words that only look so.
        (PROD, "ls --context prod", "allow"),
        (PROD, "ls -l", "allow"),
        (PROD, "echo kubectl --context prod get pods", "allow"),
        (PROD, "frobnicate", "ask"),
        ("attributes: {context: [{regex: 'prod|live'}]}", "kubectl --context live get pods", "deny"),
        ("attributes: {context: [prod], namespace: [kube-system]}", "kubectl --context prod -n x get pods", "allow"),
        ("attributes: {context: [prod], namespace: [kube-system]}", "kubectl --context prod get pods", "ask"),
        ("attributes: {profile: [prod]}", "AWS_PROFILE=prod aws s3 ls", "deny"),
        ("attributes: {profile: [prod]}", "export AWS_PROFILE=prod; aws s3 ls", "deny"),
        ("attributes: {profile: [prod]}", "AWS_PROFILE=dev aws s3 ls", "allow"),
        ("attributes: {profile: [prod]}", "AWS_PROFILE=prod aws --profile dev s3 ls", "allow"),
        ("attributes: {profile: [prod]}", "AWS_PROFILE=prod; aws s3 ls", "ask"),
        ("attributes: {profile: [prod]}", "aws s3 ls", "ask"),
        ("attributes: {profile: [prod]}", "env AWS_PROFILE=prod aws s3 ls", "ask|deny"),
        ("attributes: {region: [eu-*]}", "AWS_DEFAULT_REGION=us-east-1 aws s3 ls", "ask"),
        ("effect: system, role: service-delete, " + PROD, "kubectl --context prod get pods", "allow"),
        ("effect: system, role: service-delete, " + PROD, "kubectl --context prod delete pod x", "deny"),
    ],
)
def test_attributes_of_a_denial(director_of: Callable[..., Director], when: str, command: str, expected: str) -> None:
    director = director_of(f"  - {{id: r, decision: deny, when: {{{when}}}}}\n", defaults="{unmatched: allow}")
    decision = director.evaluate(Action(command, cwd=PROJECT))
    if expected == "allow":
        assert "r" not in decision.rules
    else:
        assert "r" in decision.rules
        assert str(decision.verdict) in expected.split("|")


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("kubectl --context dev delete pod x", True),
        ("kubectl delete pod x", False),
        ("kubectl --context dev --context prod delete pod x", False),
        ("kubectl --context prod --context dev delete pod x", False),
        ("kubectl --context dev --cluster prod delete pod x", False),
        ("kubectl --context dev --server https://prod.example delete pod x", False),
        ("kubectl --context dev --frobnicate delete pod x", False),
        ("kubectl --context dev delete pod $X", False),
        ('kubectl --context "$C" delete pod x', False),
        ("HELM_KUBECONTEXT=dev helm uninstall x", True),
        ("HELM_KUBECONTEXT=dev helm --kube-context prod uninstall x", False),
    ],
)
def test_an_allow_needs_every_value(director_of: Callable[..., Director], command: str, allowed: bool) -> None:
    rules = (
        "  - {id: r, decision: allow, when: {program: [kubectl, helm], effect: [network, system],"
        " attributes: {context: [dev]}}}\n"
        "  - {id: e, decision: allow, when: {effect: environment}}\n"
    )
    decision = director_of(rules, defaults="{unmatched: ask}").evaluate(Action(command, cwd=PROJECT))
    assert (str(decision.verdict) == "allow") is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("kubectl -n dev delete pod x", True),
        ("kubectl -n dev delete pods --all -A", False),
        ("kubectl -n dev delete namespace prod", False),
        ("kubectl -n dev delete ns/prod", False),
        ("kubectl -n dev delete node x", False),
        ("kubectl -n dev delete pv x", False),
        ("kubectl -n dev delete pod,ns prod", False),
        ("kubectl -n dev delete clusterrolebinding x", False),
        ("kubectl -n dev delete -f a.yaml", False),
    ],
)
def test_a_namespace_says_nothing_of_what_is_in_none(
    director_of: Callable[..., Director], command: str, allowed: bool
) -> None:
    rules = (
        "  - {id: r, decision: allow, when: {program: kubectl, effect: [network, system, read],"
        " attributes: {namespace: [dev]}}}\n"
    )
    decision = director_of(rules, defaults="{unmatched: ask}").evaluate(Action(command, cwd=PROJECT))
    assert (str(decision.verdict) == "allow") is allowed


def test_why_not_names_the_value(director_of: Callable[..., Director]) -> None:
    rules = "  - {id: r, decision: allow, when: {program: kubectl, effect: network, attributes: {context: [dev]}}}\n"
    director = director_of(rules, defaults="{unmatched: ask}")
    explained = explain(director, Action("kubectl --context prod get pods", cwd=PROJECT))
    assert any("its context were dev (context prod" in change for change in changes(explained))
