"""Without a server: options that are refused, the table of conversions, and the statements that are run there."""

from __future__ import annotations

import importlib

import pyarrow as pa
import pytest

from engine.connectors.postgres.sink.connector import PostgresSinkConnector
from engine.connectors.postgres.sink.rows import RefusedValue, TargetColumn, encode_piece
from engine.connectors.postgres.sink.statements import render_deletion, render_replacement, render_upsert
from engine.connectors.postgres.sink.tables import check_columns
from engine.connectors.postgres.sink.types import TargetType, choose_type, explain_misfit, render_cast
from engine.errors import SqlError
from engine.session import Session
from engine.sql.catalog import RelationColumn
from tests.connectors.postgres.sink.targets import write

CONNECTING = (
    write(hostname="no-such-host.invalid"),
    write(password_variable="TIDELINE_TESTS_UNSET"),
)
"""Statements that are right as far as can be told without the driver."""


@pytest.fixture
def source(lake: Session) -> Session:
    """A session with tables that a sink could read."""
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    lake.sql("CREATE TABLE bag (v STRING)")
    lake.sql(f"CREATE TABLE wide (id BIGINT PRIMARY KEY, {'x' * 64} STRING)")
    return lake


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (write(hostname=""), ("needs hostname", "hostname = …")),
        (write(database=""), ("needs database",)),
        (write(username=" "), ("needs username",)),
        (write(table=""), ("needs table",)),
        (write(port="many"), ("port = 'many' is no port", "5432")),
        (write(port="70000"), ("is no port",)),
        (write(sslmode="maybe"), ("sslmode = 'maybe' is unknown", "verify-full")),
        (write(table="a.b.c"), ("names no table", "schema.name")),
        (write(table="x" * 64), ("is no name in PostgreSQL", "63 bytes")),
        (write(table="public.tideline_sinks"), ("note how far they are", "another table")),
        (write(password_variable="hunter 2"), ("is the name of a variable, and no password",)),
        (write(password="x"), ("has no option password", "did you mean")),
        (write(tabel="x"), ("has no option tabel", "did you mean table?")),
        (write(vnode_groups="4"), ("readers of their own", "leave vnode_groups out")),
        (write(type="merge"), ("upsert or append-only",)),
        (write(retention="soon"), ("is no time span",)),
        (write(slot="s"), ("has no option slot",)),
        (write(source="bag"), ("the key of bag", "is not among its columns")),
        (write(source="wide"), ("more than 63 bytes", "otherwise in the view")),
        (write(source="none"), ("there is no table or view none",)),
        (write(connector="postgresql"), ("the connector of a sink is file or delta or postgres",)),
        (write(), ("127.0.0.1:1", "refused")),
        (CONNECTING[0], ("no-such-host.invalid",)),
        (CONNECTING[1], ("TIDELINE_TESTS_UNSET", "is not set")),
    ],
)
def test_a_statement_that_cannot_work_is_refused_with_what_to_write(
    statement: str, words: tuple[str, ...], source: Session
) -> None:
    if statement in (write(), *CONNECTING):
        pytest.importorskip("psycopg")
    with pytest.raises(SqlError) as refused:
        source.sql(statement)
    assert all(word in str(refused.value) for word in words), refused.value
    assert "s" not in source.catalog.relations


def test_without_psycopg_it_is_said_what_to_install(source: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", lack)
    with pytest.raises(SqlError, match=r"pip install 'tideline\[postgres-source\]'"):
        source.sql(write())


def column(kind: str, name: str = "c", sql_type: str | None = None) -> RelationColumn:
    return RelationColumn(name, kind, sql_type=sql_type)


def there(name: str, element: str = "", **more: object) -> TargetType:
    return TargetType(name, element, name, **more)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("tinyint", "smallint"),
        ("decimal(10,2)", "numeric(10,2)"),
        ("time(3)", "time without time zone"),
        ("interval day to second", "interval"),
        ("array<decimal(3,1)>", "numeric(3,1)[]"),
        ("array<array<int>>", "jsonb"),
        ("map<string,int>", "jsonb"),
        ("array<struct<a:int>>", "jsonb"),
    ],
)
def test_a_new_table_gets_types_that_hold_each_value(kind: str, made: str) -> None:
    assert choose_type(column(kind)) == made


