"""The parts of the auditor's report that are tables: approvals, denials, overrides, rules, policies, runs."""

from collections.abc import Sequence

from humanlayer_agent.report.attention import Attention
from humanlayer_agent.report.facts import Decision, Facts, Request, Vote
from humanlayer_agent.report.html import Content, Html, join, table, tag, text
from humanlayer_agent.report.page import chip, command, duration, moment, more, section, share

MAX_APPROVALS = 5_000
MAX_ROWS = 1_000
"""Most rows of a table; the newest are shown, and the page says how many there are."""

_LOOKS = {
    "approved": "good",
    "edited": "warn",
    "answered": "warn",
    "rejected": "bad",
    "expired": "bad",
    "run stopped": "bad",
    "revoked": "bad",
    "lapsed": "warn",
    "invalidated": "bad",
    "withdrawn": "",
    "pending": "",
}


def approvals(facts: Facts) -> Html:
    """Every question that a human answered: who, how that is known, what they saw, how long they took."""
    answered = [request for request in facts.requests.values() if request.votes]
    rows = [_approval(request) for request in answered[-MAX_APPROVALS:]]
    titles = ("Asked", "What they saw", "Answer", "Who, and how that is known", ">Took", "Then")
    return section(
        "approvals",
        "Approvals and refusals",
        "Every question that a human answered. The answer is bound to the digest of exactly what was shown.",
        tag("div", table("Every question that a human answered", titles, rows), class_="rows")
        if rows
        else tag("p", "Nobody was asked, or nobody answered."),
        more(len(rows), len(answered), "hla audit report --csv"),
    )


def _approval(request: Request) -> list[Content]:
    deciding = request.deciding
    took = duration(request.took)
    fast = request.took is not None and request.took < 3_000
    return [
        moment(request.asked),
        saw(request.decision, request),
        join([chip(request.state, _LOOKS.get(request.state, "")), _words(request.votes)]),
        join([_who(vote) for vote in request.votes]),
        join([took, tag("br"), chip("fast", "warn")]) if fast and deciding else took,
        _then(request),
    ]


def saw(decision: Decision | None, request: Request | None = None) -> Html:
    """A command with what stood beside it when it was asked about."""
    if decision is None:
        return tag("span", "asked before the time of this report", class_="dim")
    rule = decision.rule or "no rule allows it"
    about = tag(
        "p",
        join([rule, f" · {decision.severity} · {decision.reason}"]),
        class_="small dim",
    )
    where = f"in {decision.cwd} · run {decision.run[:12]} · event {decision.seq}"
    shown = f" · digest {request.votes[-1].saw[:17]}" if request is not None and request.votes else ""
    edits = [vote.edited for vote in request.votes if vote.edited] if request is not None else []
    edited = [tag("p", "changed to ", tag("code", each), class_="small") for each in edits]
    return join([command(decision.command), about, tag("p", where + shown, class_="small dim"), edited])


def _who(vote: Vote) -> Html:
    known = f"{vote.assurance or 'unknown'} via {vote.channel or '?'}, {vote.how or '?'}"
    ids = f"{vote.principal} · process {vote.pid}" + (f" · key {vote.signer[:12]}" if vote.signer else " · not signed")
    marks = [chip("solo", "warn")] if vote.solo else []
    answer = "" if vote.answer == "approve" else f" ({vote.answer})"
    return tag(
        "div",
        tag("strong", vote.person or vote.principal),
        answer,
        " ",
        marks,
        tag("p", known, class_="small"),
        tag("p", ids, class_="small dim"),
    )


def _words(votes: Sequence[Vote]) -> Html:
    return join(tag("p", f"“{vote.comment}”", class_="small") for vote in votes if vote.comment)


def _then(request: Request) -> Html:
    ran = request.execution
    if ran is None:
        said = request.why or ("not used" if request.state == "approved" else "did not run")
        return tag("span", said, class_="dim")
    if ran.unknown:
        return join([chip("unknown", "bad"), tag("p", "the supervisor died while it ran", class_="small")])
    if ran.finished is None:
        return text("runs, or its end is not in this report")
    ended = f"exit {ran.returncode}" if ran.returncode is not None else (ran.detail or "no exit code")
    used = tag("p", "used ", moment(request.used), class_="small dim") if request.used is not None else None
    return join([chip(ended, "good" if ran.returncode == 0 else "warn"), used])


