"""Checks of views: told of what an epoch would commit, before it does; errors stop it, warnings do not; DuckDB is the judge."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.assumptions import CHECK_UNCHANGED
from engine.errors import EpochFailed, SqlError, StorageError
from engine.hummock import Commit, Version
from engine.meta.status.check_results import CheckResult, find_check_results
from engine.runtime.domains import domain_run
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.runtime.epoch.view_checks import StagedEpoch
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import assert_equal, content, duckdb_over
from tests.runtime.clock.worlds import START, VIEWS, create_tables, moving

PLAIN = "SELECT id, shop, price, price / 10 AS tens FROM sale"
GROUPED = "SELECT shop, sum(price) AS total, count(*) AS n, max(price) AS most FROM sale GROUP BY shop"
ROWS = (
    ("not_null(shop, price)", "shop IS NULL OR price IS NULL"),
    ("accepted(shop, 'a', 'b', 'c')", "shop NOT IN ('a', 'b', 'c')"),
    ("low: price < 90 OR shop = 'a'", "NOT (price < 90 OR shop = 'a')"),
)
TWICE = "SELECT count(*) FROM (SELECT {0} FROM v WHERE {1} GROUP BY {0} HAVING count(*) > 1)"


def create(name: str, checks: str, query: str, options: str = "") -> str:
    literal = checks.replace("'", "''")
    return f"CREATE MATERIALIZED VIEW {name} WITH (checks = '{literal}'{options}) AS {query}"


def sales(session: Session) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING, price BIGINT)")
    session.sql("INSERT INTO sale VALUES (1, 'a', 5), (2, 'b', 7)")


def change(session: Session, dice: random.Random) -> None:
    """Insert, update or delete some rows, now and then with nulls and with values that checks refuse."""
    keys = dice.sample(range(30), dice.randint(1, 6))
    if dice.random() < 0.4:
        session.write("sale", pa.table({"id": pa.array(keys, pa.int64())}), mode="delete")
        return
    shops = [dice.choice([*"aaabbbccc", *("d" if dice.random() < 0.2 else "a"), None]) for _ in keys]
    prices = [None if dice.random() < 0.05 else dice.randint(0, 100) for _ in keys]
    rows = pa.table({"id": pa.array(keys, pa.int64()), "shop": shops, "price": pa.array(prices, pa.int64())})
    session.write("sale", rows)


@pytest.mark.long
def test_rows_that_break_warnings_are_counted_as_a_batch_run_counts_them(session: Session) -> None:
    sales(session)
    checks = [f"{text} warn" for text, _ in ROWS]
    checks += [
        "unique(price) warn",
        "unique(shop, price) warn",
        "pairs: SELECT x.id, y.id AS other FROM v x JOIN v y ON x.price = y.id warn",
    ]
    session.sql(create("v", "; ".join(checks), PLAIN))
    grouped = [
        "n < 4 warn",
        "unique(n) warn",
        "many: SELECT n, count(*) AS c FROM g GROUP BY n HAVING count(*) > 1 warn",
    ]
    session.sql(create("g", "; ".join(grouped), GROUPED))
    dice = random.Random(7)
    for step in range(14):
        change(session, dice)
        report = session.flush()
        assert not report.failed, report.failed
        with duckdb_over({name: content(session, name) for name in ("v", "g")}) as judge:

            def rows(query: str, judge=judge) -> int:
                return judge.sql(query).fetchall()[0][0]

            wanted = {
                name: rows(f"SELECT count(*) FROM v WHERE {broken}")
                for name, (_, broken) in zip(
                    ("not_null_shop_price", "accepted_shop", "low"), ROWS, strict=True
                )
            }
            wanted["unique_price"] = rows(TWICE.format("price", "price IS NOT NULL"))
            both = "price IS NOT NULL AND shop IS NOT NULL"
            wanted["unique_shop_price"] = rows(TWICE.format("shop, price", both))
            wanted["pairs"] = rows("SELECT count(*) FROM v x JOIN v y ON x.price = y.id")
            twice = rows("SELECT count(*) FROM (SELECT n FROM g GROUP BY n HAVING count(*) > 1)")
            of_groups = {
                "check_1": rows("SELECT count(*) FROM g WHERE NOT n < 4"),
                "unique_n": twice,
                "many": twice,
            }
        found = {name: one.rows for name, one in report["v"].checks.items()}
        assert found == wanted, step
        assert {name: one.rows for name, one in report["g"].checks.items()} == of_groups, step
        assert all(one.passed == (one.rows == 0) for one in report["v"].checks.values())
        assert all(len(one.sample) == min(3, one.rows) for one in report["v"].checks.values())


@pytest.mark.long
def test_an_epoch_that_breaks_an_error_is_never_seen_and_a_mended_one_is(session: Session) -> None:
    sales(session)
    checks = [text for text, _ in ROWS] + [
        "unique(price)",
        "falls_at_most(0.5)",
        "SELECT id FROM v WHERE price = id",
    ]
    session.sql(create("v", "; ".join(checks), PLAIN))
    session.sql("CREATE MATERIALIZED VIEW free AS SELECT shop, count(*) AS n FROM sale GROUP BY shop")
    dice = random.Random(3)
    good, stopped, went = content(session, "v"), 0, 0
    broken = " OR ".join(text for _, text in ROWS)
    for step in range(24):
        change(session, dice)
        if dice.random() < 0.4:  # mend what is wrong
            session.sql("UPDATE sale SET shop = 'a', price = id + 1000")
        report = session.flush()
        assert report["free"].error is None
        now = content(session, "sale")
        with duckdb_over(
            {
                "sale": now,
                "v": pa.table(
                    {"id": now.column("id"), "price": now.column("price"), "shop": now.column("shop")}
                ),
            }
        ) as judge:
            query = f"SELECT (SELECT count(*) FROM v WHERE ({broken}) OR price = id), ({TWICE.format('price', 'price IS NOT NULL')})"
            wrong = sum(judge.sql(query).fetchall()[0])
            whole = judge.sql("SELECT id, shop, price, price / 10 AS tens FROM sale").to_arrow_table()
        falls = now.num_rows < good.num_rows * 0.5
        if wrong or falls:
            stopped += 1
            assert "fails" in (report["v"].error or ""), (step, wrong, falls)
            assert_equal(session.sql("SELECT * FROM v", policy="latest"), good, f"step {step}")
        else:
            went += 1
            assert report["v"].error is None, step
            good = session.sql("SELECT * FROM v", policy="latest")
            assert_equal(good, whole, f"step {step}")
    assert stopped > 2 and went > 2


def test_what_stops_an_epoch_is_told_with_what_is_seen_until_then(session: Session) -> None:
    sales(session)
    session.sql(create("v", "dear: total < 100; n < 2 warn", GROUPED))
    session.sql("INSERT INTO sale VALUES (3, 'a', 200), (4, 'b', 200), (5, 'c', 200), (6, 'd', 200)")
    report = session.flush()["v"]
    error = report.error or ""
    assert "check dear of v (total < 100) fails: 4 rows, such as shop = '" in error
    assert "it stays as of" in error and "correct the rows that it reads" in error
    assert report.checks["dear"].rows == 4 and not report.checks["dear"].passed
    assert not report.checks["check_2"].passed and report.checks["check_2"].severity == "warn"
    found = find_check_results(session.store.refresh(), "v")
    assert found is not None and found.stopped is not None
    assert found.stopped > session.store.version.tables["v"].committed_epoch
    session.sql("UPDATE sale SET price = 1 WHERE id > 2")
    report = session.flush()["v"]
    assert report.error is None and report.checks["dear"] == CheckResult(True)
    assert report.checks["check_2"].rows == 2
    found = find_check_results(session.store.refresh(), "v")
    assert found is not None and found.stopped is None


@pytest.mark.parametrize("backfill_rows", [1, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_first_build_that_breaks_a_check_leaves_no_view(
    tmp_path: Path, spark: SparkSession, backfill_rows: int
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, backfill_rows=backfill_rows) as session:
        sales(session)
        text = create("v", "total < 7; unique(n) warn", GROUPED)
        with pytest.raises(
            EpochFailed, match=r"check check_1 of v .* fails: 1 row: shop = 'b'; it has no content yet"
        ):
            session.sql(text)
        assert list(session.catalog.relations) == ["sale"]
        session.sql("UPDATE sale SET price = 6 WHERE id = 2")
        session.sql(text)
        assert session.sql("SELECT sum(total) AS s FROM v").to_pylist() == [{"s": 11}]
        assert session.flush(["v"])["v"].checks["unique_n"].rows == 1
        session.sql("INSERT INTO sale VALUES (3, 'c', 70)")
        assert "check check_1 of v" in (session.flush()["v"].error or "")


def test_a_large_view_that_broke_a_check_is_built_anew_once_its_inputs_are_mended(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, backfill_rows=1) as session:
        sales(session)
        session.sql(create("v", "total < 7", GROUPED), build=False)
        for _ in range(2):  # tried again over the same rows
            error = session.flush()["v"].error or ""
            assert "check check_1 of v" in error and "DROP the view and CREATE it with other checks" in error
        with pytest.raises(SqlError, match="v is still being created"):  # so the error does not say ALTER
            session.sql("ALTER MATERIALIZED VIEW v SET (checks = 'total < 700')")
        assert "v" in session.lagging()
        session.sql("UPDATE sale SET price = 6 WHERE id = 2")
        assert session.flush()["v"].error is None
        assert session.sql("SELECT sum(total) AS s FROM v").to_pylist() == [{"s": 11}]


def test_a_commit_that_is_lost_between_is_made_again_with_the_same_outcome(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales(session)
    session.sql(create("v", "total < 100; n < 2 warn", GROUPED))
    commit, lost = session.store.commit, []

    def losing(asked: Commit) -> Version:
        if "_check_1_v" in asked.writes and not lost:
            lost.append(asked)
            raise StorageError("the process ends here")
        return commit(asked)

    session.sql("INSERT INTO sale VALUES (3, 'a', 20)")
    monkeypatch.setattr(session.store, "commit", losing)
    assert "the process ends here" in (session.flush()["v"].error or "")
    known = find_check_results(session.store.refresh(), "v")
    assert known is not None and known.results["check_2"].passed
    monkeypatch.undo()
    with Session(session.url, session.computing) as other:
        report = other.flush()["v"]
    assert report.error is None and report.checks["check_2"].sample == ("shop = 'a'",)
    with pytest.raises(EpochFailed, match="total < 100"):
        session.sql("INSERT INTO sale VALUES (4, 'a', 200)")
        session.sql("FLUSH")


def test_a_check_costs_what_changes_and_a_view_without_any_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales(session)
    many = pa.table({"id": range(10, 3000), "shop": [f"s{n}" for n in range(2990)], "price": [1] * 2990})
    session.write("sale", many)
    session.sql(create("v", "total < 100; not_null(n)", GROUPED))
    session.sql("CREATE MATERIALIZED VIEW plain AS SELECT shop, count(*) AS n FROM sale GROUP BY shop")
    done: list[tuple[str, int]] = []
    compute = SparkExecutor.compute

    def record_task(self: SparkExecutor, task: FragmentTask) -> TaskResult:
        done.append((task.table.name, task.rows))
        return compute(self, task)

    monkeypatch.setattr(SparkExecutor, "compute", record_task)
    session.sql("INSERT INTO sale VALUES (1000000, 's7', 1)")
    session.flush().raise_for_errors()
    tables = sorted(name for name, _ in done)  # nothing broke: nothing is counted
    assert tables == ["_check_1_v", "_state_v_1", "plain", "v"]
    assert dict(done)["_check_1_v"] <= 2
    done.clear()
    session.sql("INSERT INTO sale VALUES (1000001, 's8', 1000)")
    assert "total < 100" in (session.flush(["v"])["v"].error or "")
    assert [name for name, _ in done][-3:] == ["v", "_check_1_v", "_count_1_v"]
    assert all(rows <= 4 for _, rows in done)


def test_a_condition_that_fails_on_a_row_stops_its_view_and_says_so(session: Session) -> None:
    sales(session)
    session.sql(create("v", "1000 / total > 1", GROUPED))
    session.sql("INSERT INTO sale VALUES (3, 'z', 0)")
    report = session.flush()
    assert [one.view for one in report.views] == ["v"]
    assert "v" in [one.view for one in report.failed] and "zero" in (report["v"].error or "").lower()
    session.sql("DELETE FROM sale WHERE id = 3")
    assert session.flush()["v"].error is None


@pytest.mark.long
def test_a_view_that_is_computed_whole_and_one_over_another_are_checked(session: Session) -> None:
    sales(session)
    session.sql(create("whole", "total < 100; falls_at_most(0.4)", GROUPED, ", refresh_policy = 'full'"))
    session.sql(create("above", "most < 50 warn", "SELECT max(total) AS most FROM whole"))
    session.sql("INSERT INTO sale VALUES (3, 'c', 60)")
    report = session.flush()
    assert report["whole"].error is None and report["above"].checks["check_1"].rows == 1
    session.sql("DELETE FROM sale WHERE id < 3")
    report = session.flush()
    assert "2 of 3 rows would go" in (report["whole"].error or "")
    assert report["above"].checks["check_1"].rows == 1
    session.sql("INSERT INTO sale VALUES (4, 'd', 1)")
    assert session.flush()["whole"].error is None


@pytest.mark.long
def test_rows_that_the_clock_takes_are_asked_for_as_others(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        noon = START.replace(tzinfo=None)
        times = ", ".join(f"({n}, 1, TIMESTAMP '{noon + timedelta(hours=n // 3)}')" for n in range(4))
        session.sql(f"INSERT INTO ev VALUES {times}")
        session.sql(create("v", "unique(k) warn; falls_at_most(0.5)", VIEWS["newest"]))
        assert session.flush(["v"])["v"].checks["unique_k"].rows == 1
        clock.sleep(3600)
        assert "3 of 4 rows would go" in (session.flush()["v"].error or "")
        session.sql(f"INSERT INTO ev VALUES (7, 2, TIMESTAMP '{noon + timedelta(hours=1)}')")
        report = session.flush()["v"]
        assert report.error is None and report.checks["unique_k"] == CheckResult(True, "warn")


@pytest.mark.long
def test_a_temporal_join_and_a_row_error_that_is_null_are_checked(session: Session) -> None:
    session.dialect = "risingwave"
    session.sql("CREATE TABLE rate (k BIGINT PRIMARY KEY, r BIGINT)")
    session.sql("CREATE TABLE ev (id BIGINT PRIMARY KEY, k BIGINT) APPEND ONLY")
    session.sql("INSERT INTO rate VALUES (1, 0), (2, 5)")
    joined = "SELECT id, ev.k, r FROM ev JOIN rate FOR SYSTEM_TIME AS OF PROCTIME() ON ev.k = rate.k"
    session.sql(create("v", "10 / r < 3 warn; unique(k) warn", joined))
    session.sql("INSERT INTO ev VALUES (1, 1), (2, 2), (3, 2)")
    session.flush().raise_for_errors()
    session.sql("UPDATE rate SET r = 2 WHERE k = 2")
    session.sql("INSERT INTO ev VALUES (4, 2)")
    checks = session.flush()["v"].checks
    assert checks["check_1"].rows == 1 and checks["check_1"].sample[0].startswith("id = 4")
    assert checks["unique_k"].rows == 1


def test_rows_without_a_key_are_told_by_their_columns_and_can_be_read(session: Session) -> None:
    sales(session)
    bag = "SELECT shop, price FROM sale UNION ALL SELECT shop, id FROM sale"
    session.sql(create("bag", "cheap: price > 4 warn", bag))
    session.sql(create("one", "few: n < 2 warn", "SELECT count(*) AS n FROM sale"))
    report = session.flush(["bag", "one"])
    assert sorted(report["bag"].checks["cheap"].sample) == ["shop = 'a', price = 1", "shop = 'b', price = 2"]
    assert report["one"].checks["few"].sample == ("n = 2",)
    rows = session.sql("SELECT * FROM _check_1_bag ORDER BY price")
    assert rows is not None and rows.to_pylist()[0] == {"shop": "a", "price": 1, "_failed": 1}


@pytest.mark.parametrize(
    ("check", "message"),
    mark_rest_long(
        [
            (
                "dear: total < 100 warn",
                r'check dear of v.*"passed" before; asked again it is "1 row: shop = .a.',
            ),
            ("unique(n) warn", r'check unique_n of v.*"1 row: n = 1" before; asked again it is "passed"'),
            ("falls_at_most(0.9)", r"v, whose count .* had 2 rows before and has 1"),
        ],
        keep=2,
    ),
)
def test_a_check_that_is_not_asked_though_an_epoch_touches_it_breaks_a_claim(
    session: Session, monkeypatch: pytest.MonkeyPatch, check: str, message: str
) -> None:
    sales(session)
    session.sql(create("v", check, GROUPED))
    session.sql("INSERT INTO sale VALUES (3, 'a', 300)")
    session.sql("DELETE FROM sale WHERE shop = 'b'")

    def forgetful(before: Version, after: Version, brought: set[str], *rest: Any) -> StagedEpoch:
        return StagedEpoch(before, after, {name for name in brought if not name.startswith("_c")}, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(domain_run, "StagedEpoch", forgetful)
        error = session.flush()["v"].error or ""
    assert CHECK_UNCHANGED.name in error and re.search(message, error), error
    before = session.store.version.tables["v"].committed_epoch
    assert session.flush()["v"].error is None
    assert session.store.version.tables["v"].committed_epoch > before


def test_a_row_that_breaks_a_check_is_told_by_a_date_that_python_has_not(session: Session) -> None:
    session.sql("CREATE TABLE stay (day DATE PRIMARY KEY, n INT)")
    session.sql("CREATE MATERIALIZED VIEW v WITH (checks = 'n > 0') AS SELECT day, n FROM stay")
    session.sql("INSERT INTO stay VALUES (DATE'+12921-08-18', 0)")
    assert "day = '+12921-08-18'" in (session.flush()["v"].error or "")
