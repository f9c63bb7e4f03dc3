"""generate_series up to now() in a view: a row comes when its time has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.clock.worlds import START, moving


def rows(session: Session, query: str) -> list[Any]:
    session.flush().raise_for_errors()
    found = session.sql(query)
    assert found is not None
    return sorted(found.column(0).to_pylist())


@pytest.mark.long
def test_rows_appear_as_time_moves(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, clock):
        first = datetime(2022, 1, 29, tzinfo=UTC)
        session.sql(
            "CREATE MATERIALIZED VIEW days AS SELECT * FROM "
            "generate_series('2022-01-29'::timestamptz, now(), interval '1 day')"
        )
        session.sql(
            "CREATE MATERIALIZED VIEW hours AS SELECT count(*) AS n FROM "
            "generate_series(TIMESTAMP '2022-01-31 10:00', now(), INTERVAL '1 hour') AS g(h)"
        )
        days = [first + timedelta(days=n) for n in range(3)]  # the clock begins at noon of the third
        assert clock() == START.timestamp()
        assert rows(session, "SELECT generate_series FROM days") == days
        assert rows(session, "SELECT n FROM hours") == [3]
        clock.sleep(12 * 3600 - 1)
        assert rows(session, "SELECT generate_series FROM days") == days
        clock.sleep(1)
        assert rows(session, "SELECT generate_series FROM days") == [*days, first + timedelta(days=3)]
        assert rows(session, "SELECT n FROM hours") == [15]
        clock.sleep(40 * 86_400)
        assert len(rows(session, "SELECT generate_series FROM days")) == 44


@pytest.mark.parametrize(
    ("call", "message", "under"),
    [
        (
            "generate_series('2024-01-01'::timestamptz, now(), interval '1 minute')",
            "more than 1,000,000",
            "GEN",
        ),
        ("generate_series('2024-01-01'::timestamptz, now(), interval '-1 day')", "not positive", "GEN"),
        ("generate_series('2024-01-01'::timestamptz, now(), interval '-1 month')", "not positive", "GEN"),
        ("generate_series('2024-01-01'::timestamptz, now(), interval '0 months')", "not positive", "GEN"),
        ("generate_series('2024-01-01'::timestamptz, now(), interval '0' year)", "not positive", "'0'"),
        ("generate_series(date '2024-01-01', now(), interval '1 hour')", "less than a day", "GEN"),
        ("generate_series(now() - interval '1 day', now(), interval '1 hour')", "a constant time", "now"),
        ("generate_series('soon'::timestamptz, now(), interval '1 day')", "is no time", "'soon'"),
    ],
)
def test_a_series_that_a_view_cannot_hold_is_refused_with_its_place(
    tmp_path: Path, call: str, message: str, under: str
) -> None:
    with moving(tmp_path, None) as (session, _):
        sql = f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {call}"
        with pytest.raises(SqlError) as caught:
            session.sql(sql)
    assert message in str(caught.value) and caught.value.hint
    assert caught.value.column is not None
    assert sql[caught.value.column - 1 :].upper().startswith(under.upper()), str(caught.value)
