"""The changes in the rules of a policy, clause by clause, whatever commands they show on.

Rules that are only written in another way have not changed: the order of rules and of names, names of lists, reasons,
tests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.policy.explanation.explain import flow
from humanlayer_agent.policy.language.policy import Defaults, Policy, Rule, policy_from

Path = tuple[str | int, ...]
Body = Mapping[str, Any]

_SAID = ("id", "reason", "suggestion", "tests", "origin", "scope", "inherited", "override", "overridden")
"""Keys that decide nothing."""
_ATTRIBUTES = ("decision", "severity", "route", "grant", "confined", "approved", "hold", "locked")
_CONDITIONS = ("when", "unless")
_IN_ORDER = frozenset({"argv"})
"""Clauses whose list means something else in another order."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """One clause that is another one now, or a whole rule.

    Attributes:
        rule: the rule's id; "" of the policy as a whole, and of several changes that only together show.
        clause: where it stands in the rule, as `when.paths.any_within`; "" for the whole rule.
        text: how it has changed, in words.
        rules: the rule before and now; None where there is none.
        conditions: what has changed alone, as conditions (`Match` as data), to make commands of.
        applied: the old policy with this change alone, as its body.
    """

    rule: str
    clause: str
    text: str
    rules: tuple[Rule | None, Rule | None] = (None, None)
    conditions: tuple[Body, ...] = ()
    applied: Body = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The rule and the clause, in a few words."""
        if not self.rule and not self.clause:
            return "only together"
        return " ".join(filter(None, (f"rule {self.rule}" if self.rule else "the policy", self.clause)))

    @property
    def only_tightens(self) -> bool:
        """Tell whether it can only tighten: the strictest rule wins, and one more stops, or one less allows."""
        old, new = self.rules
        if old is None and new is not None:
            return new.decision != "allow" and new.confined is None
        return new is None and old is not None and old.decision == "allow"

    @property
    def about_confinement(self) -> bool:
        """Tell whether it depends on commands being confined."""
        named = any(rule is not None and (rule.confined or rule.approved) for rule in self.rules)
        return named or self.clause in ("confinements", "defaults.confine")


def changes(old: Policy, new: Policy, now: str) -> list[RuleChange]:
    """Return the changes of the rules in force at a moment (UTC, ISO 8601), and of what holds of the whole policy."""
    found = [*_of_policy(old, new), *_of_exceptions(old, new, now), *_of_ends(old, new, now)]
    for before, after in _pairs(old, new, now):
        if before is None:
            assert after is not None
            body = plain(after, new)
            applied = _with(old, new, None, body, now)
            found.append(RuleChange(after.id, "", f"new: {after.decision}", (None, after), _all_of(body), applied))
        elif after is None:
            body = plain(before, old)
            applied = _with(old, new, before, None, now)
            text = f"gone: it was {before.decision}"
            found.append(RuleChange(before.id, "", text, (before, None), _all_of(body), applied))
        else:
            found += _of_rule(before, after, old, new, now)
    return found


def plain(rule: Rule, policy: Policy) -> dict[str, Any]:
    """Return a rule as data, with the lists it names filled in."""
    lists = policy.scopes[rule.scope]

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [each for item in value for each in (expanded(item) if isinstance(item, str) else [filled(item)])]
        return value

    def expanded(name: str) -> list[str]:
        if name.startswith("$") and not name.startswith("${") and name[1:] in lists:
            return [each for entry in lists[name[1:]] for each in expanded(entry)]
        return [name]

    body: dict[str, Any] = filled({k: v for k, v in rule.written.items() if k != "tests"})
    return body | {"tests": {}}


