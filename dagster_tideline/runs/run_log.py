"""What a run tells while it works: what the engine warns of, where Spark shows its work, and that it was cancelled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from engine.runtime.spark import ui

ENGINE = "engine"
CANCELLED_TEXT = (
    "this run was ended before it was done: what it has committed stays, of what it was computing nothing is visible, "
    "and the next run goes on from there"
)


class _RunLogHandler(logging.Handler):
    """Passes what is warned of, and where Spark shows its work, on to the log of a run."""

    def __init__(self, log: dg.DagsterLogManager) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.name == ui.__name__

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.log(record.levelno, self.format(record))
        except Exception:  # Dagster's own storage may be in trouble, which is none of the engine's
            self.handleError(record)


@contextmanager
def forward_run_log(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> Iterator[None]:
    """Pass what the engine tells on to the log of a run as it comes; say what it means where the run is ended early."""
    passing, engine = _RunLogHandler(context.log), logging.getLogger(ENGINE)
    logging.getLogger(ui.__name__).setLevel(logging.INFO)
    engine.addHandler(passing)
    try:
        yield
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        context.log.warning(CANCELLED_TEXT)
        raise
    finally:
        engine.removeHandler(passing)