@pytest.mark.parametrize(
    ("kind", "its", "fits"),
    [
        ("int", there("int8"), True),
        ("bigint", there("int4"), False),
        ("bigint", there("numeric"), True),
        ("bigint", there("numeric", digits=(18, 0)), False),
        ("bigint", there("numeric", digits=(21, 2)), True),
        ("decimal(10,2)", there("numeric", digits=(10, 2)), True),
        ("decimal(10,2)", there("numeric", digits=(10, 3)), False),
        ("decimal(10,2)", there("numeric", digits=(12, 1)), False),
        ("decimal(10,2)", there("float8"), False),
        ("float", there("float8"), False),
        ("double", there("float8"), True),
        ("string", there("varchar", length=3), True),
        ("string", there("bpchar", length=3), False),
        ("string", there("enum"), True),
        ("timestamp", there("timestamp"), False),
        ("timestamp", there("timestamptz", digits=(0, 3)), False),
        ("timestamp", there("timestamptz", digits=(0, 6)), True),
        ("interval day to second", there("interval", digits=(0, -1)), False),
        ("array<int>", there("_int4", "int4"), True),
        ("array<int>", there("_int2", "int2"), False),
        ("array<int>", there("int4"), False),
        ("int", there("_int4", "int4"), False),
        ("struct<a:int>", there("jsonb"), True),
        ("struct<a:int>", there("hstore"), False),
    ],
)
def test_a_type_that_loses_values_is_none(kind: str, its: TargetType, fits: bool) -> None:
    assert (explain_misfit(column(kind), its, in_key=False) is None) == fits


def test_keys_are_compared_there_as_they_are_here() -> None:
    assert explain_misfit(column("string"), there("jsonb"), in_key=True)
    assert explain_misfit(column("string"), there("uuid"), in_key=True) is None
    uuid = TargetColumn(column("string"), there("uuid"), True)
    with pytest.raises(RefusedValue, match="no UUID in small letters"):
        encode_piece(pa.table({"c": ["6BA7B810-9DAD-11D1-80B4-00C04FD430C8"]}), [uuid])
    problems = list(check_columns([column("map<string,int>"), column("void", "n")], ["c"]))
    assert [problem.message.split(",")[0] for problem in problems] == [
        "column c of the key is map<string",
        "column n has no type",
    ]


def test_only_texts_with_a_form_are_cast() -> None:
    assert render_cast(column("string"), there("varchar", length=2)) == ""  # a cast would cut it
    assert render_cast(column("string"), there("uuid")) == "::uuid"
    assert render_cast(column("int"), there("int8")) == ""


def test_names_are_quoted_in_statements() -> None:
    columns = [
        TargetColumn(column("double", 'k"1'), there("float8"), True),
        TargetColumn(column("string", "v;"), there("text")),
    ]
    assert render_upsert('"t"', columns) == (
        'INSERT INTO "t" ("k""1", "v;") SELECT s.c0, s.c1 FROM pg_temp.tideline_changes AS s WHERE s.op <> 2 '
        'ON CONFLICT ("k""1") DO UPDATE SET "k""1" = EXCLUDED."k""1", "v;" = EXCLUDED."v;"'
    )
    deletion = render_deletion('"t"', columns, frozenset())
    assert deletion.endswith('WHERE s.op = 2 AND t."k""1" = s.c0')
    assert 't."k""1" IS NULL AND s.c0 IS NULL' in render_deletion('"t"', columns, frozenset({'k"1'}))
    assert len(render_replacement('"t"', columns)) == 2
    assert render_replacement('"t"', columns[1:]) == ['DELETE FROM "t"']
    assert "ON CONFLICT" not in render_upsert('"t"', columns[1:])
    assert render_upsert('"t"', columns[:1], (5, 9)).count("s.n >= 5 AND s.n < 9") == 1


def test_it_has_its_target_alone() -> None:
    assert PostgresSinkConnector.alone and not PostgresSinkConnector.each_epoch
