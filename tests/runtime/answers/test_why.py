"""Why a row of a view is there: the rows behind it are all that it takes, and what cannot be answered is said."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed, SqlError
from engine.meta.catalog.successions import list_successions
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.runtime.answers.views import (
    VIEWS,
    create_tables,
    create_views,
    list_with_inputs,
    load_rows,
    make_rows,
    replay,
)

SAMPLE = ("unmatched", "by_seller", "running", "next", "numbers", "paired")
"""Views that have the operators of which the rules differ; all views are asked about in the long test."""


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session over the tables with some rows, and the views of the sample."""
    with Session((tmp_path_factory.mktemp("shop") / "store").as_uri(), spark) as opened:
        create_tables(opened)
        load_rows(opened, make_rows(1))
        create_views(opened, SAMPLE)
        yield opened


@pytest.fixture(scope="module")
def copy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session over another store with the same tables and views, for the rows behind a row alone."""
    with Session((tmp_path_factory.mktemp("copy") / "store").as_uri(), spark) as opened:
        create_tables(opened)
        create_views(opened, SAMPLE)
        yield opened


def check_rows(shop: Session, copy: Session, view: str, seed: int, most: int) -> int:
    """Ask about some rows of a view, and return how many it has."""
    found = shop.sql(f"SELECT * FROM {view}")
    assert found is not None
    for row in random.Random(seed).sample(found.to_pylist(), min(most, found.num_rows)):
        origin = shop.why(view, row)
        assert origin.view == view and origin.steps[0].relation == view
        assert replay(copy, origin), f"{view}: {row} of {origin.sources}"
    return found.num_rows


@pytest.mark.parametrize("view", mark_rest_long(SAMPLE, keep=3))
def test_the_rows_behind_a_row_make_it_again_by_themselves(shop: Session, copy: Session, view: str) -> None:
    assert check_rows(shop, copy, view, 1, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_so_do_those_of_every_kind_of_view(tmp_path: object, spark: SparkSession, seed: int) -> None:
    with (
        Session(f"file://{tmp_path}/shop", spark) as shop,
        Session(f"file://{tmp_path}/copy", spark) as copy,
    ):
        for session in (shop, copy):
            create_tables(session)
        load_rows(shop, make_rows(seed))
        for session in (shop, copy):
            create_views(session, list(VIEWS))
        asked = [view for view in VIEWS if check_rows(shop, copy, view, seed, 3)]
        assert len(asked) > 30, asked


def test_only_what_makes_a_row_is_named_through_a_view_between(shop: Session) -> None:
    origin = shop.why("by_seller", "eve")
    auctions = set(origin.sources["auction"].column("id").to_pylist())
    assert set(origin.sources["auction"].column("seller").to_pylist()) == {"eve"}
    assert set(origin.sources["bid"].column("auction").to_pylist()) <= auctions
    assert {step.relation for step in origin.steps} == {"by_seller", "best"}
    assert [step.operator for step in origin.steps][:2] == ["view", "aggregate"]
    assert list_with_inputs(["by_seller"]) == ["best", "by_seller"]


def test_a_row_that_others_keep_out_is_named_with_those_that_keep_them_out(shop: Session) -> None:
    rows = shop.sql("SELECT id FROM paired")
    assert rows is not None
    sources = [shop.why("paired", row).sources["bid"] for row in rows.to_pylist()[:3]]
    assert any(bids.num_rows > 1 for bids in sources)


def test_a_row_is_told_as_it_was_at_an_older_epoch(shop: Session) -> None:
    before = shop.why("running", {"id": 1})
    shop.sql("INSERT INTO bid (id, auction, price) SELECT 100, auction, 7 FROM bid WHERE id = 1")
    shop.flush()
    now, again = shop.why("running", {"id": 1}), shop.why("running", {"id": 1}, at=before.epoch)
    assert again.epoch == before.epoch and again.sources["bid"].equals(before.sources["bid"])
    assert now.sources["bid"].num_rows == before.sources["bid"].num_rows + 1
    shop.sql("DELETE FROM bid WHERE id = 100")
    shop.flush()
    with pytest.raises(EpochFailed, match="has no content at epoch"):
        shop.why("running", {"id": 1}, at=shop.store.version.epoch + 1)


@pytest.mark.parametrize(
    ("view", "key", "message"),
    [
        ("bests", [1], "there is no table or view bests.*did you mean best"),
        ("bid", [1], "bid is a table: its rows are there because they were written"),
        ("best", [1, 2], "the key of best is auction: 2 values were given"),
        ("best", 12345, "best has no row with auction = 12345 at epoch .*newest epoch is"),
        ("best", "seven", "'seven' is no value of column auction of best, which is bigint"),
        ("best", {"price": 1}, "best has no column price.*its columns are auction, best"),
        ("numbers", [1], "numbers has no key among its shown columns, one value was given.*n, what"),
        ("numbers", {"what": "bid"}, "rows of numbers have what = bid.*column=value: n"),
    ],
)
def test_what_names_no_row_is_refused_with_what_to_do(
    shop: Session, view: str, key: object, message: str
) -> None:
    with pytest.raises(SqlError, match=f"(?s){message}"):
        shop.why(view, key)  # type: ignore[arg-type]


def test_a_row_that_follows_from_rows_that_have_left_their_table_is_refused_by_name(
    spark: SparkSession, tmp_path: object
) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '30 minutes' WITH TTL)"
        )
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, id * 2 AS twice FROM t")
        session.sql("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 01:00:00')")
        session.flush().raise_for_errors()
        before = session.why("v", {"id": 1})
        session.sql("INSERT INTO t VALUES (2, TIMESTAMP '2026-01-01 09:00:00')")
        session.flush().raise_for_errors()
        assert session.why("v", {"id": 2}).sources["t"].num_rows == 1
        with pytest.raises(SqlError, match="rows leave t by themselves, and it may follow from such"):
            session.why("v", {"id": 1})
        assert session.why("v", {"id": 1}, at=before.epoch).sources["t"].equals(before.sources["t"])


def test_what_follows_from_another_query_is_not_explained_by_the_present_one(
    spark: SparkSession, tmp_path: object
) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
        session.sql("INSERT INTO t VALUES (1, 1, 10), (2, 1, 30)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, sum(n) AS x FROM t GROUP BY g")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT g, x + 1 AS y FROM v")
        session.flush().raise_for_errors()
        before = session.store.version.tables["v"].committed_epoch
        assert session.why("v", 1, at=before).row.to_pylist() == [{"g": 1, "x": 40}]
        session.sql("ALTER MATERIALIZED VIEW v AS SELECT g, max(n) AS x FROM t GROUP BY g")
        for _ in range(3):
            session.flush().raise_for_errors()
        assert not list_successions(session.store.version)
        with pytest.raises(SqlError, match=r"(?s)v had another query at epoch .*ask for an epoch from"):
            session.why("v", 1, at=before)
        with pytest.raises(SqlError, match="v had another query at epoch"):
            session.why_not("v", {"g": 1, "x": 41}, at=before)
        assert session.why("w", 1).row.to_pylist() == [{"g": 1, "y": 31}]
        session.sql("INSERT INTO t VALUES (3, 1, 50)")
        session.flush().raise_for_errors()
        now = session.why("v", 1)
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, max(n) AS x FROM t GROUP BY g")
        session.flush().raise_for_errors()
        again = session.why("v", 1, at=now.epoch)
        assert again.row.to_pylist() == [{"g": 1, "x": 50}] and again.epoch == now.epoch


@pytest.mark.parametrize("options", ["", "WITH (domain = 'd')"])
def test_nor_what_a_view_still_held_until_its_first_epoch_by_another_query(
    spark: SparkSession, tmp_path: object, options: str
) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
        session.sql("CREATE TABLE other (id BIGINT PRIMARY KEY)")
        session.sql("INSERT INTO t VALUES (1, 1, 10), (2, 1, 30)")
        session.sql(f"CREATE MATERIALIZED VIEW v {options} AS SELECT g, sum(n) AS x FROM t GROUP BY g")
        session.sql(f"CREATE MATERIALIZED VIEW u {options} AS SELECT count(*) AS c FROM t")
        session.flush().raise_for_errors()
        between = session.write("other", pa.table({"id": [1]}))
        session.write("other", pa.table({"id": [2]}))
        assert session.why("v", 1, at=between).row.to_pylist() == [{"g": 1, "x": 40}]
        session.sql("ALTER MATERIALIZED VIEW v AS SELECT g, sum(n) AS x FROM t WHERE n > 20 GROUP BY g")
        session.flush().raise_for_errors()
        assert session.sql(f"SELECT x FROM v FOR SYSTEM_TIME AS OF {between}").to_pylist() == [{"x": 40}]
        with pytest.raises(SqlError, match="v had another query at epoch"):
            session.why("v", 1, at=between)
        with pytest.raises(SqlError, match="v had another query at epoch"):
            session.why_not("v", {"g": 1, "x": 30}, at=between)
        assert session.why("v", 1).sources["t"].num_rows == 1
