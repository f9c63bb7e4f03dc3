"""Types of SQL, of Spark and of Arrow are the same types; a type that is told before Spark is asked is the one Spark gives."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from engine.errors import UnsupportedSql
from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.bind.scope import FromSource, Scope
from engine.sql.bind.subqueries import ExpressionSubqueries
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.plan import Node
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.statements.reader import CreateTable, Select, parse_statement
from engine.sql.typing.expression_types import find_wider_type, get_expr_type
from engine.sql.typing.types import from_arrow, to_arrow
from engine.sql.typing.wrong_literals import refuse_type
from tests.sql.catalog import table

# (type as written, in Spark, in Postgres and RisingWave)
WRITTEN = [
    ("INT", "int", "int"),
    ("INTEGER", "int", "int"),
    ("SMALLINT", "smallint", "smallint"),
    ("BIGINT", "bigint", "bigint"),
    ("REAL", "float", "float"),
    ("FLOAT", "float", "double"),
    ("DOUBLE PRECISION", "double", "double"),
    ("NUMERIC", "decimal(10,0)", "decimal(38,10)"),
    ("NUMERIC(12, 2)", "decimal(12,2)", "decimal(12,2)"),
    ("TEXT", "string", "string"),
    ("VARCHAR(10)", "string", "string"),
    ("BOOLEAN", "boolean", "boolean"),
    ("DATE", "date", "date"),
    ("TIMESTAMP", "timestamp", "timestamp_ntz"),
    ("TIMESTAMPTZ", "timestamp", "timestamp"),
    ("ARRAY<TIMESTAMP>", "array<timestamp>", "array<timestamp_ntz>"),
    ("MAP<STRING, ARRAY<INT>>", "map<string,array<int>>", "map<string,array<int>>"),
    (
        "STRUCT<a: INT, b: STRUCT<c: DATE>>",
        "struct<a:int,b:struct<c:date>>",
        "struct<a:int,b:struct<c:date>>",
    ),
]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize(("written", "spark", "other"), WRITTEN)
def test_a_written_type_is_the_dialects_own(written: str, spark: str, other: str, dialect: str) -> None:
    statement = parse_statement(f"CREATE TABLE t (id INT PRIMARY KEY, x {written})", dialect)
    assert isinstance(statement, CreateTable)
    assert statement.columns[1].type == (spark if dialect == "spark" else other)


@pytest.mark.parametrize("written", ["INTERVAL YEAR", "TIMETZ", "VARIANT", "DECIMAL(40, 2)"])
def test_a_type_that_no_column_can_have_is_refused(written: str) -> None:
    with pytest.raises(UnsupportedSql, match=r"column x: .*not offered"):
        parse_statement(f"CREATE TABLE t (id INT PRIMARY KEY, x {written})", "spark")


def test_a_map_of_no_rows_has_no_type_of_its_own() -> None:
    with pytest.raises(UnsupportedSql, match="a map whose keys have no type is not offered: CAST it"):
        to_arrow("map<void,void>")
    refuse_type("map<void,void>", "map<string,bigint>", "m", exp.null(), "INSERT INTO t VALUES (map())")


@pytest.mark.parametrize(
    "kind", sorted({spark for _, spark, _ in WRITTEN} | {"timestamp_ntz", "binary", "tinyint"})
)
def test_a_type_comes_back_from_arrow(kind: str) -> None:
    assert from_arrow(to_arrow(kind)) == kind


def test_arrow_types_that_hold_the_same_values_have_one_sql_type() -> None:
    kinds = [pa.large_string(), pa.string(), pa.dictionary(pa.int32(), pa.string())]
    assert {from_arrow(kind) for kind in kinds} == {"string"}
    assert from_arrow(pa.timestamp("ms", "Europe/Berlin")) == "timestamp"


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("int", "bigint", "bigint"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("float", "double", "double"),
        ("bigint", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("string", "bigint", None),
        ("boolean", "int", None),
        ("double", "string", None),
    ],
)
def test_two_types_meet_in_the_one_that_loses_nothing(one: str, other: str, common: str | None) -> None:
    assert find_wider_type(one, other) == find_wider_type(other, one) == common


COLUMNS = {
    "i": "int", "l": "bigint", "h": "smallint", "f": "float", "g": "double", "n": "decimal(10,2)", "s": "string",
    "d": "date", "t": "timestamp", "z": "timestamp_ntz", "b": "boolean",
}  # fmt: skip
EXPRESSIONS = [
    "i + 1", "i + l", "h * i", "i % 2", "i / 2", "g * 2", "-l", "i DIV 2", "l + g", "f * g", "i > 1 AND b", "s IS NULL", "i IN (1, 2)",
    "s LIKE 'x'", "NOT b", "CAST(n AS INT)", "CAST(i AS DECIMAL(12, 3))", "n", "1.5", "0.05", "3000000000", "1e3", "'x'",
    "CASE WHEN b THEN i ELSE 0 END", "IF(b, l, l + 1)", "coalesce(s, '')", "coalesce(i, 0)", "greatest(l, 1L + l)", "nullif(i, 0)",
    "upper(s)", "substring(s, 1, 2)", "concat(s, 'x')", "s || 'x'", "trim(s)", "replace(s, 'a', 'b')", "split_part(s, '/', 1)",
    "length(s)", "year(d)", "month(t)", "hour(t)", "dayofweek(d)", "quarter(d)", "datediff(d, d)", "date_add(d, 1)", "last_day(d)",
    "make_date(i, 1, 1)", "add_months(d, 1)", "date_trunc('month', t)", "date_trunc('day', d)", "date_trunc('day', z)",
    "date_format(t, 'yyyy')", "sqrt(g)", "ln(g)", "power(g, 2)", "floor(g)", "ceil(g)", "floor(i)", "ceil(l)", "round(g, 1)", "round(i)",
    "abs(i)", "abs(n)", "md5(s)", "hex(s)", "xxhash64(s)", "ascii(s)", "unix_micros(t)", "left(s, 2)",
    "n + 1", "n * 2", "n / 3", "n % 2", "n - i", "n * l", "n / n", "n * 1.5", "sum(n * (1 - n) * (1 + n))", "avg(n)", "avg(i)", "avg(g)",
    "CASE WHEN b THEN n ELSE 0 END", "coalesce(n, 0)", "greatest(n, i)", "sum(n) * 0.0001", "100.00 * sum(n) / sum(n)", "0.2 * avg(n)",
    "d + INTERVAL '1' MONTH", "d - INTERVAL '3' DAY", "d + INTERVAL '1' HOUR", "t + INTERVAL '1' DAY", "d + 1", "regexp_extract(s, 'a', 0)",
    "locate('a', s)", "array_contains(array(i), 1)", "lpad(s, 3, 'x')", "max_by(i, n)", "bool_or(b)", "stddev(g)", "corr(g, f)", "sign(g)",
    "bit_or(i)", "regr_slope(g, g)", "approx_count_distinct(s)", "levenshtein(s, s)", "repeat(s, 2)", "concat_ws(',', s)", "h + h", "n - n",
    "-2147483648", "-(2147483648)", "-9223372036854775808", "n * (2)", "n * -(2)", "n * -2",
    "-n", "round(n, 1)", "l * n * n * n", "cbrt(g)", "degrees(g)", "instr(s, 'a')", "extract(year FROM d)", "extract(second FROM t)", "to_date(s)",
    "datediff(HOUR, t, t)", "date_diff(DAY, d, t)", "timestampdiff(DAY, d, t)", "timestampadd(HOUR, 1, t)", "dateadd(DAY, i, d)",
    "date_add(MONTH, i, z)", "dateadd(d, 1)", "date_sub(d, 1)",
    "sum(i)", "sum(n)", "sum(g)", "sum(f)", "count(*)", "count(i)", "min(n)", "max(s)", "size(array(i))", "get_json_object(s, '$.a')",
]  # fmt: skip


def test_the_types_that_are_told_are_those_of_spark(spark: SparkSession) -> None:
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    items = ", ".join(f"typeof({text})" for text in EXPRESSIONS)
    (row,) = spark.sql(f"SELECT {items} FROM (SELECT {columns}) GROUP BY ALL").collect()
    kinds = {text: kind for text in EXPRESSIONS if (kind := _told(text)) is not None}
    assert len(kinds) > 60
    wrong = {
        text: (kinds[text], kind)
        for text, kind in zip(EXPRESSIONS, row, strict=True)
        if kinds.get(text, kind) != kind
    }
    assert wrong == {}


def _told(text: str) -> str | None:
    """Return the type that the front end is certain of."""
    statement = parse_statement(f"SELECT {text} AS x FROM t", "spark")
    assert isinstance(statement, Select)
    item = statement.query.expressions[0].this
    scope = Scope("", [FromSource("t", some_plan(), tuple((name, name) for name in COLUMNS))])
    types = dict(COLUMNS)
    keys = JoinKeys(types, lambda base: base, "", [])
    subqueries = ExpressionSubqueries(
        scope, keys, Equalities(), set(), lambda query, outer: BoundQuery(some_plan(), ())
    )
    refuse = lambda what, node, hint: UnsupportedSql(what)  # noqa: E731
    return get_expr_type(ExpressionBinder(scope, refuse, types, "spark", subqueries).build_tree(item), types)


def some_plan() -> Node:
    """Return some plan; the scope asks for its column names only."""
    catalog = Catalog({"t": table("t", {"id": "int"}, "id")})
    query = parse_statement("SELECT id FROM t", "spark").query  # type: ignore[union-attr]
    return bind(query, catalog, dialect="spark", sql="").plan


def test_a_relation_survives_json() -> None:
    relation = Relation(
        name="t", kind="table", columns=(RelationColumn("id", "bigint", False),), primary_key=("id",)
    )
    assert msgspec.json.decode(msgspec.json.encode(relation), type=Relation) == relation
