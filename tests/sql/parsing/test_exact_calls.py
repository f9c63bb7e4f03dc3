"""A call in Spark's dialect means what is written: its view has what Spark gives for the text itself."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.parsing.exact_calls import parse_exactly

ROWS = "VALUES (1L, 12454, TIMESTAMP '0005-02-03 04:05:06', 'month'), (2L, -7, TIMESTAMP '2024-11-12 13:14:15', 'year')"
CALLS = (
    "to_char(n, '99G999')",
    "to_char(ts, 'y-M')",
    "date_format(ts, 'y E')",
    "date_trunc(unit, ts)",
    "date_trunc('q', ts)",
    "trunc(ts, unit)",
    "trunc(ts, 'y')",
    "to_date('24', 'yy')",
    "date_format(to_timestamp('7/8/9', 'd/M/y'), 'yyyyy')",
    "variant_get(parse_json(concat('{\"a\": ', n, '}')), '$.a', 'int')",
    "unit LIKE ANY ('m%', 'x%')",
    "unit NOT LIKE ALL ('m%', 'x%')",
    "unit LIKE SOME ('m%')",
    "ts + INTERVAL -'2' YEAR",
    "hour(TIME '13:59:59')",
    "date_trunc('month', date_trunc(concat('d', 'ay'), ts))",
    "timestampdiff(SECOND, ts, timestampadd(HOUR, n, ts))",
    "timestampdiff(QUARTER, timestampadd(MONTH, 40, ts), ts)",
    "datediff(DAY, ts, dateadd(WEEK, 2, ts))",
    "date_add(MICROSECOND, n, ts)",
    "dateadd(to_date(ts), 3)",
    "time_diff('MINUTE', TIME '01:00:00', TIME '05:30:00')",
    "time_trunc('HOUR', TIME '05:30:00')",
)


@pytest.fixture
def moments(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, ts TIMESTAMP, unit STRING)")
    session.sql(f"INSERT INTO t {ROWS}")
    return session


def test_every_call_gives_what_its_text_gives(moments: Session) -> None:
    shown = ", ".join(f"{call} AS c{n}" for n, call in enumerate(CALLS))
    moments.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {shown} FROM t")
    source = f"({ROWS} AS t(id, n, ts, unit)) AS t"
    wanted = moments.spark.sql(f"SELECT id, {shown} FROM {source}").toArrow().to_pylist()
    found = moments.sql("SELECT * FROM v").to_pylist()
    asked = moments.sql(f"SELECT id, {shown} FROM t").to_pylist()
    for rows in (found, asked):
        assert sorted(rows, key=lambda row: row["id"]) == sorted(wanted, key=lambda row: row["id"])


def test_any_of_a_column_is_an_aggregate(moments: Session) -> None:
    moments.sql("CREATE MATERIALIZED VIEW v AS SELECT any(n > 0) AS some, any(n > 99999) AS none FROM t")
    assert moments.sql("SELECT * FROM v").to_pylist() == [{"some": True, "none": False}]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_a_unit_before_the_moments_stays_where_it_is(dialect: str) -> None:
    text = (
        "SELECT TIMESTAMPDIFF(SECOND, a, b), DATEDIFF(MONTH, a, b), DATEDIFF(a, b), DATE_ADD(HOUR, 3 + n, a), "
        "TIME_DIFF(unit, a, b), TIME_TRUNC(unit, a)"
    )
    assert parse_exactly(text, dialect).sql(dialect="spark") == text
    same = {"TIMESTAMPADD(DAY, n, a)": "DATE_ADD(DAY, n, a)", "date_diff(day, a, b)": "DATEDIFF(DAY, a, b)"}
    for written, printed in same.items():
        assert parse_exactly(f"SELECT {written}", dialect).sql(dialect="spark") == f"SELECT {printed}"


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_distinct_stands_before_two_arguments(dialect: str) -> None:
    text = "SELECT CORR(DISTINCT y, x), COVAR_SAMP(DISTINCT y, x), REGR_SXX(DISTINCT y, x), REGR_R2(DISTINCT y, x)"
    assert parse_exactly(text, dialect).sql(dialect="spark").upper() == text.upper()


def test_a_denied_pattern_of_an_array_stays_denied(session: Session) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE w (word TEXT PRIMARY KEY)")
    session.sql("INSERT INTO w VALUES ('abc'), ('xyz')")
    some, every = "word NOT LIKE ANY (ARRAY['a%', 'b%'])", "word NOT LIKE ALL (ARRAY['a%', 'b%'])"
    session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT word, {some} AS some, {every} AS every FROM w")
    wanted = [
        {"word": "abc", "some": True, "every": False},
        {"word": "xyz", "some": True, "every": True},
    ]
    assert session.sql("SELECT * FROM v ORDER BY word").to_pylist() == wanted
    asked = f"SELECT word, {some} AS some, {every} AS every FROM w ORDER BY word"
    assert session.sql(asked).to_pylist() == wanted


MOMENT = "TIMESTAMP '2024-03-05 06:07:08.123456'"
UNITS = {
    "us": "2024-03-05 06:07:08.123456",
    "milliseconds": "2024-03-05 06:07:08.123",
    "seconds": "2024-03-05 06:07:08",
    "mon": "2024-03-01",
    "qtr": "2024-01-01",
    "decade": "2020-01-01",
    "century": "2001-01-01",
    "millennium": "2001-01-01",
}


def test_the_units_of_postgres_are_those_of_its_date_trunc(session: Session) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE m (id INT PRIMARY KEY, ts TIMESTAMP, tz TIMESTAMPTZ, unit TEXT)")
    session.sql(
        f"INSERT INTO m VALUES (1, {MOMENT}, {MOMENT}, 'month'), (2, '2001-01-01', '2001-01-01', 'year')"
    )
    shown = ", ".join(f"date_trunc('{unit}', ts) AS {unit}" for unit in UNITS)
    session.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT id, {shown}, date_trunc('decade', tz)::date AS day FROM m"
    )
    first, second = session.sql("SELECT * FROM v ORDER BY id").to_pylist()
    assert {unit: first[unit] for unit in UNITS} == {
        u: datetime.fromisoformat(text) for u, text in UNITS.items()
    }
    assert first["day"].isoformat() == "2020-01-01" and second["day"].isoformat() == "2000-01-01"
    assert second["century"] == datetime(2001, 1, 1) and second["decade"] == datetime(2000, 1, 1)


@pytest.mark.parametrize("call", ["date_trunc('q', ts)", "date_trunc(unit, ts)", "date_part(unit, ts)"])
def test_a_unit_that_postgres_does_not_know_or_that_varies_is_refused(session: Session, call: str) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE m (id INT PRIMARY KEY, ts TIMESTAMP, unit TEXT)")
    with pytest.raises(SqlError, match=r"date_trunc of q|a unit of time that is no literal"):
        session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} AS r FROM m", build=False)


GIVEN = {
    "regexp_like('Hello World', 'world', 'i')": True,
    "regexp_like('Hello World', 'world', 'ic')": False,
    "string_to_array('xx~~yy~~zz', '~~', 'yy')": ["xx", None, "zz"],
    "make_timestamp(2013, 7, 15, 8, 15, 23.5)": datetime(2013, 7, 15, 8, 15, 23, 500_000),
    "encode('123\\000\\001', 'base64')": "MTIzAAE=",
    "encode('\\x616263', 'hex')": "616263",
}
REFUSED = (
    "regexp_like('a', 'b', 'x')",
    "ARRAY[1, 2]::text",
    "array_position(ARRAY[1, 2, 1], 1, 2)",
    "date_trunc('day', now(), 'Europe/Rome')",
)


def test_calls_of_postgres_keep_all_of_their_arguments(session: Session) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE one (id INT PRIMARY KEY)")
    session.sql("INSERT INTO one VALUES (1)")
    shown = ", ".join(f"{call} AS c{n}" for n, call in enumerate(GIVEN))
    session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {shown} FROM one")
    for query in ("SELECT * FROM v", f"SELECT {shown} FROM one"):
        found = session.sql(query).to_pylist()[0]
        assert [found[f"c{n}"] for n in range(len(GIVEN))] == list(GIVEN.values())


@pytest.mark.parametrize("call", REFUSED)
def test_what_a_call_would_lose_in_spark_is_refused(session: Session, call: str) -> None:
    session.dialect = "postgres"
    session.sql("CREATE TABLE one (id INT PRIMARY KEY)")
    for query in (
        f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} AS r FROM one",
        f"SELECT {call} AS r FROM one",
    ):
        with pytest.raises(SqlError):
            session.sql(query)


def test_words_that_begin_clauses_are_names_where_spark_takes_them_for_names(session: Session) -> None:
    session.sql("CREATE TABLE glob (offset BIGINT PRIMARY KEY, limit INT, format STRING)")
    session.sql("INSERT INTO glob (offset, limit, format) VALUES (1, 5, 'a'), (2, 5, 'b'), (3, 6, 'c')")
    grouped = "SELECT limit, count(*) AS n, max(offset) AS offset FROM glob WHERE offset > 0 GROUP BY limit"
    session.sql(f"CREATE MATERIALIZED VIEW lock AS {grouped}")
    session.sql("UPDATE glob SET limit = 6 WHERE offset = 1")
    session.sql("FLUSH")
    found = session.sql("SELECT limit, n, offset FROM lock ORDER BY limit LIMIT 5 OFFSET 1").to_pylist()
    assert found == [{"limit": 6, "n": 2, "offset": 3}]
