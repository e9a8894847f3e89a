"""The condition on statements of SQL: which kind, on which tables; what nobody reads may be any."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load

Judge = Callable[..., str]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def make(command: str, sql: Any, *, excuses: bool = False, **when: Any) -> str:
        """Say how surely a rule that denies, or one that allows, applies."""
        match = {"sql": sql, **when}
        rule = {"id": "r", "decision": "deny", "when": {"not": match} if excuses else match}
        body = {
            "version": 1,
            "policy": "p",
            "defaults": {"unmatched": "allow"},
            "rules": [rule],
            "lists": {"live": ["orders"]},
        }
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(body))
        director = Director(load(tmp_path / "p.yaml"), project=examples.PROJECT, environ={"HOME": "/h"})
        found = str(director.evaluate(Action(command, cwd=examples.PROJECT)).verdict)
        said = {"deny": "yes", "ask": "maybe", "allow": "no"}[found]
        return {"yes": "no", "no": "yes"}.get(said, said) if excuses else said

    return make


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        ("select * from t", "select"),
        ("table t", "select"),
        ("insert into t values (1)", "insert"),
        ("update t set a = 1", "update"),
        ("delete from t", "delete"),
        ("truncate t", "truncate"),
        ("drop table t", "drop"),
        ("drop schema s cascade", "drop"),
        ("alter table t add a int", "alter"),
        ("alter table t drop column a", "alter"),
        ("create table t (a int)", "create"),
        ("create table t as select 1", "create"),
        ("select 1 into t", "create"),
        ("grant select on t to a", "grant"),
        ("revoke select on t from a", "revoke"),
        ("merge into t using u on true when matched then delete", "merge"),
        ("vacuum t", "other"),
        ("with x as (delete from t returning *) select * from x", "delete"),
        ("with x as (insert into t values (1) returning *) select * from x", "insert"),
        ("explain analyze update t set a = 1", "update"),
        ("DROP/**/TABLE t", "drop"),
        ('dRoP table "T"', "drop"),
        ("select 1; drop table t", "drop"),
        ("select 1\\; drop table t", "drop"),
        ("select 1 -- no\n; drop table t", "drop"),
    ],
)
def test_kinds_of_statements(judge: Judge, statement: str, kinds: str) -> None:
    command = f"psql app -c '{statement}'"
    assert judge(command, {"kinds": kinds}) == "yes"
    others = {"select", "insert", "update", "delete", "truncate", "drop", "alter", "create"} - {kinds, "select"}
    assert judge(command, {"kinds": sorted(others)}) == "no"


@pytest.mark.parametrize(
    "command",
    [
        "psql app -c 'select $a$; drop table t; $a$'",
        "psql app -c \"select '; drop table t'\"",
        "psql app -c 'select 1 /* ; drop table t */'",
        "psql app -c 'select \"drop table t\" from u'",
        "echo 'drop table t'",
        "psql --version",
        "curl https://a.example/?q=drop",
    ],
)
def test_what_is_only_text_is_no_statement(judge: Judge, command: str) -> None:
    assert judge(command, {"kinds": ["drop", "delete"]}) == "no"


@pytest.mark.parametrize(
    "command",
    [
        "psql app -f nowhere.sql",
        "psql app",
        "PSQLRC=x psql app -c 'select 1'",
        "export PSQLRC=x; psql app -c 'select 1'",
        "HOME=/x mysql app -e 'select 1'",
        "cat x | psql app",
        'psql app -c "$Q"',
        "psql app -c 'do $$ begin delete from t; end $$'",
        "psql app -c 'select f()'",
        "mysql app -e 'select 1' -e 'delimiter x'",
        "bq query 'drop table d.t'",
        "snowsql -q 'drop table t'",
        "duckdb a.db 'select 1'",
        "redis-cli flushall",
    ],
)
def test_what_nobody_reads_may_be_any(judge: Judge, command: str) -> None:
    assert judge(command, {"kinds": "drop"}) == "maybe"
    assert judge(command, {"kinds": ["select"]}, excuses=True) in ("maybe", "no")


@pytest.mark.parametrize(
    ("table", "sql", "answer"),
    [
        ("orders", {"any_in": "orders"}, "yes"),
        ("shop.orders", {"any_in": "orders"}, "yes"),
        ('"Orders"', {"any_in": "orders"}, "yes"),
        ("app.shop.orders", {"any_in": "shop.*"}, "yes"),
        ("orders", {"any_in": "shop.orders"}, "no"),
        ("orders", {"any_in": "public.orders"}, "yes"),
        ("shop.orders", {"any_in": "app.shop.orders"}, "maybe"),
        ("orders", {"any_in": "shop.other"}, "no"),
        ("tmp_x", {"any_in": "tmp_*"}, "yes"),
        ("orders", {"none_in": "tmp_*"}, "yes"),
        ("tmp_x", {"none_in": "tmp_*"}, "no"),
        ("a, tmp_x", {"none_in": "tmp_*"}, "yes"),
        ("orders", {"any_in": "$live"}, "yes"),
        ("orders", {"any_in": "$live", "kinds": "drop"}, "no"),
        # Names that are also words which say what a thing is.
        ("public.orders", {"any_in": "orders"}, "yes"),
        ("only public.orders", {"any_in": "public.orders"}, "yes"),
        ("event.orders, type.x", {"any_in": "type.x"}, "yes"),
        ("event", {"any_in": "event"}, "yes"),
        ("event cascade", {"any_in": "event"}, "yes"),
        ("role restart identity", {"any_in": "role"}, "yes"),
        ("tmp_x, role", {"any_in": "role"}, "yes"),
        ("public.tmp_x", {"none_in": "tmp_*"}, "no"),
    ],
)
def test_tables(judge: Judge, table: str, sql: Any, answer: str) -> None:
    assert judge(f"psql app -c 'truncate {table}'", sql) == answer


@pytest.mark.parametrize(
    "command",
    [
        "psql app -c 'alter table orders rename to y; drop table y'",
        "psql app -c 'alter table orders rename to y' -c 'drop table y'",
        "psql app -c 'alter table orders rename to y' && psql app -c 'drop table y'",
        "psql app <<< 'alter table orders set schema y; drop table y.t'",
        "mysql app -e 'rename table orders to y; drop table y'",
    ],
)
def test_a_table_that_the_same_action_renames_may_be_any(judge: Judge, command: str) -> None:
    assert judge(command, {"kinds": ["drop"], "any_in": "orders"}) == "maybe"
    assert judge(command, {"kinds": ["alter", "rename"], "any_in": "orders"}) == "yes"


@pytest.mark.parametrize(
    "statement", ["drop schema shop cascade", "drop database shop", "drop owned by me", "truncate lines cascade"]
)
def test_what_reaches_tables_that_it_does_not_name(judge: Judge, statement: str) -> None:
    command = f"psql app -c '{statement}'"
    assert judge(command, {"any_in": "orders"}) == "maybe"
    assert judge(command, {"any_in": "shop.*"}) == "maybe"
    assert judge(command, {"none_in": "tmp_*"}) == "yes"
    assert judge(command, {"any_in": ["shop", "lines", "me", "by"]}, excuses=True) != "yes"
    assert judge(command, {"none_in": "orders"}, excuses=True) == "maybe"


@pytest.mark.parametrize(
    "statement",
    [
        "drop table public.type",
        "drop table if exists type",
        "drop table a, type cascade",
        "drop materialized view type",
        "alter table type add column a int",
        "alter table only public.type drop column a",
        "vacuum full public.type",
        "table public.type",
    ],
)
def test_words_for_things_may_be_names_of_tables(judge: Judge, statement: str) -> None:
    assert judge(f"psql app -c '{statement}'", {"any_in": "public.type"}) == "yes"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("mysql shop -e 'truncate orders'", "yes"),
        ("mysql dev -e 'truncate orders'", "no"),
        ("mysql dev -e 'use shop; truncate orders'", "yes"),
        ("mysql -e 'truncate orders'", "maybe"),
        ("psql app -c 'set search_path = shop; truncate orders'", "maybe"),
        ("psql 'dbname=app options=-csearch_path=shop' -c 'truncate orders'", "maybe"),
        ("PGOPTIONS=-csearch_path=shop psql app -c 'truncate orders'", "maybe"),
    ],
)
def test_names_that_nothing_qualifies(judge: Judge, command: str, answer: str) -> None:
    assert judge(command, {"any_in": "shop.orders"}) == answer


def test_what_excuses_is_asked_of_every_statement(judge: Judge) -> None:
    both = "psql app -c 'select 1; delete from t'"
    assert judge(both, {"kinds": "select"}, excuses=True) == "no"
    assert judge(both, {"kinds": ["select", "delete"]}, excuses=True) == "yes"
    assert judge("ls", {"kinds": "select"}, excuses=True) == "no"


@pytest.mark.parametrize(
    ("command", "database", "answer"),
    [
        ("psql prod -c 'select 1'", "prod", "yes"),
        ("psql -d prod -c 'select 1'", "prod", "yes"),
        ("psql postgres://u@h/prod -c 'select 1'", "prod", "yes"),
        ("psql 'host=h dbname=prod' -c 'select 1'", "prod", "yes"),
        ("psql dev -c 'select 1'", "prod", "no"),
        ("psql -d dev -d prod -c 'select 1'", "prod", "yes"),
        ("psql -d dev prod -c 'select 1'", "prod", "no"),  # that is the user
        ("psql -c 'select 1'", "prod", "maybe"),
        ('psql "$DB" -c "select 1"', "prod", "maybe"),
        ("psql -d dev -c '\\c prod' -c 'drop table x'", "prod", "maybe"),
        ("mysql -D prod -e 'select 1'", "prod", "yes"),
        ("mysql dev -e 'use prod; drop table x'", "prod", "yes"),
        ("mysql dev -e '\\u prod'", "prod", "yes"),
        ("bq --project_id=prod query x", "prod", "no"),
    ],
)
def test_the_database_is_an_attribute(judge: Judge, command: str, database: str, answer: str) -> None:
    kinds = {"kinds": ["select", "insert", "update", "delete", "drop", "other"]}
    assert judge(command, kinds, attributes={"database": database}) == answer
