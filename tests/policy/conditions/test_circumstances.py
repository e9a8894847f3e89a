"""The conditions on what surrounds an action: no, maybe or yes, and what an author is told who writes them wrong."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.circumstances import Circumstances, given, zone
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Given
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.shell import Checkout, DiskReader

PROJECT = examples.PROJECT
Load = Callable[..., Director]


@pytest.fixture
def load_it(tmp_path: Path) -> Load:
    def make(when: Any, now: str = "", decision: str = "deny", **more: Any) -> Director:
        rule = {"id": "r", "decision": decision, "when": when, **more.pop("rule", {})}
        defaults = {"unmatched": "ask" if decision == "allow" else "allow"}
        body = {"version": 1, "policy": "p", "defaults": defaults, "rules": [rule]}
        path = tmp_path / "p.yaml"
        path.write_text(yaml.safe_dump(body))
        return Director(
            load(path), project=PROJECT, environ={"HOME": "/h"}, today=(lambda: now) if now else None, **more
        )

    return make


def verdict(director: Director, command: str = "ls", **action: Any) -> str:
    return str(director.evaluate(Action(command, cwd=PROJECT, **action)).verdict)


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("when", "now", "holds"),
    [
        ({"hours": "09:00-17:30"}, "2026-11-27T08:00:00Z", True),  # 09:00 there
        ({"hours": "09:00-17:30"}, "2026-11-27T07:59:59Z", False),
        ({"hours": "09:00-17:30"}, "2026-11-27T16:29:59Z", True),
        ({"hours": "09:00-17:30"}, "2026-11-27T16:30:00Z", False),  # the end is not in it
        ({"hours": "09:00-17:30"}, "2026-07-27T07:00:00Z", True),  # in summer it is two hours ahead
        ({"days": "mon-fri"}, "2026-11-27T22:59:00Z", True),  # Friday
        ({"days": "mon-fri"}, "2026-11-27T23:00:00Z", False),  # Saturday there, though not yet in UTC
        ({"days": "sat-mon"}, "2026-11-30T12:00:00Z", True),  # over the end of the week
        ({"days": "sat-mon"}, "2026-12-01T12:00:00Z", False),
        ({"days": ["tue", "thu"]}, "2026-12-01T12:00:00Z", True),
        ({"days": "fri", "hours": "22:00-06:00"}, "2026-11-27T21:00:00Z", True),
        ({"days": "fri", "hours": "22:00-06:00"}, "2026-11-28T04:59:00Z", True),  # the night of Friday
        ({"days": "fri", "hours": "22:00-06:00"}, "2026-11-28T05:00:00Z", False),
        ({"days": "fri", "hours": "22:00-06:00"}, "2026-11-27T04:00:00Z", False),  # the night of Thursday
        ({"hours": ["08:00-12:00", "13:00-24:00"]}, "2026-11-27T22:59:00Z", True),
        ({"hours": ["08:00-12:00", "13:00-24:00"]}, "2026-11-27T11:30:00Z", False),
        ({"hours": "00:00-24:00", "days": "fri"}, "2026-11-27T12:00:00Z", True),
        # Clocks go forward on 2026-03-29 from 02:00 to 03:00, and back on 2026-10-25 from 03:00 to 02:00.
        ({"hours": "02:00-03:00"}, "2026-03-29T00:59:59Z", False),
        ({"hours": "02:00-03:00"}, "2026-03-29T01:00:00Z", False),
        ({"hours": "02:30-02:31"}, "2026-10-25T00:30:00Z", True),
        ({"hours": "02:30-02:31"}, "2026-10-25T01:30:00Z", True),  # a second time
        ({"dates": "2026-12-24/2027-01-02"}, "2026-12-23T23:00:00Z", True),
        ({"dates": "2026-12-24/2027-01-02"}, "2027-01-02T22:59:59Z", True),
        ({"dates": "2026-12-24/2027-01-02"}, "2027-01-02T23:00:00Z", False),
        ({"dates": "2026-12-24", "hours": "22:00-02:00"}, "2026-12-25T00:30:00Z", True),  # its night
    ],
)
def test_time_is_read_on_the_clocks_of_its_zone(load_it: Load, when: Any, now: str, holds: bool) -> None:
    assert verdict(load_it({"time": {**when, "tz": BERLIN}}, now)) == ("deny" if holds else "allow")
    assert verdict(load_it({"not": {"time": {**when, "tz": BERLIN}}}, now)) == ("allow" if holds else "deny")


def test_a_time_that_nobody_knows_is_a_doubt(load_it: Load) -> None:
    when = {"time": {"hours": "09:00-17:00", "tz": "UTC"}}
    assert verdict(load_it(when, "2026-11-27")) == "ask"
    assert verdict(load_it({"not": when}, "2026-11-27")) == "ask"
    assert verdict(load_it({"program": "ls", **when}, "2026-11-27", "allow")) == "ask"


def test_the_clock_is_ours_whatever_the_environment_or_the_command_says(
    load_it: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from time import tzset

    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path))
    tzset()
    try:
        zone.cache_clear()
        director = load_it({"time": {"hours": "12:00-13:00", "tz": BERLIN}}, "2026-11-27T11:30:00Z")
        for command in (
            "ls",
            "TZ=Asia/Tokyo ls",
            "env TZ=Asia/Tokyo ls",
            "export TZ=Asia/Tokyo; ls",
            "faketime 3am ls",
        ):
            assert verdict(director, command) == "deny", command
    finally:
        monkeypatch.undo()
        tzset()


def test_a_rule_about_the_time_also_holds_of_what_nobody_can_read(load_it: Load) -> None:
    director = load_it({"time": {"hours": "12:00-13:00", "tz": "UTC"}}, "2026-11-27T12:30:00Z")
    assert verdict(director, "if then 'a") == "deny"


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ({"hours": "09:00-17:00"}, "the key 'tz' is missing"),
        ({"tz": "UTC"}, "say when: days, hours or dates"),
        ({"hours": "9-17", "tz": "UTC"}, "hours"),
        ({"hours": "09:00-09:00", "tz": "UTC"}, "00:00-24:00 is all day"),
        ({"hours": "24:00-06:00", "tz": "UTC"}, "00:00-24:00 is all day"),
        ({"hours": "25:00-26:00", "tz": "UTC"}, "hours"),
        ({"days": "monday", "tz": "UTC"}, "days"),
        ({"days": "mon", "tz": "Europe/Berln"}, "no time zone"),
        ({"days": "mon", "tz": "../../etc/passwd"}, "tz"),
        ({"days": "mon", "tz": "Africa"}, "no time zone"),
        ({"dates": "2027-01-02/2026-12-24", "tz": "UTC"}, "expected a day"),
        ({"dates": "24.12.2026", "tz": "UTC"}, "expected a day"),
    ],
)
def test_what_no_time_can_be_is_an_error(load_it: Load, time: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=r"p\.yaml:\d+:\d+") as raised:
        load_it({"time": time})
    assert said in str(raised.value)


def test_a_time_by_itself_allows_nothing(load_it: Load) -> None:
    with pytest.raises(PolicyError, match="too broad"):
        load_it({"time": {"hours": "09:00-17:00", "tz": "UTC"}}, decision="allow")


# ---- examples under circumstances --------------------------------------------------------------------------

HOURS = """
version: 1
policy: hours
rules:
  - id: hours
    decision: deny
    reason: "{{ command }}: nothing is deployed at night."
    suggestion: Deploy between nine and five.
    when: {program: kubectl, not: {time: {days: mon-fri, hours: "09:00-17:00", tz: Europe/Berlin}}}
    tests:
      maybe: [kubectl apply -f x.yaml]
      not_match: [psql -c 'select 1']
      given:
        - {time: "2026-11-27T18:30:00+01:00", match: [kubectl apply -f x.yaml], not_match: [ls]}
        - {time: 2026-11-27T10:30:00+01:00, not_match: [kubectl apply -f x.yaml]}
        - {time: 2026-11-28T10:30:00+01:00, match: [kubectl delete pod a]}
