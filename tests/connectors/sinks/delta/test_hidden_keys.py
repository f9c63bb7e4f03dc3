"""The Delta table of a view that does not show its whole key: it has the rest of the key beside the view's columns."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine.errors import SqlError
from engine.session import Session
from tests.connectors.sinks.delta.logs import counted, operations
from tests.connectors.sinks.delta.test_copies import BID, bids, created, view
from tests.connectors.sinks.delta.test_rows import brought, content
from tests.long_rest import mark_rest_long

COUNT = "SELECT count(*) AS n FROM bid GROUP BY auction"
PAIRED = """
    SELECT a.auction, b.price FROM bid a JOIN (SELECT auction, price, count(*) AS n FROM bid GROUP BY auction, price) b
    ON a.auction = b.auction"""
TAKEN = "SELECT max(price) AS `_KEY_Group_Bid_AUCTION`, count(*) AS n FROM bid GROUP BY auction"
QUERIES = {
    "a group that is not shown": COUNT,
    "a part of a group": "SELECT auction, count(*) AS n FROM bid GROUP BY auction, price",
    "branches of a union": "SELECT auction AS x FROM bid UNION ALL SELECT price FROM bid",
    "rows of a table without a key": "SELECT note FROM bag",
    "a join": PAIRED,
    "a name that is taken": TAKEN,
}


def read_copy(folder: Path) -> pa.Table:
    return pa.table(DeltaTable(str(folder / "v")).to_pyarrow_table())


def shown(session: Session, folder: Path) -> Counter:
    """Return the rows of the copy by the columns that the view shows."""
    return counted(read_copy(folder).select([c.name for c in session.catalog.get("v").visible_columns]))


def hidden(session: Session, folder: Path) -> set[str]:
    """Return the columns of the copy that the view does not show."""
    return {*read_copy(folder).column_names} - {c.name for c in session.catalog.get("v").visible_columns}


def change(session: Session, rng: random.Random) -> None:
    """Write rows over those that are there, with nulls, and delete others; a table without a key gets equal rows, too."""
    numbers = [None, 1, 2, 3]
    bids(
        session,
        *((n, rng.choice(numbers), rng.choice(numbers)) for n in rng.sample(range(20), rng.randrange(1, 9))),
    )
    gone = rng.sample(range(20), rng.randrange(6))
    session.write("bid", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
    session.write("bag", pa.table({"note": [rng.choice(["a", "b", None]) for _ in range(3)]}))
    if rng.random() < 0.5:
        session.sql("DELETE FROM bag WHERE note = 'a'")


def prepare(session: Session) -> None:
    session.sql(BID)
    session.sql("CREATE TABLE bag (note STRING)")
    session.write("bag", pa.table({"note": ["a", "a", None]}))
    bids(session, (1, 1, 5), (2, None, None), (3, 1, 5), (4, 2, 5))


@pytest.mark.parametrize("query", mark_rest_long(QUERIES.values()), ids=QUERIES)
def test_the_copy_is_as_its_view(session: Session, tmp_path: Path, query: str) -> None:
    rng = random.Random(7)
    prepare(session)
    created(session, view(tmp_path, query=query))
    notice = next(one for one in session.notices if "keeps the Delta table" in one)
    columns = hidden(session, tmp_path)
    key = {c.storage_name for c in session.catalog.get("v").columns if c.hidden} & {
        *session.catalog.get("v").primary_key
    }
    assert len(columns) == len(key) > 0 and all(name.startswith("_key") for name in columns)
    assert all(name in notice for name in columns)
    for _ in range(5):
        change(session, rng)
        brought(session)
        assert shown(session, tmp_path) == content(session, "v")
    assert operations(tmp_path / "v").count("CREATE OR REPLACE TABLE AS SELECT") == 1
    session.sql("ALTER SINK v_delta RESET")
    session.sinks.wait(120)
    brought(session)
    assert shown(session, tmp_path) == content(session, "v") and hidden(session, tmp_path) == columns


@pytest.mark.long
def test_the_key_stays_beside_other_columns_and_names(session: Session, tmp_path: Path) -> None:
    rng = random.Random(8)
    prepare(session)
    created(session, view(tmp_path, query=COUNT))
    for text in (
        "AS SELECT count(*) AS n, sum(price) AS s FROM bid GROUP BY auction",
        "RENAME COLUMN s TO total",
        "AS SELECT max(price) AS top FROM bid GROUP BY auction",
        f"AS {COUNT}",
    ):
        session.sql(f"ALTER MATERIALIZED VIEW v {text}")
        session.sinks.wait(120)
        brought(session)
        for _ in range(2):
            assert shown(session, tmp_path) == content(session, "v"), text
            assert "_key_group_bid_auction" in hidden(session, tmp_path)
            change(session, rng)
            brought(session)
    refused = "a part of its key"
    with pytest.raises(SqlError, match=refused):
        session.sql(
            "ALTER MATERIALIZED VIEW v AS SELECT count(*) AS n, max(price) AS _Key_Group_Bid_Auction FROM bid GROUP BY auction"
        )
    assert shown(session, tmp_path) == content(session, "v")


@pytest.mark.long
def test_no_column_gets_the_name_of_one_of_the_key(session: Session, tmp_path: Path) -> None:
    prepare(session)
    created(session, view(tmp_path, query=TAKEN))
    (name,) = hidden(session, tmp_path)
    for renamed in (name, name.upper()):
        with pytest.raises(SqlError, match="has a part of its key in"):
            session.sql(f"ALTER MATERIALIZED VIEW v RENAME COLUMN n TO `{renamed}`")


@pytest.mark.long
def test_a_view_of_one_row_and_one_that_only_grows_show_all(session: Session, tmp_path: Path) -> None:
    prepare(session)
    created(session, view(tmp_path, query="SELECT count(*) AS n FROM bid"))
    assert hidden(session, tmp_path) == set()
    session.sql("CREATE TABLE log (at BIGINT) APPEND ONLY")
    session.sql("INSERT INTO log VALUES (1), (1)")
    created(session, view(tmp_path, name="w", query="SELECT at FROM log"))
    copied = DeltaTable(str(tmp_path / "w")).to_pyarrow_table()
    assert copied.column_names == ["at"] and copied.num_rows == 2


def test_a_table_is_laid_out_by_columns_that_its_view_shows(session: Session, tmp_path: Path) -> None:
    prepare(session)
    for option in ("delta.partition_by", "cluster_by"):
        with pytest.raises(SqlError, match="there is no column _key_group_bid_auction"):
            session.sql(view(tmp_path, f", {option} = '_key_group_bid_auction'", query=COUNT))


def test_a_key_that_delta_has_no_type_for_is_refused(session: Session, tmp_path: Path) -> None:
    prepare(session)
    query = "SELECT count(*) AS n FROM bid GROUP BY make_dt_interval(price)"
    with pytest.raises(SqlError, match="Delta has no type") as error:
        session.sql(view(tmp_path, query=query))
    assert error.value.hint == "make a key of other columns in the view"
    assert "v" not in session.catalog.relations
