"""Tables follow tables of a real PostgreSQL: values, keys, large values, transactions over several tables, and slots that are lost."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.contract.connector import SourceReport
from engine.connectors.postgres import log_reader, server, source
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.hummock import Hummock
from engine.session import Session
from tests.connectors.postgres.server import Database

pytestmark = pytest.mark.postgres


def create(lake: Session, database: Database, name: str, columns: str, /, **options: str) -> None:
    """Create a table that follows the one of the same name."""
    lake.sql(f"CREATE TABLE {name} ({columns}) WITH ({database.options(f'public.{name}', **options)})")


def rows(lake: Session, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table in order."""
    lake.store.refresh()
    found = [tuple(row.values()) for batch in lake.store.iter(name) for row in batch.to_pylist()]
    return sorted(found, key=repr)


def poll(lake: Session) -> Sequence[SourceReport]:
    """Poll all sources; none fails."""
    reports = lake.poll()
    assert not [one.error for one in reports if one.error], reports
    return reports


def letters(lake: Session) -> list[str]:
    """Return why rows were set aside."""
    return [row["reason"] for batch in lake.store.iter("_dead_letter") for row in batch.to_pylist()]


PAIR = "id BIGINT PRIMARY KEY, n BIGINT"


def test_values_of_all_types_come_by_the_snapshot_and_by_the_log(lake: Session, database: Database) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN cents AS int",
        "CREATE TABLE v (id bigint PRIMARY KEY, b bool, i2 int2, i4 int4, f4 float4, f8 float8, d numeric(12, 3), t text, "
        "vc varchar(9), by bytea, da date, ts timestamp, tz timestamptz, ti time, u uuid, j jsonb, e mood, c cents, "
        "a int[], at text[], iv interval)",
        "CREATE PUBLICATION tideline FOR TABLE v",
    )
    columns = (
        "id BIGINT PRIMARY KEY, b BOOLEAN, i2 SMALLINT, i4 INT, f4 FLOAT, f8 DOUBLE, d DECIMAL(12, 3), t STRING, vc STRING, "
        "by BINARY, da DATE, ts TIMESTAMP_NTZ, tz TIMESTAMP, ti TIME, u STRING, j STRING, e STRING, c INT, a ARRAY<INT>, "
        "at ARRAY<STRING>, iv STRING"
    )
    values = (
        "true, -2, 7, 1.5, 'NaN', 12.345, E'ä\\t\\\\\\n', 'x', '\\x00ff', '2024-02-29', '2024-02-29 23:59:59.999999', "
        "'2024-02-29 12:00+02', '01:02:03.5', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', 'sad', 5, '{1,NULL}', "
        "'{\"a,b\",NULL,\"NULL\"}', '1 day 02:00'"
    )
    database.run(f"INSERT INTO v VALUES (1, {values})", "INSERT INTO v (id) VALUES (2)")
    create(lake, database, "v", columns)
    poll(lake)
    database.run(f"INSERT INTO v VALUES (3, {values})", "INSERT INTO v (id) VALUES (4)")
    poll(lake)
    first, empty, third, empty_too = rows(lake, "v")
    assert repr(first[1:]) == repr(third[1:])
    assert set(empty[1:]) == set(empty_too[1:]) == {None}
    named = dict(zip([column.name for column in lake.catalog.get("v").columns], first, strict=True))
    assert str(named.pop("f8")) == "nan"
    assert named == {
        "id": 1,
        "b": True,
        "i2": -2,
        "i4": 7,
        "f4": 1.5,
        "d": Decimal("12.345"),
        "t": "ä\t\\\n",
        "vc": "x",
        "by": b"\x00\xff",
        "da": datetime.date(2024, 2, 29),
        "ts": datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999),
        "tz": datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC),
        "ti": datetime.time(1, 2, 3, 500_000),
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": 1}',
        "e": "sad",
        "c": 5,
        "a": [1, None],
        "at": ["a,b", None, "NULL"],
        "iv": "1 day 02:00:00",
    }


