"""Snapshot backfill: snapshot(e0) + log(e0, e1] = snapshot(e1), resumable at any step, with a rate limit, and cancelled without a trace."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from engine.errors import EpochFailed
from engine.hummock import Commit
from engine.meta.catalog.stored_catalog import encode_entries
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

ROWS = 30_000
VIEWS = {
    "plain": "SELECT id, price * 2 AS p FROM sale WHERE price % 3 <> 0",
    "by_shop": "SELECT shop, count(*) AS n, sum(price) AS total FROM sale GROUP BY shop",
    "total": "SELECT count(*) AS n, sum(price) AS s FROM sale",
    "named": "SELECT s.id, s.price, shop.name FROM sale s LEFT JOIN shop ON s.shop = shop.id",
    "inner_state": "SELECT n, count(*) AS shops FROM (SELECT shop, count(*) AS n FROM sale GROUP BY shop) x GROUP BY n",
    "largest": "SELECT shop, max(price) AS top FROM sale GROUP BY shop",
    "both": "SELECT id AS x FROM sale UNION ALL SELECT id AS x FROM shop",
}


def sales(low: int, high: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    ids = np.arange(low, high)
    return pa.table({"id": ids, "shop": ids % 997, "price": random.integers(0, 1000, len(ids))})


@pytest.fixture
def store(tmp_path: Path, spark) -> str:
    url = (tmp_path / "store").as_uri()
    with Session(url, spark) as session:
        session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
        session.sql("CREATE TABLE shop (id BIGINT PRIMARY KEY, name STRING)")
        session.write("sale", sales(0, ROWS))
        session.write(
            "shop", pa.table({"id": list(range(500)), "name": [f"shop {i % 7}" for i in range(500)]})
        )
    return url


def steps(session: Session, name: str) -> int:
    """Return how many sub-levels a view's table was given."""
    return len(session.store.refresh().tables[name].log)


def check(session: Session, names: list[str]) -> None:
    tables = {name: content(session, name) for name in ("sale", "shop")}
    for name in names:
        assert_equal(content(session, name), by_duckdb(tables, VIEWS[name]), name)


def test_views_built_step_by_step_equal_a_batch_run_and_go_on_from_the_log(store: str, spark) -> None:
    with Session(store, spark, backfill_rows=1000) as session:
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        for pace in ("plain", "by_shop", "total", "named", "both"):
            session._runner.backfill.get_pace(pace).rows = 7000
        assert not session.flush().failed
        assert session.backfills()["plain"].state == "created"
        assert steps(session, "plain") > 2 or session.store.version.tables["plain"].generations[-1].runs
        assert abs(session.backfills()["by_shop"].rows - ROWS) <= 10
        check(session, list(VIEWS))
        session.write("sale", sales(ROWS - 100, ROWS + 100, seed=1))
        session.write("sale", pa.table({"id": list(range(50))}), mode="delete")
        assert not session.flush().failed
        check(session, list(VIEWS))


def test_a_background_view_is_invisible_until_it_is_whole_and_ends_by_flushes(store: str, spark) -> None:
    with Session(store, spark) as session:
        session.sql(
            f"CREATE MATERIALIZED VIEW plain WITH (background = 'true', backfill_rate_limit = 4000) AS {VIEWS['plain']}"
        )
        session.sql("CREATE MATERIALIZED VIEW below AS SELECT count(*) AS n FROM plain", build=False)
        report = session.flush(background_seconds=0.5)
        assert "backfilling" in str(report["plain"].waits_for) and not report.failed
        (wait,) = [w for w in session.waits() if w.domain == "plain"]
        assert wait.kind == "backfill" and "rows/s" in wait.reason
        with pytest.raises(EpochFailed, match=r"plain has not been computed yet.* WAIT FOR plain"):
            session.sql("SELECT count(*) AS n FROM plain")
        session.write("sale", sales(ROWS, ROWS + 10))
        assert session.sql("SELECT count(*) AS n FROM sale", policy="global").to_pylist() == [
            {"n": ROWS + 10}
        ]
    with Session(store, spark) as session:  # another process takes over
        read = session.backfills()["plain"].rows
        assert 0 < read < ROWS
        relation = session.stored.catalog.relations["plain"]
        set_option(session, relation.name, "backfill_rate_limit", "0")
        report = session.flush(background_seconds=5)
        assert session.backfills()["plain"].rows == read and "paused" in str(report["plain"].waits_for)
        assert next(w for w in session.waits() if w.domain == "below").kind == "upstream"
        set_option(session, relation.name, "backfill_rate_limit", None)
        while session.lagging():
            assert not session.flush(background_seconds=1).failed
        check(session, ["plain"])
        expected = session.sql("SELECT count(*) AS n FROM plain")
        assert session.sql("SELECT n FROM below") == expected
        assert abs(session.backfills()["plain"].rows - ROWS) <= 20


def set_option(session: Session, view: str, option: str, value: str | None) -> None:
    relation = session.stored.catalog.relations[view]
    options = {name: text for name, text in relation.options.items() if name != option}
    changed = msgspec.structs.replace(relation, options=options | ({option: value} if value else {}))
    session.store.commit(Commit(catalog=encode_entries({view: changed}, {})))


def test_a_cancelled_backfill_leaves_nothing_behind(store: str, spark) -> None:
    with Session(store, spark) as session:
        before = session.store.refresh()
        session.sql(
            f"CREATE MATERIALIZED VIEW by_shop WITH (background = 'true', backfill_rate_limit = 1000) AS {VIEWS['by_shop']}"
        )
        session.flush(background_seconds=0.5)
        assert session.backfills()["by_shop"].state == "consuming_snapshot"
        session.sql("DROP MATERIALIZED VIEW by_shop")
        after = session.store.refresh()
        assert dict(after.catalog) == dict(before.catalog) and set(after.tables) == set(before.tables)
        assert all(not table.acks and not table.pins for table in after.tables.values())
        assert not session.flush().failed
