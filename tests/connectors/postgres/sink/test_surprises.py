"""Tables, roles and constraints that are made in a way that a sink does not expect: rows are right, or an error says what to run."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock
from engine.session import Session
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.sink.targets import place, write
from tests.connectors.sinks.deliveries import deliver, find_error

pytestmark = pytest.mark.postgres
ROWS = "SELECT id, v FROM t ORDER BY id"


@pytest.fixture
def source(lake: Session) -> Session:
    """A session with a table t of three rows."""
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return lake


def make(session: Session, database: Database, **options: str) -> None:
    """Make the sink s, and deliver its first rows."""
    session.sql(write(**place(database, **options)), build=False)
    deliver(session)


def test_settings_of_a_database_change_no_value(lake: Session, database: Database) -> None:
    for name in ("array_nulls", "standard_conforming_strings"):
        database.run(f"ALTER DATABASE {database.name} SET {name} TO off")
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v ARRAY<STRING>)")
    lake.sql("INSERT INTO t VALUES (1, array('a', NULL, 'NULL', '\\\\'))")
    make(lake, database)
    assert database.ask("SELECT v FROM t") == [(["a", None, "NULL", "\\"],)]


def test_a_rule_is_told_and_not_obeyed(source: Session, database: Database) -> None:
    make(source, database)
    database.run("CREATE RULE kept AS ON DELETE TO t DO INSTEAD NOTHING")
    source.sql("DELETE FROM t WHERE id = 1")
    said = find_error(source)
    assert "the rule kept of public.t" in said
    assert said.endswith('DROP RULE "kept" ON "public"."t"')
    database.run('DROP RULE "kept" ON "public"."t"')
    deliver(source)
    assert database.ask(ROWS) == [(2, "b"), (3, "c")]


def test_rows_of_tables_that_inherit_stay(source: Session, database: Database) -> None:
    make(source, database)
    database.run("CREATE TABLE heir () INHERITS (t)", "INSERT INTO heir VALUES (1, 'theirs'), (7, 'theirs')")
    source.sql("DELETE FROM t WHERE id = 1")
    deliver(source)
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert database.ask("SELECT id FROM heir ORDER BY id") == [(1,), (7,)]
    assert database.ask("SELECT id FROM ONLY t ORDER BY id") == [(2,), (3,)]


def test_a_partitioned_table_follows(source: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text) PARTITION BY HASH (id)",
        *(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER {n})" for n in range(2)),
    )
    make(source, database)
    source.sql("DELETE FROM t WHERE id = 1")
    source.sql("UPDATE t SET v = 'x' WHERE id = 2")
    deliver(source)
    assert database.ask(ROWS) == [(2, "x"), (3, "c")]


def test_a_function_that_finds_nothing_is_told_with_its_mend(source: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE audit (id bigint)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES (NEW.id); "
        "RETURN NEW; END $$",
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        "CREATE TRIGGER noted AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
    )
    source.sql(write(**place(database)), build=False)
    said = find_error(source)
    assert "function public.note()" in said and "ALTER FUNCTION" in said
    database.run("ALTER FUNCTION note() SET search_path TO public")
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert database.ask("SELECT id FROM audit ORDER BY id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_key_that_no_index_takes_is_told(first: bool, lake: Session, database: Database) -> None:
    chance = random.Random(1)
    long = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(9_000))
    lake.sql("CREATE TABLE t (id STRING PRIMARY KEY, v STRING)")
    lake.sql("INSERT INTO t VALUES ('a', 'x')")
    if not first:
        make(lake, database)
    lake.write("t", pa.table({"id": ["b", long], "v": ["y", "z"]}))
    if first:
        lake.sql(write(**place(database)), build=False)
    said = find_error(lake)
    assert "index row" in said and f"public.t refuses the row (id = '{long[:9]}" in said
    lake.write("t", pa.table({"id": [long]}), mode="delete")
    if first:
        lake.sql("ALTER SINK s RESET")
    deliver(lake)
    assert database.ask(ROWS) == [("a", "x"), ("b", "y")]


def test_items_of_an_array_are_not_cut(lake: Session, database: Database) -> None:
    database.run("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(2)[])")
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v ARRAY<STRING>)")
    lake.sql("INSERT INTO t VALUES (1, array('ok')), (2, array('ab  ', NULL))")
    lake.sql(write(**place(database)), build=False)
    said = find_error(lake)
    assert "column v of the row (id = 2) has items of more than 2 characters" in said


def test_a_line_that_is_lost_is_told_of_a_sink_without_first_rows(
    source: Session, database: Database
) -> None:
    make(source, database, snapshot="false")
    source.sql("INSERT INTO t VALUES (7, 'seven')")
    deliver(source)
    assert database.ask(ROWS) == [(7, "seven")]
    database.run("DELETE FROM tideline_sinks", "TRUNCATE t")
    source.sql("INSERT INTO t VALUES (8, 'eight')")
    assert "has no line of what was delivered before" in find_error(source)
    source.sql("ALTER SINK s RESET")
    source.sql("INSERT INTO t VALUES (9, 'nine')")
    deliver(source)
    assert database.ask(ROWS) == [(9, "nine")]


def test_rows_exchange_unique_values_where_the_constraint_waits(source: Session, database: Database) -> None:
    database.run("CREATE TABLE t (id bigint PRIMARY KEY, v text CONSTRAINT one UNIQUE)")
    make(source, database)
    source.sql("UPDATE t SET v = CASE id WHEN 1 THEN 'b' WHEN 2 THEN 'a' ELSE v END")
    assert "UNIQUE (…) DEFERRABLE" in find_error(source)
    database.run("ALTER TABLE t DROP CONSTRAINT one, ADD CONSTRAINT one UNIQUE (v) DEFERRABLE")
    deliver(source)
    assert database.ask(ROWS) == [(1, "b"), (2, "a"), (3, "c")]


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_what_came_while_an_acknowledgement_failed_is_there(
    first: bool, source: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Hummock.commit

    def fail(store: Hummock, asked: Commit) -> Any:
        if asked.acks:
            raise OSError("the store is away")
        return commit(store, asked)

    if first:
        source.sql(write(**place(database)), build=False)
    else:
        make(source, database)
        source.sql("UPDATE t SET v = 'new' WHERE id = 1")
    with monkeypatch.context() as patch:
        patch.setattr(Hummock, "commit", fail)
        assert "the store is away" in find_error(source)
    source.sql("CREATE TABLE other (id BIGINT PRIMARY KEY)")
    source.sql("INSERT INTO other VALUES (1)")
    for number in range(5):
        source.sql(f"INSERT INTO t VALUES ({10 + number}, 'more')")
    source.sql("DELETE FROM t WHERE id = 2")
    deliver(source)
    assert [key for key, _ in database.ask(ROWS)] == [1, 3, *range(10, 15)]
