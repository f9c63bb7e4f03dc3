"""Moments in the past: where in the statement they are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import SqlError
from engine.sql.parsing.statement_errors import locate_character


@contextmanager
def locate_moment_errors(sql: str) -> Iterator[None]:
    """Give an error that has no place that of the moment which the statement names, if it does."""
    try:
        yield
    except SqlError as error:
        pattern = r"\b(SYSTEM_TIME|TIMESTAMP|VERSION)\s+AS\s+OF"
        found = None if error.line else re.search(pattern, sql, re.IGNORECASE)
        if found is None:
            raise
        line, column = locate_character(sql, found.start())
        raise SqlError(error.message, sql=sql, line=line, column=column, hint=error.hint) from error
