"""The bounds that conditions on now() become hold where DuckDB says that the conditions hold, to the microsecond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.expression.clock import FOREVER
from engine.sql.expression.nodes import Literal
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.incremental.temporal_filters import split_bounds
from engine.sql.plan import Filter, Node, list_children
from engine.sql.statements.reader import Select, parse_statement
from tests.oracle.batch import duckdb_over
from tests.runtime.clock.worlds import at

CONDITIONS = (
    "ts > now()",
    "ts >= now()",
    "ts < now()",
    "ts <= now()",
    "ts = now()",
    "now() > ts",
    "NOT (ts > now())",
    "ts > now() - INTERVAL '1 hour'",
    "ts <= now() + INTERVAL '1 day 02:30:00'",
    "ts BETWEEN now() - INTERVAL '1 hour' AND now() + INTERVAL '2 hours'",
    "now() BETWEEN ts AND ts + INTERVAL '1 month'",
    "now() - ts < INTERVAL '90 minutes'",
    "ts - now() >= INTERVAL '1 day'",
    "now() < ts + INTERVAL '1 month'",
    "date_trunc('day', ts) >= date_trunc('day', now()) - INTERVAL '7 days'",
    "ts > date_trunc('hour', now())",
    "ts >= date_trunc('week', now())",
    "ts <= date_trunc('week', now() - INTERVAL '3 hours')",
    "ts >= date_trunc('month', now()) - INTERVAL '1 month'",
    "ts < date_trunc('quarter', now())",
    "ts > date_trunc('year', now()) - INTERVAL '1 year'",
    "d = current_date",
    "d > current_date - 7",
    "d <= current_date + 1",
    "current_date - d < 7",
    "d >= CAST(now() AS DATE)",
    "CAST(ts AS DATE) = CAST(now() - INTERVAL '6 hours' AS DATE)",
    "ts > now() - INTERVAL '1 hour' AND ts > date_trunc('day', now()) AND d <= current_date",
)
TIMES = [
    datetime(2022, 1, 31, 12),
    datetime(2022, 1, 31),
    datetime(2022, 1, 30, 23, 59, 59, 999_999),
    datetime(2022, 2, 28, 23, 30),
    datetime(2022, 3, 1),
    datetime(2022, 3, 31, 1, 2, 3, 4),
    datetime(2021, 12, 31, 18),
    datetime(2022, 1, 3),
    datetime(2024, 2, 29),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
]


def _filter(node: Node) -> Filter:
    return node if isinstance(node, Filter) else _filter(list_children(node)[0])


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("d", pa.date32())])
    days = [date(2022, 1, 31), date(2022, 1, 1), date(2022, 2, 28), None, date(2024, 2, 29)]
    times = [*TIMES, None]
    return pa.table(
        {"id": range(len(times)), "ts": times, "d": [days[n % len(days)] for n in range(len(times))]},
        schema=schema,
    )


def test_bounds_hold_where_duckdb_says_that_the_conditions_hold(spark: SparkSession, rows: pa.Table) -> None:
    kinds = {"id": "bigint", "ts": "timestamp_ntz", "d": "date"}
    columns = tuple(RelationColumn(name, kind) for name, kind in kinds.items())
    made = Relation(name="ev", kind="table", columns=columns, primary_key=("id",), distribution_key=("id",))
    items = []
    for n, condition in enumerate(CONDITIONS):
        query = f"SELECT id FROM ev WHERE {condition}"
        statement = parse_statement(query, "postgres")
        assert isinstance(statement, Select)
        plan = bind(statement.query, Catalog({"ev": made}), dialect="postgres", sql=query).plan
        bounds = split_bounds(_filter(plan).predicate)
        assert bounds.rest is None
        enter = bounds.enter or Literal("-9223372036854775807", "bigint")
        leave = bounds.leave or Literal("9223372036854775807", "bigint")
        items += [f"{render_spark_sql(enter)} AS enter{n}", f"{render_spark_sql(leave)} AS leave{n}"]
    renamed = [f"{quote(name)} AS {quote(f'ev:{name}')}" for name in rows.column_names]
    found = spark.createDataFrame(rows).selectExpr(*renamed).selectExpr(*items, "`ev:id` AS id").toArrow()
    found = found.sort_by("id").to_pydict()
    with duckdb_over({"ev": rows}) as connection:
        for n, condition in enumerate(CONDITIONS):
            _compare(
                connection,
                condition,
                list(zip(found["id"], found[f"enter{n}"], found[f"leave{n}"], strict=True)),
            )


def _compare(
    connection: duckdb.DuckDBPyConnection, condition: str, bounds: list[tuple[int, int | None, int | None]]
) -> None:
    near = {b for _, *both in bounds for b in both if b is not None and 0 < b < 2 * 10**15 and b != FOREVER}
    moments = sorted(
        {b + step for b in near for step in (-1, 0, 1)} | {int(t.timestamp()) * 10**6 for t in TIMES[:3]}
    )
    for moment in moments:
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
        query = at(f"SELECT id FROM ev WHERE {condition} ORDER BY id", now)
        expected = [row[0] for row in connection.execute(query).fetchall()]
        inside = [
            i
            for i, enter, leave in bounds
            if enter is not None and leave is not None and enter <= moment < leave
        ]
        assert inside == expected, f"{condition} at {now}"
