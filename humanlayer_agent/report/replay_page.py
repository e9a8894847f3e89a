"""What a replay found, as a page."""

from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.replay.figures import Figures, Stopped
from humanlayer_agent.policy_tools.replay.formats import Found
from humanlayer_agent.report import svg
from humanlayer_agent.report.html import Html, join, table, tag, text
from humanlayer_agent.report.page import cards, chart, command, more, page, section, share, verdict_chip
from humanlayer_agent.report.svg import Series

MAX_ROWS = 1_000
_SHOWN_RULES = 15


def replay_page(figures: Figures, policy: Policy, found: Found) -> str:
    """The page as one HTML file."""
    stopped = figures.most_stopped()
    sections = [
        _overview(figures),
        _rules(figures),
        _commands("asked", "What would not just run", [each for each in stopped if not each.unread]),
        _commands("unread", "Code that nobody could read", [each for each in stopped if each.unread]),
        _left_out(figures, found),
    ]
    names = (
        ("overview", "At a glance"),
        ("rules", "Rules"),
        ("asked", "What would not just run"),
        ("unread", "Unread code"),
        ("left", "Left out"),
    )
    under = f"{figures.commands:,} commands of {len(figures.runs):,} recorded runs. Nothing was executed."
    return page(f"Replay: what the policy {policy.name} would have said", under, (), sections, names)


def _overview(figures: Figures) -> Html:
    def row(verdict: Verdict) -> list[object]:
        count = figures.verdicts[verdict]
        unread = figures.unread[verdict] or text("–")
        return [verdict_chip(str(verdict)), count, share(count, figures.commands), unread]

    quick = f"{figures.percentile(0.5):,} µs"
    changed = (
        tag("p", "Decided differently than the log says: ", ", ".join(_changed(figures)), class_="lead")
        if figures.changed
        else None
    )
    return section(
        "overview",
        "At a glance",
        "",
        cards(
            (
                (f"{figures.asks_per_100:.2f}", "asks per 100 commands", ""),
                (f"{figures.asks_per_run:.2f}", "asks a run", ""),
                (f"{len(figures.runs_asked):,} of {len(figures.runs):,}", "runs ask at all", ""),
                (f"{figures.verdicts[Verdict.DENY]:,}", "denied", ""),
                (quick, "median time of a decision", ""),
                (f"{figures.unreadable_count:,}", "rows left out", "attention" if figures.unreadable_count else ""),
            )
        ),
        table("Verdicts", ("Verdict", ">Commands", ">Share", ">Unread code"), map(row, Verdict), first_is_heading=True),
        changed,
    )


def _changed(figures: Figures) -> list[str]:
    return [f"{then} then, {now} now ({n:,})" for (then, now), n in figures.changed.most_common()]


def _rules(figures: Figures) -> Html:
    used = sorted((rule for rule in figures.rules.values() if rule.hits), key=lambda rule: -rule.hits)
    asking = sorted(
        (r for r in used if r.decided[Verdict.ASK] or r.decided[Verdict.DENY]),
        key=lambda r: -(r.decided[Verdict.ASK] + r.decided[Verdict.DENY]),
    )[:_SHOWN_RULES]
    series = [
        Series("asks", "ask", [rule.decided[Verdict.ASK] for rule in asking]),
        Series("denials", "deny", [rule.decided[Verdict.DENY] for rule in asking]),
    ]
    about = "How many commands each rule would have stopped."
    picture = svg.bars("Asks and denials by rule", about, [rule.id for rule in asking], series)
    rows = ([tag("code", r.id), r.hits, *(r.decided[v] or text("–") for v in Verdict)] for r in used)
    titles = ("Rule", ">Applied", ">Allowed", ">Asked", ">Denied")
    never = join(join([tag("code", rule.id), " "]) for rule in figures.never_hit)
    return section(
        "rules",
        "Rules",
        "",
        chart("Asks and denials by rule", about, picture, legend=series) if asking else None,
        table("Use of rules", titles, rows, first_is_heading=True),
        tag("p", tag("strong", f"{len(figures.never_hit)} rules met nothing: "), never) if figures.never_hit else None,
    )


def _commands(id_: str, title: str, stopped: list[Stopped]) -> Html:
    rows = (
        [
            each.count,
            len(each.runs),
            verdict_chip(str(each.verdict)),
            join([command(each.command), tag("p", f"{each.rule} · {each.reason}", class_="small dim")]),
            tag("span", f"{each.first.step.source} {each.first.step.place}", class_="small dim"),
        ]
        for each in stopped[:MAX_ROWS]
    )
    titles = (">Times", ">Runs", "Verdict", "Command", "First seen")
    return section(
        id_,
        title,
        "Each command once; those that come most often first.",
        table(title, titles, rows) if stopped else tag("p", "None."),
        more(min(len(stopped), MAX_ROWS), len(stopped), "--format json"),
    )


def _left_out(figures: Figures, found: Found) -> Html:
    rows = ([row.source, row.place, row.why] for row in figures.unreadable[:MAX_ROWS])
    tools = ([name, n] for name, n in figures.no_commands.most_common())
    return section(
        "left",
        "Left out",
        "What could not be replayed, and what was no command.",
        table("Rows that could not be replayed", ("File", "Place", "Why"), rows)
        if figures.unreadable
        else tag("p", "Every row was replayed."),
        more(min(len(figures.unreadable), MAX_ROWS), figures.unreadable_count, "--format json"),
        table("Tool calls that run no command", ("Tool", ">Calls"), tools, first_is_heading=True)
        if figures.no_commands
        else None,
        tag("p", f"{len(found.others):,} other files in the folders are no logs.") if found.others else None,
    )