"""


@pytest.fixture
def hours(tmp_path: Path) -> Path:
    path = tmp_path / "hours.yaml"
    path.write_text(HOURS)
    return path


def test_tests_of_a_policy_say_what_time_it_is(hours: Path) -> None:
    assert load(hours).rules[0].tests.given[0].time == "2026-11-27T17:30:00Z"
    assert [result.passed for result in examples.run(load(hours))] == [True] * 6


def test_an_example_that_fails_is_shown_with_its_time(hours: Path) -> None:
    hours.write_text(HOURS.replace("T10:30:00+01:00, not_match", "T10:30:00+01:00, match"))
    with pytest.raises(PolicyError) as raised:
        load(hours)
    assert 'kubectl apply -f x.yaml\'  [given {time: "2026-11-27T09:30:00Z"}]' in str(raised.value)
    assert "hours.yaml:15:53: " in str(raised.value)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("curl http://a.example", "allow"),
        ("curl http://a.example http://b.example", "allow"),
        ("curl http://{a,b,c,d}.example", "deny"),
        ("wget -i list", "ask"),
        ("python3 -c 'import urllib.request as u\nfor i in range(9): u.urlopen(\"http://a.example\")'", "ask"),
        ("node -e 'for (let i = 0; i < 9; i++) fetch(\"http://a.example\")'", "ask"),
        ("seq 9 | xargs -n1 curl http://a.example", "ask"),
        ("watch curl http://a.example", "ask"),
        ("while :; do curl http://a.example; done", "ask"),
        ("curl 'http://a.example/{b,c,d}'", "ask"),
        ("curl --url 'http://a.example/[1-9]'", "ask"),
        ("wget -rl 2 http://a.example", "ask"),
        ("wget -p http://a.example", "ask"),
        ("curl -K requests http://a.example", "ask"),
        ("curl http://a.example/{b,c}", "allow"),
        ("curl -g 'http://a.example/[1-9]'", "allow"),
        ("curl 'http://[::1]:80/a'", "allow"),
        ("wget http://a.example/b", "allow"),
        ('curl -H "A: $TOKEN" http://a.example', "allow"),
        ("python3 -c 'print(1)'", "allow"),
    ],
)
def test_how_often_something_is_done_may_not_be_known(load_it: Load, command: str, answer: str) -> None:
    director = load_it({"limit": {"count": 2, "per": "hour", "of": {"effect": "network"}}})
    director.count_by(lambda *_: 0)
    assert verdict(director, command) == answer


@pytest.mark.parametrize(
    ("used", "spans"),
    [
        (Given(used=3), {"run", "hour", "day"}),
        (Given(used=3, per="run"), {"run"}),
        (Given(used=3, per="hour"), {"hour", "day"}),
        (Given(used=3, per="day"), {"day"}),
    ],
    ids=lambda value: str(value.per) if isinstance(value, Given) else "",
)
def test_how_much_was_used_is_given_for_a_span(used: Given, spans: set[str]) -> None:
    counted = given(used).used
    assert counted is not None
    assert {per for per in ("run", "hour", "day") if counted("x", per) == 3} == spans
    assert {counted("x", per) for per in ("run", "hour", "day")} <= {0, 3}


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"time": {"hours": "8-18"}}, "'8-18' is not written as expected: from and to, .* as 08:00-18:00"),
        ({"time": {"hours": ["08:00-18:00", "8"]}}, "'8' is not written as expected"),
        ({"time": {"days": "Monday"}}, "'Monday' is not written as expected: .* mon or mon-fri"),
        ({"content": {"sha256": "abc"}}, "'abc' is not written as expected: 64 digits"),
    ],
)
def test_an_author_is_told_how_it_is_written(load_it: Load, when: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        load_it(when)


# ---- layers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [
        {"time": {"hours": "00:00-24:00", "tz": "UTC"}},
        {"requester": "*"},
        {"repo": {"branch": "*"}},
        {"limit": {"count": 1000, "per": "run", "of": {"program": "ls"}}},
        {"not": {"sql": {"kinds": "drop"}}},
    ],
)
def test_a_lower_layer_loosens_nothing_by_a_condition(tmp_path: Path, when: Any) -> None:
    def layer(name: str, authority: Any, **body: Any) -> Layer:
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"version": 1, "policy": name, **body}))
        return Layer(load(tmp_path / f"{name}.yaml"), authority, trusted=True)

    night = {"id": "night", "decision": "deny", "locked": True, "when": {"program": "ls"}, "unless": {"program": "cat"}}
    allow = {"id": "free", "decision": "allow", "when": {"program": "ls", **when}}
    layers = [
        layer("above", "machine", rules=[night], defaults={"locked": True}),
        layer("below", "project", rules=[allow]),
    ]
    around = Circumstances(
        datetime(2030, 1, 7, 12, tzinfo=UTC), "os:1:a", lambda *_, **__: Checkout("x", ()), used=lambda *_: 0
    )
    director = Director(layers, project=PROJECT, environ={"HOME": "/h"}, around=around)
    assert verdict(director) == "deny"
    excuse = {"rule": "night", "when": {"program": "ls", **when}, "reason": "y", "expires": "2999-12-31"}
    with pytest.raises(PolicyError, match="is locked"):
        layer("file", "user", extends=["above.yaml"], exceptions=[excuse])


def test_exceptions_are_tested_under_circumstances(tmp_path: Path) -> None:
    path = tmp_path / "on-call.yaml"
    text = (
        HOURS
        + """