def denials(facts: Facts) -> Html:
    """What the policy denied, what nobody answered, what a stopped run wanted."""
    silent = [r for r in facts.requests.values() if not r.votes and r.state in ("expired", "withdrawn", "run stopped")]
    rows: list[tuple[int, list[Content]]] = []
    for decision in facts.denials[-MAX_ROWS:]:
        why = decision.denied or "policy"
        rows.append((decision.at, [moment(decision.at), chip(why, "bad"), saw(decision)]))
    for request in silent[-MAX_ROWS:]:
        said = {"expired": "nobody answered", "withdrawn": request.why or "withdrawn"}.get(request.state, request.state)
        rows.append((request.asked, [moment(request.asked), chip(said, "warn"), saw(request.decision)]))
    rows.sort(key=lambda row: row[0])
    return section(
        "denials",
        "Denials and time-outs",
        "What did not run, although no human refused it: a rule denied it, or nobody answered in time.",
        tag("div", table("Denials and time-outs", ("When", "Why", "Command"), (row for _, row in rows)), class_="rows")
        if rows
        else tag("p", "None."),
        more(len(rows), len(facts.denials) + len(silent), "hla audit report --json"),
    )


def overrides(facts: Facts) -> Html:
    """What ran although a rule would have stopped it, was changed by a human, or was approved by whoever started it."""
    rows: list[tuple[int, list[Content]]] = []
    for decision in facts.observed[-MAX_ROWS:]:
        said = chip(f"observed: {decision.verdict}, not enforced", "bad")
        rows.append((decision.at, [moment(decision.at), said, text("nobody"), saw(decision)]))
    for request in facts.requests.values():
        for vote in request.votes:
            what = "solo approval" if vote.solo and vote.answer == "approve" else _SPECIAL.get(vote.answer)
            if what:
                who = join([tag("strong", vote.person or vote.principal), tag("p", vote.assurance, class_="small")])
                rows.append((vote.at, [moment(vote.at), chip(what, "warn"), who, saw(request.decision, request)]))
    rows.sort(key=lambda row: row[0])
    titles = ("When", "What", "Who", "Command")
    return section(
        "overrides",
        "Overrides and solo approvals",
        "Verdicts that were only observed, commands that a human changed, approvals by the person who started the run, "
        "and approvals that were escalated or taken back.",
        tag("div", table("Overrides", titles, (row for _, row in rows[-MAX_ROWS:])), class_="rows")
        if rows
        else tag("p", "None."),
        more(min(len(rows), MAX_ROWS), len(rows), "hla audit report --json"),
    )


_SPECIAL = {"edit": "edited", "escalate": "escalated", "revoke": "revoked", "terminate": "stopped the run"}


def people(found: Attention) -> Html:
    """What each approver answered."""
    rows = (
        [
            use.name,
            use.answers["approve"],
            use.answers["reject"],
            use.answers.total() - use.answers["approve"] - use.answers["reject"],
            duration(use.median_ms),
            f"{use.fast:.0f} %",
        ]
        for use in found.approvers
    )
    titles = ("Approver", ">Approved", ">Rejected", ">Other", ">Median time", ">Under 3 s")
    return table("Answers by approver", titles, rows, first_is_heading=True)


def candidates(found: Attention, policy: str) -> Html:
    """Rules that were approved each time: what an allow rule could save."""
    if not found.candidates:
        return tag("p", "No rule was approved every time it asked.", class_="dim")
    rows = ([each.rule, each.answers, command(each.example, 90)] for each in found.candidates)
    tried = f"hla audit export > log.jsonl\nhla policy diff {policy} ./candidate.yaml log.jsonl"
    return join(
        [
            tag(
                "p",
                "Each of these rules asked, and every answer was yes. They are candidates for a narrow allow rule. "
                "Write it in candidate.yaml, and see over this very log what it would change before it is in force:",
            ),
            tag("pre", tried),
            table("Rules that were always approved", ("Rule", ">Approved", "For example"), rows, first_is_heading=True),
        ]
    )


def rules(facts: Facts, known: Sequence[str]) -> Html:
    """What each rule did, and which ones did nothing."""
    used = sorted((u for u in facts.rules.values() if u.id), key=lambda use: -use.applied)
    rows = (
        [
            tag("code", use.id),
            use.applied,
            *(use.decided[verdict] or text("–") for verdict in ("allow", "ask", "deny")),
            use.ends["approved"] or text("–"),
            (use.ends["rejected"] + use.ends["answered"] + use.ends["run stopped"]) or text("–"),
            share(use.ends["approved"], use.ends.total()),
        ]
        for use in used
    )
    titles = ("Rule", ">Applied", ">Allowed", ">Asked", ">Denied", ">Approved", ">Refused", ">Approved of asked")
    never = [id_ for id_ in known if id_ not in facts.rules]
    if not known:
        idle = tag("p", "Name the policy with --policy to see which rules were never hit.", class_="dim")
    elif never:
        listed = join(join([tag("code", id_), ", " if n < len(never) - 1 else "."]) for n, id_ in enumerate(never))
        idle = tag("p", tag("strong", f"{len(never)} of {len(known)} rules were never hit: "), listed)
    else:
        idle = tag("p", f"All {len(known)} rules were hit.")
    return section(
        "rules",
        "Rules",
        "How often each rule applied, what it decided, and what became of its questions.",
        table("Use of rules", titles, rows, first_is_heading=True),
        idle,
    )


