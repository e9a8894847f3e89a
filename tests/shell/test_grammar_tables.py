"""bashlex with tables from a file: the same parser, whatever is in the file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.shell.grammar_tables import kept

PROGRAM = """
import hashlib, json, sys
from humanlayer_agent.shell import parse
built = []
import humanlayer_agent.shell.grammar_tables as tables
remembering = tables._remembering
def seen(ply, file):
    make = ply.LRTable.lr_parse_table
    def counted(table):
        built.append(True)
        make(table)
    ply.LRTable.lr_parse_table = counted
    return remembering(ply, file)
tables._remembering = seen
found = [parse.parse(text) for text in ("for f in a b; do rm $f; done", "if a; then b; elif c; then d; fi | e", "if a; b")]
inspected = "inspect" in sys.modules
import bashlex
made = bashlex.parser.yaccparser
rules = [[p.name, p.prod, p.len, p.str, p.func, p.callable and p.callable.__name__] for p in made.productions]
print(json.dumps({
    "built": len(built), "found": [[each.status, repr(each.script)] for each in found],
    "left": [str(finder) for finder in sys.meta_path if "grammar_tables" in str(finder)],
    "inspected": inspected,
    "parser": [*([table[n] for n in range(348)] for table in (made.action, made.goto)), rules, made.defaulted_states],
}))
"""


def run(**environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def as_it_is() -> Any:
    """The parser of bashlex that nobody helped."""
    alone = (
        PROGRAM[PROGRAM.index("import bashlex") :]
        .replace("len(built)", "0")
        .replace("for each in found", "for each in []")
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys; inspected = True\n{alone}"], capture_output=True, check=True
    )
    return json.loads(done.stdout)["parser"]


def file() -> Path:
    found = kept()
    assert found is not None
    return Path(found)


def test_they_are_built_once() -> None:
    first, second = run(), run()
    assert (first["built"], second["built"]) == (1, 0)
    assert (first["inspected"], second["inspected"]) == (True, False)
    assert first["found"] == second["found"]
    assert [status for status, _ in first["found"]] == ["ok", "ok", "failed"]
    assert first["left"] == second["left"] == []
    assert file().stat().st_mode & 0o777 == 0o600
    assert first["parser"] == second["parser"] == as_it_is()


def changed(content: str) -> None:
    file().write_text(content)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"for": "another"}',
        '{"for": "KEY", "productions": [], "action": {"symbols": [], "rows": []}, "goto": {"symbols": [], "rows": []}}',
        '{"for": "KEY", "productions": [["inputunit", ["NEWLINE"], "os.system"]]}',
        '{"for": "KEY", "action": [1]}',
    ],
)
def test_a_file_that_is_something_else(content: str) -> None:
    expected = run()["found"]
    changed(content.replace("KEY", file().name))
    assert run()["found"] == expected


def test_a_file_that_others_may_write_is_not_read() -> None:
    expected = run()["found"]
    file().chmod(0o666)
    found = run()
    assert found["found"] == expected
    assert found["built"] == 1


def test_another_source_has_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "bashlex"
    package.mkdir()
    for name in ("__init__", "parser", "tokenizer", "yacc"):
        (package / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bashlex", raising=False)
    found = {kept()}
    os.utime(package / "parser.py", ns=(1, 1))
    found.add(kept())
    (package / "tokenizer.py").write_text("#")
    found.add(kept())
    assert len(found) == 3
    (package / "yacc.py").unlink()
    assert kept() is None


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert run(XDG_STATE_HOME=str(tmp_path / "state"))["found"] == run()["found"]
