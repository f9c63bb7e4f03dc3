"""Checks of views that are cut: what breaks one leaves its partition behind, the others go on; DuckDB is the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import assert_equal, content, duckdb_over

PLAIN = "SELECT id, day, price, price % 2 AS odd FROM sale"
CUTS = {"a column": "partition_by = 'day'", "groups": "partition_by = 'day', partitions = 4"}
DAYS = ["2024-01-01", "2024-01-02", "2024-01-03", None]


def create(checks: str, cut: str, query: str = PLAIN, options: str = "") -> str:
    literal = checks.replace("'", "''")
    return f"CREATE MATERIALIZED VIEW v WITH (checks = '{literal}', {cut}{options}) AS {query}"


def sales(session: Session) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, day DATE, price BIGINT)")
    write(session, {n: 10 + n for n in range(12)})


def write(session: Session, prices: dict[int, int | None]) -> None:
    """Write rows whose day follows from their key, so that none moves between partitions."""
    days = [DAYS[n % 4] for n in prices]
    rows = pa.table({"id": pa.array(prices, pa.int64()), "day": pa.array(days).cast(pa.date32())})
    session.write("sale", rows.append_column("price", pa.array(list(prices.values()), pa.int64())))


def partition_of(session: Session, cut: str, day: str | None) -> str:
    if cut == "a column":
        return str(day) if day else "null"
    value = f"DATE '{day}'" if day else "CAST(NULL AS DATE)"
    return str(session.spark.sql(f"SELECT shiftright(xxhash64({value}), 62) + 2").collect()[0][0])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.long
def test_partitions_that_break_a_check_stay_as_they_were_and_the_others_go_on(
    session: Session, cut: str
) -> None:
    sales(session)
    checks = "price < 90; not_null(price); unique(day, price); odd = 0 warn; unique(price) warn"
    session.sql(create(checks, CUTS[cut]))
    names = {day: partition_of(session, cut, day) for day in DAYS}
    dice, stood, came_back = random.Random(11), 0, 0
    good = dict.fromkeys(names.values(), pa.table({}))
    behind: set[str] = set()
    for step in range(14):
        if step:
            keys = dice.sample(range(24), dice.randint(1, 5))
            write(session, {n: dice.choice([*range(40), *range(40), 95, None]) for n in keys})
        if dice.random() < 0.3:  # mend a day
            day = dice.randrange(4)
            write(session, {n: 200 - n - 120 for n in range(24) if n % 4 == day})
        if dice.random() < 0.2:
            session.sql(f"DELETE FROM sale WHERE id = {dice.randrange(24)}")
        report = session.flush()["v"]
        assert report.error is None, report.error
        visible = []
        with duckdb_over({"sale": content(session, "sale")}) as judge:
            for key in sorted(set(names.values())):
                days = [day for day, name in names.items() if name == key]
                mine = " OR ".join(f"day = DATE '{day}'" if day else "day IS NULL" for day in days)
                rows = judge.sql(f"SELECT id, day, price, price % 2 AS odd FROM sale WHERE {mine}")
                wrong = judge.sql(
                    f"SELECT (SELECT count(*) FROM sale WHERE ({mine}) AND (price >= 90 OR price IS NULL)) + "
                    "(SELECT count(*) FROM (SELECT day, price FROM sale WHERE day IS NOT NULL AND price IS NOT NULL "
                    f"AND ({mine}) GROUP BY day, price HAVING count(*) > 1))"
                ).fetchall()[0][0]
                if wrong:
                    assert key in report.quarantined, (step, key, report.quarantined)
                    assert "check " in report.quarantined[key] and " of v (" in report.quarantined[key]
                    stood += 1
                    behind.add(key)
                else:
                    assert key not in report.quarantined, (step, key, report.quarantined)
                    good[key] = rows.to_arrow_table()
                    came_back += key in behind
                    behind.discard(key)
                visible.append(good[key])
        whole = pa.concat_tables([part for part in visible if part.num_columns])
        assert_equal(session.sql("SELECT * FROM v", policy="latest"), whole, f"step {step}")
        with duckdb_over({"v": whole}) as judge:
            odd = judge.sql("SELECT count(*) FROM v WHERE odd <> 0").fetchall()[0][0]
            twice = judge.sql(
                "SELECT count(*) FROM (SELECT price FROM v WHERE price IS NOT NULL GROUP BY price HAVING count(*) > 1)"
            ).fetchall()[0][0]
        assert report.checks["check_4"].rows == odd and report.checks["unique_price"].rows == twice, step
        assert report.checks["check_1"].passed and report.checks["unique_day_price"].passed
    assert stood > 3 and came_back > 1


def test_a_partition_that_breaks_a_check_is_told_and_comes_back_when_asked(session: Session) -> None:
    sales(session)
    session.sql(create("low: price < 90", CUTS["a column"]))
    write(session, {0: 200, 1: 20, 2: 20})
    report = session.flush()["v"]
    assert list(report.quarantined) == ["2024-01-01"]
    assert (
        "check low of v (price < 90) fails: 1 row: id = 0, day = 2024-01-01"
        in report.quarantined["2024-01-01"]
    )
    assert report.checks["low"].passed and report.inserted + report.updated == 2
    with pytest.raises(EpochFailed, match=r"partition 2024-01-01 .*check low of v"):
        session.sql("FLUSH")
    again = session.materialize("v", "2024-01-01")["v"]
    assert list(again.quarantined) == ["2024-01-01"] and "failed 2 times" in again.quarantined["2024-01-01"]
    write(session, {0: 20, 3: 300})  # it is mended, and another one breaks
    report = session.flush()["v"]
    assert list(report.quarantined) == ["null"]
    rows = session.sql("SELECT id, price FROM v WHERE id IN (0, 3) ORDER BY id", policy="latest").to_pylist()
    assert [row["price"] for row in rows] == [20, 13]


@pytest.mark.parametrize(
    "check", mark_rest_long(["falls_at_most(0.2)", "unique(price)", "SELECT id FROM v WHERE price = 100"])
)
def test_a_check_of_the_whole_view_stops_all_of_its_partitions(session: Session, check: str) -> None:
    sales(session)
    session.sql(create(f"{check}; price < 150", CUTS["a column"]))
    before = session.sql("SELECT * FROM v", policy="latest")
    session.sql("DELETE FROM sale WHERE id IN (0, 1, 2)")
    write(session, {4: 100, 5: 100, 6: 200})
    report = session.flush()["v"]
    assert "fails" in (report.error or "") and not report.quarantined
    assert_equal(session.sql("SELECT * FROM v", policy="latest"), before, "stopped")
    write(session, {0: 10, 1: 11, 2: 12, 4: 14, 5: 15})
    report = session.flush()["v"]
    assert report.error is None and list(report.quarantined) == ["2024-01-03"]


def test_a_first_build_goes_without_a_partition_that_breaks_a_check(session: Session) -> None:
    sales(session)
    write(session, {3: 300})
    session.sql(create("price < 90", CUTS["a column"]))
    assert list(session.flush()["v"].quarantined) == ["null"]
    assert session.sql("SELECT count(*) AS n FROM v", policy="latest").to_pylist() == [{"n": 9}]
    write(session, {3: 30})
    assert not session.flush()["v"].quarantined
    assert session.sql("SELECT count(*) AS n FROM v", policy="latest").to_pylist() == [{"n": 12}]


def test_what_is_built_in_steps_is_stopped_as_a_whole(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "store").as_uri(), spark, backfill_rows=1) as session:
        sales(session)
        write(session, {3: 300})
        with pytest.raises(EpochFailed, match=r"check check_1 of v .* fails: 1 row: id = 3"):
            session.sql(create("price < 90", CUTS["a column"]))
        assert list(session.catalog.relations) == ["sale"]


def test_checks_that_are_set_later_leave_behind_what_breaks_them_already(session: Session) -> None:
    sales(session)
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (partition_by = 'day') AS {PLAIN}")
    write(session, {0: 200})
    session.flush()
    session.sql("ALTER MATERIALIZED VIEW v SET (checks = 'low: price < 90')")
    write(session, {1: 31, 4: 32})
    report = session.flush()["v"]
    assert report.error is None and list(report.quarantined) == ["2024-01-01"]
    assert not report.checks["low"].passed and report.checks["low"].rows == 1  # it is seen as it was
    rows = session.sql(
        "SELECT id, price FROM v WHERE id IN (0, 1, 4) ORDER BY id", policy="latest"
    ).to_pylist()
    assert [row["price"] for row in rows] == [200, 31, 14]
    write(session, {0: 33})
    report = session.flush()["v"]
    assert not report.quarantined and report.checks["low"].passed
