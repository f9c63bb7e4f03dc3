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
        time.sleep(0.2)
        assert isinstance(whole.server, PostgresServer)
        return build(whole, *given)

    monkeypatch.setattr(writes.WholeTable, "_build_operations", build_late)
    poll(lake)
    assert rows(lake, "a") == rows(lake, "b") == [(1, 1)]
