"""The statements by which staged changes become rows of a table: deletions, upserts, and what replaces all rows."""

from __future__ import annotations

from collections.abc import Sequence

from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.sink.rows import TargetColumn
from engine.connectors.postgres.sink.types import choose_staging_type, render_cast
from engine.log_store.changes import DELETE

STAGING = "pg_temp.tideline_changes"
"""The temporary table of the changes of one transaction: their number, operation, and the columns c0, c1, …"""
NullPattern = frozenset[str]
"""Which columns of a key are null in a row."""
_SIGNED = ("float", "double")
"""Types with two values that are one key: of a row that stays the key may be written in the other way."""


def render_staging(columns: Sequence[TargetColumn]) -> str:
    """Return the statement that makes the staging table."""
    texts = ", ".join(f"c{n} {choose_staging_type(one.column)}" for n, one in enumerate(columns))
    return f"CREATE TEMPORARY TABLE tideline_changes (n bigint, op smallint, {texts}) ON COMMIT DROP"


def render_deletion(table: str, columns: Sequence[TargetColumn], nulls: NullPattern) -> str:
    """Return the statement that deletes rows by keys that have nulls in just these columns."""
    conditions = [f"s.op = {DELETE}", *_match_key(columns, nulls)]
    return f"DELETE FROM {table} AS t USING {STAGING} AS s WHERE {' AND '.join(conditions)}"


def _match_key(columns: Sequence[TargetColumn], nulls: NullPattern) -> list[str]:
    conditions = []
    for n, one in enumerate(columns):
        name = quote_name(one.column.name)
        if one.column.name in nulls:
            conditions += [f"t.{name} IS NULL", f"s.c{n} IS NULL"]
        elif one.in_key:
            conditions.append(f"t.{name} = s.c{n}{render_cast(one.column, one.type)}")
    return conditions


def render_replacement(table: str, columns: Sequence[TargetColumn]) -> list[str]:
    """Return the statements after which a table has no row that is not staged; without a key it has none at all."""
    keys = [quote_name(one.column.name) for one in columns if one.in_key]
    if not keys:
        return [f"DELETE FROM {table}"]
    null = " OR ".join(f"t.{name} IS NULL" for name in keys)
    there = " AND ".join(_match_key(columns, frozenset()))
    return [
        f"DELETE FROM {table} AS t WHERE {null}",
        f"DELETE FROM {table} AS t WHERE NOT EXISTS (SELECT FROM {STAGING} AS s WHERE {there})",
    ]


def render_upsert(table: str, columns: Sequence[TargetColumn], part: tuple[int, int] | None = None) -> str:
    """Return the statement that brings new rows, those with numbers from the first up to the second of `part` if there is one."""
    names = [quote_name(one.column.name) for one in columns]
    values = ", ".join(f"s.c{n}{render_cast(one.column, one.type)}" for n, one in enumerate(columns))
    text = (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {STAGING} AS s WHERE s.op <> {DELETE}"
    )
    if part is not None:
        text += f" AND s.n >= {part[0]} AND s.n < {part[1]}"
    keys = [quote_name(one.column.name) for one in columns if one.in_key]
    if not keys:
        return text
    new = [
        f"{quote_name(one.column.name)} = EXCLUDED.{quote_name(one.column.name)}"
        for one in columns
        if not one.in_key or one.column.type in _SIGNED
    ]
    then = f"UPDATE SET {', '.join(new)}" if new else "NOTHING"
    return f"{text} ON CONFLICT ({', '.join(keys)}) DO {then}"
