"""GAP_FILL in views and in queries that are answered once, held against a loop over the rows."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.oracle.batch import content

STEP = timedelta(minutes=1)
QUERY = (
    "SELECT ts, held, line, whole, money, note FROM GAP_FILL(m, ts, INTERVAL '1' MINUTE, LOCF(held), INTERPOLATE(line), "
    "INTERPOLATE(whole), INTERPOLATE(money), KEEPNULL(note))"
)
EPOCHS = (
    "INSERT INTO m VALUES (1, '2024-05-21 10:00:00', 1, 1.0, 10, 1.00, 'a'), (2, '2024-05-21 10:04:00', 2, 3.0, 20, 2.00, 'b'), "
    "(3, NULL, 3, 3.0, 3, 3.00, 'c')",
    "INSERT INTO m VALUES (4, '1970-01-01 00:02:30', 4, 9.5, 15, 1.50, NULL), (5, '1969-12-31 23:58:00', 5, NULL, 7, 0.10, 'e'), "
    "(6, '1970-01-01 00:01:00', 6, 2.0, -8, 0.20, 'f'), (7, '1970-01-01 00:01:00.000001', 7, 2.5, 8, 0.30, 'g'), "
    "(8, '1970-01-01 00:04:00', 8, 8.5, 8, 0.30, 'h')",
    "UPDATE m SET ts = '1970-01-01 00:00:30', whole = 12 WHERE id = 4",
    "DELETE FROM m WHERE id IN (5, 7)",
)


def filled(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows with those between, by a loop."""
    known = sorted((row for row in rows if row["ts"] is not None), key=lambda row: row["ts"])
    found = []
    for row, following in zip(known, [*known[1:], None], strict=True):
        times = [row["ts"]]
        while following is not None and times[-1] + STEP < following["ts"]:
            times.append(times[-1] + STEP)
        for k, ts in enumerate(times):
            if k == 0:
                found.append((ts, *(row[c] for c in ("held", "line", "whole", "money", "note"))))
                continue
            assert following is not None
            on_line: list[Any] = []
            for column in ("line", "whole", "money"):
                a, b = row[column], following[column]
                value = (
                    None
                    if a is None or b is None
                    else a + (b - a) * Decimal(k) / len(times)
                    if column != "line"
                    else a + (b - a) * k / len(times)
                )
                if column == "whole" and value is not None:
                    value = int(value.quantize(Decimal(1), rounding="ROUND_HALF_UP"))
                if column == "money" and value is not None:
                    value = value.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
                on_line.append(value)
            found.append((ts, row["held"], *on_line, None))
    return sorted(found, key=str)


def assert_filled(found: pa.Table, rows: pa.Table, label: str) -> None:
    expected = filled(rows.to_pylist())
    got = sorted((tuple(row.values()) for row in found.to_pylist()), key=str)
    assert len(got) == len(expected), label
    for one, other in zip(got, expected, strict=True):
        assert one[:2] + one[3:] == other[:2] + other[3:], label
        assert one[2] == other[2] or one[2] == pytest.approx(other[2]), label


@pytest.mark.parametrize(("dialect", "key"), mark_rest_long([("spark", ""), ("risingwave", " PRIMARY KEY")]))
def test_gaps_are_filled_again_as_rows_come_move_and_go(
    tmp_path: Path, spark: SparkSession, dialect: Any, key: str
) -> None:
    time = "TIMESTAMP_NTZ" if dialect == "spark" else "TIMESTAMP"
    with Session((tmp_path / "store").as_uri(), spark, dialect=dialect) as session:
        session.sql(
            f"CREATE TABLE m (id INT{key}, ts {time}, held INT, line DOUBLE, whole INT, money DECIMAL(9, 2), note STRING)"
            if dialect == "spark"
            else f"CREATE TABLE m (id INT{key}, ts {time}, held INT, line DOUBLE, whole INT, money DECIMAL(9, 2), note VARCHAR)"
        )
        for n, statement in enumerate(EPOCHS):
            if n == 1:
                session.sql("DELETE FROM m WHERE ts >= '2000-01-01'")
            session.sql(statement)
            if n == 0:
                session.sql(f"CREATE MATERIALIZED VIEW g AS {QUERY}")
            session.flush().raise_for_errors()
            assert_filled(content(session, "g"), content(session, "m"), f"epoch {n}")
        session.sql("INSERT INTO m VALUES (9, '2024-05-21 10:00:00', 1, 1.0, 1, 1.00, 'far')")
        [view] = session.flush().failed
        assert "more than 1,000,000 rows would be between two rows" in str(view.error)
        session.sql("DELETE FROM m WHERE id = 9")
        once = session.sql(QUERY)
        assert once is not None
        assert_filled(once, content(session, "m"), "answered once")


