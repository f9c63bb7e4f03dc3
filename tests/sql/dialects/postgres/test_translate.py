"""What Postgres means by an expression is what Spark computes for it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.sql.batch.ad_hoc import to_spark
from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Project
from engine.sql.statements.reader import Select, parse_statement
from tests.oracle.batch import assert_equal, by_duckdb
from tests.sql.catalog import table

ROW = {
    "id": ("bigint", "1"),
    "i": ("int", "7"),
    "neg": ("int", "-7"),
    "big": ("bigint", "9007199254740993"),
    "n": ("decimal(10,2)", "2.50"),
    "g": ("double", "2.5"),
    "s": ("string", "'Harbour'"),
    "d": ("date", "'2026-03-01'"),
    "e": ("date", "'2026-02-01'"),
    "at": ("timestamp_ntz", "'2026-03-01 06:30:00'"),
    "z": ("timestamp", "'2026-03-01 06:30:00'"),
    "a": ("array<int>", "array(1, 2, 3)"),
    "m": ("map<int,string>", "map(0, 'zero', 1, 'one', 2, 'two')"),
    "least": ("int", "CAST(-2147483648 AS INT)"),
    "j": ("string", """'{"k": "v", "n": {"m": [10, null]}}'"""),
    "b": ("binary", "X'0AFF'"),
}
# (expression of Postgres, what it means in Spark SQL, its value as psql shows it)
MEANINGS = [
    ("i / 2", "CAST(`t:i` DIV 2 AS INT)", 3),
    ("neg / 2", "CAST(`t:neg` DIV 2 AS INT)", -3),
    ("(i + 1) / 3", "CAST((`t:i` + 1) DIV 3 AS INT)", 2),
    ("big / 1", "CAST(`t:big` DIV 1 AS BIGINT)", 9007199254740993),
    ("i / 2.0", "CAST(`t:i` AS DECIMAL(27,17)) / 2.0", Decimal("3.500000")),
    ("g / 2", "`t:g` / 2", 1.25),
    ("n::int", "CAST(round(`t:n`, 0) AS INT)", 3),
    ("g::int", "CAST(bround(`t:g`, 0) AS INT)", 2),
    ("i::bigint", "CAST(`t:i` AS BIGINT)", 7),
    ("s::varchar(3)", "left(CAST(`t:s` AS STRING), 3)", "Har"),
    ("d - e", "datediff(`t:d`, `t:e`)", 28),
    ("d + 1", "`t:d` + 1", datetime.date(2026, 3, 2)),
    ("extract(dow from d)", "EXTRACT(DOW FROM `t:d`) - 1", 0),
    ("extract(isodow from d)", "EXTRACT(DOW_ISO FROM `t:d`)", 7),
    ("extract(epoch from at)", "unix_micros(CAST(`t:at` AS TIMESTAMP)) / 1000000", 1772346600.0),
    ("at::timestamp", "CAST(`t:at` AS TIMESTAMP_NTZ)", datetime.datetime(2026, 3, 1, 6, 30)),
    ("decode('0aff', 'hex')::text", r"CAST('\\x' || lower(hex(unhex('0aff'))) AS STRING)", r"\x0aff"),
    ("n::numeric", "CAST(`t:n` AS DECIMAL(38,10))", Decimal("2.5000000000")),
    ("log(100.0)", "log10(100.0)", 2.0),
    ("s ~* 'harb'", "`t:s` RLIKE '(?i)' || 'harb'", True),
    ("s ~ 'harb'", "`t:s` RLIKE 'harb'", False),
    ("i = '7'", "`t:i` = 7", True),
    ("n = '2.50'", "`t:n` = 2.50", True),
    ("big = '9007199254740993'", "`t:big` = 9007199254740993", True),
    ("g > '-1e3'", "`t:g` > CAST('-1e3' AS DOUBLE)", True),
    ("neg IN ('-7', '8')", "`t:neg` IN (-7, 8)", True),
    ("i BETWEEN '1' AND '9'", "`t:i` BETWEEN 1 AND 9", True),
    ("i / '2'", "CAST(`t:i` DIV 2 AS INT)", 3),
    ("coalesce(NULL, i, '5')", "coalesce(NULL, `t:i`, 5)", 7),
    ("CASE WHEN i = '1' THEN i ELSE '5' END", "CASE WHEN `t:i` = 1 THEN `t:i` ELSE 5 END", 5),
    ("CASE i WHEN '7' THEN 'x' END", "CASE `t:i` WHEN 7 THEN 'x' END", "x"),
    ("s = '7'", "`t:s` = '7'", False),
    ("concat(s, NULL)", "concat(coalesce(`t:s`, ''), coalesce(NULL, ''))", "Harbour"),
    ("neg % 4", "`t:neg` % 4", -3),
    (r"'\xAA bb'::bytea", "X'AABB'", b"\xaa\xbb"),
    (r"'a\\b\001'::bytea", "X'615C6201'", b"a\\b\x01"),
    (r"E'\\xAA'::bytea", "X'AA'", b"\xaa"),
    (r"'\x'::bytea", "X''", b""),
    (r"b = '\x0aff'", "`t:b` = X'0AFF'", True),
    (r"b IN ('\x00', '\x0aff')", "`t:b` IN (X'00', X'0AFF')", True),
    (r"b BETWEEN '\x0a' AND '\x0b'", "`t:b` BETWEEN X'0A' AND X'0B'", True),
    (r"b || '\x01'", "`t:b` || X'01'", b"\x0a\xff\x01"),
    ("b::text", "CAST('\\\\x' || lower(hex(`t:b`)) AS STRING)", "\\x0aff"),
    ("i = ANY(ARRAY[1, 7])", "exists(array(1, 7), _e -> `t:i` = _e)", True),
    ("i > ALL(ARRAY[1, 7])", "forall(array(1, 7), _e -> `t:i` > _e)", False),
    ("(regexp_match(s, 'b(o)'))[1]", "if(`t:s` RLIKE 'b(o)', regexp_extract(`t:s`, 'b(o)', 1), NULL)", "o"),
]
# (expression of Postgres, its value as psql shows it)
VALUES = [
    ("regexp_match(s, 'a(r)(.)')", ["r", "b"]),
    ("regexp_match(s, 'zz')", None),
    ("(regexp_match(s, 'B(.)U', 'i'))[1]", "o"),
    ("pow(10.0, 4)", Decimal("10000.0000000000")),
    ("trunc(pow(10.0, 4) * (10445 / pow(10.0, 4) - 1.0))::int", 445),
    ("array_sum(ARRAY[1, NULL, 5])", 6),
    ("array_sum(ARRAY[]::int[])", None),
    ("array_sum(ARRAY[0.5, 1]::numeric[])", Decimal("1.5")),
    ("justify_hours(interval '27 hours')", datetime.timedelta(hours=27)),
    ("interval '2 days' > '1 day'", True),
    ("interval '2 days' + '1 hour'", datetime.timedelta(days=2, hours=1)),
    ("trunc(g)", 2),
    ("trunc(-2.57, 1)", Decimal("-2.5")),
    ("round(g)", 2.0),
    ("round(n, 1)", Decimal("2.5")),
    ("initcap('two-words here')", "Two-Words Here"),
    ("left(s, -2)", "Harbo"),
    ("right(s, -2)", "rbour"),
    ("left(s, 3)", "Har"),
    ("substring(s from 0 for 3)", "Ha"),
    ("substring(s from 2 for 3)", "arb"),
    ("substring(s, -1)", "Harbour"),
    ("substring(s from 'b(.)u')", "o"),
    ("strpos(s, 'b')", 4),
    ("position('x' in s)", 0),
    ("split_part('a,b,c', ',', -1)", "c"),
    ("to_char(at, 'YYYY-MM-DD HH24:MI:SS')", "2026-03-01 06:30:00"),
    ("(row(i, s)).f2", "Harbour"),
    ("make_timestamptz(2026, 1, 2, 3, 4, 5) = TIMESTAMPTZ '2026-01-02 03:04:05+00'", True),
    ("to_char(at, 'yyyy-mm-dd hh24:mi:ss')", "2026-03-01 06:30:00"),
    ("to_char(at + INTERVAL '7' HOUR, 'HH:MI')", "01:30"),
    ("to_char(at + INTERVAL '7' HOUR, 'HH12:mm')", "01:03"),
    ("to_char(at, 'YYYYMMDD')", "20260301"),
    ("to_date('2026-03-01', 'YYYY-MM-DD')", datetime.date(2026, 3, 1)),
    ("to_timestamp(1772346600) = z", True),
    ("date_trunc('month', at)", datetime.datetime(2026, 3, 1)),
    ("date_part('year', d)", 2026),
    ("regexp_replace('a-b-c', '-', '+')", "a+b-c"),
    ("regexp_replace('a-b-c', '-', '+', 'g')", "a+b+c"),
    (r"regexp_replace('ab12cd34', '([a-z])([0-9])', '\2\1')", "a1b2cd34"),
    ("regexp_replace('x$y', 'y', '$1')", "x$$1"),
    ("'abc' SIMILAR TO '%(b|d)_'", True),
    ("'abc' SIMILAR TO 'b_'", False),
    ("'a.c' NOT SIMILAR TO 'a.c'", False),
    ("a[1]", 1),
    ("a[9]", None),
    ("a[1 + 1]", 2),
    ("a[(3)]", 3),
    ("a[id]", 1),
    ("a[id + 1]", 2),
    ("a[2::bigint]", 2),
    ("a[CASE WHEN i > 3 THEN 2 ELSE 1 END]", 2),
    ("a[0]", None),
    ("a[-1]", None),
    ("a[neg]", None),
    ("a[least]", None),
    ("a[NULL::int]", None),
    ("(ARRAY[ARRAY[5, 6], ARRAY[7, 8]])[id + 1][id]", 7),
    ("(string_to_array('a.b.c', '.'))[id + 2]", "c"),
    ("m[1]", "one"),
    ("m[0]", "zero"),
    ("m[id]", "one"),
    ("m[id + 1]", "two"),
    ("j ->> 'k'", "v"),
    ("j -> 'k'", '"v"'),
    ("j -> 'n' ->> 'm'", "[10, null]"),
    ("j #>> '{n,m,0}'", "10"),
    ("j ? 'k'", True),
    ("encode(b, 'hex')", "0aff"),
    ("s::bytea", b"Harbour"),
    (r"lower('\xAABB')::bytea", b"\xaa\xbb"),
    (r"concat('\xAA', ' bb')::bytea", b"\xaa\xbb"),
    (r"concat('a\\b', '\001\377')::bytea", b"a\\b\x01\xff"),
    (r"b::text::bytea = b", True),
    ("to_hex(255)", "ff"),
    ("string_to_array('a.b', '.')", ["a", "b"]),
    ("string_to_array('', ',')", []),
    ("string_to_array('abc', '')", ["abc"]),
    ("string_to_array(NULL, '')", None),
    ("array_to_string(a, '-')", "1-2-3"),
    ("array_length(a, 1)", 3),
    ("array_length(array_remove(a, 1), 1)", 2),
    ("array_position(a, 7)", None),
    ("a @> ARRAY[1, 3]", True),
    ("ARRAY[1, 9] <@ a", False),
    ("a && ARRAY[9, 3]", True),
    ("2 = ANY(a)", True),
    ("i <> ALL(a)", True),
    ("d + interval '1 month'", datetime.datetime(2026, 4, 1)),
    ("at - interval '90 minutes'", datetime.datetime(2026, 3, 1, 5, 0)),
    ("at AT TIME ZONE 'Europe/Berlin' = z - interval '1 hour'", True),
    ("z AT TIME ZONE 'Europe/Berlin'", datetime.datetime(2026, 3, 1, 7, 30)),
    ("extract(century from d)", 21),
    ("extract(decade from d)", 202),
    ("extract(milliseconds from at)", Decimal("0.000000")),
    ("g::varchar(2)", "2."),
    ("(g * 1e15)::varchar(7)", "2.5e+15"),
    ("cast(g - g as char(3))", "0"),
    ("sqrt(i + 2)::text", "3"),
    ("(i * interval '90 minutes')::text", "10:30:00"),
    ("(interval '1 day' + (at - at))::varchar(3)", "1 d"),
    ("(-(interval '1 hour') / 2)::text", "-00:30:00"),
    ("s || NULL", None),
    ("concat_ws('-', s, NULL, 'x')", "Harbour-x"),
    ("btrim('xxaxx', 'x')", "a"),
    ("lpad('7', 3, '0')", "007"),
    ("neg % 4", -3),
    ("mod(7, -4)", 3),
    ("power(2, 10)", 1024.0),
    ("7 BETWEEN SYMMETRIC 9 AND 1", True),
    ("i IS DISTINCT FROM NULL", True),
    ("coalesce(NULL, i)", 7),
    ("NULL::int IS NULL", True),
    ("'t'::boolean", True),
    ("(1 = 1) IS NOT TRUE", False),
    ("greatest(1, NULL, 3)", 3),
]


def expression_of(text: str, dialect: str) -> str:
    """Return an expression as the binder prints it."""
    catalog = Catalog({"t": table("t", {name: kind for name, (kind, _) in ROW.items()}, "id")})
    query = f"SELECT {text} AS x FROM t"
    statement = parse_statement(query, dialect)
    assert isinstance(statement, Select)
    plan = bind(statement.query, catalog, dialect=dialect, sql=query).plan
    assert isinstance(plan, Project)
    return render_spark_sql(plan.items[0][1])


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
@pytest.mark.parametrize(("text", "meaning"), [(text, meaning) for text, meaning, _ in MEANINGS])
def test_an_expression_is_printed_with_the_meaning_that_it_has(text: str, meaning: str, dialect: str) -> None:
    assert expression_of(text, dialect) == meaning


def test_the_meanings_have_the_values_of_postgres_when_spark_computes_them(spark: SparkSession) -> None:
    columns = ", ".join(f"CAST({value} AS {kind}) AS `t:{name}`" for name, (kind, value) in ROW.items())
    items = ", ".join(meaning for _, meaning, _ in MEANINGS)
    (row,) = spark.sql(f"SELECT {items} FROM (SELECT {columns})").collect()
    differing = {
        text: (found, value) for (text, _, value), found in zip(MEANINGS, row, strict=True) if found != value
    }
    assert differing == {}


def test_expressions_of_postgres_have_their_values(spark: SparkSession) -> None:
    columns = ", ".join(f"CAST({value} AS {kind}) AS `t:{name}`" for name, (kind, value) in ROW.items())
    items = ", ".join(expression_of(text, "postgres") for text, _ in VALUES)
    (row,) = spark.sql(f"SELECT {items} FROM (SELECT {columns})").collect()
    differing = {
        text: (found, value) for (text, value), found in zip(VALUES, row, strict=True) if found != value
    }
    assert differing == {}


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
@pytest.mark.parametrize("name", ["json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"])
def test_json_aggregates_are_known_by_their_names(name: str, dialect: str) -> None:
    arguments = "s, i ORDER BY id" if "object" in name else "i ORDER BY id"
    assert expression_of(f"{name}({arguments})", dialect).startswith("`agg:json")


def test_an_instant_as_a_text_says_its_zone_as_its_dialect_does(spark: SparkSession) -> None:
    text = expression_of("z::text", "postgres").replace("`t:z`", "TIMESTAMP '2026-03-01 06:30:00.5'")
    assert spark.sql(f"SELECT {text}").first()[0] == "2026-03-01 06:30:00.5+00"
    assert expression_of("z::text", "risingwave") == "CAST(CAST(`t:z` AS STRING) || '+00:00' AS STRING)"


def test_lists_of_a_query_that_is_answered_once_are_those_of_duckdb(spark: SparkSession) -> None:
    calls = (
        "array_agg(x ORDER BY y DESC, x NULLS FIRST)",
        "array_agg(x ORDER BY x NULLS LAST) FILTER (WHERE y > 1)",
        "array_agg(x ORDER BY x) FILTER (WHERE y > 9)",
        "array_agg(DISTINCT x ORDER BY x DESC NULLS LAST)",
        "count(DISTINCT (x, y))",
        "string_agg(s, ', ' ORDER BY y DESC, s)",
        "string_agg(s, '' ORDER BY s NULLS FIRST) FILTER (WHERE y > 1)",
        "string_agg(DISTINCT s, '-' ORDER BY s DESC)",
        "string_agg(s, '-' ORDER BY s) FILTER (WHERE y > 9)",
    )
    rows = "(2, 1, 'b'), (NULL, 2, 'a'), (1, 2, NULL), (2, 3, 'a'), (NULL, 2, 'c')"
    query = f"SELECT {', '.join(calls)} FROM (VALUES {rows}) AS t(x, y, s)"
    parsed = parse_statement(query, "postgres")
    assert isinstance(parsed, Select)
    mine = spark.sql(to_spark(parsed.query, Catalog({}), "postgres")).toArrow()
    assert_equal(mine, by_duckdb({}, query), "lists")


def test_spark_divides_as_spark_does() -> None:
    assert expression_of("i / 2", "spark") == "`t:i` / 2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(s || s) AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("extract(julian from d)", "JULIAN"),
        ("s SIMILAR TO s", "a pattern that is no literal"),
        ("s SIMILAR TO 'a#%' ESCAPE '#'", "ESCAPE"),
        ("chr(300)", "above 127"),
        ("encode(b, 'escape')", "the encoding escape"),
        (r"'\xABC'::bytea", r"'\\xABC' is no bytea"),
        (r"'a\b'::bytea", r"'a\\b' is no bytea"),
        (r"b = '\xzz'", r"'\\xzz' is no bytea"),
        ("age(at)", "another value each time"),
        ("age(at, at)", "a span of months and days as a value"),
    ],
)
def test_what_spark_has_no_like_for_is_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        expression_of(text, "postgres")
