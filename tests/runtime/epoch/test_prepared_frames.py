"""Small epochs run the frame of an earlier one again, told of their own versions; a frame that no longer fits is made anew."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.assumptions import KEPT_FRAME
from engine.runtime.epoch import prepared_frames, spark_executor
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

JOINED = "SELECT b.id, b.price, a.item FROM bid b LEFT JOIN auction a ON b.auction = a.id"
SUMS = "SELECT auction, count(*) AS n, sum(price) AS total FROM bid GROUP BY auction"

BOTH = """SELECT id, price FROM bid WHERE price >= 0
    UNION ALL SELECT id, NULL AS price FROM auction WHERE levenshtein(item, 'a') >= 0"""
"""Spark has a part in it."""


@pytest.fixture(autouse=True)
def frames_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of kept frames plans new ones, and these tests count how often a frame is planned."""
    monkeypatch.setenv("TIDELINE_VERIFY", "0")


@pytest.fixture
def planned(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose frames were built, in order."""
    built: list[str] = []
    change = spark_executor.choose_rule

    def record_table(fragment, *arguments, **options):  # type: ignore[no-untyped-def]
        built.append(fragment.table)
        return change(fragment, *arguments, **options)

    monkeypatch.setattr(spark_executor, "choose_rule", record_table)
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    return built


def bids(seed: int) -> pa.Table:
    return pa.table(
        {
            "id": [(seed * 3 + i) % 20 for i in range(6)],
            "auction": [i % 4 for i in range(6)],
            "price": [seed] * 6,
        }
    )


def check(session: Session, views: dict[str, str]) -> None:
    session.flush().raise_for_errors()
    tables = {name: content(session, name) for name in ("bid", "auction")}
    for name, query in views.items():
        assert_equal(content(session, name), by_duckdb(tables, query), name)


def test_epochs_share_one_frame_whichever_inputs_change(session: Session, planned: list[str]) -> None:
    session.write("bid", bids(0))
    session.write("auction", pa.table({"id": [0, 1], "item": ["a", "b"]}))
    views = {"joined": JOINED, "sums": SUMS}
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    planned.clear()
    for seed in range(1, 4):
        session.write("bid", bids(seed))
        check(session, views)
    session.write("auction", pa.table({"id": [1, 2], "item": ["x", "y"]}))
    check(session, views)
    session.write("bid", bids(4))
    session.write("bid", pa.table({"id": [1, 2, 3]}), mode="delete")
    session.compact("sums")
    check(session, views)
    assert sorted(planned) == ["joined", "sums"]


def test_a_branch_that_does_not_change_is_left_out_of_a_kept_frame_until_it_does(
    session: Session, planned: list[str]
) -> None:
    session.write("bid", bids(0))
    session.write("auction", pa.table({"id": [0, 1], "item": ["a", "b"]}))
    session.sql(f"CREATE MATERIALIZED VIEW both AS {BOTH}")
    planned.clear()
    for seed in (1, 2, 3):
        session.write("bid", bids(seed))
        check(session, {"both": BOTH})
    assert planned == [
        "both",
        "both",
    ]  # for all inputs Spark has a part in it, so there is one for this input
    session.sql("UPDATE auction SET id = 7 WHERE item = 'b'")
    check(session, {"both": BOTH})
    session.write("bid", bids(4))
    check(session, {"both": BOTH})
    assert planned == ["both"] * 3


def test_a_frame_that_arrow_computes_alone_serves_fewer_changed_inputs(
    session: Session, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "1")
    wide = "SELECT b.id, b.auction, a.item FROM bid b JOIN auction a ON b.auction = a.id"
    session.write("bid", bids(0))
    session.write("auction", pa.table({"id": [0, 1], "item": ["a", "b"]}))
    session.sql(f"CREATE MATERIALIZED VIEW wide AS {wide}")
    session.write("bid", bids(1))
    session.write("auction", pa.table({"id": [1, 2], "item": ["x", "y"]}))
    check(session, {"wide": wide})
    kept = len(session._runner.executor._prepared._frames)  # type: ignore[attr-defined]
    session.write("bid", bids(2))
    check(session, {"wide": wide})
    session.sql("UPDATE auction SET item = 'z' WHERE id = 1")
    check(session, {"wide": wide})
    assert len(session._runner.executor._prepared._frames) == kept  # type: ignore[attr-defined]


def test_a_kept_frame_without_a_branch_that_has_changed_breaks_a_claim(
    session: Session, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_VERIFY", "1")
    session.write("bid", bids(0))
    session.sql(f"CREATE MATERIALIZED VIEW both AS {BOTH}")
    shape = prepared_frames.build_shape
    for room in (prepared_frames, spark_executor):  # as if a frame did not depend on which branches change
        monkeypatch.setattr(room, "build_shape", lambda task, **_: (shape(task)[0], (), False))
    session.write("bid", bids(1))
    check(session, {"both": BOTH})
    session.write("auction", pa.table({"id": [1, 2], "item": ["x", "y"]}))
    error = session.flush()["both"].error or ""
    assert KEPT_FRAME.name in error and "both" in error and "got 0 rows, and 2" in error
    monkeypatch.undo()
    check(session, {"both": BOTH})


def test_a_view_that_is_created_again_over_another_table_has_a_frame_of_its_own(
    session: Session, planned: list[str]
) -> None:
    session.write("bid", bids(0))
    for n in (1, 2):
        session.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        session.write("bid", bids(n))
        check(session, {"sums": SUMS})
        planned.clear()
        session.write("bid", bids(n + 5))
        check(session, {"sums": SUMS})
        assert planned == []
        session.sql("DROP TABLE bid CASCADE")
        session.sql("CREATE TABLE bid (id INT PRIMARY KEY, auction INT, price DOUBLE)")
        session.write("bid", bids(n).cast(session.store.table("bid").schema))


def test_a_small_change_of_a_join_of_plain_columns_is_one_pass_through_python(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []
    runnable = prepared_frames.prepare_run

    def record_plan(frame):  # type: ignore[no-untyped-def]
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return runnable(frame)

    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    session.write("bid", bids(0))
    session.write("auction", pa.table({"id": [0, 1], "item": ["a", "b"]}))
    session.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
    monkeypatch.setattr(prepared_frames, "prepare_run", record_plan)
    monkeypatch.setattr(spark_executor, "LEAST_FRAGMENTS", 9)
    session.write("bid", bids(1))
    session.write("auction", pa.table({"id": [1, 2], "item": ["x", "y"]}))
    check(session, {"joined": JOINED})
    assert [plan.count("MapInArrow") for plan in plans] == [1]


def test_small_epochs_over_decimals_are_computed_without_spark(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {
        "prices": "SELECT vendor, sum(price) AS total, avg(price) AS mean FROM product GROUP BY vendor",
        "lines": """SELECT p.id, p.price * p.quantity AS net, coalesce(p.price, 0) - v.mean AS above, p.price >= 1.5 AS dear
            FROM product p JOIN prices v ON v.vendor = p.vendor""",
        "sales": "SELECT dear, sum(net) AS net, count(*) AS n FROM lines GROUP BY dear",
        "weights": "SELECT price, sum(weight) AS total, avg(weight) AS mean FROM product GROUP BY price",
    }
    session.sql(
        """CREATE TABLE product (id INT PRIMARY KEY, vendor STRING, price DECIMAL(10, 2), quantity INT,
            weight DECIMAL(38, 18))"""
    )
    session.sql(
        "INSERT INTO product VALUES (1, 'a', 1.05, 3, 1.5), (2, 'a', NULL, 1, 2), (3, 'b', -7.25, 2, NULL)"
    )
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush().raise_for_errors()
    by_spark: dict[str, bool] = {}
    give = prepared_frames.PreparedFrames.give

    def record_way(self, prepared):  # type: ignore[no-untyped-def]
        by_spark[prepared.fragment.table] = prepared.body is None
        give(self, prepared)

    monkeypatch.setattr(prepared_frames.PreparedFrames, "give", record_way)
    for n in (4, 5):
        rows = f"({n}, 'a', {n}.11, {n}, 0.000000000000000001), ({n + 10}, 'c', 99999999.99, 1, {n}.7)"
        session.sql(f"INSERT INTO product VALUES {rows}, ({n + 20}, 'c', 1.05, 1, -0.{n})")
        session.flush().raise_for_errors()
        for name, query in views.items():
            assert_equal(content(session, name), session.sql(query), name)
    assert set(views) <= set(by_spark)
    assert [table for table, needed in by_spark.items() if needed] == []
