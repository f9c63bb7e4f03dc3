"""Past the retention: a view whose input's log was let go computes the difference by itself, and its readers see exact changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

VIEWS = {
    "by_shop": "SELECT shop, count(*) AS n, sum(price) AS total FROM sale GROUP BY shop",
    "named": "SELECT s.id, s.price, shop.name FROM sale s LEFT JOIN shop ON s.shop = shop.id",
    "sizes": "SELECT n, count(*) AS shops FROM by_shop GROUP BY n",
}


def sales(ids: range, price: int) -> pa.Table:
    return pa.table({"id": list(ids), "shop": [i % 20 for i in ids], "price": [price + i for i in ids]})


@pytest.fixture
def cut(session: Session) -> Session:
    """Views by_shop and named have rested for longer than the changes of sale wait, and those are gone."""
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.sql("CREATE TABLE shop (id BIGINT PRIMARY KEY, name STRING)")
    session.write("sale", sales(range(200), 0))
    session.write("shop", pa.table({"id": list(range(15)), "name": [f"shop {i}" for i in range(15)]}))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.store.alter_table("sale", retention_seconds=0.001)
    for name in ("by_shop", "named"):
        session.pause(name)
    session.write("sale", sales(range(5), 1000))
    session.sql("DELETE FROM sale WHERE id = 7")
    session.flush()
    session.store.compact("sale")
    session.store.gc(grace_seconds=0)
    assert session.store.version.tables["sale"].safe_epoch > max(
        session.store.version.tables[name].committed_epoch for name in ("by_shop", "named")
    )
    return session


def test_the_view_commits_only_the_difference_and_its_readers_follow_by_the_log(cut: Session) -> None:
    before = {name: cut.store.version.tables[name].committed_epoch for name in VIEWS}
    (wait,) = [wait for wait in cut.waits() if wait.domain == "by_shop"]
    assert wait.kind == "paused" and wait.until is not None
    for name in ("by_shop", "named"):
        cut.resume(name)
    report = cut.flush()
    assert not report.failed and cut.waits() == ()
    tables = {name: content(cut, name) for name in ("sale", "shop", "by_shop")}
    for name, query in VIEWS.items():
        assert_equal(content(cut, name), by_duckdb(tables, query), name)
    assert "could not follow the change log" in str(report["by_shop"].rebuilt)
    assert report["by_shop"].rows_out == 6 and report["named"].rows_out == 6
    assert report["sizes"].rebuilt is None and report["sizes"].rows_in == 6
    ops = [op for rows in cut.store.iter_log("by_shop", before["by_shop"]) for op in rows["_op"].to_pylist()]
    assert ops == ["update"] * 6
    cut.write("sale", sales(range(300, 302), 0))
    assert cut.flush()["by_shop"].rebuilt is None


@pytest.mark.long
def test_a_run_that_breaks_off_in_the_middle_is_done_again_by_another_process(cut: Session) -> None:
    for name in ("by_shop", "named"):
        cut.resume(name)
    compute = cut._runner.executor.compute

    def broken(task):  # type: ignore[no-untyped-def]
        compute(task)
        raise OSError("the machine is gone")

    cut._runner.executor.compute = broken  # type: ignore[method-assign]
    assert len(cut.flush().failed) == 2
    with Session(cut.url, cut.spark) as other:
        other.write("sale", sales(range(400, 410), 5))
        report = other.flush()
        assert not report.failed and report["named"].rebuilt is not None
        tables = {name: content(other, name) for name in ("sale", "shop", "by_shop")}
        for name, query in VIEWS.items():
            assert_equal(content(other, name), by_duckdb(tables, query), name)


def test_an_index_that_cannot_follow_the_log_is_computed_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.write("sale", sales(range(200), 0))
    session.sql("CREATE INDEX sale_by_shop ON sale (shop)")
    session.store.alter_table("sale", retention_seconds=0.001)
    session.write("sale", sales(range(5), 1000))
    with monkeypatch.context() as failing:
        failing.setattr(session._runner.executor, "compute", lambda task: 1 // 0)
        assert session.flush().failed
    session.store.compact("sale")
    session.store.gc(grace_seconds=0)
    tables = session.store.version.tables
    assert tables["sale"].safe_epoch > tables["_index_sale__shop"].committed_epoch
    session.flush().raise_for_errors()
    found = session.sql("SELECT id, price FROM sale WHERE shop = 3")
    assert found is not None and (3, 1003) in {(row["id"], row["price"]) for row in found.to_pylist()}
