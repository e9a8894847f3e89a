"""The auditor's report for programs: JSON and CSV tell the same, and no spreadsheet takes a cell for a formula."""

import csv
import io
import json
from typing import Any

from humanlayer_agent.report.as_data import as_csv, as_json_data
from humanlayer_agent.report.facts import Facts

from .hostile import HOSTILE, INTACT, hostile_log


def test_spreadsheets_get_no_formula(sealed: Any, decided: Any, voted: Any) -> None:
    facts = Facts().collect(hostile_log(sealed, decided, voted, HOSTILE[-1]))
    for row in csv.reader(io.StringIO(as_csv(facts))):
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_json_and_csv_tell_the_same(entries: Any) -> None:
    facts = Facts().collect(entries)
    data = json.loads(json.dumps(as_json_data(facts, INTACT)))
    rows = list(csv.DictReader(io.StringIO(as_csv(facts))))
    assert len(rows) == len(data["requests"]) == data["verdicts"]["ask"]
    for row, request in zip(rows, data["requests"], strict=True):
        assert (row["request"], row["state"]) == (request["request"], request["state"])
    assert data["integrity"]["witnessed_event"] == 6
