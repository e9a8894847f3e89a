"""What changes from one policy to another, as a page."""

from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Change, Diff
from humanlayer_agent.report.html import Html, join, table, tag, text
from humanlayer_agent.report.page import chip, command, more, page, section, verdict_chip

MAX_ROWS = 500


def diff_page(diff: Diff, old: Policy, new: Policy, *, over_tests: bool) -> str:
    """The page as one HTML file."""
    cells = list(diff.cells())
    sections = [_headline(diff), *(_cell(*cell) for cell in cells), _rest(diff)]
    names = [("headline", "Headline"), *((_id(a, b), f"{a} → {b}") for a, b, _ in cells), ("rest", "Also")]
    over = "the tests in their rules" if over_tests else f"{len(diff.runs):,} recorded runs"
    under = f"Both judged {diff.commands:,} commands of {over}. Nothing was executed."
    return page(f"From policy {old.name} to {new.name}", under, (), sections, names)


def _id(old: Verdict, new: Verdict) -> str:
    return f"{old}-{new}"


def _headline(diff: Diff) -> Html:
    bad = bool(diff.loosened)
    counts = f"{diff.loosened:,} loosened, {diff.tightened:,} tightened, {diff.same:,} same"
    accepted = f" {diff.accepted_count:,} more are looser, and accepted with a reason." if diff.accepted_count else ""
    rows = ([tag("strong", f"was {old}"), *(diff.matrix[old, new] or text("–") for new in Verdict)] for old in Verdict)
    return section(
        "headline",
        "Headline",
        "",
        tag(
            "div",
            tag("span", "!" if bad else "✓", class_="sign", aria_hidden="true"),
            tag("div", tag("p", diff.headline.capitalize(), class_="what"), tag("p", f"{counts}.{accepted}")),
            class_=f"verdict {'bad' if bad else 'good'}",
            role="status",
        ),
        table("Verdicts before and now", ("", *(f">now {v}" for v in Verdict)), rows, first_is_heading=True),
    )


def _cell(old: Verdict, new: Verdict, changes: list[Change]) -> Html:
    def row(change: Change) -> list[object]:
        before, after = (rule or "no rule" for rule in change.rules)
        accepted = join([chip("accepted", "good"), tag("p", change.accepted, class_="small")])
        reasons = change.first.decisions[1 if new > old else 0].reason
        return [
            change.count,
            tag("code", f"{before} → {after}"),
            join([command(change.command), tag("p", reasons, class_="small dim")]),
            accepted if change.accepted else tag("code", change.digest[:20], class_="dim"),
        ]

    looser = new < old
    title = join([chip("looser", "bad") if looser else chip("stricter", "good"), " ", str(old), " → ", str(new)])
    titles = (">Times", "Rules", "Command", "Accepted" if looser else "Digest")
    return tag(
        "section",
        tag("h2", title, id=f"{_id(old, new)}-title"),
        tag("p", verdict_chip(str(old)), " became ", verdict_chip(str(new)), class_="lead"),
        table(f"{old} to {new}", titles, map(row, changes[:MAX_ROWS])),
        more(min(len(changes), MAX_ROWS), len(changes), "--format json"),
        id=_id(old, new),
        aria_labelledby=f"{_id(old, new)}-title",
    )


def _rest(diff: Diff) -> Html:
    lines = [f"{diff.other_rule:,} commands are decided the same by another rule."] if diff.other_rule else []
    lines += [f"No longer locked, so that lower layers may weaken it: {what}." for what in diff.unlocked]
    lines += [f"{n:,} are asked with less: {what}." for what, n in diff.eased.most_common()]
    stale = ([tag("code", e.digest[:20]), tag("code", e.command), e.reason, why] for e, why in diff.accepted.unused())
    rows = ([row.source, row.place, row.why] for row in diff.unreadable[:MAX_ROWS])
    return section(
        "rest",
        "Also",
        "",
        tag("ul", (tag("li", each) for each in lines)) if lines else tag("p", "Nothing else differs in what was seen."),
        table("Acceptances that accept nothing", ("Digest", "Command", "Reason", "Why"), stale)
        if diff.accepted.unused()
        else None,
        table("Rows that could not be replayed", ("File", "Place", "Why"), rows) if diff.unreadable else None,
    )
