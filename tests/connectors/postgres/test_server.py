"""What a database, a publication or a role has set does not change what is read, or is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.connectors.postgres import writes
from engine.connectors.postgres.server import PostgresServer
from engine.hummock.writes.batch import Operation
from engine.session import Session
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.test_source import PAIR, add_to_both, create, poll, prepare_two, rows

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "SET TABLE a WHERE (id > 5), b",
            ("tells only rows of public.a with (id > 5)", 'DROP TABLE "public"."a"'),
        ),
        ("SET (publish = 'insert')", ("does not tell all kinds of changes", "SET (publish =")),
    ],
)
def test_a_publication_that_tells_less_than_before_is_told(
    lake: Session, database: Database, change: str, words: tuple[str, ...]
) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    database.run(
        f"ALTER PUBLICATION tideline {change}", "INSERT INTO a VALUES (2, 2)", "DELETE FROM a WHERE id = 1"
    )
    (report,) = lake.poll()
    assert report.error is not None and all(word in report.error for word in words), report.error
    assert rows(lake, "a") == [(1, 1)]
    remedy = report.error.partition("not told: ")[2].partition(" there, then")[0]
    database.run(*remedy.split("; "))
    lake.sql("ALTER TABLE a RESYNC")
    assert rows(lake, "a") == [(2, 2)]
    add_to_both(database, 3)
    poll(lake)
    assert rows(lake, "a") == [(2, 2), (3, 0)]


def test_a_snapshot_outlasts_what_the_database_grants_to_an_idle_transaction(
    lake: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_two(lake, database)
    settings = {
        "idle_in_transaction_session_timeout": "50ms",
        "default_transaction_isolation": "serializable",
        "default_transaction_read_only": "on",
        "datestyle": "German",
    }
    database.run(
        *(f"ALTER DATABASE {database.name} SET {name} = '{value}'" for name, value in settings.items())
    )
    create(lake, database, "a", PAIR)
    create(lake, database, "b", PAIR)
    build = writes.WholeTable._build_operations

    def build_late(whole: writes.WholeTable, *given: Any) -> Iterator[Operation]:
        assert isinstance(whole.server, PostgresServer)
        idle = (
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND clock_timestamp() - state_change "
            f"< interval '100 ms' AND pid = {whole.server.connection.info.backend_pid}"
        )
        deadline = time.monotonic() + 30
        while database.ask(idle) != [(0,)]:  # longer than the database lets others be
            assert time.monotonic() < deadline, "the snapshot does not rest"
        return build(whole, *given)

    monkeypatch.setattr(writes.WholeTable, "_build_operations", build_late)
    poll(lake)
    assert rows(lake, "a") == rows(lake, "b") == [(1, 1)]


def test_a_publication_that_was_dropped_and_made_again_is_read_after_resync(
    lake: Session, database: Database
) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    database.run("DROP PUBLICATION tideline", "INSERT INTO a VALUES (2, 2)")
    (told,) = lake.poll()
    assert told.error is not None and "the publication tideline" in told.error
    assert "CREATE PUBLICATION" in told.error and "has no table" not in told.error
    database.run("CREATE PUBLICATION tideline FOR TABLE a, b")
    (report,) = lake.poll()
    assert report.error is not None and "when there was no such publication" in report.error
    lake.sql("ALTER TABLE a RESYNC")
    assert rows(lake, "a") == [(1, 1), (2, 2)]
    add_to_both(database, 3)
    poll(lake)
    assert rows(lake, "a") == [(1, 1), (2, 2), (3, 0)]


def test_a_publication_that_is_younger_than_the_slot_is_read(lake: Session, database: Database) -> None:
    prepare_two(lake, database)
    create(lake, database, "a", PAIR)
    poll(lake)
    database.run(
        "CREATE TABLE c (id bigint PRIMARY KEY, n bigint)",
        "INSERT INTO b VALUES (7, 7)",
        "INSERT INTO c VALUES (7, 7)",
        "CREATE PUBLICATION younger FOR TABLE c",
    )
    create(lake, database, "c", PAIR, publication="younger")
    poll(lake)
    database.run("INSERT INTO c VALUES (8, 8)", "INSERT INTO a VALUES (8, 8)")
    poll(lake)
    assert rows(lake, "c") == [(7, 7), (8, 8)] and rows(lake, "a") == [(1, 1), (8, 8)]
