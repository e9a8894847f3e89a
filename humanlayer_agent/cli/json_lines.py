"""The machine interface: JSON lines in, one JSON line out for each, in order (`check` and `parse --format jsonl`)."""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.replay.formats.json_lines import BadRow, Row, read_row

__all__ = ["BadRow", "Row", "answer_rows", "read_row"]


def answer_rows(answer: Callable[[Row], dict[str, Any]], refusal: dict[str, Any]) -> int:
    """Answer every line of standard input. Returns 2 where any line was bad, else 0.

    Args:
        answer: makes the answer to a row; an exception in it is answered like a bad row.
        refusal: what a bad row is answered, besides id, line and error.
    """
    gc.enable()  # there may be many rows
    _use_utf8()
    bad = False
    for number, line in enumerate(_lines(sys.stdin), 1):
        id_: Any = None
        try:
            row = read_row(line)
            id_ = row.id
            out = answer(row)
        except BadRow as error:
            out = {"id": error.id, "line": number, **refusal, "error": str(error)}
            bad = True
        except ConfigError:
            raise
        except Exception as error:
            out = {"id": id_, "line": number, **refusal, "error": f"{type(error).__name__}: {error}"}
            bad = True
        sys.stdout.write(json.dumps(out, ensure_ascii=True) + "\n")
    sys.stdout.flush()
    return 2 if bad else 0


def _use_utf8() -> None:
    """Rows are UTF-8 whatever the locale says; bytes that are not become lone surrogates and are answered as such."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")


def _lines(stream: TextIO) -> Iterator[str]:
    """Lines ended by a newline only (a JSON string may hold U+2028 and the like)."""
    for line in stream:
        yield line.rstrip("\n")
