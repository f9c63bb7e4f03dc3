"""SQL files of a pipeline: the statements that Spark's pipelines have, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.pipelines.elements import Elements
from engine.pipelines.spec import PipelineSpec
from engine.pipelines.sql_file import read_column_names, read_sql_files


def read(folder: Path, text: str) -> Elements:
    """Return what a file of SQL defines."""
    file = folder / "a.sql"
    file.write_text(text)
    found = Elements()
    read_sql_files(PipelineSpec("p", folder, (file,), "cat", "db"), found)
    return found


def test_datasets_with_what_is_said_of_their_files(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """-- first
        CREATE OR REFRESH MATERIALIZED VIEW IF NOT EXISTS db.`a b` (x INT COMMENT 'as (x)', y STRING)
        USING delta PARTITIONED BY (x) CLUSTER BY AUTO COMMENT 'it''s' TBLPROPERTIES ('a' = 'b')
        AS SELECT 1 AS x, 'AS' AS y;
        CREATE TEMPORARY VIEW v AS SELECT 1 AS one;
        CREATE STREAMING TABLE s;
        CREATE FLOW f AS INSERT INTO s BY NAME SELECT 2 AS two;
        """,
    )
    assert [(one.name, one.kind, one.schema, one.comment) for one in found.datasets] == [
        (("db", "a b"), "materialized view", ("x", "y"), "it's"),
        (("v",), "temporary view", None, ""),
        (("s",), "streaming table", None, ""),
    ]
    assert [(flow.target, flow.text, flow.error) for flow in found.flows] == [
        (("db", "a b"), "SELECT 1 AS x, 'AS' AS y", ""),
        (("v",), "SELECT 1 AS one", ""),
        (("s",), "SELECT 2 AS two", ""),
    ]
    assert found.datasets[0].place == "a.sql:2" and not found.others


def test_use_and_set_hold_for_what_follows(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """CREATE MATERIALIZED VIEW a AS SELECT 1 AS x; USE other; SET spark.sql.a = b;
        CREATE MATERIALIZED VIEW b AS SELECT 1 AS x; USE CATALOG c; USE SCHEMA d; CREATE MATERIALIZED VIEW e AS SELECT 1 AS x;
        USE f.g; CREATE MATERIALIZED VIEW h AS SELECT 1 AS x""",
    )
    assert [one.home for one in found.datasets] == [("cat", "db"), ("cat", "other"), ("c", "d"), ("f", "g")]
    assert [flow.conf for flow in found.flows] == [{}, *([{"spark.sql.a": "b"}] * 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t AS SELECT 1", "no statement of a pipeline"),
        ("CREATE VIEW v AS SELECT 1", "no statement of a pipeline"),
        ("DROP TABLE t", "no statement of a pipeline"),
        ("CREATE FLOW f AS SELECT 1", "is no flow"),
        ("CREATE FLOW f INSERT INTO t SELECT 1", "is not read here"),
        ("SET x", "sets nothing"),
        ("SELECT 'a", "a.sql"),
    ],
)
def test_other_statements_are_told_and_cost_no_other(text: str, message: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"CREATE MATERIALIZED VIEW a AS SELECT 1 AS x;\n{text}")
    assert [message in one.reason or message in one.place for one in found.others] == [True]
    assert len(found.datasets) == (0 if "'a" in text else 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW a (CONSTRAINT c EXPECT (x > 1)) AS SELECT 1 AS x", "an expectation"),
        ("CREATE MATERIALIZED VIEW a SCHEDULE EVERY 1 HOUR AS SELECT 1 AS x", "SCHEDULE is not read here"),
        ("CREATE STREAMING TABLE a; CREATE FLOW f AS INSERT INTO a SELECT 1 AS x", "BY NAME"),
        ("CREATE STREAMING TABLE a; CREATE FLOW f AS AUTO CDC INTO a FROM STREAM b KEYS (x)", "AUTO CDC"),
    ],
)
def test_a_dataset_that_cannot_be_is_known_with_its_reason(text: str, message: str, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert [one.name for one in found.datasets] == [("a",)]
    assert message in found.flows[0].error


def test_a_schema_is_read_for_its_names() -> None:
    assert read_column_names("a INT NOT NULL, `b c` STRUCT<x: INT>, d DECIMAL(10, 2) COMMENT 'd'") == (
        "a",
        "b c",
        "d",
    )
    with pytest.raises(SqlError, match="cannot be read"):
        read_column_names("a INT,, (")
