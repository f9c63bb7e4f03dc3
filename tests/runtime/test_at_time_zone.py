"""AT TIME ZONE of local times around changes of the clock means what it means in PostgreSQL."""

from __future__ import annotations

import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.session import Session

ZONES = ("America/New_York", "Australia/Lord_Howe", "Europe/Dublin", "Asia/Kathmandu", "Europe/Moscow", "UTC")
UTC = datetime.timezone.utc  # noqa: UP017
CHANGES = {
    "America/New_York": ("2024-03-10 02:00", "2024-11-03 01:00"),
    "Australia/Lord_Howe": ("2024-10-06 02:00", "2024-04-07 01:30"),  # by half an hour
    "Europe/Dublin": ("2024-03-31 01:00", "2024-10-27 01:00"),
    "Europe/Moscow": ("2011-03-27 02:00", "2014-10-26 01:00"),  # the zone's own offset changed
}


def _judged(local: datetime.datetime, zone: str) -> datetime.datetime:
    """Before the change where the clock goes on, behind it where it goes back: as PostgreSQL's source says."""
    before, behind = (local.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    comes_twice = before.utcoffset() > behind.utcoffset()  # type: ignore[operator]
    return (behind if comes_twice else before).astimezone(UTC)


def test_a_local_time_that_comes_twice_is_the_second_and_one_that_does_not_come_is_moved_on(
    tmp_path: Path, spark: SparkSession
) -> None:
    times = []
    for moments in CHANGES.values():
        for text in moments:
            start = datetime.datetime.fromisoformat(text) - datetime.timedelta(hours=26)
            times += [start + datetime.timedelta(minutes=13 * n) for n in range(250)]
    times = sorted({*times, datetime.datetime(1, 1, 1, 12), datetime.datetime(9999, 12, 31)})
    rows = pa.table({"id": list(range(len(times))), "t": pa.array(times, pa.timestamp("us"))})
    with Session((tmp_path / "store").as_uri(), spark, "postgres") as session:
        session.sql("CREATE TABLE local (id BIGINT PRIMARY KEY, t TIMESTAMP)")
        session.write("local", rows, mode="insert")
        calls = ", ".join(f"t AT TIME ZONE '{zone}' AS z{n}" for n, zone in enumerate(ZONES))
        found = session.sql(f"SELECT t, {calls} FROM local ORDER BY id")
    assert found is not None
    wrong = [
        f"{row['t']} in {zone}: {row[f'z{n}']}, not {_judged(row['t'], zone)}"
        for row in found.to_pylist()
        for n, zone in enumerate(ZONES)
        if row["t"].year in range(1900, 2100) and row[f"z{n}"] != _judged(row["t"], zone)
    ]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
