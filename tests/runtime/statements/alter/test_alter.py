"""ALTER, COMMENT ON, SHOW, DESCRIBE and SET."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def bids(session: Session) -> Session:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)")
    return session


def test_a_column_is_added_to_a_table_that_is_read_and_indexed(bids: Session) -> None:
    bids.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    bids.sql("INSERT INTO auction VALUES (1, 'a'), (2, 'b')")
    join = "SELECT b.id, a.item FROM bid b JOIN auction a ON b.auction = a.id"
    bids.sql(f"CREATE MATERIALIZED VIEW before AS {join}")
    bids.sql("ALTER TABLE bid ADD COLUMN note STRING DEFAULT 'old'")
    bids.sql("INSERT INTO bid VALUES (4, 2, 40, 'new')")
    bids.sql("UPDATE bid SET note = 'changed' WHERE id = 1")
    wide = "SELECT b.note, a.item, count(*) AS n FROM bid b JOIN auction a ON b.auction = a.id GROUP BY b.note, a.item"
    bids.sql(f"CREATE MATERIALIZED VIEW after AS {wide}")
    bids.sql("UPDATE auction SET item = 'z' WHERE id = 1")
    bids.sql("DELETE FROM bid WHERE id = 3")
    bids.sql("FLUSH")
    assert rows(bids, "SELECT * FROM bid ORDER BY id") == [
        (1, 1, 10, "changed"),
        (2, 1, 20, "old"),
        (4, 2, 40, "new"),
    ]
    assert (
        sorted(rows(bids, "SELECT * FROM before"))
        == sorted(rows(bids, join))
        == [(1, "z"), (2, "z"), (4, "b")]
    )
    assert sorted(rows(bids, "SELECT * FROM after")) == sorted(rows(bids, wide))


def test_a_dropped_column_comes_back_empty(bids: Session) -> None:
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    bids.sql("ALTER TABLE bid DROP COLUMN price")
    bids.sql("ALTER TABLE bid DROP COLUMN IF EXISTS price")
    bids.sql("ALTER TABLE bid ADD COLUMN IF NOT EXISTS price STRING")
    bids.sql("INSERT INTO bid VALUES (4, 2, 'dear')")
    bids.sql("FLUSH")
    assert rows(bids, "SELECT * FROM bid ORDER BY id") == [
        (1, 1, None),
        (2, 1, None),
        (3, 2, None),
        (4, 2, "dear"),
    ]
    assert rows(bids, "SELECT price FROM bid WHERE id = 4") == [("dear",)]
    assert rows(bids, "SELECT * FROM v ORDER BY auction") == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ALTER TABLE bid DROP COLUMN price", "read by v"),
        ("ALTER TABLE bid DROP COLUMN id", "primary key"),
        ("ALTER TABLE bid DROP COLUMN nr", "no column nr"),
        ("ALTER TABLE bid RENAME COLUMN price TO p", "read by v"),
        ("ALTER TABLE bid ADD COLUMN price INT", "has a column price"),
        ("ALTER TABLE bid ADD COLUMN p INT NOT NULL", "would be null"),
        ("ALTER TABLE v RENAME TO w", "is a materialized view"),
        ("ALTER TABLE nothing RENAME TO w", "no table nothing"),
        ("ALTER MATERIALIZED VIEW v SET key = 'id'", "is fixed"),
        ("ALTER MATERIALIZED VIEW v SET on_row_error = 'null'", "is fixed"),
        ("ALTER MATERIALIZED VIEW v SET backfill_rate_limit = many", "cannot be 'many'"),
        ("ALTER MATERIALIZED VIEW v DROP COLUMN s", "those of its query"),
        ("COMMENT ON COLUMN bid.nr IS 'x'", "no column nr"),
        ("SET timezone = 'Europe/Paris'", "shown in UTC"),
        ("SET nothing = 1", "no setting nothing"),
        ("SHOW nothing", "no setting nothing"),
        ("DESCRIBE nothing", "nothing"),
    ],
)
def test_what_cannot_be_altered_is_told_with_its_place_and_leaves_no_trace(
    bids: Session, text: str, says: str
) -> None:
    bids.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT auction, sum(price) AS s FROM bid GROUP BY auction", build=False
    )
    before = dict(bids.store.refresh().catalog)
    with pytest.raises(SqlError, match=says) as caught:
        bids.sql(text)
    assert caught.value.line == 1 and caught.value.column > 1 and caught.value.hint
    assert dict(bids.store.refresh().catalog) == before


def test_columns_and_relations_get_other_names(bids: Session) -> None:
    bids.sql("CREATE INDEX by_auction ON bid (auction)")
    bids.sql("ALTER TABLE bid RENAME COLUMN auction TO lot")
    bids.sql("ALTER TABLE bid RENAME TO offer")
    assert rows(bids, "SELECT id, lot FROM offer WHERE lot = 2") == [(3, 2)]
    bids.sql("INSERT INTO offer (id, lot) VALUES (4, 2)")
    bids.sql("UPDATE offer SET lot = lot + 1 WHERE id = 4")
    bids.sql("CREATE TABLE lot (id BIGINT PRIMARY KEY, item STRING)")
    bids.sql("INSERT INTO lot VALUES (3, 'c')")
    bids.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT o.id, l.item, count(*) AS n FROM offer o JOIN lot l ON o.lot = l.id GROUP BY o.id, l.item"
    )
    bids.sql("ALTER MATERIALIZED VIEW v RENAME COLUMN n TO many")
    bids.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
    bids.sql("INSERT INTO offer (id, lot) VALUES (5, 3)")
    bids.sql("FLUSH")
    assert rows(bids, "SELECT id, many FROM w ORDER BY id") == [(4, 1), (5, 1)]
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(many) AS s FROM w")
    assert rows(bids, "SELECT s FROM v") == [(2,)]
    assert rows(bids, "SHOW INDEXES ON offer") == [("by_auction", "index")]
    assert rows(bids, "SHOW CREATE TABLE offer")[0][1].startswith(
        "CREATE TABLE offer (`id` BIGINT, `lot` BIGINT"
    )  # type: ignore[attr-defined]


def test_a_plain_view_and_its_columns_get_other_names(bids: Session) -> None:
    bids.sql("CREATE VIEW high AS SELECT id, price FROM bid WHERE price > 10")
    bids.sql("ALTER VIEW high RENAME COLUMN price TO amount")
    bids.sql("ALTER VIEW high RENAME TO higher")
    assert rows(bids, "SELECT amount FROM higher WHERE id = 3") == [(30,)]
    assert rows(bids, "DESCRIBE higher")[1][:2] == ("amount", "bigint")


def test_options_and_comments_are_kept_in_the_catalog(bids: Session) -> None:
    bids.sql(
        "CREATE MATERIALIZED VIEW v WITH (retention = '1 day') AS SELECT auction, sum(price) AS s FROM bid GROUP BY auction"
    )
    bids.sql("ALTER MATERIALIZED VIEW v SET (backfill_rate_limit = 500, parallelism = 2)")
    assert bids.catalog.get("v").options == {
        "retention": "1 day",
        "backfill_rate_limit": "500",
        "parallelism": "2",
    }
    bids.sql("ALTER MATERIALIZED VIEW v SET PARALLELISM = default")
    assert "parallelism" not in bids.catalog.get("v").options
    bids.sql("COMMENT ON TABLE bid IS 'what was offered'")
    bids.sql("COMMENT ON COLUMN bid.price IS 'in cents'")
    assert bids.catalog.get("bid").comment == "what was offered"
    assert [row[-1] for row in rows(bids, "DESCRIBE bid")] == ["", "", "in cents"]


def test_settings_are_shown_and_set(bids: Session) -> None:
    bids.sql("SET dialect TO postgres")
    bids.sql("SET TIME ZONE 'UTC'")
    assert rows(bids, "SHOW dialect") == [("postgres",)]
    assert ("timezone", "UTC") in [row[:2] for row in rows(bids, "SHOW VARIABLES")]
    bids.sql("CREATE FUNCTION half(x INT) RETURNS INT LANGUAGE SQL AS 'SELECT x / 2'")
    assert rows(bids, "SHOW FUNCTIONS") == [("half", "function")]
    assert rows(bids, "DESCRIBE half") == [("x", "int"), ("returns", "int")]
    assert rows(bids, "SELECT half(7) AS h FROM bid WHERE id = 1") == [(3,)]
