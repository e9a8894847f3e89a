"""`hla policy replay` and `diff` as a person and as a program use them."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pexpect
import pytest

from humanlayer_agent.cli import main
from tests.support import children
from tests.support.extent import SOAK

pytestmark = pytest.mark.usefixtures("compiled")

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
DATA = Path(os.environ.get("HLA_DATA", Path(__file__).parents[4] / "shared" / "data")) / "agent_runs.jsonl"
ASKED = {"before": 0, "after": 0}
Capture = pytest.CaptureFixture[str]
DIFF = ("policy", "diff", "--no-search")
"""What is searched for is in tests/policy_tools/diff."""
HOSTILE = "echo '<script>alert(1)</script> \x1b[2J\u202e' > /srv/x"


def row(n: int, command: str, **fields: Any) -> dict[str, Any]:
    return {"id": str(n), "run": f"r{n % 2}", "command": command, "cwd": "/srv/app"} | fields


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rows = [row(1, "ls -la"), row(2, "pip install x"), row(3, "rm -rf /"), row(4, "python new.py"), row(5, HOSTILE)]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


@pytest.mark.parametrize("format", ["table", "json", "jsonl", "html"])
def test_replay(runs: Path, capsys: Capture, format: str) -> None:
    rows = ["--rows"] if format == "jsonl" else []
    assert main(["policy", "replay", "default", str(runs), "--format", format, *rows]) == 0
    out = capsys.readouterr().out
    assert "pip install x" in out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    if format == "html":
        assert "<script" not in out
        assert "Content-Security-Policy" in out
    if format == "json":
        data = json.loads(out)
        assert data["verdicts"] == {"allow": 1, "ask": 3, "deny": 1}
        assert (data["runs"], data["asks_per_100_commands"], data["unread"]["ask"]) == (2, 60.0, 1)
        assert data["unreadable"] == {"count": 0, "rows": []}
        assert "network" in data["never_hit"]
    if format == "jsonl":
        lines = [json.loads(line) for line in out.splitlines()]
        assert [line["verdict"] for line in lines] == ["allow", "ask", "deny", "ask", "ask"]
        assert lines[3]["unread"]


def test_confined(runs: Path, capsys: Capture) -> None:
    command = ["policy", "replay", "default", str(runs), "--confined"]
    assert main([*command, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdicts"] == {"allow": 2, "ask": 2, "deny": 1}  # new.py can be run unread
    assert data["confined"] == {"confined to project": 2}
    assert main(command) == 0
    assert "2 confined to project" in capsys.readouterr().out
    assert main([*command, "--rows", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[3])["confined"] == "project"
    assert main([*command, "--format", "html"]) == 0
    assert "2 confined to project" in capsys.readouterr().out


def test_a_diff_is_confined_where_that_is_wanted(runs: Path, capsys: Capture) -> None:
    found = {}
    for confined in ((), ("--confined",)):
        main([*DIFF, "default", "guard", str(runs), "--format", "json", *confined])
        found[confined] = json.loads(capsys.readouterr().out)
    assert found[("--confined",)]["tightened"] > found[()]["tightened"]
    assert main([*DIFF, "default", "guard", str(runs), "--format", "html", "--confined"]) in (0, 1)


@pytest.mark.parametrize("format", ["table", "json", "jsonl"])
def test_approvers_who_approve_more_than_once(tmp_path: Path, capsys: Capture, format: str) -> None:
    path = tmp_path / "runs.jsonl"
    commands = ["cat /srv/other/docs/a", "cat /srv/other/docs/b", f"cat /srv/other/docs/c; {HOSTILE}"]
    path.write_text("".join(json.dumps(row(2 * n, each)) + "\n" for n, each in enumerate(commands)))
    assert main(["policy", "replay", "default", str(path), "--grant", "second", "--format", format]) == 0
    out = capsys.readouterr().out
    assert "\x1b[2J" not in out
    if format == "table":
        assert re.search(r"certain asks +3 +2 +33.3 %", out)
        assert "1 grant, of which 1 answered a later ask" in out
        assert "1 reading anything below /srv/other/docs, in this run" in " ".join(out.split())
        return
    found = json.loads(out)["grants"]
    assert (found["choice"], found["certain"], found["others"]) == ("second", ASKED | {"before": 3, "after": 2}, ASKED)
    assert found["runs"] == [{"run": "r0", "before": 3, "after": 2}]
    assert found["grants"][0]["words"] == "reading anything below /srv/other/docs, in this run"
    assert [each["command"] for each in found["grants"][0]["answered"]] == [commands[1]]


@pytest.mark.parametrize("more", [["--rows"], ["--format", "html"]])
def test_what_has_no_place_for_grants(runs: Path, more: list[str], capsys: Capture) -> None:
    assert main(["policy", "replay", "default", str(runs), "--grant", "second", *more]) == 2
    assert "leave --rows out" in capsys.readouterr().err


def test_rows_that_cant_be_replayed_are_named_and_counted(runs: Path, capsys: Capture) -> None:
    with runs.open("a") as file:
        file.write('{"id": "6"}\n{broken\n')
    assert main(["policy", "replay", "default", str(runs)]) == 5
    done = capsys.readouterr()
    assert "runs.jsonl: line 6: command is not a string" in done.err
    assert "runs.jsonl: line 7: not JSON" in done.err
    assert "2 rows could not be replayed" in done.err
    assert "over 5 commands" in done.out


def test_a_file_that_is_no_log_is_a_mistake_of_usage(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    assert main(["policy", "replay", "default", str(tmp_path / "x.json")]) == 2
    assert "in no format that is known; tried mini-swe-agent trajectory" in capsys.readouterr().err


def test_the_project_can_be_named(runs: Path, capsys: Capture) -> None:
    runs.write_text(json.dumps(row(1, "rm -rf /srv/data")))
    for project, verdict in (("/srv/app", "ask"), ("/srv", "allow")):
        assert (
            main(["policy", "replay", "default", str(runs), "--project", project, "--rows", "--format", "jsonl"]) == 0
        )
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    assert main(["policy", "replay", "default", str(runs), "--project", "/"]) == 2


def test_replay_runs_nothing_and_logs_nothing(tmp_path: Path, own_user: Path, capsys: Capture) -> None:
    made = tmp_path / "made"
    (tmp_path / "r.jsonl").write_text(json.dumps(row(1, f"touch {made}")))
    assert main(["policy", "replay", "default", str(tmp_path / "r.jsonl")]) == 0
    assert not made.exists()
    assert not (own_user / "store").exists()


@pytest.mark.long
def test_people_who_wait_see_a_bar(runs: Path) -> None:
    runs.write_text("".join(json.dumps(row(n, f"cat file{n}")) + "\n" for n in range(2_000)))
    child = children.spawn(sys.executable, ["-c", RUN, "policy", "replay", "default", str(runs)], timeout=600)
    try:
        child.expect("runs.jsonl .*%")
        child.expect(r"over .*2,000.* command")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert child.exitstatus == 0


# ---- diff -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_default_to_strict_is_stricter_and_the_reverse_is_looser(capsys: Capture) -> None:
    """Over the tests in the rules of both."""
    assert main([*DIFF, "default", "strict"]) == 0
    assert "stricter: 0 commands loosened" in capsys.readouterr().out
    assert main([*DIFF, "strict", "default"]) == 1
    assert "looser: " in capsys.readouterr().out


@pytest.mark.long
def test_default_to_itself_is_equivalent(capsys: Capture) -> None:
    """Which only who compares the rules knows."""
    for arguments, said in ((DIFF, "no difference found"), (["policy", "diff"], "equivalent")):
        assert main([*arguments, "default", "default"]) == 0
        assert f"{said}: 0 commands loosened, 0 tightened" in capsys.readouterr().out


def test_diff_over_runs(runs: Path, capsys: Capture) -> None:
    assert main([*DIFF, "default", "sandbox", str(runs)]) == 1
    out = capsys.readouterr().out
    assert "over 5 commands of 2 runs" in out
    assert out.index("looser") < out.index("python new.py")
    assert "\x1b[2J" not in out


@pytest.mark.parametrize("format", ["json", "html", "junit", "sarif", "accept"])
def test_formats_of_diff(runs: Path, capsys: Capture, format: str) -> None:
    assert main([*DIFF, "default", "sandbox", str(runs), "--format", format]) == 1
    out = capsys.readouterr().out
    assert "python new.py" in out
    if format == "junit":
        suite = ElementTree.fromstring(out)[0]
        assert int(suite.attrib["failures"]) >= 1
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    elif format in ("json", "sarif"):
        json.loads(out)
    elif format == "html":
        assert "<script" not in out


def test_accepting_what_is_looser(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    main([*DIFF, "default", "sandbox", str(runs), "--format", "accept"])
    file = tmp_path / "accepted.yaml"
    file.write_text(capsys.readouterr().out.replace('reason: ""', "reason: it is a container"))
    assert main([*DIFF, "default", "sandbox", str(runs), "--accept", str(file)]) == 0
    assert "more accepted" in capsys.readouterr().out
    assert main([*DIFF, "default", "strict", str(runs), "--accept", str(file)]) == 0
    assert "stale" in capsys.readouterr().err
    assert main([*DIFF, "default", "strict", "--accept", str(tmp_path / "none")]) == 2


def test_rows_that_were_left_out_end_in_5_unless_something_is_looser(runs: Path) -> None:
    with runs.open("a") as file:
        file.write("{broken\n")
    assert main([*DIFF, "default", "strict", str(runs)]) == 5
    assert main([*DIFF, "default", "sandbox", str(runs)]) == 1


def test_nothing_to_compare_is_no_yes(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps({"type": "user", "message": {"content": "hello"}}))
    assert main([*DIFF, "default", "default", str(tmp_path / "s.jsonl")]) == 5
    assert "nothing was compared" in capsys.readouterr().err


# ---- real runs --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason="allowed in CI: recorded runs stay out of the repository")
@pytest.mark.skipif(not SOAK, reason="allowed in CI: make soak")
def test_real_runs(capsys: Capture) -> None:
    """Friction as it was measured when this was written: 1.14 asks in 100 commands, nothing denied."""
    assert main(["policy", "replay", "default", str(DATA), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["commands"], data["runs"], data["unreadable"]["count"]) == (8_956, 228, 0)
    assert data["asks_per_100_commands"] < 1.5
    assert main([*DIFF, "default", "strict", str(DATA)]) == 0
    assert main([*DIFF, "strict", "default", str(DATA)]) == 1


# ---- many rows --------------------------------------------------------------------------------------------


def test_more_processes_print_the_same(runs: Path, capsys: Capture) -> None:
    found = []
    for jobs in ("1", "2"):
        assert main(["policy", "replay", "default", str(runs), "--rows", "--format", "jsonl", "--jobs", jobs]) == 0
        found.append([{**json.loads(line), "us": 0} for line in capsys.readouterr().out.splitlines()])
    assert found[0] == found[1]
    assert main(["policy", "replay", "default", str(runs), "--jobs", "0"]) == 2


def test_parquet_has_the_same_rows(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with runs.open("a") as file:
        file.write(json.dumps(row(6, "cat '\udcff'")) + "\n")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"old")
    arguments = ["policy", "replay", "default", str(runs), "--rows", "--format", "jsonl", "--to", str(path)]
    assert main(arguments) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    written = parquet.read_table(path).to_pylist()
    assert [each.pop("rule") for each in written] == [(each["rules"] or [None])[0] for each in printed]
    assert written.pop()["command"] == "cat '\\udcff'"
    assert written == [{"confined": None, **each} for each in printed[:-1]]
    assert [each.name for each in tmp_path.iterdir() if "parquet" in each.name] == ["rows.parquet"]


def test_parquet_is_written_whole_or_not_at_all(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"old")

    def broken(*_: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("humanlayer_agent.cli.policy.replay.replayed", broken)
    assert main(["policy", "replay", "default", str(runs), "--to", str(path)]) != 0
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir() if "parquet" in each.name] == ["rows.parquet"]


def test_parquet_goes_through_no_link_that_somebody_has_laid(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path, canary = tmp_path / "rows.parquet", tmp_path / "canary"
    canary.write_bytes(b"here")
    (tmp_path / f".rows.parquet.{os.getpid()}").symlink_to(canary)
    assert main(["policy", "replay", "default", str(runs), "--to", str(path)]) == 0
    assert canary.read_bytes() == b"here"
    assert not path.is_symlink()


def test_parquet_holds_few_long_commands_in_memory(
    runs: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("humanlayer_agent.cli.policy.replay._TEXT_AT_ONCE", 1)
    path = tmp_path / "rows.parquet"
    assert main(["policy", "replay", "default", str(runs), "--to", str(path)]) == 0
    found = parquet.ParquetFile(path).metadata
    assert found.num_row_groups == found.num_rows > 1


def test_parquet_says_what_is_missing(runs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["policy", "replay", "default", str(runs), "--to", "rows.csv"]) == 2
    assert "ends in .parquet" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["policy", "replay", "default", str(runs), "--to", "rows.parquet"]) == 2
    assert re.search(
        r"Parquet needs the extra parquet .*: \S+ -m pip install .*(pyarrow|\[parquet\])", capsys.readouterr().err
    )
    assert main(["policy", "replay", "default", str(runs), "--to", "/nowhere/x/rows.parquet"]) == 2
