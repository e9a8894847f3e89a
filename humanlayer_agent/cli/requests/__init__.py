"""`hla requests`: what waits for a human, and what became of the rest.

`hla requests watch`: says what begins to wait for a human, and what becomes of it.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.grants import grants_line
from humanlayer_agent.cli.shared.completion import request_ids, run_ids
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, CommentOption, FormatOption, GlassOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import AnswersRecord, RequestRecord
from humanlayer_agent.cli.shared.store_access import open_store, stopped_line, time_text
from humanlayer_agent.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.model import ApprovalRequest
    from humanlayer_agent.cli.requests.answer import Wish
    from humanlayer_agent.report.attention import Answers
    from humanlayer_agent.store.sqlite import SQLStore

IdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="A request's id, or the beginning of it.", autocompletion=request_ids),
]
YesOption = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Show nothing, ask the passphrase: not for high severity."),
]

_INDENT = 22
_LOOKS = "looks at requests"

app = Commands(
    help="""See what waits for a human and what became of the rest; answer it.

    Examples: hla requests ls;  hla requests approve 4f1c"""
)


@app.command()
@prints(RequestRecord, many=True)
@prints(AnswersRecord, many=True, when="--figures")
def ls(
    store: StoreOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are settled.")] = False,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those of this run.", autocompletion=run_ids)
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Only the newest so many.")] = 50,
    figures: Annotated[
        bool,
        typer.Option("--figures", help="Instead: how quickly, and how often with yes, people answer, by rule too."),
    ] = False,
    output: FormatOption = "table",
) -> None:
    """List requests, oldest first.

    With --figures the whole log is read (hla audit report has more of it): answers in under 3 seconds, and rules that
    are always approved, show where people no longer read.

    Examples: hla requests ls;  hla requests ls --all -n 500;  hla requests ls --figures
    """
    human_only("requests ls", _LOOKS, store)
    opened = _settled(store)
    if figures:
        _print_figures(opened, run, output)
        return
    for line in filter(None, (stopped_line(opened), grants_line(opened))):
        typer.echo(line, err=output != "table")
    found = opened.requests(state=None if everything else "pending", run=run, last=count + 1)
    if len(found) > count:
        typer.echo(f"There are older ones: these are the newest {count} (-n shows more).", err=True)
    found = found[-count:]
    if output != "table":
        print_records(map(_record, found), output)
        return
    if not found:
        typer.echo("No requests." if everything else "No request waits for an answer.")
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows, shorten
    from humanlayer_agent.safe_text import one_line

    rows = [
        (
            request.id[:12],
            _state(request),
            time_text(request.created),
            request.decision.rule or "-",
            shorten(request.action.content),
        )
        for request in found
    ]
    titles = ("id", "state", "asked", "rule", "command")
    print_rows(console(), titles, [[one_line(cell) for cell in row] for row in rows], whole=True)


def _print_figures(opened: "SQLStore", run: str | None, output: str) -> None:
    from humanlayer_agent.report.attention import attention
    from humanlayer_agent.report.facts import Facts, Wanted

    found = attention(Facts(Wanted(run)).collect(opened.events()))
    records = [
        *(_answers("approver", each) for each in found.approvers),
        *(_answers("rule", each) for each in found.rules),
    ]
    if output != "table":
        print_records(records, output)
        return
    if not records:
        typer.echo("Nobody was asked.")
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    for of in ("approver", "rule"):
        rows = [
            (
                one_line(each["name"]) or "(no rule allows it)",
                f"{each['asked']:,}",
                f"{sum(each['answers'].values()):,}",
                f"{each['percent_approved']:.0f} %" if each["answers"] else "-",
                f"{each['median_ms'] / 1000:.1f} s" if each["median_ms"] is not None else "-",
                f"{each['percent_under_3_s']:.0f} %" if each["answers"] else "-",
            )
            for each in records
            if each["of"] == of
        ]
        if rows:
            print_rows(console(), (of, ">asked", ">answers", ">approved", ">median", ">under 3 s"), rows, whole=True)


def _answers(of: str, each: "Answers") -> AnswersRecord:
    return {
        "of": of,
        "name": each.name,
        "asked": each.asked,
        "answers": dict(each.answers),
        "percent_approved": round(each.approved, 1),
        "median_ms": each.median_ms if each.took else None,
        "percent_under_3_s": round(each.fast, 1),
    }


@app.command()
@prints(RequestRecord)
def show(
    request_id: IdArgument,
    store: StoreOption = None,
    output: FormatOption = "table",
) -> None:
    """Show one request whole: what was asked, why, and what became of it.

    Example: hla requests show 4f1c
    """
    from humanlayer_agent.channels.plain_text import as_text
    from humanlayer_agent.channels.presentation import present
    from humanlayer_agent.cli.requests.answer import find_request
    from humanlayer_agent.safe_text import one_line, visible

    human_only("requests show", _LOOKS, store)
    opened = _settled(store)
    request = find_request(opened, request_id)
    if output != "table":
        print_record(_record(request), output)
        return
    typer.echo(f"request {request.id}\nstate   {_state(request)}\nasked   {time_text(request.created)}")
    typer.echo(f"by      {one_line(request.requester)}\nrun     {one_line(request.action.run_id)}")
    if request.decided is not None:
        who = f" by {one_line(request.decided_by)}" if request.decided_by else ""
        typer.echo(f"settled {time_text(request.decided)}{who}")
    else:
        typer.echo(f"until   {time_text(request.expires)}")
    if request.rule is not None:
        typer.echo(f"route   {one_line(request.rule.name)}, approvals needed: {request.needed}")
    for vote in opened.votes(request.id):
        solo = ", who started the run" if vote.solo else ""
        typer.echo(f"answer  {one_line(vote.answer)} by {one_line(vote.person or vote.approver.principal)}{solo}")
    if request.parent:
        typer.echo(f"edit of {request.parent}")
    if request.edited:
        typer.echo(f"changed to\n{visible(request.edited)}")
    if request.comment:
        typer.echo(f"comment {visible(request.comment)}")
    typer.echo(f"\n{as_text(present(request))}")


@app.command()
def approve(
    request_ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="A request's id, or the beginning of it.", autocompletion=request_ids),
    ],
    comment: CommentOption = "",
    scope: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="SCOPE",
            help="Not only once. action: exactly this in its run; run: the like in its run; any: more widely; 1h: the "
            "like in any run.",
            show_default=False,
        ),
    ] = "",
    like: Annotated[bool, typer.Option("--like", help="Also all others that wait and are like it.")] = False,
    yes: YesOption = False,
    glass: GlassOption = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Let commands run: you are shown all of each, and type a word and your key's passphrase.

    Each runs once, unless --for says more: then you are shown before what that covers, how long and how often, and what
    it would have let through of earlier requests (hla grants has it afterwards). Several are shown below each other,
    what differs marked, with one vote each; what is of high severity is answered alone.

    Examples: hla requests approve 4f1c --comment "as agreed";  hla requests approve 4f1c --for 1h;  hla requests
    approve 4f1c --like
    """
    from humanlayer_agent.cli.requests.answer import Wish

    first, *more = request_ids
    wish = Wish("approve", first, comment, yes=yes, scope=scope, also=tuple(more), like=like, glass=glass)
    _answer(wish, store, channels)


