"""Changes whose keys PostgreSQL tells in another way than before, or that change places within one transaction."""

from __future__ import annotations

import pytest

from engine.session import Session
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.test_source import create, letters, poll, rows

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "change",
    ["UPDATE v SET id = 10 WHERE id = 1", "DELETE FROM v WHERE id = 1", "INSERT INTO v VALUES (3, 'c', 3)"],
)
def test_a_replica_identity_that_does_not_tell_the_key_any_more_is_told(
    lake: Session, database: Database, change: str
) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, code text NOT NULL, n bigint)",
        "CREATE UNIQUE INDEX v_code ON v (code)",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v VALUES (1, 'a', 1), (2, 'b', 2)",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, code STRING, n BIGINT")
    poll(lake)
    database.run("ALTER TABLE v REPLICA IDENTITY USING INDEX v_code", change)
    (report,) = lake.poll()
    assert report.error is not None and "does not tell the key of v" in report.error
    assert [row[0] for row in rows(lake, "v")] == [1, 2] and not letters(lake)
    database.run("ALTER TABLE v REPLICA IDENTITY DEFAULT")
    lake.sql("ALTER TABLE v RESYNC")
    assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr)
    database.run("UPDATE v SET id = 20 WHERE id = 2")
    poll(lake)
    assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr)


def test_partitions_that_tell_whole_rows_are_followed_by_another_key(
    lake: Session, database: Database
) -> None:
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, n bigint) PARTITION BY RANGE (id)",
        "CREATE TABLE v_low PARTITION OF v FOR VALUES FROM (0) TO (10)",
        "ALTER TABLE v REPLICA IDENTITY NOTHING",
        "ALTER TABLE v_low REPLICA IDENTITY FULL",
        "CREATE PUBLICATION tideline FOR TABLE v WITH (publish_via_partition_root = true)",
        "INSERT INTO v VALUES (1, 1), (2, 2)",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, n BIGINT")
    poll(lake)
    database.run(
        "UPDATE v SET id = 3 WHERE id = 1", "DELETE FROM v WHERE id = 2", "INSERT INTO v VALUES (4, 4)"
    )
    poll(lake)
    assert rows(lake, "v") == [(3, 1), (4, 4)]


def test_rows_that_change_places_in_one_transaction_keep_their_values(
    lake: Session, database: Database
) -> None:
    database.run(
        "CREATE TABLE v (id numeric PRIMARY KEY, n bigint, big text)",
        "ALTER TABLE v ALTER big SET STORAGE EXTERNAL",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v SELECT g, g, repeat('a' || g, 4000) FROM generate_series(1, 6) AS g",
    )
    create(lake, database, "v", "id DECIMAL(5, 1) PRIMARY KEY, n BIGINT, big STRING")
    poll(lake)
    transactions = [
        (
            "UPDATE v SET id = -1 WHERE id = 1",
            "UPDATE v SET id = 1 WHERE id = 2",
            "UPDATE v SET id = 2.0 WHERE id = -1",
        ),
        (
            "SAVEPOINT s",
            "UPDATE v SET id = 77, n = 9 WHERE id = 3",
            "ROLLBACK TO s",
            "UPDATE v SET n = 33 WHERE id = 3",
            "UPDATE v SET id = 3.0 WHERE id = 3",
            "DELETE FROM v WHERE id = 4",
            "INSERT INTO v VALUES (4.0, 44, 'new')",
            "UPDATE v SET id = 40 WHERE id = 4",
            "UPDATE v SET id = 4 WHERE id = 5",
        ),
        ("DELETE FROM v WHERE id = 2.0", "INSERT INTO v VALUES (2, 5, NULL)"),
    ]
    for texts in transactions:
        with database.connect(autocommit=False) as one:
            for text in texts:
                one.execute(text)
        poll(lake)
        assert rows(lake, "v") == sorted(database.ask("SELECT * FROM v"), key=repr), texts
