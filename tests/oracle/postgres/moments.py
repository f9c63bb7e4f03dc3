"""Operations on dates, timestamps and intervals over random rows: `python -m tests.oracle.postgres.moments` records PostgreSQL's answers.

The rows follow from a seed. Each expression is one column of one query, so that Spark is asked once for all of them.
"""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests.transcripts.postgres import answers
from tests.transcripts.script import Row, Step

RECORDED = Path(__file__).parent / "moments.json.gz"
SEED, ROWS = 7, 200
TABLE = "CREATE TABLE moment (id int PRIMARY KEY, d date, e date, t timestamp, u timestamp, z timestamptz, n int, m int, s int)"
_SPANS = (
    "1 month",
    "1 year 2 months",
    "-1 mon",
    "3 days 04:05:06",
    "90 minutes",
    "36 hours",
    "1 mon 1 day 01:00",
    "2 weeks",
)
_FIELDS = (
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "dow",
    "isodow",
    "doy",
    "week",
    "isoyear",
    "quarter",
    "century",
    "decade",
)
_UNITS = (
    "microseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
)
_FORMATS = (
    "YYYY-MM-DD HH24:MI:SS.US",
    "FMDay, DD FMMonth YYYY",
    "Dy Mon DD",
    "HH12:MI AM",
    "IYYY-IW-ID",
    "DDD Q WW J",
)
EXPRESSIONS: tuple[str, ...] = (
    *("d + n", "d - n", "d - e", "n + d", "t - u", "z - z", "(t - u)::text", "age(t, u)::text", "age(d, e)::text"),
    *(f"t + interval '{span}'" for span in _SPANS),
    *(f"d - interval '{span}'" for span in _SPANS),
    *(f"z + interval '{span}'" for span in _SPANS[:4]),
    *(f"extract({field} FROM t)" for field in _FIELDS),
    *(f"extract({field} FROM d)" for field in ("year", "dow", "week", "millennium")),
    *(f"extract({field} FROM age(t, u))" for field in ("year", "month", "day", "hour", "minute", "second", "epoch")),
    *(f"date_trunc('{unit}', t)" for unit in _UNITS),
    *("date_trunc('month', d)", "date_trunc('week', z)", "extract(epoch FROM t)", "extract(epoch FROM z)", "extract(epoch FROM t - u)"),
    *(f"to_char(t, '{form}')" for form in _FORMATS),
    *("t + make_interval(months => m)", "t + make_interval(days => n, secs => s)", "t + n * interval '1 day'"),
    *("t::date", "t::time", "d::timestamp", "z::date", "z::time", "d::text", "t::text", "z::text"),
    *("z AT TIME ZONE 'America/New_York'", "t AT TIME ZONE 'Asia/Tokyo'", "t AT TIME ZONE 'America/New_York'", "greatest(t, u)", "least(d, e)", "t < u", "d = e", "d > t"),
    *("age(d, e) > interval '1 year'", "(t - u) > interval '10 days'", "make_date(extract(year FROM d)::int, 1 + abs(m) % 12, 15)"),
    *("date_bin('15 minutes', t, timestamp '2001-01-01')", "(d, d + 10) OVERLAPS (e, e + 10)", "to_date(to_char(d, 'DD Mon YYYY'), 'DD Mon YYYY')"),
    *("d BETWEEN e AND e + 400", "t::date = d", "to_timestamp(s::double precision)", "coalesce(d, e)", "d IS DISTINCT FROM e"),
)  # fmt: skip
QUERY = f"SELECT {', '.join(f'{text} AS c{n}' for n, text in enumerate(EXPRESSIONS))} FROM moment ORDER BY id"


def rows(seed: int = SEED, count: int = ROWS) -> list[tuple[object, ...]]:
    """Return the rows of the table: ends of months and of years are more frequent than by chance."""
    source = random.Random(seed)

    def day() -> date:
        found = date(1970, 1, 1) + timedelta(days=source.randint(-25_000, 45_000))
        kind = source.random()
        if kind < 0.2:
            return (found.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        return found.replace(month=2, day=28) + timedelta(days=1) if kind < 0.3 else found

    def moment() -> datetime:
        micros = source.choice((0, 0, source.randrange(1_000_000), source.randrange(1000) * 1000))
        clock = source.choice((0, 86_399, source.randrange(86_400)))
        at = day()
        return datetime(at.year, at.month, at.day) + timedelta(seconds=clock, microseconds=micros)

    found: list[tuple[object, ...]] = []
    for number in range(count):
        d, t = day(), moment()
        near = source.random() < 0.4
        e = d + timedelta(days=source.randint(-70, 70)) if near else day()
        u = t + timedelta(seconds=source.randint(-9_000_000, 9_000_000)) if near else moment()
        numbers = source.randint(-400, 400), source.randint(-30, 30), source.randint(-100_000, 100_000)
        found.append((number, d, e, t, u, moment().replace(tzinfo=UTC), *numbers))
    empty = (None,) * 8
    return [*found, (count, *empty)]


def insert(given: list[tuple[object, ...]]) -> str:
    """Return the INSERT of some rows."""
    shown = (
        ", ".join(
            "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"
            for value in row
        )
        for row in given
    )
    return "INSERT INTO moment VALUES " + ", ".join(f"({row})" for row in shown)


def asked(given: list[tuple[object, ...]]) -> tuple[list[str], list[Row]]:
    """Return what PostgreSQL answers: the types of the columns, and the rows."""
    texts = (TABLE, insert(given), QUERY)
    found = answers([Step([text], text, {}) for text in texts])[-1]
    assert found is not None and found.types is not None, found
    return found.types, found.rows


def recorded() -> tuple[list[str], list[Row]]:
    """Return what PostgreSQL has answered for the rows of the seed."""
    types, found = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return types, found


if __name__ == "__main__":
    RECORDED.write_bytes(gzip.compress(json.dumps(asked(rows())).encode(), mtime=0))
    print(f"{RECORDED}: {len(EXPRESSIONS)} expressions over {ROWS + 1} rows, {RECORDED.stat().st_size} bytes")
