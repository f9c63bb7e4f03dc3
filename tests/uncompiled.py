"""Spark without code generation: for tests of many small plans, to compile each of which would cost more than to run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def uncompiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark interpret its plans within."""
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
