"""VARCHAR(n) and CHAR(n): texts of n characters at most, as PostgreSQL keeps them.

A longer text is refused, unless all that is too much are blanks, which go. Of CHAR(n) blanks at the end mean nothing: they are
not kept, so that comparisons, lengths and concatenations are those of PostgreSQL; nothing is padded.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp

from engine.sql.catalog import Column

_KIND = exp.DataType.Type
_FIXED = (_KIND.CHAR, _KIND.NCHAR)
_VARYING = (_KIND.VARCHAR, _KIND.NVARCHAR)


def length_of(kind: exp.DataType, dialect: str) -> tuple[int | None, bool]:
    """Return how many characters a type takes, None for any number, and whether it is a CHAR; in PostgreSQL CHAR is CHAR(1)."""
    fixed = kind.this in _FIXED
    if not fixed and kind.this not in _VARYING:
        return None, False
    if kind.expressions and kind.expressions[0].name.isdigit():
        return int(kind.expressions[0].name), fixed
    return (1, True) if fixed and dialect != "spark" else (None, False)


def shown_type(column: Column) -> str:
    """Return the type of a column as users write it."""
    if column.length is None:
        return column.type
    return f"{'char' if column.fixed else 'varchar'}({column.length})"


def fitted(
    values: pa.ChunkedArray | pa.Array, column: Column
) -> tuple[pa.ChunkedArray | pa.Array, pa.ChunkedArray | pa.Array]:
    """Return texts as a column keeps them, and those that are too long for it."""
    assert column.length is not None
    if column.fixed:
        values = pc.utf8_rtrim(values, characters=" ")
    over = pc.fill_null(pc.greater(pc.utf8_length(values), column.length), False)
    if not pc.any(over).as_py():
        return values, values.slice(0, 0)
    cut = pc.utf8_slice_codeunits(values, 0, column.length)
    rest = pc.utf8_slice_codeunits(values, column.length)
    only_blanks = pc.equal(pc.utf8_rtrim(rest, characters=" "), "")
    wrong = values.filter(pc.and_(over, pc.invert(pc.fill_null(only_blanks, True))))
    return pc.if_else(over, cut, values), wrong


def too_long(text: str, column: Column) -> str | None:
    """Return what is wrong with a text that a column cannot keep, else None."""
    assert column.length is not None
    rest = text[column.length :]
    if not rest.strip(" "):
        return None
    shown = text if len(text) <= 40 else f"{text[:37]}…"
    return f"'{shown}' has {len(text)} characters, column {column.name} is {shown_type(column)}"
