"""Views that declare a pandera schema: rows that break it are never visible, and stop just their domain."""

from __future__ import annotations

from pathlib import Path

import pandera.pandas as pdr
import pyarrow as pa
import pyarrow.compute
import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed, SqlError
from engine.runtime.epoch.row_checks import _find_broken_rows
from engine.session import Session

Positive = pdr.DataFrameSchema(
    {"total": pdr.Column(checks=pdr.Check.ge(0), nullable=True), "shop": pdr.Column(str)}
)
Unknown = pdr.DataFrameSchema({"colour": pdr.Column(str)})
Unique = pdr.DataFrameSchema({"shop": pdr.Column(str, unique=True)})


class Model(pdr.DataFrameModel):
    """The same as a class."""

    total: int = pdr.Field(ge=0, coerce=True)


VIEW = (
    "CREATE MATERIALIZED VIEW {name} WITH (pandera = 'tests.runtime.epoch.test_row_checks:{schema}') "
    "AS SELECT shop, sum(price) AS total FROM sale GROUP BY shop"
)


def sales(session: Session) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING, price INT)")
    session.sql("INSERT INTO sale VALUES (1, 'a', 5), (2, 'b', 7)")


def test_rows_that_break_the_schema_are_never_visible_and_stop_only_their_view(session: Session) -> None:
    sales(session)
    session.sql(VIEW.format(name="checked", schema="Positive"))
    session.sql("CREATE MATERIALIZED VIEW free AS SELECT shop, min(price) AS p FROM sale GROUP BY shop")
    session.sql("INSERT INTO sale VALUES (3, 'a', -9), (4, 'c', 1)")
    report = session.flush()
    error = report["checked"].error or ""
    assert "rows of checked break its schema" in error and "column total" in error and "-4" in error
    assert report["free"].error is None
    totals = "SELECT shop, total FROM checked ORDER BY shop"
    assert session.sql(totals, policy="latest").to_pylist() == [
        {"shop": "a", "total": 5},
        {"shop": "b", "total": 7},
    ]
    session.sql("UPDATE sale SET price = 9 WHERE id = 3")
    assert session.flush()["checked"].error is None
    assert [row["total"] for row in session.sql(totals).to_pylist()] == [14, 7, 1]


def test_a_schema_that_cannot_be_checked_is_refused_with_the_view(session: Session) -> None:
    sales(session)
    wrong = {
        "Unknown": "names colour, which v does not have",
        "Unique": "asks for unique values",
        "Missing": "cannot be loaded",
        "VIEW": "is no pandera schema",
    }
    for schema, says in wrong.items():
        with pytest.raises(SqlError, match=says):
            session.sql(VIEW.format(name="v", schema=schema))
    session.sql("INSERT INTO sale VALUES (3, 'a', -9)")
    with pytest.raises(EpochFailed, match="column total"):
        session.sql(VIEW.format(name="v", schema="Model"))
    assert "v" not in session.catalog.relations


def test_a_view_that_is_built_step_by_step_is_checked_at_each_step(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, backfill_rows=1) as session:
        sales(session)
        session.sql("INSERT INTO sale VALUES (3, 'a', -9)")
        with pytest.raises(EpochFailed, match="column total"):
            session.sql(VIEW.format(name="v", schema="Positive"))
        session.sql("DELETE FROM sale WHERE id = 3")
        session.sql(VIEW.format(name="v", schema="Positive"))
        assert session.sql("SELECT sum(total) AS s FROM v").to_pylist() == [{"s": 12}]


def test_the_outcome_of_a_schema_is_that_of_a_check(session: Session) -> None:
    sales(session)
    session.sql(VIEW.format(name="checked", schema="Positive"))
    assert session.flush(["checked"])["checked"].checks["pandera"].passed
    session.sql("INSERT INTO sale VALUES (3, 'a', -9)")
    outcome = session.flush()["checked"].checks["pandera"]
    assert (outcome.passed, outcome.severity, outcome.rows) == (False, "error", 1) and "-4" in outcome.text
    session.sql("DELETE FROM sale WHERE id = 3")
    assert session.flush()["checked"].checks["pandera"].passed


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_rows_with_times_of_far_years_are_checked_and_told(kind: pa.DataType) -> None:
    day = pa.array([3_000_000, 0, None], pa.int32()).cast(pa.date32())
    at = day if kind == day.type else day.cast(pa.int32()).cast(pa.int64())
    if at is not day:
        at = pa.compute.multiply(at, 86_400_000_000).cast(kind)
    rows = pa.table({"at": at, "n": pa.array([1, None, 3], pa.int32())})
    right = pdr.DataFrameSchema({"at": pdr.Column(nullable=True), "n": pdr.Column(nullable=True)})
    assert _find_broken_rows(right, rows) == (0, [])
    wrong = pdr.DataFrameSchema(
        {"at": pdr.Column(nullable=False, checks=pdr.Check(lambda one: False, element_wise=True))}
    )
    count, report = _find_broken_rows(wrong, rows)
    assert count >= 2 and "column at" in " ".join(report) and "10183" in " ".join(report)