def policies_and_runs(facts: Facts) -> Html:
    """Which policies judged, and for whom."""
    policies = (
        [tag("strong", p.name), tag("code", p.digest), moment(p.first), moment(p.last), p.decisions, len(p.runs)]
        for p in facts.policies.values()
    )
    runs = [run for run in facts.runs.values() if run.started is not None or run.verdicts]
    listed = (
        [
            tag("code", run.id[:12]),
            run.agent or "–",
            run.requester or "–",
            tag("code", run.project or "–"),
            moment(run.started),
            run.status or text("not ended"),
            *(run.verdicts[verdict] or text("–") for verdict in ("allow", "ask", "deny")),
        ]
        for run in runs[-MAX_ROWS:]
    )
    titles = ("Run", "Agent", "Started by", "Project", "Began", "Ended", ">Allow", ">Ask", ">Deny")
    return section(
        "policies",
        "Policies in force, and runs",
        "A digest identifies everything that decides: the rules, and the values of their variables.",
        table("Policies", ("Policy", "Digest", "First", "Last", ">Decisions", ">Runs"), policies),
        tag("h3", f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}"),
        table("Runs", titles, listed),
        more(min(len(runs), MAX_ROWS), len(runs), "hla audit report --json"),
    )


def unknown(facts: Facts) -> Html:
    """Commands that began, and of which nobody knows how they ended."""
    rows = (
        [moment(ran.started), saw(decision), tag("code", run[:12])] for run, decision, ran in facts.unknown[-MAX_ROWS:]
    )
    return section(
        "unknown",
        "Commands with unknown outcome",
        "The supervisor died while they ran. They are never run again by themselves: look at what they left behind.",
        table("Commands with unknown outcome", ("Started", "Command", "Run"), rows)
        if facts.unknown
        else tag("p", "None."),
        more(min(len(facts.unknown), MAX_ROWS), len(facts.unknown), "hla audit query --type exec.unknown"),
    )


def redactions(facts: Facts) -> Html:
    """How many secrets were kept out of the log, and from where."""
    rows = ([what, n] for what, n in facts.erased.most_common())
    return section(
        "redactions",
        "Redactions",
        "Secrets never reach the log: a mark stands in their place. Equal marks are equal secrets (hla audit hash).",
        tag("p", f"{facts.redacted:,} {'command' if facts.redacted == 1 else 'commands'} had secrets taken out."),
        table("Erased", ("Where it stood", ">Commands"), rows, first_is_heading=True) if facts.erased else None,
    )


def refused(facts: Facts) -> Html:
    """Answers that did not count, and what happened to the log itself."""
    votes = (
        [
            moment(vote.at),
            chip(vote.outcome, "bad"),
            vote.answer,
            vote.principal,
            vote.why or "–",
            tag("code", id_[:12]),
        ]
        for id_, vote in facts.refused_votes[-MAX_ROWS:]
    )
    log = ([seq, moment(at), tag("code", kind), details] for seq, at, kind, details in facts.about_log[-MAX_ROWS:])
    stops = ([seq, moment(at), tag("code", kind), who, words] for seq, at, kind, who, words in facts.stops[-MAX_ROWS:])
    titles = ("When", "Outcome", "Answer", "Who", "Why", "Request")
    return section(
        "refused",
        "Answers that did not count, stops, and the log itself",
        "Late, doubled and refused answers changed nothing. Every one left its mark.",
        table("Answers that did not count", titles, votes) if facts.refused_votes else tag("p", "All answers counted."),
        more(min(len(facts.refused_votes), MAX_ROWS), len(facts.refused_votes), "hla audit query --type vote"),
        table("Stops of every agent", (">Event", "When", "Type", "Who", "Words"), stops) if facts.stops else None,
        table("Events about the log", (">Event", "When", "Type", "Details"), log) if facts.about_log else None,
    )
