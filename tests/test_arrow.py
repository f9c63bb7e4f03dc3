"""Columns as Python has them, also where it has no such values."""

from __future__ import annotations

import datetime

import pyarrow as pa

from engine.arrow import as_rows, as_values

EARLY = -62_200_000_000_000_000
"""Microseconds of a time before the year 1."""


def test_dates_and_times_of_years_that_python_has_not_are_texts() -> None:
    days = pa.array([-719_529, None, 0, 3_000_000], pa.date32())
    assert as_values(days) == ["-0001-12-31", None, datetime.date(1970, 1, 1), "+10183-09-21"]
    assert as_values(pa.chunked_array([days])) == as_values(days)
    kind = pa.timestamp("us")
    rows = pa.table(
        {
            "at": pa.array([EARLY, 0], pa.timestamp("us", "UTC")),
            "l": pa.array([[EARLY, None], None], pa.list_(kind)),
            "s": pa.array(
                [{"at": EARLY, "n": 1}, {"at": 0, "n": 2}], pa.struct([("at", kind), ("n", pa.int8())])
            ),
            "m": pa.array([[("k", EARLY)], None], pa.map_(pa.string(), kind)),
        }
    )
    text, first = "-0002-12-17 14:13:20", datetime.datetime(1970, 1, 1)
    assert as_rows(rows) == [
        {"at": f"{text}+00:00", "l": [text, None], "s": {"at": text, "n": 1}, "m": [("k", text)]},
        {"at": first.replace(tzinfo=datetime.UTC), "l": None, "s": {"at": first, "n": 2}, "m": None},
    ]
    assert as_rows(rows.to_batches()[0]) == as_rows(rows)
    assert as_rows(rows.select([])) == rows.select([]).to_pylist()
