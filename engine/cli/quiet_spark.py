"""A Spark for a command: what it says on standard error goes to a file, of which the end is shown if it does not start."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from engine.errors import EnvironmentNotReady, TidelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
SHOWN_LINES = 5


def start_spark(target: str | None) -> SparkSession:
    """Return a session of `sc://…`, of a master, or None for local[*]; raises EnvironmentNotReady if there will be none.

    An error of a statement is raised, and reported by whoever catches it: that Spark logs it too helps nobody at a prompt.
    """
    from pyspark.logger import PySparkLogger

    from engine.runtime.spark.session import connect

    for name in PYSPARK_LOGGERS:
        # of PySpark's own class, which gives its loggers arguments that no other takes
        PySparkLogger.getLogger(name).disabled = True
    if target and target.startswith("sc://"):
        return connect(target)
    with tempfile.TemporaryFile() as log, _redirect_stderr(log):
        try:
            made = connect(target)
        except TidelineError:
            raise
        except Exception as error:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()[-SHOWN_LINES:]
            why = str(error).strip().splitlines() or [type(error).__name__]
            raise EnvironmentNotReady("\n  ".join([f"Spark did not start: {why[0]}", *lines])) from error
        made.sparkContext.setLogLevel("OFF")
    return made


@contextmanager
def _redirect_stderr(log: IO[bytes]) -> Iterator[None]:
    """Let processes that are started within have `log` as their standard error, for as long as they live."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
