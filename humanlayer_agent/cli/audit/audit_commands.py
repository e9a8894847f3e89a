"""`hla audit`: what happened, and whether the log is still what was written.

`hla audit hash`: was this value used?

`hla audit head`: how far the log goes, signed, to be kept elsewhere.

`hla audit accept-loss`: going on where events are missing that an anchor names.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from humanlayer_agent.cli.audit.export import export
from humanlayer_agent.cli.audit.purge import hold, purge
from humanlayer_agent.cli.audit.report import entries_of, evidence, report
from humanlayer_agent.cli.audit.verify import verify
from humanlayer_agent.cli.shared.completion import request_ids, rule_ids, run_ids
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.options import ChannelsOption, CommentOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import EventRecord, HeadRecord, MarkedEventRecord, MarkRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text

if TYPE_CHECKING:
    from humanlayer_agent.audit.anchor import Loss
    from humanlayer_agent.audit.chain import Entry

NO_HUMAN = 3
_WORDS_LIMIT = 2000


@prints(MarkRecord)
def hash_value(
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE|-", help="The value; - reads it from standard input, where no history keeps it."),
    ],
    store: StoreOption = None,
    output: FormatOption = "table",
) -> None:
    """Say whether a value was used.

    Prints the mark that stands in the log for it, and where it stands. Exit code 1: nowhere.

    Example: hla audit hash - < secret.txt
    """
    from humanlayer_agent.cli.shared.human_terminal import human_only

    human_only("hla audit hash", "asks whether a value was used: an agent could guess secrets", store)
    text = sys.stdin.read().rstrip("\n") if value == "-" else value
    opened = open_store(store)
    redactor = opened.redactor()
    mark = redactor.mark(text)
    whole = redactor.digest(text)
    found: list[MarkedEventRecord] = []
    for entry in opened.events():
        body = entry.body.decode()
        if mark in body or whole in body:
            event = entry.event
            found.append({"seq": entry.seq, "at": event["at"], "run": event.get("run"), "type": event["type"]})
    if output == "table":
        typer.echo(mark)
        for each in found:
            run = str(each["run"] or "-")[:8]
            typer.echo(f"{each['seq']:>6}  {time_text(each['at'])}  {run:<8}  {each['type']}")
    else:
        record: MarkRecord = {"mark": mark, "events": found}
        print_record(record, output)
    raise typer.Exit(0 if found else 1)


@prints(HeadRecord)
def head(store: StoreOption = None, output: FormatOption = "table") -> None:
    """Sign the newest event, and print that on one line. Keep it where nobody who can write the log can reach it.

    Example: hla audit head | mail -s "head of the log" auditor@example.com
    """
    from humanlayer_agent.audit.heads import head_text
    from humanlayer_agent.errors import ConfigError, StoreError

    opened = open_store(store)
    try:
        written = opened.to_write().write_head()
    except StoreError as error:
        raise ConfigError(str(error)) from error
    if output == "table":
        typer.echo(head_text(written))
    else:
        print_record({"head": head_text(written), **asdict(written)}, output)


def accept_loss(
    comment: CommentOption = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Go on with a store whose log was set back, or that is gone: you see what is missing, and sign that.

    Nothing runs with such a store: a backup was restored, a disk was lost, or somebody wants something forgotten. It
    takes a word and your key's passphrase, and somebody who may approve by the route "default". What was lost stands in
    the log then (audit.loss-accepted). End the agents and hubs that have used the store first.

    Example: hla audit accept-loss --comment "Monday's backup was restored"
    """
    from humanlayer_agent.cli.shared.human_terminal import human_only

    human_only("audit accept-loss", "goes on without what is missing", store)
    from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    protect_secrets()
    try:
        loss = _loss_of(store)
        if loss is None:
            typer.echo("there is nothing to accept: no event is missing that an anchor knows of")
            return
        with controlling_terminal() as fd:
            raise typer.Exit(_accepted(fd, store, loss, comment, channels))
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: not accepted: only a human at a terminal does that: {error}", err=True)
        raise typer.Exit(NO_HUMAN) from error
    except (StoreError, OSError) as error:
        raise ConfigError(f"not accepted: {error}") from error