def test_what_does_not_fit_is_set_aside_and_stops_nothing(lake: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, d numeric, da date)",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v VALUES (1, 'NaN', NULL), (2, 1.5, '2024-01-01')",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, d DECIMAL(5, 2), da DATE")
    assert poll(lake)[0].dead_rows == 1
    database.run(
        "INSERT INTO v VALUES (3, 12345, NULL), (4, 2, 'infinity'), (5, 2, '0044-03-15 BC'), (6, 9.99, NULL)"
    )
    assert poll(lake)[0].dead_rows == 3
    assert [row[0] for row in rows(lake, "v")] == [2, 6]
    assert len(letters(lake)) == 4
    database.run("UPDATE v SET d = 'NaN' WHERE id = 2", "UPDATE v SET d = 3 WHERE id IN (1, 4)")
    poll(lake)
    assert [row[0] for row in rows(lake, "v")] == [
        1,
        6,
    ]  # of 2 nothing stands any more that PostgreSQL has not
    database.run("UPDATE v SET d = 4, da = NULL WHERE id IN (2, 4)")
    poll(lake)
    assert [row[0] for row in rows(lake, "v")] == [1, 2, 4, 6]


def test_a_large_value_of_a_row_that_was_set_aside_is_not_guessed(lake: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, d numeric, big text)",
        "ALTER TABLE v ALTER big SET STORAGE EXTERNAL",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v VALUES (1, 1, repeat('a', 4000)), (2, 2, repeat('a', 4000))",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, d DECIMAL(5, 2), big STRING")
    poll(lake)
    database.run("UPDATE v SET d = 'NaN', big = repeat('b', 4000) WHERE id = 1")
    poll(lake)
    database.run("UPDATE v SET d = 7 WHERE id = 1")
    assert poll(lake)[0].dead_rows == 1
    assert [row[0] for row in rows(lake, "v")] == [2]
    assert any("did not change was not repeated" in letter for letter in letters(lake))
    lake.sql("ALTER TABLE v RESYNC")
    assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr)


def test_large_values_that_did_not_change_are_kept(lake: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, n bigint, big text, more text)",
        "ALTER TABLE v ALTER big SET STORAGE EXTERNAL, ALTER more SET STORAGE EXTERNAL",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v SELECT g, 0, repeat('a' || g, 3000), repeat('b', 3000) FROM generate_series(1, 5) AS g",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, n BIGINT, big STRING, more STRING")
    poll(lake)
    with database.connect(autocommit=False) as one:
        one.execute("UPDATE v SET n = 1 WHERE id = 1")  # both stand in the store
        one.execute("UPDATE v SET id = 20 WHERE id = 2")  # under its old key
        one.execute("UPDATE v SET more = 'short' WHERE id = 3")
        one.execute("UPDATE v SET n = 3 WHERE id = 3")
        one.execute("INSERT INTO v VALUES (6, 0, repeat('c', 3000), 'd')")
        one.execute("UPDATE v SET n = 6 WHERE id = 6")  # of the same transaction
        one.execute("UPDATE v SET id = 50 WHERE id = 5")
        one.execute("INSERT INTO v VALUES (5, 5, 'other', 'row')")  # not the one that 50 was
        one.execute("UPDATE v SET id = 2, n = 2 WHERE id = 20")
    poll(lake)
    assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr)


def test_a_slot_that_cannot_be_made_as_a_transaction_stays_open_is_told(
    lake: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CREATE_SECONDS", 1)
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    with database.connect(autocommit=False) as other:
        other.execute("INSERT INTO a VALUES (8, 8)")
        (report,) = lake.poll()
        assert report.error is not None and "transactions that began before have not ended" in report.error
        other.commit()
    poll(lake)
    assert rows(lake, "a") == [(1, 1), (8, 8)]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "USING INDEX v_code"])
def test_keys_change_rows_go_and_tables_are_emptied(lake: Session, database: Database, identity: str) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, code text NOT NULL, n bigint)",
        "CREATE UNIQUE INDEX v_code ON v (code)",
        f"ALTER TABLE v REPLICA IDENTITY {identity}",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v SELECT g, 'c' || g, g FROM generate_series(1, 6) AS g",
    )
    key = "code" if "INDEX" in identity else "id"
    create(lake, database, "v", f"id BIGINT, code STRING, n BIGINT, PRIMARY KEY ({key})")
    poll(lake)
    steps = [
        ("UPDATE v SET id = id + 100, code = 'x' || id WHERE id < 3",),
        ("DELETE FROM v WHERE id > 100 OR n = 6", "INSERT INTO v VALUES (1, 'c1', NULL)"),
        (
            "DELETE FROM v WHERE id = 1",
            "INSERT INTO v VALUES (1, 'c1', 5)",
            "UPDATE v SET n = 6 WHERE id = 1",
        ),
        ("INSERT INTO v VALUES (7, 'g', 1)", "TRUNCATE v", "INSERT INTO v VALUES (8, 'h', 2), (9, 'i', 3)"),
        ("DELETE FROM v WHERE id = 8", "UPDATE v SET n = 4"),
        ("TRUNCATE v",),
    ]
    for texts in steps:
        with database.connect(autocommit=False) as one:
            for text in texts:
                one.execute(text)
        poll(lake)
        assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr), texts


