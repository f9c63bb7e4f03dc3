"""What a query is bound to has the rows that DuckDB gives for the query as it was written."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet
from pyspark.sql import SparkSession

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.statements.reader import Select, parse_statement
from engine.sql.typing.types import from_arrow
from tests.oracle.batch import assert_equal, by_duckdb
from tests.sql.plan_query import plan_query

FIXTURE = Path(__file__).with_name("queries.sql")
ROWS = 25
EVERY = 12


def tables() -> dict[str, pa.Table]:
    """Return small tables full of nulls, duplicates and values without a match."""
    chance = random.Random(11)

    def some(values: list[object], kind: pa.DataType, n: int = ROWS) -> pa.Array:
        return pa.array([chance.choice(values) for _ in range(n)], kind)

    def numbered(**columns: pa.Array) -> pa.Table:
        n = len(next(iter(columns.values())))
        return pa.table({"id": pa.array(range(1, n + 1), pa.int64()), **columns})

    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    return {
        "t": numbered(
            a=some([1, 2, 3, None], pa.int64()),
            b=some([1, 2, 3, 4, 5, None], pa.int32()),
            s=some(["x", "y", "zed", None], pa.string()),
            d=some([*days, None], pa.date32()),
            m=some([Decimal("1.50"), Decimal("2.25"), Decimal("10.00"), None], pa.decimal128(10, 2)),
        ),
        "u": numbered(
            a=some([2, 3, 4, None], pa.int64()),
            c=some([1, 2, 3, None], pa.int32()),
            s=some(["x", "y", "why", None], pa.string()),
        ),
        "v": numbered(a=some([1, 2, 3], pa.int64(), 6), c=some([1, 2], pa.int32(), 6)),
        "w": numbered(n=some([[1, 2], [], None, [3, None]], pa.list_(pa.int32()), 8)),
        "nothing": numbered(a=some([1], pa.int64(), 0), c=some([1], pa.int32(), 0)),
    }


def catalog() -> Catalog:
    """Return the catalog of those tables; the column a of v is never null."""
    relations = {}
    for name, rows in tables().items():
        columns = tuple(
            RelationColumn(f.name, from_arrow(f.type), f.name != "id" and name != "v") for f in rows.schema
        )
        relations[name] = Relation(
            name=name, kind="table", columns=columns, primary_key=("id",), distribution_key=("id",)
        )
    return Catalog(relations)


def queries() -> list[ParameterSet]:
    """Return (title, query) of every query of the fixture; all but a few carry the marker `oracle`."""
    found = []
    for n, block in enumerate(FIXTURE.read_text().split("\n-- ")[1:]):
        title, _, query = block.partition("\n")
        marks = () if n % EVERY == 0 else (pytest.mark.oracle,)
        found.append(pytest.param(title.strip(), query.strip(), id=title.strip(), marks=marks))
    return found


@pytest.fixture(scope="module")
def spark_tables(spark: SparkSession) -> SparkSession:
    """The session with the tables as views."""
    for name, rows in tables().items():
        spark.createDataFrame(rows).coalesce(1).cache().createOrReplaceTempView(name)
    return spark


@pytest.mark.parametrize(("title", "query"), queries())
def test_a_bound_query_has_the_rows_of_duckdb(title: str, query: str, spark_tables: SparkSession) -> None:
    statement = parse_statement(query, "postgres")
    assert isinstance(statement, Select)
    bound = bind(statement.query, catalog(), dialect="postgres", sql=query)
    mine = spark_tables.sql(plan_query(bound.plan, bound.columns)).toArrow()
    assert_equal(mine, by_duckdb(tables(), query), title)
    key = plan_query(bound.plan, tuple((f"k{n}", column) for n, column in enumerate(bound.plan.key)))
    keys = [tuple(row) for row in spark_tables.sql(key).collect()] if bound.plan.key else []
    assert len(set(keys)) == len(keys), "the plan's key is not one"