def _pairs(old: Policy, new: Policy, now: str) -> Iterator[tuple[Rule | None, Rule | None]]:
    """The rules that differ, before and now. Of those that decide the same nothing is said, whatever their names."""
    before, after = list(old.on(now)), list(new.on(now))
    for key in (
        lambda rule, policy: (rule.id, _deciding(plain(rule, policy), now)),
        lambda rule, policy: _deciding(plain(rule, policy), now),
    ):
        known: dict[Any, list[Rule]] = {}
        for rule in after:
            known.setdefault(key(rule, new), []).append(rule)
        left = []
        for rule in before:
            same = known.get(key(rule, old))
            if same:
                same.pop(0)
            else:
                left.append(rule)
        before, after = left, [rule for rules in known.values() for rule in rules]
    for rule in before:
        other = next((each for each in after if each.id == rule.id), None)
        if other is not None:
            after.remove(other)
        yield rule, other
    yield from ((None, rule) for rule in after)


def _deciding(body: Body, now: str) -> bytes:
    kept = {key: _ordered(value, key) for key, value in body.items() if key not in (*_SAID, "exceptions")}
    exceptions = sorted(canonical(_ordered(each["when"], "")) for each in _holding(body, now))
    return canonical({"rule": kept, "exceptions": [each.decode() for each in exceptions]})


def _holding(body: Body, now: str) -> list[Body]:
    from humanlayer_agent.policy.language.policy import end_of

    return [each for each in body.get("exceptions", ()) if now < end_of(each["expires"])]