def test_a_table_with_partitions_is_followed_as_one(lake: Session, database: Database) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, n bigint) PARTITION BY RANGE (id)",
        "CREATE TABLE v_low PARTITION OF v FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE v_high PARTITION OF v FOR VALUES FROM (10) TO (99)",
        "CREATE PUBLICATION tideline FOR TABLE v WITH (publish_via_partition_root = true)",
        "INSERT INTO v VALUES (1, 1), (11, 11)",
    )
    create(lake, database, "v", PAIR)
    poll(lake)
    database.run(
        "UPDATE v SET id = 12 WHERE id = 1", "INSERT INTO v VALUES (2, 2)", "DELETE FROM v WHERE id = 11"
    )
    poll(lake)
    assert rows(lake, "v") == [(12, 1), (2, 2)]
    database.run("TRUNCATE v", "INSERT INTO v VALUES (13, 3)")
    poll(lake)
    assert rows(lake, "v") == [(13, 3)]


def prepare_two(lake: Session, database: Database) -> None:
    """Make two tables, a and b, with the same rows in both."""
    database.run(
        "CREATE TABLE a (id bigint PRIMARY KEY, n bigint)",
        "CREATE TABLE b (id bigint PRIMARY KEY, n bigint)",
        "CREATE PUBLICATION tideline FOR TABLE a, b",
        "INSERT INTO a VALUES (1, 1)",
        "INSERT INTO b VALUES (1, 1)",
    )


def add_to_both(database: Database, key: int) -> None:
    """Insert a row into both in one transaction."""
    with database.connect(autocommit=False) as one:
        one.execute("INSERT INTO a VALUES (%s, 0)", (key,))
        one.execute("INSERT INTO b VALUES (%s, 0)", (key,))


