"""Functions, intervals of months and patterns of to_char: PostgreSQL 15's answers, by a query answered once and by a view over rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.session import Session

TABLE = (
    "CREATE TABLE g (id INT PRIMARY KEY, i INT, j INT, b BIGINT, n NUMERIC(12, 3), s TEXT, u TEXT, d DATE, e DATE, ts TIMESTAMP, "
    "tz TIMESTAMPTZ, a INT[], sa TEXT[])"
)
ROWS = (
    "INSERT INTO g VALUES (1, 12, 18, 1000, 1234.567, 'abc', 'on', '2024-01-31', '2023-03-15', '2024-01-31 10:20:30.5', "
    "'2024-01-31 10:20:30+00', ARRAY[1, 2, 3, 4], ARRAY['x', 'y'])",
    "INSERT INTO g VALUES (2, -12, 0, -1000, -0.5, '', ' OFF ', '2024-02-29', '2024-02-29', '2024-02-29 23:59:59', "
    "'2024-02-29 23:59:59+00', CAST(ARRAY[] AS INT[]), ARRAY['a b', NULL, ''])",
    "INSERT INTO g (id) VALUES (3)",
    "INSERT INTO g VALUES (4, 0, -7, 0, 0, 'O''Hara\\x', 'y', '2000-12-31', '1999-12-31', '2000-12-31 00:00:00', "
    "'2000-12-31 00:00:00+00', ARRAY[NULL, 7], NULL)",
)
# What PostgreSQL 15 gives for the rows 1, 2, 3 (all null) and 4, cast to texts.
EXPECTED: dict[str, tuple[str | None, ...]] = {
    "gcd(i, j)": ("6", "12", None, "7"),
    "lcm(i, j)": ("36", "0", None, "0"),
    "gcd(b, i)": ("4", "4", None, "0"),
    "date_bin('15 minutes', ts, timestamp '2001-01-01')": (
        "2024-01-31 10:15:00",
        "2024-02-29 23:45:00",
        None,
        "2000-12-31 00:00:00",
    ),
    "date_bin('2 hours 30 minutes', ts, timestamp '2024-03-01 00:01')": (
        "2024-01-31 10:01:00",
        "2024-02-29 21:31:00",
        None,
        "2000-12-30 23:01:00",
    ),
    "date_bin(interval '1 day', tz, timestamptz '2024-01-01 05:00+00')": (
        "2024-01-31 05:00:00+00",
        "2024-02-29 05:00:00+00",
        None,
        "2000-12-30 05:00:00+00",
    ),
    "(d, e) OVERLAPS (date '2023-03-15', date '2024-01-31')": ("true", "false", None, "false"),
    "(ts, interval '1 day') OVERLAPS (timestamp '2024-02-29', timestamp '2024-01-01')": (
        "true",
        "false",
        None,
        "false",
    ),
    "(d, NULL) OVERLAPS (d, d)": (None, None, None, None),
    "quote_ident(s)": ("abc", '""', None, '"O\'Hara\\x"'),
    "quote_ident(s || 'select')": ("abcselect", '"select"', None, '"O\'Hara\\xselect"'),
    "quote_literal(s)": ("'abc'", "''", None, "E'O''Hara\\\\x'"),
    "quote_literal(i)": ("'12'", "'-12'", None, "'0'"),
    "make_time(abs(i), 5, 7.5)": ("12:05:07.5", "12:05:07.5", None, "00:05:07.5"),
    "u::boolean": ("true", "false", None, "true"),
    "a[1:2]": ("{1,2}", "{}", None, "{NULL,7}"),
    "a[2:]": ("{2,3,4}", "{}", None, "{7}"),
    "a[i:3]": ("{}", "{}", None, "{NULL,7}"),
    "a[3:2]": ("{}", "{}", None, "{}"),
    "sa[2:2]": ("{y}", "{NULL}", None, None),
    "i || a": ("{12,1,2,3,4}", "{-12}", "{NULL}", "{0,NULL,7}"),
    "a || i": ("{1,2,3,4,12}", "{-12}", "{NULL}", "{NULL,7,0}"),
    "a || a": ("{1,2,3,4,1,2,3,4}", "{}", None, "{NULL,7,NULL,7}"),
    "a || ARRAY[9]": ("{1,2,3,4,9}", "{9}", "{9}", "{NULL,7,9}"),
    "i || a || 5": ("{12,1,2,3,4,5}", "{-12,5}", "{NULL,5}", "{0,NULL,7,5}"),
    "sa || 'z'::text": ("{x,y,z}", '{"a b",NULL,"",z}', "{z}", "{z}"),
    "array_append(a, i)": ("{1,2,3,4,12}", "{-12}", "{NULL}", "{NULL,7,0}"),
    "array_prepend(i, a)": ("{12,1,2,3,4}", "{-12}", "{NULL}", "{0,NULL,7}"),
    "array_remove(a, 7)": ("{1,2,3,4}", "{}", None, "{NULL}"),
    "array_remove(a, NULL)": ("{1,2,3,4}", "{}", None, "{7}"),
    "ts + interval '1 month'": ("2024-02-29 10:20:30.5", "2024-03-29 23:59:59", None, "2001-01-31 00:00:00"),
    "ts - interval '1 month 2 days 03:00:00'": (
        "2023-12-29 07:20:30.5",
        "2024-01-27 20:59:59",
        None,
        "2000-11-27 21:00:00",
    ),
    "d + interval '1 year 3 days'": (
        "2025-02-03 00:00:00",
        "2025-03-03 00:00:00",
        None,
        "2002-01-03 00:00:00",
    ),
    "interval '1 month' + d": ("2024-02-29 00:00:00", "2024-03-29 00:00:00", None, "2001-01-31 00:00:00"),
    "ts + interval '1 month' * i": (
        "2025-01-31 10:20:30.5",
        "2023-02-28 23:59:59",
        None,
        "2000-12-31 00:00:00",
    ),
    "ts + make_interval(months => i, days => 2)": (
        "2025-02-02 10:20:30.5",
        "2023-03-02 23:59:59",
        None,
        "2001-01-02 00:00:00",
    ),
    "tz + interval '1 mon -1.5 seconds'": (
        "2024-02-29 10:20:28.5+00",
        "2024-03-29 23:59:57.5+00",
        None,
        "2001-01-30 23:59:58.5+00",
    ),
    "ts + interval '1 month ago'": (
        "2023-12-31 10:20:30.5",
        "2024-01-29 23:59:59",
        None,
        "2000-11-30 00:00:00",
    ),
    "ts - interval 'P1M2DT3H0.5S'": (
        "2023-12-29 07:20:30",
        "2024-01-27 20:59:58.5",
        None,
        "2000-11-27 20:59:59.5",
    ),
    "ts + interval '1-2'": ("2025-03-31 10:20:30.5", "2025-04-29 23:59:59", None, "2002-02-28 00:00:00"),
    "ts + interval '30'": ("2024-01-31 10:21:00.5", "2024-03-01 00:00:29", None, "2000-12-31 00:00:30"),
    "ts + interval '1.5 hours'": (
        "2024-01-31 11:50:30.5",
        "2024-03-01 01:29:59",
        None,
        "2000-12-31 01:30:00",
    ),
    "d - interval '1 decade'": ("2014-01-31 00:00:00", "2014-02-28 00:00:00", None, "1990-12-31 00:00:00"),
    "concat(s, i, NULL, i > 0)": ("abc12t", "-12f", "", "O'Hara\\x0f"),
    "format('%s of %s%%', i, s)": ("12 of abc%", "-12 of %", " of %", "0 of O'Hara\\x%"),
    "to_hex(i)": ("c", "fffffff4", None, "0"),
    "ts::time": ("10:20:30.5", "23:59:59", None, "00:00:00"),
    "extract(epoch from interval '1 day 02:00:00.5')": (
        "93600.500000",
        "93600.500000",
        "93600.500000",
        "93600.500000",
    ),
    "(interval '1 day 2 hours')::text": ("1 day 02:00:00",) * 4,
    "ts + '1 hour'": ("2024-01-31 11:20:30.5", "2024-03-01 00:59:59", None, "2000-12-31 01:00:00"),
    "d + make_time(1, 2, 3)": ("2024-01-31 01:02:03", "2024-02-29 01:02:03", None, "2000-12-31 01:02:03"),
    "(i, j) = (12, 18)": ("true", "false", None, "false"),
    "(i, j) <> (0, -7)": ("true", "true", None, "false"),
    "(i, j) < (12, 19)": ("true", "true", None, "true"),
    "(i, j) >= (-12, 0)": ("true", "true", None, "true"),
    "NOT (i, j) = (12, 18)": ("false", "true", None, "true"),
    "row(i, s) is null": ("false", "false", "true", "false"),
    "row(i, sa) is not null": ("true", "true", "false", "false"),
    "to_char(ts, 'Month|MONTH|month|FMMonth|Mon|MON|mon')": (
        "January  |JANUARY  |january  |January|Jan|JAN|jan",
        "February |FEBRUARY |february |February|Feb|FEB|feb",
        None,
        "December |DECEMBER |december |December|Dec|DEC|dec",
    ),
    "to_char(ts, 'Day|DAY|day|FMDay|Dy|DY|dy|RM|FMrm')": (
        "Wednesday|WEDNESDAY|wednesday|Wednesday|Wed|WED|wed|I   |i",
        "Thursday |THURSDAY |thursday |Thursday|Thu|THU|thu|II  |ii",
        None,
        "Sunday   |SUNDAY   |sunday   |Sunday|Sun|SUN|sun|XII |xii",
    ),
    "to_char(ts, 'HH:HH12:HH24:MI:SS.MS.US.FF3 SSSS AM a.m.')": (
        "10:10:10:20:30.500.500000.500 37230 AM a.m.",
        "11:11:23:59:59.000.000000.000 86399 PM p.m.",
        None,
        "12:12:00:00:00.000.000000.000 0 AM a.m.",
    ),
    "to_char(d, 'YYYY Y,YYY YYY YY Y IYYY IY CC J Q WW W IW D ID DDD IDDD BC')": (
        "2024 2,024 024 24 4 2024 24 21 2460341 1 05 5 05 4 3 031 031 AD",
        "2024 2,024 024 24 4 2024 24 21 2460370 1 09 5 09 5 4 060 060 AD",
        None,
        "2000 2,000 000 00 0 2000 00 20 2451910 4 53 5 52 1 7 366 364 AD",
    ),
    "to_char(d, 'FMDDth \"of\" FMMonth, FMMM/FMDD')": (
        "31st of January, 1/31",
        "29th of February, 2/29",
        None,
        "31st of December, 12/31",
    ),
    "to_char(tz, 'YYYY-MM-DD\"T\"HH24:MI:SS TZ OF')": (
        "2024-01-31T10:20:30 UTC +00",
        "2024-02-29T23:59:59 UTC +00",
        None,
        "2000-12-31T00:00:00 UTC +00",
    ),
    "to_char(i, '999')": ("  12", " -12", None, "   0"),
    "to_char(i, '09')": (" 12", "-12", None, " 00"),
    "to_char(i, 'S99')": ("+12", "-12", None, " +0"),
    "to_char(i, '99MI')": ("12 ", "12-", None, " 0 "),
    "to_char(i, 'FM99PR')": ("12", "<12>", None, "0"),
    "to_char(n, '9,999.99')": (" 1,234.57", "     -.50", None, "      .00"),
    "to_char(n, '99.99')": (" ##.##", "  -.50", None, "   .00"),
    "to_char(n, 'FM9,990.099')": ("1,234.567", "-0.5", None, "0.0"),
    "to_char(n, 'FM9.99')": ("#.##", "-.5", None, "0."),
    "to_char(n, '0000D0')": (" 1234.6", "-0000.5", None, " 0000.0"),
    "to_char(b, '9G999S')": ("1,000+", "1,000-", None, "    0+"),
    "(i, j) IN ((12, 18), (0, 1))": ("true", "false", None, "false"),
    "(i, j) NOT IN ((12, 1), (0, NULL))": ("true", "true", None, None),
    "(i, j) BETWEEN (0, 0) AND (12, 18)": ("true", "false", None, "false"),
    "concat_ws('-', i, i > 0, s)": ("12-t-abc", "-12-f-", "", "0-f-O'Hara\\x"),
    "a @> ARRAY[NULL, 7]": ("false", "false", None, "false"),
    "to_char(n, 'FM99999999.')": ("1235", "-1", None, "0"),
    "to_date('70-02-28', 'YY-MM-DD') - i": ("1970-02-16", "1970-03-12", None, "1970-02-28"),
    "to_date('69-02-28', 'YY-MM-DD') + i": ("2069-03-12", "2069-02-16", None, "2069-02-28"),
    "to_timestamp('991231', 'YYMMDD')": ("1999-12-31 00:00:00+00",) * 4,
    "ts + interval '-1 02:00'": ("2024-01-30 12:20:30.5", "2024-02-29 01:59:59", None, "2000-12-30 02:00:00"),
}


def shown(value: object) -> str | None:
    """Return a value as PostgreSQL writes it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case list():
            return "{" + ",".join(_item(part) for part in value) + "}"
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
            text = text.rstrip("0") if "." in text else text
            return text + ("+00" if value.tzinfo is not None else "")
        case datetime.time():
            return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()
    return str(value)