def _loss_of(location: str | None) -> "Loss | None":
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.store import access
    from humanlayer_agent.store.log_position import LogLost

    try:
        access.refuse_lost(location)
        if not access.is_there(location):
            raise ConfigError(f"there is no store at {access.name_of(location)}, and no anchor says that there was one")
        access.open_store(location).close()
    except LogLost as error:
        return error.loss
    return None


def _accepted(fd: int, location: str | None, loss: "Loss", comment: str, channels: Path | None) -> int:
    from humanlayer_agent.approvals.model import Approver, Refused
    from humanlayer_agent.cli.shared.human_signature import credentials, typed_word
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.store import access
    from humanlayer_agent.store.log_heads import accept_loss as accept

    authority, signer = credentials(channels)
    if not typed_word(fd, one_line(f"{loss.description}."), "accept", "go on without it") or not ask(fd, signer):
        typer.echo("nothing was accepted")
        return 1
    who, words = Approver(os_user(), "command-line", "terminal"), one_line(comment.strip())[:_WORDS_LIMIT]
    with closing(access.open_store(location, anchored=False)) as opened:
        refused = accept(opened, loss, who, words, authority, signer)
    if isinstance(refused, Refused):
        raise ConfigError(f"not accepted: {one_line(refused.reason)}")
    typer.echo("accepted: the log says what is missing (audit.loss-accepted), and agents may act again")
    return 0


app = Commands(
    help="""Read the log of decisions, verify that it is what was written, report on it, keep it elsewhere.

    Examples: hla audit tail -f;  hla audit verify"""
)
app.command()(report)
app.command()(evidence)


_POLL_SECONDS = 0.25
_INDENT = 8
_SHOWN = 200  # characters of a command in a table; all of it is in the other format


@app.command()
@prints(EventRecord, many=True)
def tail(
    store: StoreOption = None,
    count: Annotated[int, typer.Option("-n", metavar="N", min=1, help="So many events.")] = 20,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new ones until Ctrl-C.")] = False,
    output: FormatOption = "table",
) -> None:
    """Show the newest events.

    Example: hla audit tail -n 50 -f
    """
    opened = open_store(store)

    def entries() -> "Iterator[Entry]":
        seen = -1
        for entry in opened.events(last=count):
            seen = entry.seq
            yield entry
        while follow:
            time.sleep(_POLL_SECONDS)
            for entry in opened.events(after=seen):
                seen = entry.seq
                yield entry

    _print(entries(), output, live=follow)


@app.command()
@prints(EventRecord, many=True)
def query(
    store: StoreOption = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Only events of this run.", autocompletion=run_ids)
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="ID", help="Only events of this request.", autocompletion=request_ids)
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help='"vote.late", or a family: "vote".')
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Only decisions that this rule was hit in.", autocompletion=rule_ids),
    ] = None,
    verdict: Annotated[
        Literal["allow", "ask", "deny"] | None, typer.Option(help="Only decisions with this verdict.")
    ] = None,
    person: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Only what this person or identity did.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only events with this text in them, in any case.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="2026-03-01, 2026-03-01T12:00, or 90m, 12h, 7d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="The same: only what was before.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE", help="Only with this in a field; != for anything else. Several: all of them."
        ),
    ] = None,
    after: Annotated[
        int, typer.Option(metavar="N", help="Only events with a greater number.", show_default=False)
    ] = -1,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Of an export, instead of a store.")
    ] = None,
    output: FormatOption = "table",
) -> None:
    """Show the events that match everything, oldest first.

    Examples: hla audit query --type vote --by alice --since 7d;  hla audit query --where approver.channel=slack
    """
    from itertools import chain

    from humanlayer_agent.audit.search import Search, condition, moment
    from humanlayer_agent.errors import ConfigError, did_you_mean
    from humanlayer_agent.safe_text import one_line

    if store is not None and export is not None:
        raise ConfigError("name a store or an export, not both")
    now = time.time_ns() // 1_000_000
    search = Search(
        kind=kind,
        run=run,
        request=request,
        rule=rule,
        verdict=verdict,
        person=person,
        text=text,
        since=None if since is None else moment(since, now),
        until=None if until is None else moment(until, now),
        where=tuple(condition(each) for each in where or ()),
    )
    entries = (
        _exported(export, after)
        if export is not None
        else open_store(store).events(run=run, request=request, type=kind, after=after)
    )
    found = (entry for entry in entries if search(entry))
    first = next(found, None)
    if first is None and rule is not None and (hint := did_you_mean(rule, map(str, rule_ids("")), "")):
        typer.echo(f"no event has a rule {one_line(rule)}; {hint}", err=True)
    _print(found if first is None else chain((first,), found), output)


