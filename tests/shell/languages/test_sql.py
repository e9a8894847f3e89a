"""SQL for sqlite3, psql and mysql: what statements and the clients' own commands do, and that no attack is overlooked."""

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell import analyse
from humanlayer_agent.shell.disk_reader import DiskReader
from humanlayer_agent.shell.languages import read
from humanlayer_agent.shell.languages.sql import lexer, queries
from humanlayer_agent.testing.patience import until
from tests.support.rows import for_each

Row = tuple[str, str, list[str], bool]
TEXTS: dict[str, list[Row]] = yaml.safe_load(Path(__file__).with_name("sql_texts.yaml").read_text())
SQLITE = shutil.which("sqlite3")
needs_sqlite = pytest.mark.skipif(SQLITE is None, reason="needs sqlite3")


def found(dialect: str, text: str) -> tuple[list[str], bool]:
    """What a text does, as `kind:role operand`, and whether something in it can't be told."""
    behaviour = read(dialect, text)
    assert behaviour is not None
    acts = []
    for act in behaviour.acts:
        role = "" if act.role in ("code", "operand") else f":{act.role}"
        acts.append(f"{act.kind}{role} {act.operands[0].choices[0] if act.operands[0].choices else '?'}")
    return acts, bool(behaviour.doubts)


def reads_only(acts: list[str], doubt: bool) -> bool:
    return not doubt and all(act.startswith("database:read ") for act in acts)


@for_each(("dialect", "text", "acts", "doubt"), TEXTS["plain"] + TEXTS["attacks"])
def test_text(dialect: str, text: str, acts: list[str], doubt: bool) -> None:
    assert found(dialect, text) == (acts, doubt)


def test_attacks_are_half_of_the_texts() -> None:
    assert len(TEXTS["attacks"]) >= 125
    assert len(TEXTS["plain"]) >= 125
    assert not [row for row in TEXTS["attacks"] if reads_only(row[2], row[3])]


@for_each(("dialect", "text", "acts", "doubt"), TEXTS["plain"] + TEXTS["attacks"])
def test_text_in_capitals(dialect: str, text: str, acts: list[str], doubt: bool) -> None:
    """Keywords and functions have no case; commands of the clients do."""
    if (
        "\\" in text
        or text.lstrip().startswith(".")
        or "\n." in text
        or "'" in text
        or '"' in text
        or "`" in text
        or not text.isascii()
    ):
        return
    there, unsure = found(dialect, text.upper())
    assert unsure or not doubt
    assert {act.lower() for act in there} >= {act.lower() for act in acts if act.startswith("database:")}


def padded(text: str, draw: random.Random) -> str:
    """The same statement with comments and blanks between its words."""
    blanks = [" ", "\n", "\t", "  ", " /* x */ ", "/**/", " -- x\n"]
    return "".join(draw.choice(blanks) if each == " " else each for each in text)


STATEMENTS = [
    row for row in TEXTS["attacks"]
    if not any(each in row[1] for each in ("\\", ".shell", "\n", "\0", "'", '"', "#", "--", "$$"))
    and not row[1].lstrip().startswith((".", ":"))
    and row[1].split()[0].lower() not in ("system", "source", "tee", "pager", "edit", "delimiter", "connect", "charset")
]  # fmt: skip


@given(
    st.sampled_from(STATEMENTS), st.randoms(use_true_random=False), st.sampled_from(["", "(", "select 1;", ";;", "\n"])
)
def test_an_attack_stays_one_in_any_spelling(row: Row, draw: random.Random, before: str) -> None:
    dialect, text, acts, doubt = row
    spelled = before + padded("".join(draw.choice((each.upper(), each.lower())) for each in text), draw)
    there, unsure = found(dialect, spelled)
    wanted = {act.lower() for act in acts if not act.startswith("database:read")}
    assert unsure or (not doubt and {act.lower() for act in there} >= wanted), spelled


@given(
    st.sampled_from(["sqlite", "psql", "mysql"]),
    st.text(alphabet="'\"`\\/*-#;.:$!@()[]{},= \n\tselctfromEUxq01\0é", max_size=60),
)
def test_any_text_is_read(dialect: str, text: str) -> None:
    assert read(dialect, text) is not None


@given(st.sampled_from(["sqlite", "psql", "mysql"]), st.text(max_size=200))
def test_any_unicode_is_read(dialect: str, text: str) -> None:
    assert read(dialect, text) is not None


