"""Types of a view's columns as PostgreSQL has them: what a new table gets, and what a table that is there may have.

Method: one table of conversions by the type of the column here. Rows are staged in the type that a new table would get, so that
nothing is lost on the way, and PostgreSQL assigns the staged value to the column that it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.sql.catalog import RelationColumn
from engine.sql.typing.json_documents import is_document
from engine.sql.typing.types import decimal_digits, element_type

JSONB = "jsonb"
_MADE: Mapping[str, str] = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "varchar": "text",
    "char": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "time": "time without time zone",
    "interval": "interval",
    "decimal": "numeric",
}
"""What a new table gets, by the family of the type here."""
_TAKEN: Mapping[str, tuple[str, ...]] = {
    "boolean": ("bool",),
    "tinyint": ("int2", "int4", "int8"),
    "smallint": ("int2", "int4", "int8"),
    "int": ("int4", "int8"),
    "bigint": ("int8",),
    "float": ("float4",),
    "double": ("float8",),
    "string": ("text", "varchar"),
    "varchar": ("text", "varchar"),
    "char": ("text", "varchar"),
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp": ("timestamptz",),
    "timestamp_ntz": ("timestamp",),
    "time": ("time",),
    "interval": ("interval",),
    "decimal": ("numeric",),
}
"""Types of PostgreSQL that hold every value of a family and tell the same keys apart."""
_TEXTS = ("uuid", JSONB, "json", "enum")
"""What takes a text in a form of its own; a row with another text is refused."""
_DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_PLAIN = ("real", "double precision")
_FINEST = 6
"""So many digits of a second the times here have."""


class TargetType(NamedTuple):
    """A type of a column there, of a domain the one below it; "enum" is the name of each enum, `element` that of array items.

    `length` is that of a varchar, `digits` are precision and scale of a numeric or the digits of a second; None: unlimited.
    """

    name: str
    element: str
    shown: str
    length: int | None = None
    digits: tuple[int, int] | None = None


def find_family(kind: str) -> str:
    """Return the name of a type without its digits.

    >>> find_family("decimal(10,2)"), find_family("time(6)"), find_family("interval day to second")
    ('decimal', 'time', 'interval')
    """
    return kind.partition("(")[0].partition(" ")[0]


def is_json(column: RelationColumn) -> bool:
    """Tell whether values of a column become JSON there: documents, structs, maps, and lists of what is no scalar."""
    return is_document(column) or not _is_scalar_or_list(column.type)


def _is_scalar_or_list(kind: str) -> bool:
    inner = element_type(kind)
    return find_family(kind if inner is None else inner) in _MADE


def choose_type(column: RelationColumn) -> str:
    """Return the type that a new table gets for a column."""
    if is_json(column):
        return "json" if column.sql_type == "json" else JSONB
    inner = element_type(column.type)
    return _choose_scalar(column.type) if inner is None else f"{_choose_scalar(inner)}[]"


def _choose_scalar(kind: str) -> str:
    digits = decimal_digits(kind)
    return f"numeric({digits[0]},{digits[1]})" if digits is not None else _MADE[find_family(kind)]


def choose_staging_type(column: RelationColumn) -> str:
    """Return the type in which a column is staged: it takes each value, so that no COPY into it fails."""
    return "text" if is_json(column) else choose_type(column)


def explain_misfit(column: RelationColumn, its: TargetType, *, in_key: bool) -> str | None:
    """Return why a column there does not hold the values of one here, None if it does."""
    made = choose_type(column)
    if is_json(column):
        if its.name in (JSONB, "json", "text"):
            return None
        return f"it holds JSON, which {its.shown} does not take"
    inner = element_type(column.type)
    if inner is not None:
        return None if its.element and _takes(inner, its.element, its) else f"{its.shown} is no {made}"
    if its.element:
        return f"{its.shown} is no {made}"
    if made == "text" and its.name in _TEXTS:
        if in_key and its.name != "uuid":
            return f"texts of a key that differ may be one {its.shown}"
        return None
    if not _takes(column.type, its.name, its):
        return f"{its.shown} does not hold every {made}"
    return None


def _takes(kind: str, name: str, its: TargetType) -> bool:
    """Tell whether a scalar type there, with the digits of `its`, takes the values of one here."""
    family = find_family(kind)
    if family in ("timestamp", "timestamp_ntz", "time", "interval") and its.digits is not None:
        return name in _TAKEN[family] and its.digits[1] >= _FINEST
    if name == "numeric" and (family in _DIGITS or family == "decimal"):
        own = decimal_digits(kind) or (_DIGITS[family], 0)
        if its.digits is None:
            return True
        return its.digits[1] >= own[1] and its.digits[0] - its.digits[1] >= own[0] - own[1]
    return name in _TAKEN.get(family, ())


def explain_key(column: RelationColumn) -> str | None:
    """Return why a column cannot be in the key of a table there, None if it can."""
    if is_json(column):
        return f"column {column.name} of the key is {column.visible_type}, whose values PostgreSQL compares in another way"
    return None


def render_cast(column: RelationColumn, its: TargetType) -> str:
    """Return what turns a staged value into one of a column there, "" where assigning does: a cast would cut a text."""
    staged = choose_staging_type(column)
    needs = staged == "text" and its.name not in ("text", "varchar")
    return f"::{its.shown}" if needs else ""