def _exported(path: Path, after: int) -> "Iterator[Entry]":
    """The events of an export with a greater number than `after`, as far as they can be read."""
    for entry in entries_of(path):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            if entry.event["seq"] > after:
                yield entry


app.command()(verify)
app.command()(export)
app.command("hash")(hash_value)
app.command()(head)
app.command()(purge)
app.add_typer(hold, name="hold")
app.command()(accept_loss)


def _print(entries: Iterable["Entry"], output: str, *, live: bool = False) -> None:
    """Print entries one by one."""
    if output == "jsonl" and not sys.stdout.isatty():  # the very bytes that were hashed
        for entry in entries:
            sys.stdout.buffer.write(entry.line)
            if live:
                sys.stdout.buffer.flush()
    elif output != "table":
        print_records(map(_record, entries), output, live=live)
    else:
        from humanlayer_agent.cli.shared.tables import print_entry

        for entry in entries:
            print_entry(*_readable(entry), _INDENT)


def _record(entry: "Entry") -> EventRecord:
    try:
        event = entry.event
    except ValueError:  # a log that was tampered with can hold anything
        event = {"seq": entry.seq, "type": "unreadable"}
    return {"e": event, "h": entry.hash}


def _readable(entry: "Entry") -> tuple[str, str]:
    """Return the number, time, run and type of an event, and what it says."""
    try:
        return _line(entry.event)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{entry.seq:>6}", "this event can't be read: see hla audit verify"


def _line(event: dict[str, Any]) -> tuple[str, str]:
    from humanlayer_agent.safe_text import one_line

    run = str(event.get("run") or "")[:8] or "-"
    head = f"{event['seq']:>6}  {time_text(event['at'])}  {run:<8}  {event['type']:<18}"
    return one_line(head), one_line(_what(event).rstrip())