@pytest.mark.long
@for_each(
    "text",
    [
        "(" * 20_000,
        "select " + "(" * 9_000 + ")" * 9_000,
        "select " + "f(" * 9_000 + ")" * 9_000,
        "select * from (" * 5_000,
        "select 1 from a, b;" * 4_000,
        "explain analyze " * 9_000,
        "prepare p as " * 9_000 + "select 1",
        "a;\n.x\n" * 9_000,
        "select 1;\n\\x \\x \\x\n" * 3_000,
        "\\x" * 1_900,
        "\\copy (" + ")" * 3_900,
        ".print " + "a " * 100_000,
        "'" + "''" * 50_000,
        "$a$" * 30_000,
        "/*" * 50_000,
        "with " + "a(b) as (select 1), " * 3_000,
        "create trigger x after insert on t begin " + "select 1;" * 9_000,
    ],
)
def test_work_is_bounded(text: str) -> None:
    for dialect in ("sqlite", "psql", "mysql"):
        behaviour = read(dialect, text)
        assert behaviour is not None
        assert len(behaviour.acts) <= queries.MAX_ACTS + 2


def test_no_function_that_only_computes_is_a_danger() -> None:
    for dialect in lexer.Dialect:
        assert not queries.computing(dialect) & queries.dangers(dialect).keys()


# ---- sqlite3 itself --------------------------------------------------------------------------------


@needs_sqlite
def test_functions_that_only_compute_are_those_of_sqlite(tmp_path: Path) -> None:
    """Every function of this sqlite3 is known to compute, or is no function for our statements: a new one is unread."""
    told = run_sqlite(tmp_path, ":memory:", "select distinct name from pragma_function_list").stdout.split()
    harmful = {"edit", "load_extension", "readfile", "writefile", "fts3_tokenizer", "lsmode", "zipfile", "sha3_query"}
    known = queries.computing(lexer.Dialect.SQLITE)
    assert harmful & set(told) >= {"edit", "load_extension", "readfile", "writefile"}
    assert not harmful & known
    for name in harmful:
        assert found("sqlite", f"select {name}('x')")[1]


def run_sqlite(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    assert SQLITE is not None
    home = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [SQLITE, *arguments], input=stdin, cwd=folder, env=home, capture_output=True, text=True, timeout=60
    )