def _item(part: object) -> str:
    text = shown(part)
    if text is None:
        return "NULL"
    return f'"{text}"' if not text or " " in text else text


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[dict[tuple[str, str], tuple[str | None, ...]]]:
    """The answers by door and expression: all expressions are asked at once."""
    folder: Path = tmp_path_factory.mktemp("functions")
    items = ", ".join(f"{text} AS x{n}" for n, text in enumerate(EXPECTED))
    found: dict[tuple[str, str], tuple[str | None, ...]] = {}
    with Session(folder.as_uri(), spark, "postgres") as session:
        session.sql(TABLE)
        for rows in ROWS:
            session.sql(rows)
        session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {items} FROM g")
        for door, query in (("query", f"SELECT id, {items} FROM g"), ("view", "SELECT * FROM v")):
            table = session.sql(f"SELECT * FROM ({query}) q ORDER BY id")
            assert table is not None
            for n, text in enumerate(EXPECTED):
                found[door, text] = tuple(shown(value) for value in table.column(f"x{n}").to_pylist())
    yield found


@pytest.mark.parametrize("door", ["query", "view"])
@pytest.mark.parametrize("text", EXPECTED)
def test_the_answer_is_that_of_postgresql(
    answers: dict[tuple[str, str], tuple[str | None, ...]], text: str, door: str
) -> None:
    assert answers[door, text] == EXPECTED[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gcd(n, i)", "gcd of anything but whole numbers"),
        ("date_bin('1 month', ts, ts)", "has months"),
        ("a || '{1}'", "a text beside an array"),
        ("to_char(i, '99EEEE')", "the format 99EEEE of a number"),
        ("to_char(CAST(i AS DOUBLE PRECISION), '99')", "to_char of a floating number"),
        ("ts + interval '1 month or so'", "the interval '1 month or so'"),
    ],
)
def test_what_cannot_be_said_exactly_is_refused_at_its_place(tmp_path: Path, text: str, said: str) -> None:
    with Session((tmp_path / "store").as_uri(), lambda: None, "postgres") as session:
        session.sql(TABLE)
        with pytest.raises(SqlError, match=said) as raised:
            session.sql(f"EXPLAIN SELECT id, {text} AS x FROM g")
        assert raised.value.line == 1