def _ordered(value: Any, key: str) -> Any:
    """Data in which lists stand in one order, each entry once, where the order means nothing."""
    if isinstance(value, Mapping):
        return {k: _ordered(v, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        inner = [_ordered(each, "") for each in value]
        return inner if key in _IN_ORDER else [v for _, v in sorted({canonical([v]): v for v in inner}.items())]
    return value


# ---- one rule -----------------------------------------------------------------------------------------------


def _of_rule(before: Rule, after: Rule, old: Policy, new: Policy, now: str) -> Iterator[RuleChange]:
    was, is_ = plain(before, old), plain(after, new)

    def change(clause: str, text: str, conditions: Iterable[Body], body: Body) -> RuleChange:
        applied = _with(old, new, before, body if "when" in body else {**body, "when": is_["when"]}, now)
        return RuleChange(after.id, clause, text, (before, after), tuple(conditions), applied)

    for key in _ATTRIBUTES:
        if was.get(key) != is_.get(key):
            text = f"{_said(was.get(key))} becomes {_said(is_.get(key))}"
            yield change(key, text, _all_of(was), _set(was, (key,), is_.get(key)))
    for key in _CONDITIONS:
        for path, text, conditions, body in _of_value(was, is_, (key,)):
            yield change(_name(path), text, conditions, body)
    gone, come = _differing(_holding(was, now), _holding(is_, now), lambda each: canonical(_ordered(each["when"], "")))
    for each in gone:
        rest = [other for other in was["exceptions"] if other is not each]
        yield change("exception", f"gone: {_said(each['when'])}", (each["when"],), {**was, "exceptions": rest})
    for each in come:
        more = [*was.get("exceptions", ()), each]
        yield change("exception", f"new: {_said(each['when'])}", (each["when"],), {**was, "exceptions": more})


_WHOLE = frozenset({"time", "limit"})
"""Clauses of which a part says nothing by itself: a span without its time zone, a number of nothing."""
Found = Iterator[tuple[Path, str, tuple[Body, ...], Body]]


def _of_value(was: Body, is_: Body, path: Path) -> Found:
    """Yield the differences at `path` of two rules: where, how, as conditions, and the old rule with that alone."""
    before, after = _at(was, path), _at(is_, path)
    if _ordered(before, str(path[-1])) == _ordered(after, str(path[-1])):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from _of_value(was, is_, (*path, key))
    elif path[-1] in ("any", "all") and _is_matches(before) and _is_matches(after):
        yield from _of_alternatives(was, is_, path, before, after)
    else:
        one = before if after is None else after if before is None else None
        if isinstance(one, Mapping) and len(one) == 1:
            yield from _of_value(was, is_, (*path, next(iter(one))))
            return
        text, parts = _told(before, after)
        if path[-1] in _IN_ORDER:  # one word of several is no line
            parts = [each for each in (before, after) if each is not None]
        end = next((n + 1 for n, key in enumerate(path) if key in _WHOLE), None)
        if end is not None:  # a part of it asks nothing
            parts = [each for each in (_at(was, path[:end]), _at(is_, path[:end])) if each]
        yield path, text, tuple(_condition(path[:end], part) for part in parts), _set(was, path, after)


def _of_alternatives(was: Body, is_: Body, path: Path, before: list[Body], after: list[Body]) -> Found:
    gone, come = _differing(before, after, lambda each: canonical(_ordered(each, "")))
    if len(gone) == len(come) == 1:
        number, other = before.index(gone[0]), after.index(come[0])
        if set(gone[0]) == set(come[0]):
            lined = _set(is_, path, [*before[:number], after[other], *before[number + 1 :]])
            yield from _of_value(was, lined, (*path, number))
            return
    for each in gone:
        rest = [other for other in before if other is not each]
        yield path, f"gone: {_said(each)}", (each,), _set(was, path, rest or None)
    for each in come:
        yield path, f"new: {_said(each)}", (each,), _set(was, path, [*before, each])


def _is_matches(value: Any) -> bool:
    """Tell whether this is a list of conditions, and none of words."""
    return isinstance(value, list | tuple) and all(
        isinstance(e, Mapping) and not {"glob", "regex"} & e.keys() for e in value
    )


def _condition(path: Path, value: Any) -> Body:
    """A condition that asks for `value` at the end of `path` alone."""
    inner: Any = value
    for key in reversed(path[1:]):
        if isinstance(key, int):
            continue
        if key in ("any", "all", "not") and (isinstance(inner, Mapping) or _is_matches(inner)):
            inner = {"any": inner} if isinstance(inner, list) else inner
        elif key == "flow" and not {"from"} & set(inner):
            inner = inner.get("to", {})
        else:
            inner = {key: inner}
    found: Body = inner
    return found


def _told(before: Any, after: Any) -> tuple[str, list[Any]]:
    """How a value has changed, in words; and what of it was taken out or has come, each as a value of that kind."""
    if before is None:
        return f"new: {_said(after)}", [after]
    if after is None:
        return f"gone: it was {_said(before)}", [before]
    if isinstance(before, list) and isinstance(after, list):
        gone, come = _differing(before, after, lambda each: canonical([each]))
        said = [f"no longer {_some(gone)}"] if gone else []
        said += [f"now also {_some(come)}"] if come else []
        return "; ".join(said) or f"{_said(before)} becomes {_said(after)}", [each for each in (gone, come) if each]
    return f"{_said(before)} becomes {_said(after)}", [before, after]


def _differing(before: Sequence[Any], after: Sequence[Any], key: Callable[[Any], bytes]) -> tuple[list[Any], list[Any]]:
    was, is_ = {key(each) for each in before}, {key(each) for each in after}
    return [each for each in before if key(each) not in is_], [each for each in after if key(each) not in was]


_SHOWN = 6


def _some(values: Sequence[Any]) -> str:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(_said(each) for each in values[:_SHOWN]) + more


def _said(value: Any) -> str:
    """A value, or a condition, in words.

    Example:
        >>> _said({"program": {"in": ["gh"]}, "not": {"paths": {"any_within": ["/a", "/b"]}}})
        'program.in gh, not paths.any_within /a, /b'
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        if value.keys() <= {"glob", "regex"}:
            return " ".join(flow(each) if key == "glob" else f"/{each}/" for key, each in value.items())
        return ", ".join(f"{key}{_joint(key, each)}{_said(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        if value and _is_matches(value):
            return " or ".join(f"({_said(each)})" for each in value)
        return _some(value) or "nothing at all"
    return flow(value)


def _joint(key: str, value: Any) -> str:
    return "." if isinstance(value, Mapping) and key != "not" and not value.keys() <= {"glob", "regex"} else " "


def _name(path: Path) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")


def _at(body: Any, path: Path) -> Any:
    for key in path:
        try:
            body = body[key]
        except (LookupError, TypeError):
            return None
    return body


def _set(body: Any, path: Path, value: Any) -> Any:
    """A copy of `body` with another value at `path`; None takes it out, and what is empty then."""
    key, rest = path[0], path[1:]
    if isinstance(body, list):
        assert isinstance(key, int)
        return [*body[:key], _set(body[key], rest, value) if rest else value, *body[key + 1 :]]
    inner = _set(body.get(key, {}), rest, value) if rest else value
    without = {k: v for k, v in body.items() if k != key}
    return without if inner is None or inner == {} else {**body, key: inner}


# ---- the policy as a whole ----------------------------------------------------------------------------------


def _of_policy(old: Policy, new: Policy) -> Iterator[RuleChange]:
    was, is_ = old.body["defaults"], new.body["defaults"]
    for key in (each.name for each in fields(Defaults) if each.name != "locked"):  # which is told by itself
        before, after = was.get(key), is_.get(key)
        if before != after:
            applied = {**old.body, "defaults": {**was, key: after}}
            if key == "confine":
                applied["confinements"] = {**old.body["confinements"], **new.body["confinements"]}
            text = f"{_said(before or None)} becomes {_said(after or None)}"
            yield RuleChange("", f"defaults.{key}", text, applied=applied)
    if old.observe != new.observe:
        text = "it only observes, and stops nothing" if new.observe else "it does not only observe any more"
        yield RuleChange("", "observe", text, applied={**old.body, "observe": new.observe})
    if old.body["confinements"] != new.body["confinements"]:
        names = {**old.confinements, **new.confinements}
        differing = [n for n in names if old.confinements.get(n) != new.confinements.get(n)]
        applied = {**old.body, "confinements": {**old.body["confinements"], **new.body["confinements"]}}
        yield RuleChange("", "confinements", f"{_some(differing)} changed", applied=applied)


def _all_of(body: Body) -> tuple[Body, ...]:
    """The conditions of a rule."""
    return (*(body[key] for key in _CONDITIONS if key in body), *(e["when"] for e in body.get("exceptions", ())))


def _of_exceptions(old: Policy, new: Policy, now: str) -> Iterator[RuleChange]:
    """The exceptions to rules of what ships, which count where the policy is a project's: no command of one policy by
    itself shows them.
    """
    was, is_ = ([each for each in policy.exceptions if each.holds(now)] for policy in (old, new))
    gone, come = _differing(was, is_, lambda each: canonical([each.rule, _ordered(each.written["when"], "")]))
    for each, text in [*((each, "gone") for each in gone), *((each, "new") for each in come)]:
        said = f"{text}: {_said(each.written['when'])}; it counts below what ships"
        yield RuleChange(each.rule, "exception", said, conditions=(each.written["when"],), applied=old.body)


def _of_ends(old: Policy, new: Policy, now: str) -> Iterator[RuleChange]:
    """What ends at another time: no command shows that before the earlier of them."""
    was, is_ = _ends(old, now), _ends(new, now)
    for key in was.keys() & is_.keys():
        if was[key] != is_[key]:
            yield RuleChange(key[0], f"{key[1]}.expires", f"{was[key]} becomes {is_[key]}", applied=old.body)


def _ends(policy: Policy, now: str) -> dict[tuple[str, str, bytes], str]:
    """The last day of each exception and replacement that holds."""
    found = {(r.id, "override", b""): r.override.expires for r in policy.on(now) if r.override is not None}
    for each in policy.all_exceptions():
        if each.holds(now):
            found[each.rule, "exception", canonical(_ordered(each.written["when"], ""))] = each.expires
    return found


def _with(old: Policy, new: Policy, rule: Rule | None, body: Body | None, now: str) -> dict[str, Any]:
    """The old policy's body with its rules in force, and `body` in the place of `rule` (None: without it, or added)."""
    rules: list[Any] = []
    for each in old.on(now):
        if each is not rule:
            rules.append(each.written)
        elif body is not None:
            rules.append({**body, "scope": each.scope})
    if rule is None:
        rules.append({**(body or {}), "scope": 0})
    confinements = {**new.body["confinements"], **old.body["confinements"]}
    return {**old.body, "rules": rules, "confinements": confinements}


def policy_with(change: RuleChange) -> Policy:
    """The old policy with one change alone."""
    return policy_from(change.applied)
