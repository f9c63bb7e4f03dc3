"""A SELECT of constants is answered at once, and as Spark answers it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.runtime.reads.constants import evaluate_constants
from engine.session import Session
from engine.sql.statements.reader import Select, parse_statement

CONSTANTS = [
    "SELECT 1",
    "SELECT 2147483647, 2147483648 AS more",
    "SELECT 9223372036854775807",
    "SELECT 'a text', TRUE, false AS no",
    "SELECT 'it''s'",
    "SELECT 1 AS `a name`, 'a \"text\" of é' AS text",
]
NOT_CONSTANTS = [
    "SELECT -1",
    "SELECT 1.5",
    "SELECT 9223372036854775808",
    "SELECT NULL",
    r"SELECT 'a\tb'",
    "SELECT 1 LIMIT 0",
    "SELECT 1 WHERE FALSE",
    "SELECT DISTINCT 1",
    "SELECT 1 + 1",
    "SELECT 1 UNION ALL SELECT 1",
    "SELECT 1 FROM t",
    "SELECT current_date()",
]


def _folded(text: str) -> pa.Table | None:
    statement = parse_statement(text, "spark")
    assert isinstance(statement, Select)
    return evaluate_constants(statement.query, statement.sql)


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants_have_the_names_the_types_and_the_values_that_spark_gives_them(
    text: str, spark: SparkSession
) -> None:
    folded, computed = _folded(text), spark.sql(text).toArrow()
    assert folded is not None
    assert [(f.name, f.type) for f in folded.schema] == [(f.name, f.type) for f in computed.schema]
    assert folded.to_pylist() == computed.to_pylist()


@pytest.mark.parametrize("text", NOT_CONSTANTS)
def test_everything_else_is_left_to_spark(text: str) -> None:
    assert _folded(text) is None


def test_a_session_answers_constants_without_a_spark(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), "spark://127.0.0.1:1") as session:
        answer = session.sql("SELECT 1 AS one")
        assert answer is not None and answer.to_pylist() == [{"one": 1}]
        assert session.on_demand.started is None
