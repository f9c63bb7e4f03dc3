"""Spark without code generation: to compile the small plans of tests costs more than to run each of them once or twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = "TIDELINE_TESTS_COMPILED"
"""Where this is 1 in the environment the tests' Spark compiles its plans, as a user's does."""
_YOUNG = {"spark.driver.extraJavaOptions": "-Xmn512m"}
"""Most of what a test makes is garbage at its end: a large room for it is collected seldom."""
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def _wanted() -> dict[str, str]:
    return {} if os.environ.get(COMPILED) == "1" else SETTINGS


@contextmanager
def interpreting() -> Iterator[None]:
    """Have a Spark that is started within interpret its plans, in all its sessions; processes that tests start are not changed."""
    settings = _wanted()
    given = [f"--conf {name}={value}" for name, value in {**settings, **_YOUNG}.items()]
    os.environ[_ARGUMENTS] = " ".join([*given, "pyspark-shell"])
    try:
        yield
    finally:
        del os.environ[_ARGUMENTS]


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark compile its plans within."""
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    try:
        spark.conf.set("spark.sql.codegen.wholeStage", "true")
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@contextmanager
def uncompiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark interpret its plans within, unless all are to be compiled."""
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    try:
        for name, value in _wanted().items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
