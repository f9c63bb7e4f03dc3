"""WITH options of tables and sources: an unknown connector or option is refused when the table is made, with its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from engine.connectors.registry import CONNECTORS
from engine.connectors.source_statements import as_pass_through, validate_source
from engine.errors import PathNotAllowed, SourceError, SqlError, StorageError
from engine.meta.epochs.idle_timeout import IDLE_TIMEOUT
from engine.runtime.writes.watermarks import LATE_ROWS
from engine.sql.catalog import ROWS_LIVE
from engine.sql.parsing.statement_errors import locate_character, unsupported_error_at
from engine.sql.statements.statement_types import CreateTable

_DURATION = re.compile(r"[1-9]\d{0,8}\s*(second|minute|hour|day|week)s?", re.IGNORECASE)
_CONNECTOR = "connector"


class WatermarkOption(NamedTuple):
    """One option of tables with a watermark: which values fit, in words, and what it means."""

    fits: Callable[[str], bool]
    form: str
    meaning: str


WATERMARK_OPTIONS: Mapping[str, WatermarkOption] = {
    LATE_ROWS: WatermarkOption(
        lambda value: value in ("count", "keep"),
        "'count' or 'keep'",
        "what becomes of rows below the watermark: they are counted, or kept in _dead_letter as well",
    ),
    IDLE_TIMEOUT: WatermarkOption(
        lambda value: _DURATION.fullmatch(value.strip()) is not None,
        "'1 minute'",
        "for how long the table may get no row before views of several inputs wait for it no more; without it for ever",
    ),
}
_OF_ROWS = ("ttl", "ttl_seconds")
"""How other systems call the time that rows live."""
RETENTION_OF_ANY = "unsafe_enable_storage_retention_for_non_append_only_tables"


def check_table_options(statement: CreateTable, *, any_retention: bool = False) -> None:
    """Raise UnsupportedSql, with the place, for a connector or an option of CREATE TABLE or CREATE SOURCE that there is not.

    With `any_retention` rows of any table may hide by their age, not only those of one that is APPEND ONLY.
    """
    of_rows = (ROWS_LIVE, *WATERMARK_OPTIONS)
    if statement.pass_through and ROWS_LIVE in statement.options:
        hint = "leave it out: no row of a source is kept"
        raise _build_error(statement, ROWS_LIVE, f"{ROWS_LIVE} is no option of a source", hint)
    options = {name: value for name, value in statement.options.items() if name not in of_rows}
    for name in statement.options.keys() & WATERMARK_OPTIONS.keys():
        _check_watermark_option(statement, name)
    if ROWS_LIVE in statement.options:
        _check_retention(statement, any_retention)
    connector = options.get(_CONNECTOR)
    if connector is not None and statement.watermark is not None and statement.watermark.ttl:
        _check_ttl(statement)
    if connector is None:
        for name in options:
            raise _build_error(statement, name, *_explain_unknown_option(name))
        return
    offered = CONNECTORS.list_plugins()
    if connector not in offered:
        hint = _suggest_name(connector, tuple(offered)) or f"connectors are {', '.join(offered)}"
        raise _build_error(statement, _CONNECTOR, f"there is no connector '{connector}'", hint)
    known = offered[connector].options
    for name in options:
        if name != _CONNECTOR and name not in known:
            hint = _suggest_name(name, tuple(known)) or f"options are {', '.join(known)}"
            raise _build_error(statement, name, f"the connector {connector} has no option {name}", hint)
    if not statement.columns and not offered[connector].discovers_columns:
        hint = "write its columns: (id BIGINT PRIMARY KEY, …)"
        raise _build_error(
            statement, _CONNECTOR, f"the connector {connector} does not know the columns of a table", hint
        )
    unfit = validate_source(statement, offered[connector]) if statement.pass_through else None
    unfit = unfit or offered[connector].validate(as_pass_through(statement, offered[connector]))
    if unfit is not None:
        at = unfit.option if unfit.option in statement.places else _CONNECTOR
        raise _build_error(statement, at, unfit.message, unfit.hint)


@contextmanager
def locate_path_errors(statement: CreateTable) -> Iterator[None]:
    """Let a connector look at what feeds a table; raises SqlError, with the place of its path, for what it cannot read there."""
    try:
        yield
    except (SourceError, PathNotAllowed, StorageError) as error:
        at = statement.places.get("path", statement.places.get(_CONNECTOR, 0))
        line, column = locate_character(statement.sql, at)
        raise SqlError(str(error), sql=statement.sql, line=line, column=column) from error


def _check_watermark_option(statement: CreateTable, name: str) -> None:
    """Raise UnsupportedSql for an option of tables with a watermark that this table cannot have, or a value that it has not."""
    option, value = WATERMARK_OPTIONS[name], statement.options[name]
    if statement.watermark is None:
        hint = "add WATERMARK FOR ts AS ts - INTERVAL '5 minutes' to the columns, or leave it out"
        raise _build_error(statement, name, f"{name} is an option of tables with a watermark", hint)
    if not option.fits(value):
        raise _build_error(
            statement, name, f"{name} = '{value}' means nothing", f"write {name} = {option.form}"
        )


def _check_retention(statement: CreateTable, any_retention: bool) -> None:
    """Refuse a time that is none, and tables of which a row may be changed after it has gone from sight."""
    try:
        seconds = float(statement.options[ROWS_LIVE])
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        message = f"{ROWS_LIVE} is a number of seconds above 0, not {statement.options[ROWS_LIVE]}"
        raise _build_error(statement, ROWS_LIVE, message, f"WITH ({ROWS_LIVE} = 3600)")
    if statement.watermark is not None and statement.watermark.ttl:
        message = f"{ROWS_LIVE} beside WITH TTL of the watermark: rows can leave a table in one way only"
        raise _build_error(statement, ROWS_LIVE, message, "leave one of the two out")
    if statement.append_only and statement.primary_key:
        hint = "leave PRIMARY KEY out: rows are distinct without it, and a key could come again once its row is gone"
        raise _build_error(
            statement, ROWS_LIVE, f"{ROWS_LIVE} of an APPEND ONLY table with a PRIMARY KEY", hint
        )
    if not statement.append_only and not any_retention:
        hint = f"say APPEND ONLY, or SET {RETENTION_OF_ANY} = true: views do not see that a row has gone"
        raise _build_error(statement, ROWS_LIVE, f"{ROWS_LIVE} of a table that is not APPEND ONLY", hint)


def _check_ttl(statement: CreateTable) -> None:
    """Refuse connectors into tables WITH TTL of which a row may come again: they do not look for the one that is there."""
    if statement.primary_key or not statement.append_only:
        hint = "say APPEND ONLY, and leave PRIMARY KEY out"
        message = "a connector feeds a table WITH TTL only if each of its rows comes once"
        raise _build_error(statement, _CONNECTOR, message, hint)


def _explain_unknown_option(name: str) -> tuple[str, str]:
    """Return what is wrong with an option of a table that names no connector, and what was probably meant."""
    if difflib.get_close_matches(name, (_CONNECTOR,), 1, 0.8):
        return f"there is no option {name} of a table", f"did you mean {_CONNECTOR}?"
    if name in _OF_ROWS:
        return f"there is no option {name} of a table", f"did you mean {ROWS_LIVE}?"
    owners = [connector.name for connector in CONNECTORS.list_plugins().values() if name in connector.options]
    if owners:
        return f"{name} is an option of connectors", f"add connector = '{owners[0]}', or leave it out"
    return (
        f"there is no option {name} of a table",
        f"a table without a connector has no options but {ROWS_LIVE}",
    )


def _suggest_name(name: str, known: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(name.lower(), known, 1)
    return f"did you mean {found[0]}?" if found else ""


def _build_error(statement: CreateTable, option: str, message: str, hint: str) -> Exception:
    return unsupported_error_at(message, statement.sql, statement.places.get(option, 0), hint)