def _what(event: dict[str, Any]) -> str:
    """The fields of an event that a reader looks for first, by its family."""
    said = {name: _text(value) for name, value in event.items()}
    match event["type"].partition(".")[0]:
        case "decision":
            return _decision(event, said)
        case "vote":
            who = f"{said['answer']} by {_text(event['approver']['principal'])} ({_text(event['approver']['channel'])})"
            return "; ".join(filter(None, (who, said["comment"], said.get("why", ""))))
        case "grant":
            return _grant(event)
        case "request":
            by = f"by {said['by']}" if "by" in said else ""
            return " ".join(filter(None, (said["request"][:12], by, said.get("why"))))
        case "permit" | "exec":
            parts = (said.get("permit", "")[:12], f"exit {said['returncode']}" if "returncode" in said else "")
            files = " ".join(_text(file.get("path", "")) for file in event.get("files") or ())
            return " ".join(filter(None, (*parts, said.get("detail"), said.get("why"), files)))
        case "hook":
            return " ".join(filter(None, (said.get("agent"), said.get("why"))))
        case "run":
            return " ".join(
                filter(None, (said.get("agent"), said.get("requester"), said.get("status"), said.get("why")))
            )
        case "policy":
            return " ".join(filter(None, (said.get("policy"), said.get("policy_digest", "")[:12], said.get("error"))))
        case "supervision":
            who = said.get("by") or _text((event.get("approver") or {}).get("principal", ""))
            words = said.get("reason") or said.get("comment") or said.get("refusal")
            return " ".join(filter(None, (said.get("halt", "")[:12], f"by {who}", words)))
        case "person" | "hold" | "retention":
            return _upkeep(said)
        case "files":
            count = f"{said['files']} files" if "files" in said else ""
            unkept = f"{said['left_out']} left out" if event.get("left_out") else ""
            by = f"by {said['by']}" if "by" in said else ""
            return " ".join(filter(None, (count, unkept, said.get("project"), by, said.get("why"))))
        case "audit" | "key":
            head = event.get("head")
            if isinstance(head, dict):
                whose = "the user's key" if head.get("key") == "user" else "a key of its process"
                return f"signed up to event {head.get('seq')} with {whose}"
            lost = event.get("lost")
            if isinstance(lost, dict):
                left = event.get("left")
                since = "all events" if left is None else f"events from {left + 1}"
                words = f"goes on without {since} to {lost.get('seq')}, by {said.get('person')}"
                return f"{words}: {said['comment']}" if said.get("comment") else words
            names = ("store", "why", "file", "signer")
            return " ".join(said[name] for name in names if name in said)
        case _:
            return " ".join(filter(None, (said.get("channel"), said.get("server"), _tools(event))))


def _upkeep(said: dict[str, str]) -> str:
    """Who has left, what is held, and what was deleted."""
    if "requests" in said:
        return f"{said['requests']} requests and {said.get('permits')} permits, by {said.get('by')}"
    what = said.get("hold", "")[:8], said.get("person", "")
    if "hold" in said:
        kept = f"run {said['run'][:8]}" if "run" in said else "a time" if "since" in said else "everything"
        what = (what[0], f"{kept} by {what[1]}")
    return " ".join(filter(None, (*what, f"by {said['by']}" if "by" in said else "", said.get("reason"))))


def _decision(event: dict[str, Any], said: dict[str, str]) -> str:
    """What was decided of a command, and by what; of a call that was left to a coding agent, which it is."""
    if "wanted" in said:
        return said["wanted"]
    by = " by grant ".join((said.get("rule") or "default", *(_text(each)[:4] for each in event.get("grants") or ())))
    command = said["command"]
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}... ({len(command)} characters)"
    return " ".join(filter(None, (said["verdict"].upper(), f"[{by}]", said.get("denied"), shown)))


def _tools(event: dict[str, Any]) -> str:
    """The tools of a server that have become others."""
    named = ((how, ", ".join(map(_text, event.get(how) or ()))) for how in ("added", "changed", "removed"))
    return "; ".join(f"{how}: {names}"[:_SHOWN] for how, names in named if names)


def _grant(event: dict[str, Any]) -> str:
    """What became of a grant: given within which bounds, used the how manieth time, revoked by whom."""
    people = event["by"] if isinstance(event["by"], list) else [event["by"]]
    use = f"{event['use']} of {event['max_uses']}" if "use" in event else ""
    bounds = f"until {time_text(event['until'])}, {event['max_uses']} uses" if "until" in event else ""
    who = f"by {' and '.join(map(_text, people))}"
    words, reason = (_text(event.get(name) or "") for name in ("words", "reason"))
    return " ".join(filter(None, (_text(event["grant"])[:12], words, use, who, bounds, reason)))


def _text(value: Any) -> str:
    """A field as text: what was not Unicode has an escaped form beside it."""
    return str(value["display"] if isinstance(value, dict) and "display" in value else value)
