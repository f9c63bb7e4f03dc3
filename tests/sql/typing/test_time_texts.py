"""Texts of times as databases, languages and tools write them, and those that are told."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from engine.sql.typing.column_conversion import convert_to_type

MOMENT = dt.datetime(2024, 2, 3, 10, 0, 0, 123456, tzinfo=dt.UTC)
ZONED = {
    "PostgreSQL": "2024-02-03 10:00:00.123456+00",
    "PostgreSQL, another zone": "2024-02-03 15:30:00.123456+05:30",
    "PostgreSQL, long ago": "2024-02-03 10:19:32.123456+00:19:32",
    "Python": "2024-02-03T10:00:00.123456+00:00",
    "Java's Instant": "2024-02-03T10:00:00.123456789Z",
    "Java's ZonedDateTime": "2024-02-03T11:00:00.123456+01:00[Europe/Paris]",
    "Go": "2024-02-03 05:00:00.123456789 -0500 EST",
    "SQL Server's datetimeoffset": "2024-02-03 15:30:00.1234560 +05:30",
    "BigQuery": "2024-02-03 10:00:00.123456 UTC",
    "small letters": "2024-02-03t10:00:00.123456z",
    "without colons": "2024-02-03 04:30:00.123456-0530",
    "an offset in hours": "2024-02-03 5:0:0.123456 -5",
}
PLAIN = {
    "MySQL": "2024-02-03 10:00:00.123456",
    "SQL Server's datetime2": "2024-02-03 10:00:00.1234560",
    "twelve digits": "2024-02-03 10:00:00.123456999999",
    "a comma": "2024-02-03 10:00:00,123456",
    "one digit": "2024-2-3 10:0:0.123456",
}
NONE = (
    *("02-JAN-24 03.04.05 AM", "02/03/2024 10:00", "Feb  3 2024 10:00AM", "infinity", "0044-03-15 BC"),
    *("2024-02-03 24:00:00", "2024-02-03 23:59:60", "2024-02-30", "0000-00-00 00:00:00", "10000-01-01 00:00"),
    *("2024-02-03 10:00 Europe/Berlin", "2024-02-03 10:00+01:60", "1706954400", "2024-02-03+01:00", "now"),
    *("0001-01-01 00:00+01", "9999-12-31 23:59-01", ""),
    *(
        "2024-02-03 10:00:00+18:01",
        "2024-02-03 10:00:00-1930",
        "2024-02-03 10:00+99",
        "2024-02-03T10:00:00+24:00",
    ),
)


def converted(texts: list[str], kind: pa.DataType) -> tuple[list[object], list[int]]:
    found = convert_to_type(pa.array(texts), kind)
    return found.values.to_pylist(), found.bad.tolist()


def test_times_are_read_as_they_are_written_elsewhere() -> None:
    texts = [*ZONED.values(), *PLAIN.values()]
    found, bad = converted(texts, pa.timestamp("us", "UTC"))
    assert (dict(zip(texts, found, strict=True)), bad) == (dict.fromkeys(texts, MOMENT), [])


def test_a_zone_does_not_fit_a_column_without_one() -> None:
    texts = [*ZONED.values(), *PLAIN.values()]
    found, bad = converted(texts, pa.timestamp("us"))
    assert bad == list(range(len(ZONED)))
    assert set(found[len(ZONED) :]) == {MOMENT.replace(tzinfo=None)}


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_what_is_no_time_is_told_and_costs_its_neighbours_nothing(zone: str | None) -> None:
    texts = [text for none in NONE for text in (none, "2024-02-03 10:00:00.1234569")]
    found, bad = converted(texts, pa.timestamp("us", zone))
    assert [texts[at] for at in bad] == list(NONE)
    assert {value for at, value in enumerate(found) if at % 2} == {
        MOMENT if zone else MOMENT.replace(tzinfo=None)
    }


def test_the_furthest_zone_is_one() -> None:
    for text, hours in {
        "2024-02-03 10:00:00+18:00": -18,
        "2024-02-03 10:00:00-1800": 18,
        "2024-02-03 10:00+18": -18,
    }.items():
        moment = dt.datetime(2024, 2, 3, 10, tzinfo=dt.UTC) + dt.timedelta(hours=hours)
        assert converted([text], pa.timestamp("us", "UTC")) == ([moment], [])


def test_dates_and_times_of_day() -> None:
    day = dt.date(2024, 2, 3)
    texts = [
        "2024-02-03",
        "2024-2-3",
        "2024-02-03 00:00:00",
        "2024-02-03T00:00:00.000",
        "2024-02-03 00:00:01",
    ]
    assert converted(texts, pa.date32()) == ([day, day, day, day, None], [4])
    texts = ["10:00", "9:5:1", "23:59:59.9999999", "00:00:00", "24:00:00", "10", "10:00:00+00", "10:00 AM"]
    found, bad = converted(texts, pa.time64("ns"))
    assert found[:4] == [dt.time(10), dt.time(9, 5, 1), dt.time(23, 59, 59, 999999), dt.time(0)]
    assert bad == [4, 5, 6, 7]
