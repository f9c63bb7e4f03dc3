"""What Postgres means by an expression is what Spark computes for it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.sql.binder import bind
from engine.sql.catalog import Catalog
from engine.sql.plan import Project
from engine.sql.statements import Select, parse
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
}
# (expression of Postgres, what it means in Spark SQL, its value as psql shows it)
MEANINGS = [
    ("i / 2", "CAST(`t:i` DIV 2 AS INT)", 3),
    ("neg / 2", "CAST(`t:neg` DIV 2 AS INT)", -3),
    ("(i + 1) / 3", "CAST((`t:i` + 1) DIV 3 AS INT)", 2),
    ("big / 1", "CAST(`t:big` DIV 1 AS BIGINT)", 9007199254740993),
    ("i / 2.0", "`t:i` / 2.0", Decimal("3.500000")),
    ("g / 2", "`t:g` / 2", 1.25),
    ("n::int", "CAST(ROUND(`t:n`, 0) AS INT)", 3),
    ("g::int", "CAST(BROUND(`t:g`, 0) AS INT)", 2),
    ("i::bigint", "CAST(`t:i` AS BIGINT)", 7),
    ("s::varchar(3)", "LEFT(CAST(`t:s` AS STRING), 3)", "Har"),
    ("d - e", "DATEDIFF(`t:d`, `t:e`)", 28),
    ("d + 1", "`t:d` + 1", datetime.date(2026, 3, 2)),
    ("extract(dow from d)", "(EXTRACT(DOW FROM `t:d`) - 1)", 0),
    ("extract(isodow from d)", "EXTRACT(DOW_ISO FROM `t:d`)", 7),
    ("extract(epoch from at)", "(UNIX_MICROS(CAST(`t:at` AS TIMESTAMP)) / 1000000)", 1772346600.0),
    ("at::timestamp", "CAST(`t:at` AS TIMESTAMP_NTZ)", datetime.datetime(2026, 3, 1, 6, 30)),
    ("n::numeric", "CAST(`t:n` AS DECIMAL(38, 10))", Decimal("2.5000000000")),
    ("log(100.0)", "LOG10(100.0)", 2.0),
    ("s ~* 'harb'", "`t:s` RLIKE ('(?i)' || 'harb')", True),
    ("s ~ 'harb'", "`t:s` RLIKE 'harb'", False),
    ("concat(s, NULL)", "CONCAT(COALESCE(`t:s`, ''), COALESCE(NULL, ''))", "Harbour"),
    ("neg % 4", "`t:neg` % 4", -3),
]


def expression_of(text: str, dialect: str) -> str:
    """Return an expression as the binder prints it."""
    catalog = Catalog({"t": table("t", {name: kind for name, (kind, _) in ROW.items()}, "id")})
    query = f"SELECT {text} AS x FROM t"
    statement = parse(query, dialect)
    assert isinstance(statement, Select)
    plan = bind(statement.query, catalog, dialect=dialect, sql=query).plan
    assert isinstance(plan, Project)
    return plan.items[0][1].sql


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


def test_spark_divides_as_spark_does() -> None:
    assert expression_of("i / 2", "spark") == "`t:i` / 2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("at AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("extract(century from d)", "CENTURY"),
        ("s SIMILAR TO 'x'", "SIMILAR TO"),
        ("i = ANY(ARRAY[1, 2])", "ANY or ALL"),
        ("generate_series(1, i)", "table function"),
        ("age(at)", "no function age"),
    ],
)
def test_what_spark_has_no_like_for_is_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        expression_of(text, "postgres")