def test_tables_of_one_slot_commit_together(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    assert [(one.table, one.rows) for one in poll(lake)] == [("a", 1), ("b", 1)]
    for key in range(2, 6):
        add_to_both(database, key)
        assert [(one.table, one.rows) for one in lake.poll(["b"])] == [("a", 1), ("b", 1)]
    version = lake.store.version
    epochs = [[entry.epoch for entry in version.tables[name].log] for name in "ab"]
    assert epochs[0] == epochs[1]
    assert len(epochs[0]) == 5


def test_a_table_that_comes_later_is_read_at_the_place_where_the_others_are_then(
    lake: Session, database: Database
) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    add_to_both(database, 2)
    create(lake, database, "b", PAIR)
    with database.connect(autocommit=False) as late, database.connect(autocommit=False) as other:
        late.execute("INSERT INTO a VALUES (3, 0)")  # begins before the snapshot, and ends after it
        late.execute("INSERT INTO b VALUES (3, 0)")
        other.execute("UPDATE a SET n = 9 WHERE id = 1")
        other.execute("UPDATE b SET n = 9 WHERE id = 1")
        other.commit()
        poll(lake)
        assert rows(lake, "a") == rows(lake, "b") == [(1, 9), (2, 0)]
        late.commit()
    poll(lake)
    assert rows(lake, "a") == rows(lake, "b") == [(1, 9), (2, 0), (3, 0)]
    add_to_both(database, 4)
    poll(lake)
    assert rows(lake, "a") == rows(lake, "b") == [(1, 9), (2, 0), (3, 0), (4, 0)]
    assert not compute_pending_digest(lake.catalog, lake.store)[0]


def test_a_table_that_is_made_again_begins_anew(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    poll(lake)
    lake.sql("DROP TABLE a")
    add_to_both(database, 2)
    poll(lake)
    create(lake, database, "a", PAIR)
    poll(lake)
    assert rows(lake, "a") == rows(lake, "b") == [(1, 1), (2, 0)]


def test_a_poll_that_died_behind_the_making_of_the_slot_is_repeated(
    lake: Session, database: Database
) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    database.run(f"SELECT pg_create_logical_replication_slot('{database.name}', 'pgoutput')")
    add_to_both(database, 2)
    poll(lake)
    add_to_both(database, 3)
    poll(lake)
    assert rows(lake, "a") == [(1, 1), (2, 0), (3, 0)]


def test_many_transactions_take_several_commits_and_a_large_one_takes_one(
    lake: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "STEP_MESSAGES", 50)
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    database.run(*(f"INSERT INTO a VALUES ({key}, {key})" for key in range(10, 60)))
    poll(lake)
    assert len(lake.store.version.tables["a"].log) > 3
    before = len(lake.store.version.tables["a"].log)
    database.run("INSERT INTO a SELECT g, g FROM generate_series(1000, 3000) AS g")
    poll(lake)
    assert len(lake.store.version.tables["a"].log) == before + 1
    assert rows(lake, "a") == sorted(database.ask("SELECT * FROM a"), key=repr)


def test_log_of_other_tables_is_let_go_of(
    lake: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "IDLE_BYTES", 100_000)
    monkeypatch.setattr(source, "TOLD_BYTES", 100_000)
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    poll(lake)
    place = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{database.name}'"
    before, log = database.ask(place), len(lake.store.version.tables["a"].log)
    assert not compute_pending_digest(lake.catalog, lake.store)[0]
    database.run("INSERT INTO b SELECT g, g FROM generate_series(10, 5000) AS g")
    deadline = time.monotonic() + 60
    while not compute_pending_digest(lake.catalog, lake.store)[0]:
        assert time.monotonic() < deadline, "the log that has gathered is not seen"
        time.sleep(0.01)  # a look that took long is not repeated at once
    poll(lake)
    assert database.ask(place) != before
    assert not compute_pending_digest(lake.catalog, lake.store)[0]
    assert len(lake.store.version.tables["a"].log) == log
    notes = {one.name: one.note for one in lake.status()}
    assert "the slot holds back" in (notes["a"] or "")
    add_to_both(database, 2)
    poll(lake)
    assert rows(lake, "a") == [(1, 1), (2, 0)]


def make_trouble(lake: Session, database: Database, what: str) -> None:
    """Do something to a slot behind the back of the tables."""
    if what in ("drop", "recreate"):
        database.run(f"SELECT pg_drop_replication_slot('{database.name}')")
    if what == "recreate":
        database.run(
            "INSERT INTO a VALUES (70, 0)",
            f"SELECT pg_create_logical_replication_slot('{database.name}', 'pgoutput')",
        )
    if what == "read by another":
        database.run(
            f"SELECT pg_logical_slot_get_binary_changes('{database.name}', NULL, NULL, 'proto_version', '1', "
            "'publication_names', 'tideline')"
        )
    if what == "another table":
        database.run("DROP TABLE a", "CREATE TABLE a (id bigint PRIMARY KEY, n bigint)")
        database.run("ALTER PUBLICATION tideline ADD TABLE a", "INSERT INTO a VALUES (5, 5)")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("drop", "is gone"),
        ("recreate", "ahead of"),
        ("read by another", "something else has read it"),
        ("another table", "dropped and created again"),
    ],
)
def test_a_slot_that_does_not_go_on_is_told_and_resync_writes_the_difference(
    lake: Session, database: Database, what: str, why: str
) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    database.run("INSERT INTO a SELECT g, g FROM generate_series(100, 199) AS g")
    poll(lake)
    add_to_both(database, 2)
    database.run("DELETE FROM a WHERE id = 150", "UPDATE a SET n = 0 WHERE id = 160")
    make_trouble(lake, database, what)
    held = rows(lake, "a"), rows(lake, "b")
    for report in lake.poll():
        assert report.error is not None and why in report.error and "ALTER TABLE a RESYNC" in report.error
    assert (rows(lake, "a"), rows(lake, "b")) == held
    told = {one.name: one.last_error for one in lake.status()}
    assert all(why in (told[name] or "") for name in "ab"), told
    lake.sql("ALTER TABLE b RESYNC")
    assert rows(lake, "a") == sorted(database.ask("SELECT * FROM a"), key=repr)
    assert rows(lake, "b") == sorted(database.ask("SELECT * FROM b"), key=repr)
    if what != "another table":
        written = lake.store.version.tables["a"].log[-1].rows
        assert written == (4 if what == "recreate" else 3)
    add_to_both(database, 300)
    poll(lake)
    assert rows(lake, "a") == sorted(database.ask("SELECT * FROM a"), key=repr)
    assert rows(lake, "b") == sorted(database.ask("SELECT * FROM b"), key=repr)


