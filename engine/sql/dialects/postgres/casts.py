"""Casts that PostgreSQL does not have: numbers are no moments, and of them INT alone is a truth value."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.typing.expression_types import is_number

_KIND = exp.DataType.Type
_WHOLE = (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT)
_NUMBERS = (*_WHOLE, _KIND.DECIMAL, _KIND.FLOAT, _KIND.DOUBLE)
_MOMENTS = (
    _KIND.DATE,
    _KIND.TIMESTAMP,
    _KIND.TIMESTAMPNTZ,
    _KIND.TIMESTAMPTZ,
    _KIND.TIMESTAMPLTZ,
    _KIND.TIME,
)
_OF_TIME = ("date", "timestamp", "timestamp_ntz", "time(6)")


def refuse_cast(source: str | None, target: exp.DataType) -> None:
    """Raise NotSaid for a cast of a type that is certain, which Spark has and PostgreSQL has not."""
    if source is None:
        return
    kind, hint = target.this, ""
    if is_number(source) and kind in _MOMENTS:
        hint = "write to_timestamp(seconds), or date '1970-01-01' + days"
    elif source in _OF_TIME and kind in _NUMBERS:
        hint = "write EXTRACT(EPOCH FROM …)"
    elif kind == _KIND.BOOLEAN and is_number(source) and source != "int":
        hint = "compare it: n <> 0"
    elif source == "boolean" and kind in _NUMBERS and kind != _KIND.INT:
        hint = "CAST it to int first"
    if hint:
        raise Untranslatable(f"a cast of {source} to {target.sql('postgres').lower()}", hint)
