"""A policy as a page for people: each rule, why it is there, what it is about, examples, what excuses from it, and how
often it asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.examples import examples_of
from humanlayer_agent.policy.language.policy import Rule, RuleException, end_of
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.safe_text import one_line

_MEANS = {
    "allow": "allowed: it runs without a question",
    "ask": "asked about: it waits for a human",
    "deny": "denied: it never runs, whoever says so",
}
_AUTHORITY = {
    "machine": "the machine's policy, which nobody below weakens",
    "user": "the user's policy",
    "project": "the project's policy",
    "builtin": "what ships, where the machine and the user have none",
    "given": "the whole policy here: it was named by --policy",
}
_ORDER = ("deny", "ask", "allow")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_EXAMPLES = (
    ("match", "The rule decides"),
    ("maybe", "Not all of these can be known, so the rule asks"),
    ("confined", "Allowed where the kernel can hold it"),
    ("not_match", "The rule says nothing of"),
)


@dataclass(frozen=True, slots=True)
class Use:
    """How often a rule was about something: how often it asked, and how people answered."""

    applied: int = 0
    asked: int = 0
    approved: int = 0


def handbook(director: Director, uses: Mapping[str, Use] | None = None) -> str:
    """Return the page, as Markdown. What stands in it of policies is safe in a page: nothing of it is HTML.

    Args:
        director: whose layers are described, the highest first.
        uses: by rule, what the log says; None where nobody looked.

    Example:
        >>> page = handbook(Director.load("default", project="/srv/app"))
        >>> page.splitlines()[0]
        '# What agents may do here'
    """
    now = director.in_force().now
    parts = ["# What agents may do here", "", _beginning(director)]
    for layer in director.layers:
        parts += _layer(layer, uses, now)
    return "\n".join(parts).rstrip() + "\n"


def _beginning(director: Director) -> str:
    counted = {
        decision: sum(rule.decision == decision for layer in director.layers for rule in layer.policy.rules)
        for decision in _ORDER
    }
    said = ", ".join(f"{count} {decision}" for decision, count in counted.items())
    return (
        "Each command of an agent is read as bash would read it, and judged by what it does. The strictest rule that "
        f"is about it decides: deny, then ask, then allow. There are {sum(counted.values())} rules ({said}). What no "
        f"rule is about is decided by the policy's defaults. Digest: `{director.digest[:12]}`."
    )


def _layer(layer: Layer, uses: Mapping[str, Use] | None, now: str) -> Iterator[str]:
    policy = layer.policy
    yield f"\n## {_plain(policy.name)}\n"
    if policy.body.get("description"):
        yield f"{_plain(str(policy.body['description']))}\n"
    trusted = "" if layer.trusted or layer.authority != "project" else ", not trusted: it may only ask and deny"
    yield f"This is {_AUTHORITY[layer.authority]}{trusted}."
    defaults = policy.defaults
    yield (
        f"What no rule is about: **{defaults.unmatched}**. What a rule may be about: **{defaults.maybe}**, at least. "
        f"What can't be understood: **{defaults.unparsed}**, at least."
        + (" Commands that are allowed run confined." if defaults.confine else "")
        + (" Nothing is enforced: it is only recorded." if policy.observe else "")
    )
    for decision in _ORDER:
        rules = [rule for rule in policy.rules if rule.decision == decision]
        if rules:
            yield f"\n### What is {_MEANS[decision]}\n"
            yield from _summary(rules, uses)
            for rule in rules:
                yield from _rule(rule, uses, now)


def _summary(rules: Iterable[Rule], uses: Mapping[str, Use] | None) -> Iterator[str]:
    more = "" if uses is None else " applied | asked | approved |"
    yield f"| rule | severity | why |{more}"
    yield f"|---|---|---|{'---|---|---|' if uses is not None else ''}"
    for rule in rules:
        use = (uses or {}).get(rule.id, Use())
        figures = "" if uses is None else f" {use.applied:,} | {use.asked:,} | {use.approved:,} |"
        yield f"| [{rule.id}](#{rule.id}) | {rule.severity} | {_sentence(rule.reason) or '–'} |{figures}"


def _rule(rule: Rule, uses: Mapping[str, Use] | None, now: str) -> Iterator[str]:
    yield f"\n#### {rule.id}\n"
    if rule.reason:
        yield f"{_sentence(rule.reason)}\n"
    if rule.suggestion:
        yield f"Instead: {_sentence(rule.suggestion)}\n"
    facts = [f"severity {rule.severity}", f"stands at `{_code(rule.origin)}`", *_bounds(rule)]
    if uses is not None:
        use = uses.get(rule.id, Use())
        facts.append(f"applied {use.applied:,} times, asked {use.asked:,}, of which {use.approved:,} were approved")
    yield "".join(f"- {each}\n" for each in [*facts, *_changes(rule, now)])
    yield _block("yaml", _condition(rule))
    for kind, title in _EXAMPLES:
        lines = [each.line for each in examples_of(rule) if each.kind == kind]
        if lines:
            yield f"{title}:\n"
            yield _block("sh", "\n".join(lines))


def _bounds(rule: Rule) -> Iterator[str]:
    if rule.locked:
        yield "locked: nobody below may override it, or make an exception to it"
    route = rule.route
    if route != "default":
        name = route if isinstance(route, str) else route.name
        raised = (
            "" if isinstance(route, str) else f", by {route.quorum} or more, known by {route.min_assurance} at least"
        )
        yield f"asked by the route `{_code(name)}`{raised}"
    if rule.grant is not None:
        grant = rule.grant
        minutes = grant.max_age // 60_000
        yield (
            f"an approval may be remembered for {minutes} minutes and {grant.max_uses} uses"
            if grant.scopes
            else "an approval is never remembered"
        )
    if rule.confined is not None:
        yield f"allowed where the kernel can hold it to the confinement `{rule.confined}`"
    if rule.hold:
        yield "it runs held first, where it can, and who is asked sees what it changed"
    if rule.approved is not None:
        yield f"once approved, it runs in the confinement `{rule.approved}`"


def _changes(rule: Rule, now: str) -> Iterator[str]:
    for word, other in (("replaces", rule.override), ("replaced by", rule.overridden)):
        if other is not None:
            yield f"{word} `{other.rule}` {_until(other.expires, now)}: {_plain(other.reason)}"
    for each in rule.exceptions:
        yield _exception(each, now)


def _exception(exception: RuleException, now: str) -> str:
    what = _code(_yaml(exception.written["when"], flow=True))
    return f"excuses {_until(exception.expires, now)} what is `{what}`: {_plain(exception.reason)}"


def _until(expires: str, now: str) -> str:
    return f"until {expires}" if now < end_of(expires) else f"(expired on {expires})"


def _condition(rule: Rule) -> str:
    shown: dict[str, Any] = {"when": rule.written["when"]}
    if rule.written.get("unless"):
        shown["unless"] = rule.written["unless"]
    return _yaml(shown)


def _yaml(data: Any, *, flow: bool = False) -> str:
    text = yaml.safe_dump(
        _short(data), sort_keys=False, allow_unicode=False, default_flow_style=flow or None, width=110
    )
    return text.strip()


def _short(data: Any) -> Any:
    """The condition as people write it: a glob is a text."""
    if isinstance(data, Mapping):
        return data["glob"] if data.keys() == {"glob"} else {key: _short(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_short(each) for each in data]
    return data


def _block(language: str, text: str) -> str:
    """A block of code that nothing in it ends."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}\n"


def _sentence(text: str) -> str:
    return _plain(_PLACEHOLDER.sub(lambda found: f"⟨{found[1]}⟩", text))


def _plain(text: str) -> str:
    """Words of a policy in Markdown: nothing in them is a link, an image, emphasis, a table's cell or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#&!])", r"\\\1", one_line(text))


def _code(text: str) -> str:
    return one_line(text).replace("`", "'")


# ---- as a page for a browser --------------------------------------------------------------------------------

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>What agents may do here</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }}
pre {{ overflow-x: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .25rem .5rem; }}
td, th {{ text-align: left; vertical-align: top; }}
</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def as_html(page: str) -> str:
    """Return a page of Markdown as one of HTML. Headings of rules are what links to them name."""
    from itertools import pairwise

    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(page)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.tag == "h4":
            opening.attrSet("id", inline.content)
    return _PAGE.format(body=reader.renderer.render(tokens, reader.options, {}))