exceptions:
  - rule: hours
    when: {requester: "os:*:oncall"}
    reason: Who is on call deploys at any time.
    expires: 2999-12-31
    tests:
      not_match: [kubectl apply -f x.yaml]
      given:
        - {time: "2026-11-27T18:30:00+01:00", requester: "os:1:oncall", match: [kubectl apply -f x.yaml]}
        - {time: "2026-11-27T18:30:00+01:00", requester: "os:2:bob", not_match: [kubectl apply -f x.yaml]}
"""
    )
    path.write_text(text)
    assert [result.passed for result in examples.run(load(path))] == [True] * 9
    path.write_text(text.replace("os:2:bob", "os:2:oncall"))
    with pytest.raises(PolicyError, match=r"on-call\.yaml:\d+:\d+: exception to hours: not_match"):
        load(path)


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("terraform apply plan", True),
        ("terraform apply soft", True),
        ("terraform apply plan | tee out.log", True),
        ("echo x > other; terraform apply plan", True),
        ("echo x > hard; terraform apply plan", False),
        ("terraform apply plan & cp other hard", False),
        ("echo x > soft; terraform apply plan", False),
        ("echo x > plan; terraform apply soft", False),
        ("cp other folder/plan; terraform apply plan", False),
        ("ln -s plan new; echo x > new; terraform apply plan", False),
        ("mount --bind other plan; terraform apply plan", False),
        ("chroot elsewhere terraform apply plan", False),
        ("unshare -m terraform apply plan", False),
    ],
)
def test_a_file_that_may_change_first_is_not_known_whatever_it_is_called(
    load_it: Load, tmp_path: Path, command: str, known: bool
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("plan", "other"):
        (project / name).write_text(name)
    (project / "hard").hardlink_to(project / "plan")
    (project / "soft").symlink_to("plan")
    (project / "folder").symlink_to(".")
    when = {"program": "terraform", "not": {"content": {"known": True}}}
    director = load_it(when, reader=DiskReader(project))
    found = director.evaluate(Action(command, cwd=str(project)))
    assert str(found.verdict) == ("allow" if known else "ask")