@needs_sqlite
@for_each(("dialect", "text", "acts", "doubt"), [row for row in TEXTS["plain"] if row[0] == "sqlite"])
def test_harmless_statements_touch_what_is_said(dialect: str, text: str, acts: list[str], doubt: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_sqlite(folder, "x.db", stdin=text + ("" if text.startswith(".") else "\n;\n"))
        named = {act.split(" ", 1)[1] for act in acts if act.startswith("write")}
        assert {each.name for each in folder.iterdir()} <= {"x.db", *named}


HOSTILE = """
create table t (a);
insert into t values (1);
create view v as select edit('x', 'touch canary') as e;
create trigger tr after insert on t begin select edit('x', 'touch canary'); end;
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a database, of which a view runs a command."""
    with sqlite3.connect(tmp_path / "hostile.db") as connection:
        connection.executescript(HOSTILE)
    with sqlite3.connect(tmp_path / "good.db") as connection:
        connection.executescript(
            "create table t (a varchar(10) default 'x'); create view v as select count(*) c from t;"
        )
    connection.close()
    return tmp_path


@needs_sqlite
def test_a_select_may_run_a_command_of_the_file(hostile: Path) -> None:
    """What `database_code` is there for. Should a later sqlite3 refuse it, nothing is lost."""
    refused = run_sqlite(hostile, "-safe", "hostile.db", "select * from v")
    assert "safe mode" in refused.stderr
    assert not (hostile / "canary").exists()
    for command in (".tables", ".schema", ".fullschema", ".dump", ".indexes", ".databases"):
        run_sqlite(hostile, "hostile.db", command)
        assert not (hostile / "canary").exists(), command
    ran = run_sqlite(hostile, "-readonly", "hostile.db", "select * from v")
    assert (hostile / "canary").exists() or "unsafe use" in ran.stderr


@for_each(
    ("view", "refused"),
    [
        ("readfile('/etc/hostname')", "unsafe use"),
        ("writefile('canary', 'x')", "unsafe use"),
        ("load_extension('x')", "unsafe use"),
    ],
)
@needs_sqlite
def test_other_functions_are_refused_in_a_view(view: str, refused: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        with sqlite3.connect(Path(name) / "x.db") as connection:
            connection.execute(f"create view v as select {view} as e")
        connection.close()
        assert refused in run_sqlite(Path(name), "x.db", "select * from v").stderr
        assert not (Path(name) / "canary").exists()


@needs_sqlite
def test_a_table_for_searches_may_read_any_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    text = (
        "create virtual table f using fts4(a, compress=lower, uncompress='readfile'); insert into f values ('secret');"
    )
    made = run_sqlite(tmp_path, "x.db", text)
    if made.returncode:
        pytest.skip(f"needs FTS4 (allowed in CI): {made.stderr}")
    assert "the secret" in run_sqlite(tmp_path, "x.db", "select a from f").stdout
    assert judged(tmp_path, "sqlite3 x.db 'select a from f'")[1] is False


def judged(folder: Path, command: str) -> tuple[set[str], bool]:
    """The effects of a command in a folder, with paths from there, and whether all is known."""
    program = analyse(command, cwd=str(folder), reader=DiskReader(folder))
    effects = {
        f"{effect.kind} {(effect.operand or '?').removeprefix(f'{folder}/')}"
        for each in program.commands
        for effect in each.effects
    }
    return effects, all(each.resolved for each in program.commands) and program.status == "ok"


@for_each(
    ("command", "effects", "known"),
    [
        ("sqlite3 good.db 'select count(*) from t'", {"read good.db", "database t"}, True),
        ("sqlite3 good.db .schema", {"read good.db", "database .schema"}, True),
        ("sqlite3 good.db 'drop table t'", {"write good.db", "database t"}, True),
        ("sqlite3 good.db '.restore good.db'", {"write good.db", "read good.db", "database .restore"}, True),
        ("sqlite3 new.db 'select 1'", {"write new.db", "database select"}, True),
        ("sqlite3 -readonly new.db 'select 1'", {"read new.db", "database select"}, True),
        ("sqlite3 'select 1'", {"write select 1", "execute ?"}, False),
        ("echo 'select * from t' | sqlite3 good.db", {"read good.db", "database t"}, True),
        ("sqlite3 good.db <<'E'\n.mode csv\nselect * from t;\nE", {"read good.db", "database t"}, True),
        ("sqlite3 good.db < q.sql", {"read good.db", "read q.sql", "execute q.sql", "database t"}, True),
        ("sqlite3 good.db '.read q.sql'", {"write good.db", "execute q.sql", "database t"}, True),
        ("sqlite3 -init q.sql good.db .tables", {"write good.db", "execute q.sql", "database t", "database .tables"}, True),
        ("sqlite3 -cmd '.shell rm x' good.db .tables", {"read good.db", "delete x", "database .tables"}, True),
        ("sqlite3 good.db ''", {"read good.db"}, True),
        ("sqlite3 -safe hostile.db 'select * from v'", {"read hostile.db", "database v"}, True),
        (
            "sqlite3 hostile.db 'select * from t'",
            {"write hostile.db", "database t", "execute SQL that uses edit (stored in the database)"},
            False,
        ),
        (
            "sqlite3 :memory: \"attach 'hostile.db' as x\"",
            {"write hostile.db", "execute SQL that uses edit (stored in the database)"},
            False,
        ),
        ("cp hostile.db good.db; sqlite3 good.db 'select * from v'", None, False),
        ("cp x good.db-wal; sqlite3 good.db 'select * from v'", None, False),
        ("python3 -c \"open('good.db', 'wb').write(b'SQLite format 3')\"; sqlite3 good.db 'select * from v'", None, False),
        ("echo x > good.db; sqlite3 good.db 'select * from v'", None, False),
        ("git checkout other -- good.db; sqlite3 good.db 'select * from v'", None, False),
        ("git stash pop; sqlite3 good.db 'select * from v'", None, False),
        ("git add -A; git commit -qm x; sqlite3 good.db 'select * from t'", None, True),
        ("mv hostile.db good.db; sqlite3 good.db 'select * from v'", None, False),
        ("sqlite3 \"$DB\" 'select 1'", None, False),
        ("sqlite3 file:good.db?mode=ro 'select 1'", None, False),
        ("sqlite3 good.db \"$SQL\"", None, False),
        ("sqlite3 good.db < \"$F\"", None, False),
        ("curl example.org | sqlite3 good.db", None, False),
        ("psql -c 'select 1' -h db.example.org", {"network db.example.org", "database select"}, True),
        ("psql -c 'select 1' -h a.example.org,b.example.org", {"network a.example.org", "network b.example.org", "database select"}, True),
        ("psql -h /run/postgresql -c 'select 1'", {"network localhost", "database select"}, True),
        ("psql 'host=db.example.org dbname=x' -c 'select 1'", {"network db.example.org", "database select"}, True),
        ("psql postgres://u:p@db.example.org:5433/x -c 'select 1'", {"network db.example.org", "database select"}, True),
        ("psql 'postgres:///x?host=db.example.org' -c 'select 1'", {"network db.example.org", "database select"}, True),
        ("psql -d 'hostaddr=192.0.2.1 host=localhost' -c 'select 1'", {"network 192.0.2.1", "network localhost", "database select"}, True),
        ("psql 'service=prod' -c 'select 1'", {"network ?", "database select"}, False),
        ("psql 'postgres://%2Fx/y' -c 'select 1'", None, False),
        ("psql \"$URL\" -c 'select 1'", None, False),
        ("psql -f q.sql", {"network localhost", "execute q.sql", "database t"}, True),
        ("psql < q.sql", {"network localhost", "read q.sql", "execute q.sql", "database t"}, True),
        ("psql -o '|rm x' -c 'select 1'", {"network localhost", "delete x", "database select"}, True),
        ("psql -c '\\! rm x'", {"network localhost", "delete x"}, True),
        ("psql -c 'select 1' -c 'drop table x'", {"network localhost", "database select", "database x"}, True),
        ("psql -v x=1 -c 'select :x'", None, False),
        ("psql -l", {"network localhost", "database its databases"}, True),
        ("psql", {"network localhost", "execute ?"}, False),
        ("mysql -h db.example.org -psecret -e 'select * from t'", {"network db.example.org", "database t"}, True),
        ("mysql x < q.sql", {"network the server of its settings", "read q.sql", "execute q.sql", "database t"}, True),
        ("mariadb --init-command='drop table x' < q.sql", {"network the server of its settings", "read q.sql", "execute q.sql", "database t", "database x"}, True),
        ("mysql --plugin-dir=. -e 'select 1'", None, False),
        ("mysql --delimiter=x -e 'select 1'", None, False),
        ("mysql --defaults-file=my.cnf -e 'select 1'", None, False),
    ],
)  # fmt: skip
def test_command(hostile: Path, command: str, effects: set[str] | None, known: bool) -> None:
    (hostile / "q.sql").write_text("select * from t;\n")
    there, resolved = judged(hostile, command)
    assert resolved is known
    if effects is not None:
        assert there == effects


def test_a_database_is_read_with_what_lies_beside_it(hostile: Path) -> None:
    reader = DiskReader(hostile)
    assert reader.stored_sql(str(hostile / "none.db")) == ()
    assert len(reader.stored_sql(str(hostile / "good.db")) or ()) == 2
    (hostile / "q.db").write_text("no database")
    assert reader.stored_sql(str(hostile / "q.db")) is None
    (hostile / "good.db-wal").write_bytes(b"x")
    assert reader.stored_sql(str(hostile / "good.db")) is None
    data = (hostile / "hostile.db").read_bytes()
    for at in range(0, len(data), 97):
        (hostile / "broken.db").write_bytes(data[:at] + b"\xff" + data[at + 1 :])
        reader.stored_sql(str(hostile / "broken.db"))


def test_a_database_that_logs_ahead_is_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (a)")
    connection.close()
    assert DiskReader(tmp_path).stored_sql(str(tmp_path / "x.db")) == ("CREATE TABLE t (a)",)


# ---- servers ---------------------------------------------------------------------------------------


def as_nobody() -> list[str]:
    """What starts a program that refuses to run as root."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """A folder for sockets, whose paths are short."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hla-sql-") as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.fixture(scope="module")
def postgresql(short_folder: Path) -> Iterator[list[str]]:
    """psql's first words, for a server of its own."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not places or shutil.which("psql") is None or shutil.which("setpriv") is None:
        pytest.skip("needs PostgreSQL's server and psql (allowed in CI: what it shows is written beside the tables)")
    data, log = short_folder / "data", short_folder / "log"
    programs = places[-1].parent
    made = subprocess.run(
        [*as_nobody(), str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"],
        cwd=short_folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    control = [*as_nobody(), str(programs / "pg_ctl"), "-D", str(data)]
    options = f"-c listen_addresses= -k {short_folder} -F"
    subprocess.run(
        [*control, "-o", options, "-l", str(log), "-w", "start"], cwd=short_folder, check=True, timeout=120,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    yield ["psql", "-X", "-h", str(short_folder), "-U", "postgres"]
    subprocess.run([*control, "-m", "immediate", "stop"], cwd=short_folder, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.long
def test_psql_does_what_is_said(postgresql: list[str], tmp_path: Path) -> None:
    """Each of these runs a command; each is named, or nobody can tell."""
    for n, text in enumerate(
        [
            "\\! touch {}", "select 1 \\g |touch {}", "\\set x `touch {}`", "\\x \\! touch {}",
            "\\pset pager off \\\\ \\! touch {}", "select 1; \\! touch {}", "\\o |touch {}\nselect 1;",
            "\\copy (select 1) to program 'touch {}'", "create table t{n} (a text); copy t{n} from program 'touch {}'",
            "select 'touch {}' as x \\g |sh", "select 1 \\w |touch {}",
        ]
    ):  # fmt: skip
        canary = Path(tempfile.gettempdir()) / f"hla-sql-canary-{os.getpid()}-{n}"
        written = text.replace("{}", str(canary)).replace("{n}", str(n))
        acts, doubt = found("psql", written)
        assert doubt or any(act.startswith("shell") for act in acts), written
        subprocess.run(postgresql, input=written + "\n", cwd=tmp_path, capture_output=True, text=True, timeout=60)
        until(canary.exists, f"{written!r} runs")
        canary.unlink()


@pytest.mark.long
def test_psql_divides_texts_as_we_do(postgresql: list[str]) -> None:
    def answer(text: str) -> str:
        told = subprocess.run([*postgresql, "-tAc", text], capture_output=True, text=True, timeout=60)
        return told.stdout.strip() or told.stderr

    assert answer("select /* a /* b */ , 2 */ 1") == "1"
    assert answer("select 1 -- x\r+1") == "2"
    assert answer("select $a$ $b$ $a$ || $$'$$") == " $b$ '".strip()
    assert answer("select E'\\'' || 'x' -- '") == "'x"
    assert answer('select U&"\\0061" from (select 1 as a) x') == "1"


@pytest.fixture(scope="module")
def mariadb(short_folder: Path) -> Iterator[list[str]]:
    """mariadb's first words, for a server of its own."""
    if not all(map(shutil.which, ("mariadbd", "mariadb", "mariadb-install-db", "setpriv"))):
        pytest.skip("needs MariaDB's server and client (allowed in CI: what it shows is written beside the tables)")
    data, socket = short_folder / "my", short_folder / "s"
    subprocess.run(
        [*as_nobody(), "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"],
        cwd=short_folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    server = subprocess.Popen(
        [*as_nobody(), "mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking",
         f"--pid-file={short_folder}/pid", "--skip-grant-tables"],
        cwd=short_folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = ["mariadb", "--no-defaults", "-S", str(socket)]
    try:
        until(lambda: subprocess.run([*client, "-e", "select 1"], capture_output=True).returncode == 0, "it answers")
        yield client
    finally:
        server.terminate()
        server.wait()


@pytest.mark.long
def test_mariadb_does_what_is_said(mariadb: list[str], tmp_path: Path) -> None:
    for text in (
        "system touch canary",
        "\\! touch canary",
        "select 1; \\! touch canary",
        "select 1;\nsystem touch canary",
    ):
        acts, doubt = found("mysql", text)
        assert doubt or any(act.startswith("shell") for act in acts), text
        subprocess.run([*mariadb, "-e", text], cwd=tmp_path, capture_output=True, timeout=60)
        until((tmp_path / "canary").exists, f"{text!r} runs")
        (tmp_path / "canary").unlink()


@pytest.mark.long
def test_mariadb_divides_texts_as_we_do(mariadb: list[str]) -> None:
    def answer(text: str) -> str:
        return subprocess.run([*mariadb, "-N", "-e", text], capture_output=True, text=True, timeout=60).stdout.strip()

    assert answer("select 1 /*!50000 +1 */") == "2"
    assert answer("select 1 /*M!100000 +1 */") == "2"
    assert answer("select 1 --1") == "2"
    assert answer("select 1 -- 1") == "1"
    assert answer("select 1 # 1") == "1"