def test_a_change_of_columns_is_told(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    database.run("ALTER TABLE a ADD COLUMN more text", "INSERT INTO a VALUES (2, 2, 'x')")
    assert "more" in "".join(poll(lake)[0].warnings)
    database.run("INSERT INTO a VALUES (3, 3, 'x')")
    assert poll(lake)[0].warnings == ()  # it is told once
    database.run("ALTER TABLE a DROP COLUMN n", "INSERT INTO a VALUES (4, 'x')")
    (report,) = lake.poll()
    assert report.error is not None and "has no column n" in report.error and "RESYNC" in report.error
    assert [row[0] for row in rows(lake, "a")] == [1, 2, 3]


def test_several_that_poll_at_once_bring_each_row_once(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    ended = threading.Event()
    errors: list[str] = []

    def work() -> None:
        with Hummock.open(lake.url) as store:
            deadline = time.monotonic() + 120
            while not ended.is_set() and time.monotonic() < deadline:
                store.refresh()
                errors.extend(one.error for one in poll_all(lake.catalog, store) if one.error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for key in range(10, 130):
            add_to_both(database, key)
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    poll(lake)
    assert not errors
    assert rows(lake, "a") == rows(lake, "b") == sorted(database.ask("SELECT * FROM a"), key=repr)
    logs = [lake.store.version.tables[name].log for name in "ab"]
    assert [entry.epoch for entry in logs[0]] == [entry.epoch for entry in logs[1]]
    assert sum(entry.rows for entry in logs[0]) == 121


def test_a_table_that_is_not_published_any_more_is_told(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    poll(lake)
    database.run("ALTER PUBLICATION tideline DROP TABLE b", "INSERT INTO b VALUES (2, 2)")
    assert compute_pending_digest(lake.catalog, lake.store)[0]
    for report in lake.poll():
        assert report.error is not None and "has no table public.b any more" in report.error
    database.run("ALTER PUBLICATION tideline ADD TABLE b")
    lake.sql("ALTER TABLE b RESYNC")
    assert rows(lake, "b") == [(1, 1), (2, 2)]


def test_a_snapshot_waits_for_a_truncation_that_is_not_committed(
    lake: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "COMMIT_SECONDS", 0.1)
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    database.run(f"SELECT pg_create_logical_replication_slot('{database.name}', 'pgoutput')")
    ended = threading.Event()
    with database.connect(autocommit=False) as other:
        other.execute("INSERT INTO a VALUES (8, 8)")
        other.execute("TRUNCATE a")
        other.execute("INSERT INTO a VALUES (9, 9)")

        def end() -> None:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'a'::regclass"
            deadline = time.monotonic() + 60
            while database.ask(waiting) == [(0,)] and not ended.is_set() and time.monotonic() < deadline:
                pass
            other.commit()

        ending = threading.Thread(target=end)
        ending.start()
        try:
            poll(lake)
        finally:
            ended.set()
            ending.join()
    assert rows(lake, "a") == [(9, 9)]
    add_to_both(database, 10)
    poll(lake)
    assert rows(lake, "a") == [(10, 0), (9, 9)]


def test_documents_are_kept_as_such(tmp_path: Path, database: Database) -> None:
    database.run(
        "CREATE TABLE d (id bigint PRIMARY KEY, j json, b jsonb)",
        "CREATE PUBLICATION tideline FOR TABLE d",
        """INSERT INTO d VALUES (1, '{"b": 1, "a": [1, null]}', '{"b": 1, "a": [1, null]}'), (2, NULL, '"x"')""",
    )
    with Session((tmp_path / "documents").as_uri(), dialect="postgres") as session:
        options = database.options("public.d")
        session.sql(f"CREATE TABLE d (id BIGINT PRIMARY KEY, j JSON, b JSONB) WITH ({options})")
        poll(session)
        database.run("""INSERT INTO d VALUES (3, '"\\u0000"', '1e400'), (4, '{}', '{}')""")
        poll(session)
        found = {row[0]: row[1:] for row in rows(session, "d")}
        assert found[1] == ('{"b": 1, "a": [1, null]}', '{"a": [1, null], "b": 1}')
        assert found[2] == (None, '"x"') and found[4] == ("{}", "{}")