@app.command()
def reject(
    request_id: IdArgument,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why not: the agent is told.")],
    yes: YesOption = False,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Say no, and why.

    Example: hla requests reject 4f1c "use the staging database"
    """
    from humanlayer_agent.cli.requests.answer import Wish
    from humanlayer_agent.errors import ConfigError

    if not reason.strip():
        raise ConfigError("a rejection needs a reason: the agent is told it")
    _answer(Wish("reject", request_id, reason, yes=yes), store, channels)


@app.command()
def edit(
    request_id: IdArgument,
    command: Annotated[
        str | None, typer.Option("--command", metavar="TEXT", help="The command instead; else your editor opens.")
    ] = None,
    comment: CommentOption = "",
    yes: YesOption = False,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Put another command in its place, which is judged again before it runs.

    Examples: hla requests edit 4f1c;  hla requests edit 4f1c --command "rm -r build/cache"
    """
    from humanlayer_agent.cli.requests.answer import Wish

    _answer(Wish("edit", request_id, comment, edited=command, yes=yes), store, channels)


@app.command()
def respond(
    request_id: IdArgument,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="What the agent gets instead of the output.")],
    yes: YesOption = False,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Answer the agent in words: it gets them instead of the output, and nothing runs.

    Example: hla requests respond 4f1c "the build directory is already clean"
    """
    from humanlayer_agent.cli.requests.answer import Wish

    if not words.strip():
        raise ConfigError("an answer in words needs words: the agent is told them")
    _answer(Wish("respond", request_id, words, yes=yes), store, channels)


@app.command()
@prints(RequestRecord, many=True)
def watch(
    store: StoreOption = None,
    output: FormatOption = "table",
) -> None:
    """Follow what waits for a human, and what becomes of it, until Ctrl-C.

    Examples: hla requests watch;  hla requests watch --format jsonl
    """
    from humanlayer_agent.cli.shared.tables import print_entry
    from humanlayer_agent.safe_text import one_line

    human_only("requests watch", _LOOKS, store)
    try:
        with closing(open_store(store)) as opened:
            if stopped := stopped_line(opened):
                print(stopped, file=sys.stderr, flush=True)
            if output != "table":
                print_records(map(_record, changes(opened)), output, live=True)
                return
            for request in changes(opened):
                when = time_text(request.created if request.decided is None else request.decided)
                said = "waits" if request.state == "pending" else request.state
                print_entry(f"{when}  {request.id[:12]}  {said:10}", one_line(request.action.content), _INDENT)
    except KeyboardInterrupt:
        return


def _answer(wish: "Wish", store: str | None, channels: Path | None) -> None:
    from humanlayer_agent.cli.requests.answer import answer_request

    raise typer.Exit(answer_request(wish, store, channels))


def _state(request: "ApprovalRequest") -> str:
    return f"{request.state}, agent gone" if request.abandoned else request.state


def _record(request: "ApprovalRequest") -> RequestRecord:
    return {
        "id": request.id,
        "state": request.state,
        "digest": request.digest,
        "body": request.body,
        "run": request.action.run_id,
        "requester": request.requester,
        "rules": list(request.decision.rules),
        "reason": request.decision.reason,
        "created": request.created,
        "expires": request.expires,
        "decided": request.decided,
        "decided_by": request.decided_by,
        "comment": request.comment,
        "edited": request.edited,
        "parent": request.parent,
        "route": request.rule.name if request.rule else "",
        "needed": request.needed,
        "abandoned": request.abandoned,
    }


def _settled(store: str | None) -> "SQLStore":
    """The store, in which what agents that are gone have left is settled: there may be no hub that sees to it."""
    opened = open_store(store)
    _settle(opened)
    return opened


def _settle(opened: "SQLStore") -> None:
    with suppress(StoreError):  # it can be looked at where it can't be written
        if opened.requests(state="pending", last=1):
            with closing(opened.to_write()) as written:
                written.reconcile()


INTERVAL = 0.25
"""Seconds between two looks at the store."""

RECONCILED = 20
"""Looks after which it is settled again what agents that are gone have left."""


def changes(opened: "SQLStore", wait: Callable[[float], None] = time.sleep) -> "Iterator[ApprovalRequest]":
    """Each request that waits, oldest first, and again when it waits no more; never ends by itself.

    Raises:
        ConfigError: the store can't be read any more.
    """
    waiting: set[str] = set()
    for look in itertools.count():
        if look % RECONCILED == 0:
            _settle(opened)
        try:
            pending = opened.requests(state="pending")
            settled = [opened.get(one) for one in sorted(waiting - {request.id for request in pending})]
        except StoreError as error:
            raise ConfigError(str(error)) from error
        for request in settled:
            if request is not None:
                yield request
        for request in pending:
            if request.id not in waiting:
                yield request
        waiting = {request.id for request in pending}
        wait(INTERVAL)
