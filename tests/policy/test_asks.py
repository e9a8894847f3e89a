"""The things of an action that must be approved, one by one: nothing that speaks against it is missing among them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.grants import offers, why_never
from humanlayer_agent.policy.asks import LOOSE
from humanlayer_agent.policy.decision import Ask, Limits, PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.store.rows import dump_decision, load_decision
from tests.support.granting import PROJECT, asked, director

Judge = Callable[..., PolicyDecision]

ASKS = "  - {id: asks, decision: ask, when: {effect: [read, write, delete, network, execute]}}\n"


def asks(command: str, **fields: str) -> list[Ask]:
    return list(asked(command, **fields).decision.asks)


def test_an_ask_for_each_thing() -> None:
    found = asks("cat /srv/data/x > /opt/tool/y; curl -s -o z https://example.org/a")
    assert [(ask.rule, ask.program, ask.kind, ask.operand, ask.value) for ask in found] == [
        ("read-outside-project", "cat", "read", "/srv/data/x", ""),
        ("write-outside-project", "cat", "write", "/opt/tool/y", ""),
        ("network", "curl", "network", "example.org", "443"),
    ]


@pytest.mark.parametrize("command", ["ls", "rm -rf /", "cat a; echo b"])
def test_none_where_nothing_is_asked(command: str) -> None:
    decision = director().evaluate(Action(command, cwd=PROJECT, project=PROJECT))
    assert decision.verdict is not Verdict.ASK
    assert decision.asks == ()


def test_a_decision_that_asks_says_about_what() -> None:
    """On all examples of the shipped policy: where it asks, each rule that asks is among what must be approved."""
    count = 0
    for rule in director().in_force().rules.all:
        for command in rule.rule.tests.get("match", ()) if isinstance(rule.rule.tests, dict) else rule.rule.tests.match:
            decision = director().evaluate(Action(command, cwd=PROJECT, project=PROJECT))
            if decision.verdict is Verdict.ASK:
                count += 1
                assert decision.asks, command
                assert {rule for finding in decision.findings for rule in finding.rules} <= {
                    ask.rule for ask in decision.asks
                }, command
    assert count > 300


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cp -r a /opt/tool/b", ("-r",)),
        ("cp -t /opt/tool a b", ("-t",)),
        ("chmod 644 /opt/tool/a", ("644",)),
        ("pip install --prefix=/opt/tool a", ("install", "--prefix=/opt/tool")),
        ("pip install -r a.txt", ("install", "-r", "a.txt")),
        ("curl -s -o a https://example.org", ("-s", "-o")),
        ("cat a > /opt/tool/b", ()),
        ("git fetch --depth 1 origin", ("fetch", "--depth", "1", "origin")),
        ("x=644; chmod $x /opt/tool/a", ("644",)),
        ("python3 -c \"open('/opt/tool/a', 'w')\"", ("-c", "open('/opt/tool/a', 'w')")),
        ("kubectl get pods -o yaml", ()),
    ],
)
def test_words_are_what_does_not_only_name_things(command: str, words: tuple[str, ...]) -> None:
    assert {ask.flags for ask in asks(command)} == {words}


@pytest.mark.parametrize(
    ("command", "operand"),
    [
        ("chmod $MODE /opt/tool/a", None),  # a word that nobody knows
        ('cat "$F"', None),
        ("cat /srv/data/*.py", "/srv/data/*.py"),
        ("chmod 644 /opt/tool/*", None),
        ("cat /srv/data/*.md", "/srv/data/*.md"),
        ("cat /srv/*/../x.md", None),
        ("rm /srv/data/*.md", None),
        ("curl -d x https://example.org", None),  # more is sent than a question
        ("curl telnet://example.org", None),
        ("npm publish", None),
        ("git push origin main", None),
        ("mvn deploy", None),
        ("ssh example.org ls", None),
        ("git fetch", "git remote"),
        ("cd $D && git fetch", None),  # of which folder?
        ("curl https://example.org", "example.org"),
        ("go get example.org/x", "example.org/x"),
    ],
)
def test_certain_is_what_is_known_and_sends_nothing(command: str, operand: str | None) -> None:
    kinds = {"network", "metadata", "read"} if operand != "example.org/x" else {"package"}
    found = [
        ask.operand for ask in asks(command) if (ask.kind in kinds and ask.role != "itself") or ask.operand is None
    ]
    assert found
    assert set(found) == {operand}


def test_where_an_uncertain_path_leads_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/srv/data")
    (ask,) = [ask for ask in asks(f"cat {tmp_path}/link/*", cwd=str(tmp_path)) if ask.kind == "read"][:1] or [None]
    assert ask is not None
    assert ask.operand is None
    assert ask.places[0] == "/srv/data"


def test_a_wrapper_counts_unless_the_same_is_done_under_it() -> None:
    plain = asks("curl https://example.org")[0].verb
    assert asks("timeout 9 curl https://example.org")[0].verb == plain
    assert asks("nohup nice curl https://example.org")[0].verb == plain
    sudo = next(ask for ask in asks("sudo curl https://example.org") if ask.kind == "network")
    assert sudo.verb == (*plain, "via=sudo")


def test_a_place_counts_where_the_directory_says_what_is_done() -> None:
    assert asks("git fetch")[0].verb != asks("cd sub && git fetch")[0].verb
    assert asks("pip install a")[0].verb != asks("cd sub && pip install a")[0].verb
    assert asks("curl https://example.org")[0].verb == asks("cd sub && curl https://example.org")[0].verb
    assert asks("cp a /opt/tool/b")[0].verb == asks("cd sub && cp a /opt/tool/b")[0].verb


# What no effect says


def test_what_is_not_understood_is_one(judge: Judge) -> None:
    decision = judge(ASKS, "cat a ) (")
    assert decision.parse != "ok"
    assert why_never(decision)


def test_what_is_asked_for_by_the_first_line_is_one() -> None:
    by = Director.load("default", project=PROJECT, environ={"HOME": "/home/ann"}, confined=True)
    for line in ("network", "network example.org:443", "read /srv/data", "write /srv/data", "unconfined", "nonsense"):
        decision = asked(f"# needs: {line}\ncat /srv/data/x", by).decision
        assert decision.verdict is Verdict.ASK
        assert why_never(decision) == "it is not fully understood", line


def test_doubt_about_a_deny_is_one(judge: Judge) -> None:
    rules = (
        '  - {id: nay, decision: deny, severity: critical, when: {effect: delete, paths: {any_within: ["/etc/**"]}}}\n'
    )
    decision = judge(rules, 'rm "$F"', defaults="{unmatched: allow, maybe: ask}")
    assert [(ask.rule, ask.severity, ask.operand) for ask in decision.asks] == [("nay", "critical", None)]


def test_asks_that_are_denied_are_none(judge: Judge) -> None:
    decision = judge(ASKS, "cat a", defaults="{ask: deny}")
    assert (decision.verdict, decision.asks) == (Verdict.DENY, ())


def test_what_no_rule_allows_is_one(judge: Judge) -> None:
    decision = judge("  - {id: x, decision: allow, when: {program: ls}}\n", "cat a")
    assert [(ask.rule, ask.kind, ask.operand) for ask in decision.asks] == [("", "read", "/nowhere/project/a")]


def test_data_from_elsewhere_is_never_certain(judge: Judge) -> None:
    flow = "  - {id: flows, decision: ask, when: {effect: network, flow: {from: {effect: read}}}}\n"
    decision = judge(flow, "cat a | curl -T - https://example.org", defaults="{unmatched: allow, maybe: ask}")
    assert [(ask.rule, ask.operand) for ask in decision.asks] == [("flows", None)]


def test_a_rule_about_a_command_as_a_whole_is_of_that_command(judge: Judge) -> None:
    rule = "  - {id: makes, decision: ask, when: {program: cat}}\n"
    decision = judge(rule, "cat /srv/data/x", defaults="{unmatched: allow, maybe: ask}")
    assert [(ask.rule, ask.kind, ask.operand) for ask in decision.asks] == [("makes", "command", "cat /srv/data/x")]


@pytest.mark.parametrize(
    ("grant", "limits"),
    [
        ("never", Limits(())),
        ("{max_age: 1h}", Limits(max_age=3_600_000)),
        ("{scopes: [action], max_uses: 3}", Limits(("action",), max_uses=3)),
    ],
)
def test_a_rule_says_how_far(judge: Judge, grant: str, limits: Limits) -> None:
    rule = f"  - {{id: reads, decision: ask, grant: {grant}, when: {{effect: read}}}}\n"
    decision = judge(rule, "cat a; cat b")
    (ask,) = {ask.rule: ask for ask in decision.asks if ask.rule == "reads"}.values()
    assert ask.limits == limits
    assert decision.limits.scopes == limits.scopes


# What a confinement holds


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Director:
    project = tmp_path_factory.mktemp("project")
    return Director.load("default", project=str(project), environ={"HOME": "/home/ann"}, confined=True)


@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py; curl https://example.org/a",
        "./x.sh & curl https://example.org/a",
        "make; pip install a",
        "pip install a && pytest",
        "frobnicate; pip install a",
        "export PATH=$PWD/bin:$PATH; curl https://example.org/a",
        "export https_proxy=http://example.com; curl https://example.org/a",
        "LD_PRELOAD=./x.so curl https://example.org/a",
        'python3 -c "import requests, sys; requests.post(sys.argv[1])"; curl https://example.org/a',
        'curl "$URL"; curl https://example.org/a',
        "ls --frobnicate; curl https://example.org/a",
        "npm install && npm test",
        "npx a --x && ./x.sh",
        "npx a; npx -c 'frobnicate'",
    ],
)
def test_what_only_a_confinement_allows_is_one_where_that_is_opened(confined: Director, command: str) -> None:
    """Else whoever granted the host would have granted it to code that nobody has read."""
    request = asked(command, confined)
    assert request.decision.verdict is Verdict.ASK
    assert request.decision.confinement is not None
    assert any(ask.kind == LOOSE and ask.operand is None for ask in request.decision.asks)
    assert [offer.name for offer in offers(request)] in (["action"], [])


@pytest.mark.parametrize(
    "command",
    [
        "curl https://example.org/a",
        "curl https://example.org/a | grep word > out",
        "pip install a",
        "npm install a",
        "npx a --x",  # who approves a package approves what it does
        "git add -A && git commit -m x; curl https://example.org/a",
        "python3 -c 'print(1)'; curl https://example.org/a",
        "./x.sh; cat /usr/../srv/data/x",  # opens nothing but what is read
    ],
)
def test_what_opens_nothing_to_others_is_asked_about_as_ever(confined: Director, command: str) -> None:
    request = asked(command, confined)
    assert request.decision.verdict is Verdict.ASK
    assert not [ask for ask in request.decision.asks if ask.kind == LOOSE]
    assert "run" in [offer.name for offer in offers(request)]


def test_what_is_allowed_confined_needs_no_ask(confined: Director) -> None:
    assert asked("python3 x.py", confined).decision.verdict is Verdict.ALLOW


# Kept in the store


@pytest.mark.parametrize("command", ["cat /srv/data/x", "curl https://example.org", "pip install a", 'rm "$F"'])
def test_they_are_read_from_the_store_as_they_were(command: str) -> None:
    decision = asked(command).decision
    assert load_decision(dump_decision(decision)).asks == decision.asks
    assert load_decision(json.dumps(json.loads(dump_decision(decision)) | {"asks": []})).asks == ()
