"""`hla audit export`: the log as JSON lines, with the bytes that were hashed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from humanlayer_agent.cli.shared.end_signal import EndSignal
from humanlayer_agent.cli.shared.options import StoreOption
from humanlayer_agent.cli.shared.store_access import open_store

if TYPE_CHECKING:
    from humanlayer_agent.audit.chain import Entry
    from humanlayer_agent.audit.export import Exporter
    from humanlayer_agent.store.sqlite import SQLStore

_POLL_SECONDS = 0.25


def export(
    store: StoreOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Append to it, from where it ends.")
    ] = None,
    after: Annotated[
        int,
        typer.Option(metavar="N", help="Only events with a greater number; not with --output.", show_default=False),
    ] = -1,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new ones until Ctrl-C.")] = False,
    form: Annotated[
        Literal["jsonl", "ocsf"],
        typer.Option("--format", help="jsonl: the log itself; ocsf: what SIEMs read, which proves nothing."),
    ] = "jsonl",
) -> None:
    """Write the log as JSON lines. They end with a signed head, and `hla audit verify FILE` checks them.

    A file that is there already is gone on with: a line that was cut off is written anew, and the log says so.

    With --format ocsf each event is one of the Open Cybersecurity Schema Framework, on standard output: Process
    Activity for what was judged and ran, API Activity for what people did. --after goes on where the last one ended
    (metadata.sequence).

    Examples: hla audit export -o audit.jsonl --follow;  hla audit export --format ocsf --follow
    """
    from humanlayer_agent.errors import ConfigError

    if form == "ocsf":
        if output is not None:
            raise ConfigError("--format ocsf is written to standard output: it can't be gone on with, or verified")
        _to_stdout(open_store(store), None, after, follow, ocsf=True)
        return
    if output is not None and after >= 0:
        raise ConfigError("--after can't be used with --output: a file is gone on with where it ends")
    reader = open_store(store)
    writer = _writable(reader)
    if output is None:
        _to_stdout(reader, writer, after, follow)
    else:
        _to_file(reader, writer, output, follow)


def _writable(reader: "SQLStore") -> "SQLStore | None":
    """The same store, to write heads into it; None for a copy that can't be written."""
    from humanlayer_agent.errors import StoreError

    try:
        return reader.to_write()
    except StoreError as error:
        typer.echo(f"no head is written: {error}", err=True)
        return None


def _head(writer: "SQLStore | None") -> None:
    if writer is not None:
        writer.write_head()


def _to_stdout(reader: "SQLStore", writer: "SQLStore | None", after: int, follow: bool, *, ocsf: bool = False) -> None:
    line = _ocsf(reader) if ocsf else lambda entry: entry.line

    def some(after: int) -> int:
        for entry in reader.events(after=after):
            sys.stdout.buffer.write(line(entry))
            after = entry.seq
        sys.stdout.flush()
        return after

    with EndSignal() as end_signal:
        _head(writer)
        after = some(after)
        while follow and not end_signal.wait(_POLL_SECONDS):
            after = some(after)
        if follow:
            _head(writer)
            some(after)


def _ocsf(reader: "SQLStore") -> "Callable[[Entry], bytes]":
    from humanlayer_agent import __version__
    from humanlayer_agent.audit.export import OCSF
    from humanlayer_agent.safe_text import one_line

    opened = next(iter(reader.events(type="audit.opened", last=1)), None)
    made = OCSF(str(opened.event.get("store", "")) if opened else "", __version__)

    def line(entry: "Entry") -> bytes:
        try:
            return json.dumps(made(entry), separators=(",", ":")).encode() + b"\n"
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            typer.echo(f"event {entry.seq} is left out: {one_line(str(error))}: see hla audit verify", err=True)
            return b""

    return line


def _to_file(reader: "SQLStore", writer: "SQLStore | None", output: Path, follow: bool) -> None:
    from humanlayer_agent.audit import events
    from humanlayer_agent.audit.export import Exporter

    exporter = Exporter(output)
    try:
        _check_same(reader, exporter)
        if exporter.recovered is not None and writer is not None:
            writer.record(events.AUDIT_RECOVERED, file=str(output.absolute()), **exporter.recovered)
        with EndSignal() as end_signal:
            _head(writer)
            _append(exporter, reader)
            while follow and not end_signal.wait(_POLL_SECONDS):
                _append(exporter, reader)
            if follow:
                _head(writer)
                _append(exporter, reader)
    except OSError as error:
        from humanlayer_agent.errors import ConfigError

        raise ConfigError(
            f"{output}: {error.strerror}: what is in it is whole; try again when there is room"
        ) from error
    finally:
        exporter.close()
    typer.echo(f"{output}: {f'the log up to event {exporter.last.seq}' if exporter.last else 'empty'}", err=True)


def _append(exporter: "Exporter", reader: "SQLStore") -> None:
    """Append what is newer than what is there."""
    exporter.write(reader.events(after=exporter.last.seq if exporter.last else -1))


def _check_same(reader: "SQLStore", exporter: "Exporter") -> None:
    """The end of the file must be an event of this log.

    Raises:
        typer.Exit: it is not (exit code 1).
    """
    if exporter.last is None:
        return
    known = next(iter(reader.events(after=exporter.last.seq - 1)), None)
    if known != exporter.last:
        typer.echo(
            f"TAMPERED: event {exporter.last.seq}: {exporter.path} ends with another one than this log has", err=True
        )
        raise typer.Exit(1)
