"""Moments in the past: which epoch of a table one is, and where in the statement it is named."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import SqlError
from engine.hummock import Version
from engine.hummock.epoch import COUNTER_BITS, epoch_at, epoch_text
from engine.meta.catalog_store import StoredCatalog
from engine.meta.frontier import frontiers
from engine.sql.moments import Moment
from engine.sql.refusals import line_and_column


@contextmanager
def place_of_moment(sql: str) -> Iterator[None]:
    """Give an error that has no place that of the moment which the statement names, if it does."""
    try:
        yield
    except SqlError as error:
        pattern = r"\b(SYSTEM_TIME|TIMESTAMP|VERSION)\s+AS\s+OF"
        found = None if error.line else re.search(pattern, sql, re.IGNORECASE)
        if found is None:
            raise
        line, column = line_and_column(sql, found.start())
        raise SqlError(error.message, sql=sql, line=line, column=column, hint=error.hint) from error


def epoch_of(moment: Moment, table: str, version: Version, stored: StoredCatalog) -> int:
    """Return the epoch of a moment; raises SqlError for one in the future, or that a view has not reached."""
    if moment.epoch is not None:
        if moment.epoch > version.epoch:
            raise SqlError(
                f"epoch {epoch_text(moment.epoch)} of table {table} lies in the future: the newest is "
                f"{epoch_text(version.epoch)}",
                hint="leave FOR SYSTEM_TIME AS OF out to read the newest",
            )
        epoch = moment.epoch
    else:
        seconds = time.time() - moment.ago if moment.ago is not None else moment.seconds
        assert seconds is not None
        if seconds > time.time() + 1:
            raise SqlError(
                f"the moment at which table {table} is to be read lies in the future",
                hint="leave FOR SYSTEM_TIME AS OF out to read the newest",
            )
        epoch = min(version.epoch, epoch_at(seconds) | ((1 << COUNTER_BITS) - 1))
    frontier = frontiers(version, stored.order, stored.inputs)[table].frontier
    if frontier is None or (moment.epoch is not None and frontier < epoch):
        known = "nothing yet" if frontier is None else f"epoch {epoch_text(frontier)}"
        raise SqlError(
            f"view {table} reflects {known}, which is before epoch {epoch_text(epoch)}",
            hint="run FLUSH first",
        )
    return min(epoch, frontier)
