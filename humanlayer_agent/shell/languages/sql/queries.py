"""The effects of one statement of SQL, told from its tokens.

No tree is built. What counts is which statement it is, which functions it calls and which tables it names; each name
before a bracket is a call unless its place shows that it is something else, and each call has to be of a function that
only computes. So an error here makes a statement unread, and not harmless. What a server has stored (views, functions,
triggers, casts, rules of its own) runs there with what was written; to store it is asked about by itself.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Text
from humanlayer_agent.shell.languages.sql.lexer import Dialect, Token

DATABASE = "database"
"""The kind of the effects on tables, and the role of those on the file that a database is in."""
_NAMED = frozenset({"word", "name"})
_BEFORE_BRACKET = frozenset(
    str.split(
        """
        in exists values from join on where and or not over using as by having limit offset all any some union except
        intersect filter group when then else case distinct between like ilike is select set with returning
        materialized partition lateral array row conflict sets within cross natural inner outer full default
        """
    )
)
"""Words that are no functions, though a bracket may follow them. Where one is a function too, it only computes."""
_IN_DEFINITIONS = frozenset(
    str.split(
        """
        primary key unique check references always stored table view index foreign engine virtual include add column
        change modify options generated fulltext spatial only end collate autoincrement
        """
    )
)
"""The same of what is made by CREATE and ALTER."""
_NAMED_IN_DEFINITIONS = frozenset(str.split("table exists index key on view references unique using"))
"""Words before the name of what is made, which names of columns follow."""
_TYPES = frozenset(
    str.split(
        """
        bit binary blob char character clob datetime dec decimal double enum float int integer bigint smallint tinyint
        mediumint nchar number numeric nvarchar real set text time timestamp timestamptz varbinary varbit varchar
        varchar2 varying year bpchar vector string boolean
        """
    )
)
_ENDS_OF_TABLES = frozenset(
    str.split(
        """
        where group order having limit offset union except intersect on using set values select when returning window
        fetch for join left right inner outer full cross natural straight_join default
        """
    )
)
_JOINS = frozenset({"join", "straight_join"})
_BEFORE_TABLES = frozenset(str.split("from join straight_join using update ignore low_priority quick"))
_NOTHING = frozenset(
    str.split("begin commit rollback savepoint release end start detach abort deallocate close unlock discard")
)
"""Statements about the session, or the transaction, only."""
_CHANGES = frozenset(
    str.split(
        """
        insert replace update create alter merge comment reindex analyze vacuum refresh cluster rename lock optimize
        repair check checksum security label
        """
    )
)
_DELETES = frozenset(str.split("delete drop truncate"))
_ADMINISTERS = frozenset(
    str.split("grant revoke flush kill shutdown purge reset reassign install uninstall change stop checkpoint")
)
_STORES_CODE = frozenset(
    str.split(
        """
        function procedure trigger extension event operator cast language rule aggregate transform library server
        policy plugin access conversion type domain
        """
    )
)
"""What is created that runs later, or decides what runs."""
_ACCOUNTS = frozenset(str.split("user role group system database tablespace subscription publication foreign mapping"))
_KINDS_OF_THINGS = frozenset(
    str.split(
        """
        table view index schema database sequence materialized temp temporary unlogged global local unique virtual or
        replace if not exists column only type tables fulltext spatial concurrently ignore low_priority quick
        high_priority delayed verbose full recursive cascade restrict user role trigger function procedure event
        extension domain collation publication statistics into from abort fail rollback public on
        """
    )
)
_NO_NAMES = frozenset(
    str.split(
        """
        table if not exists only or replace column unique into from on full verbose concurrently ignore low_priority
        quick high_priority delayed
        """
    )
)
"""Those of them that no table is called by."""
_MODULES = frozenset(str.split("fts3 fts4 fts5 rtree rtree_i32 geopoly dbstat"))
"""Modules of SQLite whose tables hold what is put into them."""
_ENGINES = frozenset(str.split("innodb myisam memory heap aria archive csv blackhole"))
_CHARACTER_SETS = frozenset(str.split("utf8 utf8mb3 utf8mb4 latin1 utf-8"))
"""Sets of characters in which no part of one looks like a quote or a backslash."""
_MODULES_THAT_REACH = frozenset({"fsdir", "lsdir", "zipfile", "sqlite_dbpage"})
_SECRETS = frozenset(str.split("mysql.user mysql.global_priv mysql.db pg_catalog.pg_authid pg_catalog.pg_shadow"))
_READ_PRAGMAS = frozenset(
    str.split(
        """
        table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check
        database_list integrity_check quick_check compile_options collation_list function_list module_list pragma_list
        page_count freelist_count data_version
        """
    )
)
_SET_PRAGMAS = frozenset(
    str.split(
        """
        foreign_keys journal_mode synchronous cache_size busy_timeout encoding user_version application_id page_size
        auto_vacuum optimize wal_checkpoint query_only read_uncommitted recursive_triggers case_sensitive_like
        temp_store mmap_size locking_mode secure_delete journal_size_limit max_page_count schema_version
        wal_autocheckpoint incremental_vacuum cache_spill cell_size_check automatic_index defer_foreign_keys
        ignore_check_constraints legacy_alter_table reverse_unordered_selects threads soft_heap_limit analysis_limit
        """
    )
)
_SESSION = frozenset(
    str.split(
        """
        timezone datestyle intervalstyle statement_timeout lock_timeout idle_in_transaction_session_timeout
        client_min_messages work_mem maintenance_work_mem extra_float_digits bytea_output jit enable_seqscan
        names autocommit foreign_key_checks unique_checks sql_safe_updates max_execution_time time_zone transaction
        application_name constraints
        """
    )
)
"""Settings of a session that change neither how a text is read nor what its names mean."""
MAX_TABLES = 24
MAX_ACTS = 400
MAX_DEPTH = 8
"""Most statements in one another, as in `explain analyze copy (select 1) to stdout`."""
MAX_NAMES = 400
"""Longest list of names, in tokens."""


@cache
def _tables(name: str) -> Any:
    import yaml

    return yaml.load(Path(__file__).with_name(name).read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def computing(dialect: Dialect) -> frozenset[str]:
    """Return the functions of a dialect that only compute, by name."""
    lists = _tables("functions.yaml")
    return frozenset(f"{lists['all']} {lists[dialect.name.lower()]}".split())


@cache
def dangers(dialect: Dialect) -> dict[str, dict[str, Any]]:
    """Return what names of functions and modules in a dialect do beyond computing."""
    found: dict[str, dict[str, Any]] = _tables("dangers.yaml")[dialect.name.lower()]
    return found


def read_statement(tokens: Sequence[Token], dialect: Dialect, behaviour: Behaviour, depth: int = 0) -> None:
    """Add what a statement does to `behaviour`.

    Args:
        tokens: those of one statement, without the semicolon that ends it.
        depth: how many statements it stands in.
    """
    if depth > MAX_DEPTH or len(behaviour.acts) > MAX_ACTS:
        behaviour.doubt("more SQL than is followed")
    elif tokens:
        _Statement(tokens, dialect, behaviour, depth).read()


class _Statement:
    def __init__(self, tokens: Sequence[Token], dialect: Dialect, behaviour: Behaviour, depth: int) -> None:
        self.tokens, self.dialect, self.behaviour, self.depth = tokens, dialect, behaviour, depth
        self.words = frozenset(token.text for token in tokens if token.kind == "word")
        self.closings: dict[int, int] = {}
        self.openings: list[int] = []
        """For each token the bracket that it is in, -1 where it is in none."""
        self.changes = False
        """It has been told of rows that change."""
        self.bracket()
        first = 0
        while self.op(first) == "(":
            first += 1
        self.verb = self.word(first)
        self.first = first
        self.creates = self.verb in ("create", "alter")

    # ---- looking at tokens -------------------------------------------------------------------------

    def word(self, i: int) -> str:
        """The keyword or plain name at `i`, "" where there is none."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) and self.tokens[i].kind == "word" else ""

    def op(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) and self.tokens[i].kind == "op" else ""

    def name(self, i: int) -> str | None:
        """The name at `i`, quoted or not. SQLite takes a string for the name of a table, too."""
        if not 0 <= i < len(self.tokens):
            return None
        token = self.tokens[i]
        lenient = self.dialect is Dialect.SQLITE and token.kind == "string"
        return token.text if token.kind in _NAMED or lenient else None

    def qualified(self, i: int) -> tuple[str | None, int]:
        """The name that begins at `i`, with those that qualify it, and the place behind it."""
        parts: list[str] = []
        while (part := self.name(i)) is not None:
            parts.append(part)
            if self.op(i + 1) != ".":
                return ".".join(parts), i + 1
            i += 2
        return (".".join(parts) or None), i

    def bracket(self) -> None:
        """Find which bracket closes which."""
        opened: list[int] = []
        for at in range(len(self.tokens)):
            if self.op(at) == ")" and opened:
                self.closings[opened.pop()] = at
            self.openings.append(opened[-1] if opened else -1)
            if self.op(at) == "(":
                opened.append(at)

    def closing(self, i: int) -> int:
        """The place of the bracket that closes the one at `i`."""
        return self.closings.get(i, len(self.tokens))

    def inside(self, i: int) -> Sequence[Token]:
        """The tokens in the bracket at `i`, unless they are too many for a list of names."""
        end = self.closing(i)
        return self.tokens[i + 1 : end] if end - i < MAX_NAMES else self.tokens[i : i + 1]

    def doubt(self, reason: str) -> None:
        self.behaviour.doubt(f"SQL {reason}")

    def act(self, kind: str, role: str, *operands: str | None, origin: str = "") -> None:
        for each in operands:
            text = Text() if each is None else Text.of(each)
            act = Act(kind, (text,), role=role, origin=origin or self.verb)
            if len(self.behaviour.acts) > MAX_ACTS:
                self.behaviour.doubt("more SQL than is followed")
            elif act not in self.behaviour.acts:
                self.behaviour.acts.append(act)

    # ---- what it does ------------------------------------------------------------------------------

    def read(self) -> None:
        verb = self.verb
        self.calls()
        if verb in ("select", "with", "values", "table", "fetch", "declare", "insert", "replace", "update", "delete"):
            self.rows(verb)
        elif verb in ("explain", "describe", "desc"):
            self.explain()
        elif verb in ("show", "help"):
            self.act(DATABASE, "read", verb)
        elif verb in _STATEMENTS:
            _STATEMENTS[verb](self)
        elif verb == "use":
            self.act(DATABASE, "read", self.qualified(self.first + 1)[0])
        elif verb in _NOTHING:
            if len(self.tokens) > 12 or (verb == "start" and self.word(self.first + 1) != "transaction"):
                self.doubt(f"with {verb}, which is not understood here")
        elif verb in _ADMINISTERS:
            self.act(DATABASE, "administer", verb)
            if verb in ("install", "change"):
                self.doubt(f"with {verb}, which loads code or follows another server")
        elif verb in _CHANGES | _DELETES:
            origin = "truncate cascade" if verb == "truncate" and "cascade" in self.words else verb
            role = "delete" if verb in _DELETES else "change"
            self.act(DATABASE, role, *(self.things(self.first + 1) or [verb]), origin=origin)
        else:
            self.doubt(f"with {verb or 'a beginning'} that is not understood here")

    def rows(self, verb: str) -> None:
        """Statements about rows: what they read, and what they, or those within them, change."""
        reads: list[str] = []
        self.changes = False
        for i, token in enumerate(self.tokens):
            if token.kind != "word" or self.op(i - 1) == ".":
                continue
            text = token.text
            if text == "from" and self.word(i - 1) == "delete":
                self.change("delete", self.listed(i + 1), "delete")
            elif (text == "from" or text in _JOINS) and self.word(i - 1) != "distinct" and not self.in_function(i):
                reads += self.listed(i + 1) if text == "from" else [self.qualified(i + 1)[0] or "select"]
            elif text == "into":
                self.into(i)
            elif text == "update" and self.is_update(i):
                at = i + 1
                while self.word(at) in ("or", "ignore", "only", "low_priority", "rollback", "abort", "replace", "fail"):
                    at += 1
                self.change("change", [self.qualified(at)[0] or "update", *self.joined(at)], "update")
            elif text == "delete" and (i == self.first or self.op(i - 1) == ")") and self.word(i + 1) != "from":
                self.change("delete", self.things(i + 1) or ["delete"], "delete")
        if verb in ("insert", "replace", "update", "delete") and not self.changes:
            named = self.joined(self.first + 1) if verb == "update" else self.things(self.first + 1)
            self.change("delete" if verb == "delete" else "change", named or [verb], verb)
        if verb == "table":
            reads += self.things(self.first + 1)
        self.act(DATABASE, "secret", *(each for each in reads if each.lower() in _SECRETS))
        if reads or verb not in ("insert", "replace", "update", "delete"):
            self.act(DATABASE, "read", *(list(dict.fromkeys(reads))[:MAX_TABLES] or ["select"]))

    def change(self, role: str, names: Sequence[str], origin: str) -> None:
        """Add that rows of tables are changed. MySQL takes their aliases for them."""
        meant = self.aliases() if self.dialect is Dialect.MYSQL else {}
        named = dict.fromkeys(table for each in names for table in meant.get(each.lower(), [each]))
        self.act(DATABASE, role, *named, origin=origin)
        self.changes = True

    def aliases(self) -> dict[str, list[str]]:
        """What a name may stand for in the statement, besides itself: `from t as a`."""
        found: dict[str, list[str]] = {}
        for i in range(len(self.tokens)):
            if self.op(i - 1) in (",", "(") or (
                self.word(i - 1) in _BEFORE_TABLES and self.word(i) not in _BEFORE_TABLES
            ):
                table, at = self.qualified(i)
                alias = self.name(at + (self.word(at) == "as"))
                if table is not None and alias is not None and alias.lower() not in _ENDS_OF_TABLES:
                    found.setdefault(alias.lower(), []).append(table)
        return found

    def joined(self, i: int) -> list[str]:
        """The tables of an `update` in MySQL: which of them it changes hangs on the columns."""
        if self.dialect is not Dialect.MYSQL:
            return []
        end = next((n for n in range(i, len(self.tokens)) if self.word(n) == "set"), len(self.tokens))
        starts = (n for n in range(i, end) if self.op(n - 1) in (",", "(") or self.word(n - 1) in _JOINS)
        return [name for name in (self.qualified(n)[0] for n in starts) if name is not None][:MAX_TABLES]

    def is_update(self, i: int) -> bool:
        """Whether the `update` at `i` begins a statement: not `for update`, `do update set`, `on update cascade`."""
        return self.word(i - 1) not in ("for", "do", "on", "key", "no") and self.op(i + 1) != "("

    def in_function(self, i: int) -> bool:
        """Whether the `from` at `i` belongs to extract(... from ...) and the like."""
        return self.word(self.openings[i] - 1) in ("extract", "substring", "trim", "overlay", "position")

    def into(self, i: int) -> None:
        """`into` at `i`: a table that is written, a variable, or a file of MySQL's server."""
        after = self.word(i + 1)
        if after in ("outfile", "dumpfile"):
            self.act("write", "server", self.string(i + 2), origin=f"into {after}")
            return
        if i + 1 < len(self.tokens) and self.tokens[i + 1].kind == "bind":
            return
        at = i + 1
        while self.word(at) in ("table", "temp", "temporary", "unlogged", "global", "local"):
            at += 1
        origin = (
            self.verb if self.verb in ("insert", "replace") else "insert" if self.word(i - 1) == "insert" else "into"
        )
        self.change("change", [self.qualified(at)[0] or "into"], origin)

    def string(self, i: int) -> str | None:
        token = self.tokens[i] if 0 <= i < len(self.tokens) else None
        return token.text if token is not None and token.kind == "string" and "\\" not in token.text else None

    def listed(self, i: int) -> list[str]:
        """The tables in the list that begins at `i`: `a, b as c, (select ...)`."""
        out: list[str] = []
        expected, at = True, i
        while at < len(self.tokens) and len(out) < MAX_TABLES:
            op, word = self.op(at), self.word(at)
            if op == "(":
                at = self.closing(at)
            elif op == ")" or word in _ENDS_OF_TABLES:
                break
            elif op == ",":
                expected = True
            elif expected and word not in ("lateral", "only"):
                found, behind = self.qualified(at)
                if found is not None and self.op(behind) != "(":
                    out.append(found)
                expected = False
            at += 1
        return out or ["select"]

    def things(self, i: int) -> list[str]:
        """The names that follow at `i`, behind the words that say what they are."""
        out: list[str] = []
        while i < len(self.tokens) and len(out) < MAX_TABLES:
            if self.word(i) in _KINDS_OF_THINGS and not self.is_name(i):
                i += 1
                continue
            found, i = self.qualified(i)
            if found is None:
                break
            out.append(found)
            if self.op(i) != ",":
                break
            i += 1
        return out

    def is_name(self, i: int) -> bool:
        """Whether a word that may say what a thing is stands for its name: `drop table public.t`, `truncate event`."""
        word, before, behind = self.word(i), self.word(i - 1), self.word(i + 1)
        if self.op(i + 1) == ".":
            return True
        if word in _NO_NAMES:
            return False
        last = self.name(i + 1) is None and self.op(i + 1) != "("
        return last or before in ("table", "exists", "view", "truncate") or behind in ("cascade", "restrict")

    def explain(self) -> None:
        """The plan of a statement, which PostgreSQL and MySQL only run where they are told to."""
        at = self.first + 1
        words = set()
        if self.op(at) == "(" and self.dialect is Dialect.POSTGRESQL:
            end = self.closing(at)
            words |= {self.word(n) for n in range(at, end)}
            at = end + 1
        while self.word(at) in ("analyze", "analyse", "verbose", "query", "plan", "extended", "format") or (
            self.op(at) == "=" or self.word(at) in ("json", "tree", "traditional", "text", "xml", "yaml")
        ):
            words.add(self.word(at))
            at += 1
        inner = self.tokens[at:]
        if words & {"analyze", "analyse"} and self.dialect is not Dialect.SQLITE:
            read_statement(inner, self.dialect, self.behaviour, self.depth + 1)
        else:
            self.act(DATABASE, "read", *(self.things(at)[: self.verb != "explain"] or [self.verb]))

    def create(self) -> None:
        words = [self.word(n) for n in range(self.first + 1, min(self.first + 9, len(self.tokens)))]
        kinds = [word for word in words if word in _STORES_CODE | _ACCOUNTS | {"table", "view", "index", "schema"}]
        kind = kinds[0] if kinds else ""
        names = self.things(self.first + 1)
        if self.dialect is Dialect.SQLITE and kind == "table" and "virtual" in words:
            using = next((n for n in range(len(self.tokens)) if self.word(n) == "using"), len(self.tokens))
            module = self.name(using + 1)
            if module is None or module.lower() not in _MODULES:
                self.doubt(f"that makes a table of the module {module}")
            if any("compress" in token.text.lower() for token in self.tokens):
                self.doubt("whose table calls a function for each text (compress, uncompress)")
        if self.dialect is Dialect.MYSQL and kind == "table":
            self.storage()
        if kind in _ACCOUNTS and self.dialect is not Dialect.SQLITE:
            self.act(DATABASE, "administer", f"{self.verb} {kind}")
            if kind in ("foreign", "subscription", "mapping"):
                self.doubt(f"that connects to another server ({self.verb} {kind})")
            return
        trigger = kind == "trigger" and self.dialect is Dialect.SQLITE
        if trigger:
            self.within_trigger()
        elif kind in _STORES_CODE and (kind not in ("type", "domain") or "input" in self.words):
            self.doubt(f"that stores code ({self.verb} {kind})")
        if not kind:
            self.doubt(f"with {self.verb} of something that is not understood here")
        role = "delete" if self.verb == "alter" and "drop" in self.words else "change"
        renames = self.verb == "alter" and not {"rename", "schema"}.isdisjoint(self.words)
        self.act(DATABASE, role, *(names[:1] or [self.verb]), origin="alter rename" if renames else "")
        if "select" in self.words and kind in ("table", "view"):
            self.rows("select")

    def storage(self) -> None:
        """Where MySQL keeps a table: some engines read any file, or another server's tables."""
        engines = [n for n in range(len(self.tokens)) if self.word(n) == "engine"]
        named = {self.name(n + 1 + (self.op(n + 1) == "=")) or "" for n in engines}
        if not _ENGINES.issuperset(each.lower() for each in named) or self.words & {"directory", "connection"}:
            self.doubt("of a table that is kept elsewhere")

    def within_trigger(self) -> None:
        """The statements of a trigger of SQLite: they run whenever its table changes."""
        start = next((n for n in range(len(self.tokens)) if self.word(n) == "begin"), len(self.tokens))
        statement: list[Token] = []
        for token in self.tokens[start + 1 : -1]:
            if token.kind == "end":
                read_statement(statement, self.dialect, self.behaviour, self.depth + 1)
                statement = []
            else:
                statement.append(token)

    def drop(self) -> None:
        words = self.words
        if words & {"user", "role", "system", "extension", "server"} and self.dialect is not Dialect.SQLITE:
            self.act(DATABASE, "administer", "drop")
        kind = self.word(self.first + 1)
        origin = f"drop {kind}" if kind in ("table", "database", "schema", "view", "index", "owned") else "drop"
        self.act(DATABASE, "delete", *(self.things(self.first + 1) or ["drop"]), origin=origin)

    def attach(self) -> None:
        at = self.first + (2 if self.word(self.first + 1) == "database" else 1)
        path = self.string(at)
        if self.word(at + 1) != "as" or len(self.tokens) != at + 3 or (path or "").lower().startswith("file:"):
            path = None
        if path not in ("", ":memory:"):
            self.act("write", DATABASE, path, origin="attach")
        if path is None:
            self.doubt("that attaches a database that is not known")

    def vacuum(self) -> None:
        into = next((n for n in range(len(self.tokens)) if self.word(n) == "into"), None)
        if into is None or self.dialect is not Dialect.SQLITE:
            self.act(DATABASE, "change", *(self.things(self.first + 1) or ["vacuum"]))
            return
        path = self.string(into + 1) if len(self.tokens) == into + 2 else None
        if (path or "file:").lower().startswith("file:"):
            path = None
        self.act("write", "operand", path, origin="vacuum into")

    def pragma(self) -> None:
        """A pragma of SQLite: one that only tells, or a harmless setting."""
        name, at = self.qualified(self.first + 1)
        name = (name or "").rpartition(".")[2].lower()
        if name in _READ_PRAGMAS or (name in _SET_PRAGMAS and at >= len(self.tokens)):
            self.act(DATABASE, "read", f"pragma {name}")
        elif name in _SET_PRAGMAS and name != "schema_version" and len(self.tokens) - at <= 4:
            self.act(DATABASE, "change", f"pragma {name}")
        else:
            self.doubt(f"with pragma {name}")

    def set(self) -> None:
        at = self.first + 1
        wide = self.words & {"global", "persist", "persist_only", "password", "role", "authorization"}
        wide |= {t.text for t in self.tokens if t.text.lower().startswith(("@@global", "@@persist"))}
        if wide & {"role", "authorization"}:
            self.act("privilege", "database-role", f"set {sorted(wide)[0]}")
            return
        if wide:
            self.act(DATABASE, "administer", "set")
        while self.word(at) in ("session", "local"):
            at += 1
        named = self.tokens[at : at + 1]
        variable = bool(named) and named[0].kind == "bind" and not named[0].text.startswith("@@")
        if self.word(at) == "names" and not {t.text.lower() for t in self.tokens[at + 1 :]} <= _CHARACTER_SETS:
            self.doubt("with another set of characters")
        single = "," not in {self.op(n) for n in range(at, len(self.tokens))}
        if not single or not (variable or self.word(at) in _SESSION or self.word(at) == "time"):
            self.doubt(f"that sets {named[0].text if named else 'something'}")

    def copy(self) -> None:
        """PostgreSQL's COPY: between a table or a query and a file, a program of the server, or the client."""
        at = self.first + 1
        if self.op(at) == "(":
            end = self.closing(at)
            read_statement(self.tokens[at + 1 : end], self.dialect, self.behaviour, self.depth + 1)
            at, table = end + 1, None
        else:
            table, at = self.qualified(at)
            at = self.closing(at) + 1 if self.op(at) == "(" else at
        way = self.word(at)
        if way not in ("to", "from"):
            self.doubt("with a copy that is not understood here")
            return
        if table is not None:
            self.act(DATABASE, "read" if way == "to" else "change", table)
        target = self.word(at + 1)
        if target == "program":
            self.act("shell", "server", self.string(at + 2), origin=f"copy {way} program")
            self.doubt(f"that has the server run a program (copy {way} program)")
        elif target in ("stdin", "stdout"):
            if target == "stdin":
                self.doubt("with copy from stdin, behind which data and statements can't be told apart")
        else:
            self.act("write" if way == "to" else "read", "server", self.string(at + 1), origin=f"copy {way}")

    def load(self) -> None:
        """MySQL's LOAD DATA, from a file of the client or the server; PostgreSQL's LOAD of a library."""
        if self.dialect is not Dialect.MYSQL or self.word(self.first + 1) not in ("data", "xml"):
            self.doubt("that loads a library")
            return
        local = "local" in {self.word(n) for n in range(self.first + 2, self.first + 5)}
        file = next((n for n in range(len(self.tokens)) if self.word(n) == "infile"), len(self.tokens))
        self.act("read", "operand" if local else "server", self.string(file + 1), origin="load data infile")
        for i in range(len(self.tokens)):
            if self.word(i) == "into":
                self.into(i)

    def prepare(self) -> None:
        """PREPARE of PostgreSQL has a statement behind `as`; MySQL's has a string, or a variable."""
        at = next((n for n in range(len(self.tokens)) if self.word(n) == "as"), None)
        if at is None:
            self.doubt("that prepares a text")
            return
        read_statement(self.tokens[at + 1 :], self.dialect, self.behaviour, self.depth + 1)

    def code(self) -> None:
        """What runs code that stands in the text, or in the database."""
        if self.verb == "do" and self.dialect is Dialect.MYSQL:
            self.act(DATABASE, "read", "do")
        else:
            self.doubt(f"that runs code ({self.verb})")

    def system(self) -> None:
        self.act(DATABASE, "change" if self.verb in ("notify",) else "read", self.verb)

    # ---- functions ---------------------------------------------------------------------------------

    def calls(self) -> None:
        """Name what is called. A function that is not known to only compute is code that nobody has read."""
        known, dangerous = computing(self.dialect), dangers(self.dialect)
        for i, token in enumerate(self.tokens):
            called = self.op(i + 1) == "("
            text = token.text.lower() if token.kind in _NAMED or self.name(i) is not None else ""
            if self.verb == "pragma" and i <= self.first + 3:
                continue  # its name
            if text in dangerous and (token.kind != "string" or called or self.is_table(i)):
                self.danger(i, text, dangerous[text])
            elif token.kind in ("string", "unknown") and called and not self.is_no_call(i, text, known):
                self.doubt("with a text before a bracket")
            elif token.kind == "op" and token.text in ("{", "}", "@"):
                continue
            elif called and text and token.kind in _NAMED and not self.is_no_call(i, text, known):
                self.doubt(f"that calls {token.text}(), which nobody has read")
            elif token.kind == "word" and text == "operator" and called:
                self.doubt("with an operator that is not known")

    def is_table(self, i: int) -> bool:
        """Whether the string at `i` may be the name of a table."""
        listed = self.op(i - 1) in (",", "(") and self.tokens[i].text.lower() in _MODULES_THAT_REACH
        return listed or self.word(i - 1) in ("from", "into", "update", "table", *_JOINS) or self.op(i - 1) == "."

    def is_no_call(self, i: int, text: str, known: frozenset[str]) -> bool:
        """Whether the name at `i`, before a bracket, calls nothing but what computes."""
        token, before = self.tokens[i], self.word(i - 1)
        if self.op(i - 1) == ".":
            schema = self.name(i - 2)
            plain = (token.kind == "word" or token.text in known) and text in known
            if schema == "pg_catalog" and self.op(i - 3) != "." and plain:
                return True
            start = i - 2
            while self.op(start - 1) == ".":
                start -= 2
            before = self.word(start - 1)
        elif (
            token.text in known
            or (token.kind == "word" and text in _BEFORE_BRACKET)
            or (token.kind == "word" and ((self.creates and text in _IN_DEFINITIONS) or i == self.first))
        ):
            return True
        if token.kind == "word" and text in _TYPES and (self.creates or before == "as" or self.op(i - 1) == "::"):
            return True
        if before == "as" or (before == "into" and self.verb != "select"):
            return True  # names of columns: `as t(a, b)`, `insert into t (a, b)`
        inside = self.inside(i + 1)
        typed = bool(inside) and all(each.kind == "number" or each.text == "," for each in inside)
        if self.creates and typed and self.tokens[i - 1].kind in _NAMED and before not in _BEFORE_BRACKET:
            return True  # a type of somebody's own: `id guid(16)`
        names_only = all(each.kind in _NAMED or each.text == "," for each in inside)
        if self.op(i - 1) == ")" and names_only:
            return True  # `generate_series(1, 3) g(n)`
        queries = "select" in self.words and before not in ("table", "view")
        if self.creates and before in _NAMED_IN_DEFINITIONS and not queries:
            return True
        if self.verb == "insert" and before in ("ignore", "insert", "replace", "low_priority"):
            return True
        return self.is_common_table(i, before)

    def is_common_table(self, i: int, before: str) -> bool:
        """Whether the bracket behind `i` holds names of columns: `with t (a, b) as (...)`, `copy t (a)`."""
        end = self.closing(i + 1)
        if not all(each.kind in _NAMED or each.text == "," for each in self.inside(i + 1)):
            return False
        if self.verb == "copy" and before == "copy":
            return True
        after = {self.word(end + 2), self.word(end + 3), self.op(end + 2)} & {"(", "materialized"}
        common = "with" in self.words and self.word(end + 1) == "as" and bool(after)
        return common and (before in ("with", "recursive") or self.op(i - 1) == ",")

    def danger(self, i: int, text: str, what: dict[str, Any]) -> None:
        """Name what a function or a module does that does more than to compute."""
        number, operand = what["argument"], None
        if self.op(i + 1) == "(" and number:
            operand = self.argument(i + 1, number)
        kind, role = what["kind"], what["role"]
        if kind == DATABASE:
            self.act(DATABASE, role, operand or text, origin=text)
            return
        if kind == "execute":
            self.doubt(f"that uses {text}, which runs code")
            return
        self.act(kind, role, operand, origin=text)
        self.doubt(f"that uses {text}")

    def argument(self, bracket: int, number: int) -> str | None:
        """The argument of a call, where it is one string."""
        depth, found = 0, 1
        current: list[int] = []
        for at in range(bracket, min(self.closing(bracket) + 1, bracket + MAX_NAMES)):
            depth += {"(": 1, ")": -1}.get(self.op(at), 0)
            if at == bracket:
                continue
            if depth == 0 or (depth == 1 and self.op(at) == ","):
                if found == number:
                    break
                found, current = found + 1, []
            else:
                current.append(at)
        return self.string(current[0]) if len(current) == 1 else None


_STATEMENTS = {
    "create": _Statement.create,
    "alter": _Statement.create,
    "drop": _Statement.drop,
    "attach": _Statement.attach,
    "vacuum": _Statement.vacuum,
    "pragma": _Statement.pragma,
    "set": _Statement.set,
    "copy": _Statement.copy,
    "load": _Statement.load,
    "prepare": _Statement.prepare,
    "do": _Statement.code,
    "call": _Statement.code,
    "execute": _Statement.code,
    "import": _Statement.code,
    "handler": _Statement.code,
    "security": _Statement.code,
    "listen": _Statement.system,
    "unlisten": _Statement.system,
    "notify": _Statement.system,
}
