"""The examples that Spark prints of its own functions: what a view would compute of each is what the example gives.

Method: `DESCRIBE FUNCTION EXTENDED` of every function; each `SELECT …` becomes the query of a view, whose stored expressions are
printed again and asked of Spark beside the example itself. Aggregates are built over a table of the example's rows, which come in
two epochs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Project
from tests.oracle.batch import assert_equal

_EXAMPLE = re.compile(r"> (SELECT .*?);", re.DOTALL)
_OVER_VALUES = re.compile(r"FROM\s+(VALUES .*? AS \w+\s*\([^)]*\))(.*)$", re.IGNORECASE | re.DOTALL)
_ANY_ROW = ("any_value", "first", "last")
"""What they give depends on the order of rows."""


def examples(spark: SparkSession) -> Iterator[str]:
    """Yield the examples of all functions, each once."""
    seen: set[str] = set()
    for (name,) in spark.sql("SHOW FUNCTIONS").collect():
        if not re.fullmatch(r"\w+", name):
            continue
        text = "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect())
        for found in _EXAMPLE.finditer(text):
            if found[1] not in seen:
                seen.add(found[1])
                yield found[1]


def _rows(spark: SparkSession, query: str) -> list[str] | None:
    """Return the rows of a query as texts, None if Spark itself refuses it."""
    try:
        return [str(tuple(row)) for row in spark.sql(query).collect()]
    except PySparkException:
        return None


@pytest.mark.oracle
def test_an_expression_that_a_view_stores_gives_what_spark_gives_for_the_example(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    same, wrong = 0, []
    for example in examples(session.spark):
        wanted = None if re.search(r"\bFROM\b", example, re.IGNORECASE) else _rows(session.spark, example)
        if wanted is None:
            continue
        body = example.removeprefix("SELECT ")
        try:
            session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT t.id, {body} AS shown FROM t", build=False)
        except TidelineError:
            continue  # refused, and said so
        plan = load_catalog(session.store.refresh()).plans["v"].fragments[-1].plan
        session.sql("DROP MATERIALIZED VIEW v")
        stored = dict(plan.items).get("shown") if isinstance(plan, Project) else None
        if stored is None or stored.column is not None:
            continue  # rows of a function that gives rows
        if _rows(session.spark, f"SELECT {render_spark_sql(stored)}") == wanted:
            same += 1
        else:
            wrong.append(f"{example}: {render_spark_sql(stored)}")
    assert not wrong and same > 700


@pytest.mark.oracle
def test_an_aggregate_over_rows_of_two_epochs_gives_what_spark_gives_for_all(session: Session) -> None:
    same, wrong = 0, []
    for number, example in enumerate(examples(session.spark)):
        found = _OVER_VALUES.search(example)
        if found is None or " OVER " in example or any(f"{name}(" in example for name in _ANY_ROW):
            continue
        head, source, rest = example[: found.start()], found[1], found[2]
        batch = f"{head} FROM (SELECT * FROM {source} UNION ALL SELECT * FROM {source}) AS tab {rest}"
        if _rows(session.spark, batch) is None:
            continue
        try:
            session.sql(f"CREATE TABLE t{number} AS SELECT * FROM {source}")
            session.sql(f"CREATE MATERIALIZED VIEW v{number} AS {head} FROM t{number} {rest}")
        except TidelineError:
            continue  # refused, and said so
        session.sql(f"INSERT INTO t{number} SELECT * FROM {source}")
        session.sql("FLUSH")
        content = session.sql(f"SELECT * FROM v{number}")
        assert content is not None
        session.sql(f"DROP TABLE t{number} CASCADE")
        try:
            assert_equal(content, session.spark.sql(batch).toArrow(), example)
            same += 1
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong and same > 100
