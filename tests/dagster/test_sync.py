"""What a run tells of models that the store refuses: their place in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.change_plan import plan_models
from dagster_tideline.models.loader import load_models
from dagster_tideline.sync import sync_models
from engine.session import Session
from tests.connectors.s3a import WITHOUT_S3A

TABLE = "CREATE TABLE t (a INT PRIMARY KEY, n INT);\n\n"
WRONG = [
    ("-- Told.\nCREATE MATERIALIZED VIEW v AS\n  SELECT a, x FROM t;\n", "x", 5, 13),
    ("-- check: n > 0\nCREATE MATERIALIZED VIEW v AS SELECT n, x FROM t;\n", "x", 4, 41),
    (
        "-- Told.\n-- check: n > 0\n-- check: m > 0\nCREATE MATERIALIZED VIEW v AS SELECT a, n FROM t;\n",
        "m",
        4,
        11,
    ),
    (
        "-- check: n > 0\nCREATE MATERIALIZED VIEW v WITH (parallelism = '1') AS\nSELECT n,\n  x FROM t;\n",
        "x",
        6,
        3,
    ),
    pytest.param(
        "-- check: n > 0\n-- delta: s3://b/v\nCREATE MATERIALIZED VIEW v AS SELECT a, n FROM t;\n",
        "s3a://b/v:",
        4,
        11,
        marks=WITHOUT_S3A,
    ),
    (
        "-- delta: s3://b/v\n-- check: m > 0\nCREATE MATERIALIZED VIEW v AS SELECT a, n FROM t;\n",
        "m",
        4,
        11,
    ),
    ("-- delta: s3://b/v\nCREATE MATERIALIZED VIEW v AS SELECT x FROM t;\n", "x", 4, 38),
]


@pytest.mark.parametrize(("view", "name", "line", "column"), WRONG)
def test_a_model_that_is_refused_is_told_at_its_place_in_the_file(
    tmp_path: Path, spark: SparkSession, view: str, name: str, line: int, column: int
) -> None:
    text = TABLE + view
    (tmp_path / "m.sql").write_text(text)
    models = load_models(tmp_path)
    assert [model.error for model in models] == [None, None]
    with Session((tmp_path / "store").as_uri(), spark) as session:
        report = sync_models(session, models)
    assert report.created == ("t",)
    message = report.errors["v"]
    shown = text.splitlines()[line - 1]
    assert message.startswith("m.sql: ") and f" {name}" in message.splitlines()[0], message
    assert f"\n  line {line}, column {column}:\n    {shown}\n    {' ' * (column - 1)}^" in message, message


def test_what_reads_a_mistyped_model_by_its_new_name_is_told(tmp_path: Path, spark: SparkSession) -> None:
    def write_models(first: str, query: str) -> None:
        view = f"CREATE MATERIALIZED VIEW {first} AS {query};\n"
        (tmp_path / "a.sql").write_text(TABLE + view)
        (tmp_path / "b.sql").write_text(f"CREATE MATERIALIZED VIEW w AS SELECT n FROM {first};\n")

    with Session((tmp_path / "store").as_uri(), spark) as session:
        write_models("v", "SELECT a, n FROM t")
        assert not sync_models(session, load_models(tmp_path)).errors
        for wrong in ("SELECT a, x AS n FROM t", "SELECT a, n FROM"):
            write_models("u", wrong)
            (tmp_path / "a.sql").write_text(
                (tmp_path / "a.sql").read_text().replace("CREATE MAT", "-- renamed from: v\nCREATE MAT")
            )
            models = load_models(tmp_path)
            assert plan_models(session, models)["w"].change == "refused"
            errors = sync_models(session, models).errors
            assert errors.keys() == {"u", "w"}
            assert errors["w"].startswith("b.sql: ") and " u" in errors["w"]
            assert session.catalog.get("w").depends_on == ("v",)
        write_models("v", "SELECT a, n FROM t")
        assert not sync_models(session, load_models(tmp_path)).errors
