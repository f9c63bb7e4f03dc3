"""Spark's log of exceptions: those of calls that Tideline makes are reported by its own errors, and not logged once more."""

from __future__ import annotations

import logging
import sys
from types import FrameType

from pyspark.logger import PySparkLogger

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PACKAGE = __name__.partition(".")[0]


class OwnCallFilter(logging.Filter):
    """Lets a record pass unless a function of this package is being called: others are logged as before."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is to be logged."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name != __name__ and name.partition(".")[0] == _PACKAGE:
                return False
            frame = frame.f_back
        return True


def silence_own_calls() -> None:
    """Take the exceptions of this package's calls out of Spark's log."""
    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if not any(isinstance(known, OwnCallFilter) for known in logger.filters):
            logger.addFilter(OwnCallFilter())
