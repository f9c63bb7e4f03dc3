"""VARCHAR(n) and CHAR(n): texts of n characters at most, as PostgreSQL keeps them.

A longer text is refused, unless all that is too much are blanks, which go. Of CHAR(n) blanks at the end mean nothing: they are
not kept, so that comparisons, lengths and concatenations are those of PostgreSQL; nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp

from engine.arrow import Column as Texts
from engine.arrow import choose_values, to_mask, to_positions
from engine.sql.catalog import RelationColumn
from engine.sql.dialect import Dialect

_KIND = exp.DataType.Type
_FIXED = (_KIND.CHAR, _KIND.NCHAR)
_VARYING = (_KIND.VARCHAR, _KIND.NVARCHAR)


def parse_length(kind: exp.DataType, dialect: Dialect) -> tuple[int | None, bool]:
    """Return how many characters a type takes, None for any number, and whether it is a CHAR; in PostgreSQL CHAR is CHAR(1)."""
    fixed = kind.this in _FIXED
    if not fixed and kind.this not in _VARYING:
        return None, False
    if kind.expressions and kind.expressions[0].name.isdigit():
        return int(kind.expressions[0].name), fixed
    return (1, True) if fixed and dialect != "spark" else (None, False)


def format_column_type(column: RelationColumn) -> str:
    """Return the type of a column as users write it."""
    if column.length is None:
        return column.visible_type
    return f"{'char' if column.fixed else 'varchar'}({column.length})"


@dataclass(frozen=True)
class FittedTexts:
    """Texts as a column keeps them; those that are too long for it, and the numbers of their rows."""

    fitted: Texts
    long: Texts
    places: pa.Int64Array


def fit_texts(values: Texts, column: RelationColumn) -> FittedTexts:
    """Return texts as a column keeps them, and those that are too long for it."""
    assert column.length is not None
    if column.fixed:
        values = pc.utf8_rtrim(values, characters=" ")
    lengths: Texts = pc.utf8_length(values)  # type: ignore[arg-type]  # the stubs want to know that they are texts
    over = to_mask(pc.greater(lengths, pa.scalar(column.length)))
    if not over.any():
        return FittedTexts(values, values.slice(0, 0), to_positions(np.empty(0, dtype=np.int64)))
    truncated = pc.utf8_slice_codeunits(values, 0, column.length)
    rest = pc.utf8_slice_codeunits(values, column.length)
    more = to_mask(pc.not_equal(pc.utf8_rtrim(rest, characters=" "), pa.scalar("", rest.type)))
    places = to_positions(np.flatnonzero(over & more))
    return FittedTexts(
        choose_values(pa.array(over, pa.bool_()), truncated, values), values.take(places), places
    )


def validate_length(text: str, column: RelationColumn) -> str | None:
    """Return what is wrong with a text that a column cannot keep, else None."""
    assert column.length is not None
    rest = text[column.length :]
    if not rest.strip(" "):
        return None
    excerpt = text if len(text) <= 40 else f"{text[:37]}…"
    return f"'{excerpt}' has {len(text)} characters, column {column.name} is {format_column_type(column)}"
