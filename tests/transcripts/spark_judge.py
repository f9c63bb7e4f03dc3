"""Spark as a judge: the statements of a session over tables of Delta, views as views that are computed when they are read."""

from __future__ import annotations

import datetime
import os
import re
import tempfile
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from engine.jars import find_jar_paths
from tests.transcripts.postgres import Answer, asked
from tests.transcripts.script import Row, Step

_KEY = re.compile(r"\s+PRIMARY KEY\b(?!\s*\()|,\s*PRIMARY KEY\s*\([^)]*\)", re.IGNORECASE)
_TABLE = re.compile(r"^(CREATE TABLE\s[^;]*\))\s*$", re.IGNORECASE | re.DOTALL)


def answers(steps: list[Step]) -> list[Answer | None]:
    """Run the statements of a session in Spark, with a catalog in memory; None for those that the judge is not asked."""
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder.master("local[1]").config("spark.jars", ",".join(find_jar_paths()))
        for name, value in (
            ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
            ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
            ("spark.sql.warehouse.dir", folder),
            ("spark.sql.session.timeZone", "UTC"),
            ("spark.sql.shuffle.partitions", "1"),
            ("spark.ui.enabled", "false"),
        ):
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            return [_answer(spark, asked(step)) for step in steps]
        finally:
            spark.stop()


def _answer(spark: Any, text: str) -> Answer | None:
    if not text:
        return None
    statement = _TABLE.sub(
        r"\1 USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", _KEY.sub("", text)
    )
    try:
        found = spark.sql(statement).toArrow()
    except Exception as error:
        return Answer(None, [], str(error).split("\n")[0])
    if not re.match(r"\s*(SELECT|WITH|VALUES|FROM)\b", text, re.IGNORECASE):
        return Answer(None, [], None)
    kinds = [part.type for part in found.schema]
    rows: list[Row] = [
        [_shown(row[n].as_py(), kind) for n, kind in enumerate(kinds)]
        for row in zip(*found.columns, strict=True)
    ]
    return Answer([_name(kind) for kind in kinds], rows, None)


def _name(kind: pa.DataType) -> str:
    """Return PostgreSQL's name of a type, of which values compares the family."""
    if types.is_list(kind):
        return f"{_name(kind.value_type)}[]"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    tests = {
        "bigint": types.is_integer,
        "numeric": types.is_decimal,
        "double": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date,
        "binary": types.is_binary,
        "record": types.is_struct,
    }
    return next((name for name, test in tests.items() if test(kind)), "text")


def _shown(value: Any, kind: pa.DataType) -> str | None:
    if value is None:
        return None
    if types.is_list(kind):
        return "{" + ",".join(_item(_shown(item, kind.value_type), "NULL") for item in value) + "}"
    if types.is_struct(kind):
        return "(" + ",".join(_item(_shown(value[part.name], part.type), "") for part in kind) + ")"
    if types.is_boolean(kind):
        return "t" if value else "f"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if types.is_binary(kind):
        return "\\x" + bytes(value).hex()
    return str(value)


def _item(text: str | None, null: str) -> str:
    return null if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