def between(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows of each (a, b) with those between, v being that of the row before, by a loop."""
    found = []
    for part in {(row["a"], row["b"]) for row in rows}:
        mine = sorted((row for row in rows if (row["a"], row["b"]) == part), key=lambda row: row["ts"])
        for row, following in zip(mine, [*mine[1:], None], strict=True):
            at = row["ts"]
            while at == row["ts"] or (following is not None and at < following["ts"]):
                found.append((*part, at, row["v"]))
                at += STEP
    return sorted(found, key=str)


@pytest.mark.long
def test_partitions_are_gone_through_each_by_itself(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:
        session.sql("CREATE TABLE p (id INT PRIMARY KEY, a INT, b TEXT, ts TIMESTAMP, v INT)")
        query = "SELECT a, b, ts, v FROM GAP_FILL(p, ts, INTERVAL '1' MINUTE, LOCF(v), PARTITION_BY(a, b))"
        session.sql(f"CREATE MATERIALIZED VIEW g AS {query}")
        for statement in (
            "INSERT INTO p VALUES (1, 1, 'x', '2024-01-01 10:00', 10), (2, 1, 'y', '2024-01-01 10:01', 20), "
            "(3, 1, 'x', '2024-01-01 10:03', 30), (4, NULL, 'x', '2024-01-01 10:02', 40)",
            "INSERT INTO p VALUES (5, NULL, 'x', '2024-01-01 10:06', 50), (6, 1, 'x', '2024-01-01 10:01', 60), "
            "(7, 2, NULL, '2024-01-01 10:00', 70), (8, 2, NULL, '2024-01-01 10:02', 80)",
            "UPDATE p SET a = 2, b = NULL WHERE id = 2",
            "DELETE FROM p WHERE id = 6",
        ):
            session.sql(statement)
            session.flush().raise_for_errors()
            expected = between(content(session, "p").to_pylist())
            found = [tuple(row.values()) for row in content(session, "g").to_pylist()]
            assert sorted(found, key=str) == expected, statement
        once = session.sql(query)
        assert once is not None
        assert sorted((tuple(row.values()) for row in once.to_pylist()), key=str) == expected


@pytest.mark.parametrize(
    ("call", "message", "under"),
    [
        ("GAP_FILL(m, ts)", "GAP_FILL has 2 arguments", "GAP_FILL"),
        ("GAP_FILL((SELECT * FROM m), ts, INTERVAL '1' DAY)", "no table or materialized view", "SELECT"),
        ("GAP_FILL(m, since, INTERVAL '1' DAY)", "m has no column since", "since"),
        ("GAP_FILL(m, held, INTERVAL '1' DAY)", "held is int", "held"),
        ("GAP_FILL(m, ts, INTERVAL '1' MONTH)", "has months", "'1'"),
        ("GAP_FILL(m, ts, INTERVAL '0' DAY)", "is not positive", "'0'"),
        ("GAP_FILL(m, ts, 3)", "is no interval", "3"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, held)", "does not say how", "held"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, LOCF(ts))", "the time itself", "LOCF"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, LOCF(held), KEEPNULL(held))", "told already", "KEEPNULL"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, INTERPOLATE(note))", "only numbers", "INTERPOLATE"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, PARTITION_BY(ts))", "other than the time", "PARTITION_BY"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, PARTITION_BY())", "other than the time", "PARTITION_BY"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, PARTITION_BY(id, id))", "each once", "PARTITION_BY"),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, PARTITION_BY(x))", "m has no column x", "x"),
        (
            "GAP_FILL(m, ts, INTERVAL '1' DAY, PARTITION_BY(id), PARTITION_BY(note))",
            "occurs twice",
            "PARTITION_BY(note)",
        ),
        ("GAP_FILL(m, ts, INTERVAL '1' DAY, LOCF(id), PARTITION_BY(id))", "told by PARTITION_BY", "LOCF"),
    ],
)
def test_a_wrong_gap_fill_is_refused_with_its_place(
    tmp_path: Path, call: str, message: str, under: str
) -> None:
    with Session((tmp_path / "store").as_uri(), dialect="risingwave") as session:
        session.sql("CREATE TABLE m (id INT PRIMARY KEY, ts TIMESTAMP, held INT, note VARCHAR)")
        sql = f"CREATE MATERIALIZED VIEW g AS SELECT * FROM {call}"
        with pytest.raises(SqlError) as caught:
            session.sql(sql)
    assert message in str(caught.value) and caught.value.hint
    assert caught.value.column is not None
    assert sql[caught.value.column - 1 :].upper().startswith(under.upper()), str(caught.value)
