"""What a place holds that tables could follow: tables found there, with types and keys, and the statements that follow them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import pyarrow as pa

from engine.errors import SourceError, SqlError, UnsupportedSql
from engine.sql.catalog import check_name
from engine.sql.column_names import match_columns
from engine.sql.expression.spark_sql import quote_text
from engine.sql.statements.relation_renaming import quote_part
from engine.sql.typing.types import field_names, from_arrow, quote_type

DIALECT: Literal["spark"] = "spark"
"""The dialect of the statements that are written."""
HOW_TO_NAME_KEY = "add PRIMARY KEY (…) behind the columns, or ask again with --key TABLE=COLUMN"
MOST_NESTED = 16
"""A type that nests deeper is written as a document of JSON."""
_NO_NAME = re.compile(r"\W+")


class FoundColumn(NamedTuple):
    """A column as CREATE TABLE would list it, and its type as the place has it."""

    name: str
    type: str
    given: str = ""


@dataclass(frozen=True)
class FoundTable:
    """What one table could follow: `path` is its name there, `options` those of WITH.

    `needs` is what has to be done before the statement works, `notes` what is to be known. `key_need` and `key_note` say the
    same of a key that nobody has named.
    """

    name: str
    path: str
    columns: tuple[FoundColumn, ...]
    key: tuple[str, ...]
    options: Mapping[str, str]
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    key_need: str = ""
    key_note: str = ""

    def list_needs(self) -> list[str]:
        """Return all that has to be done first."""
        needs = [*self.needs, *filter(None, (self.key_need,))]
        return needs if self.columns or needs else ["no column is known that a table can have: list them"]

    def list_notes(self) -> list[str]:
        """Return all that is to be known."""
        return [*self.notes, *filter(None, (self.key_note,))]

    def set_key(self, names: Sequence[str]) -> FoundTable:
        """Return the table with a key that somebody has named; raises SourceError for a column that it has not."""
        match = match_columns(names, [column.name for column in self.columns])
        for name in names:
            if name not in match.found:
                listed = ", ".join(column.name for column in self.columns) or "not known"
                raise SourceError(f"{self.path} has no column {name} for its key: its columns are {listed}")
        key = tuple(self.columns[match.found[name]].name for name in names)
        return replace(self, key=key, key_need="", key_note="")

    def format_statement(self) -> str:
        """Return the statement that makes the table."""
        parts = [f"{_quote(column.name)} {_format_type(column.type)}" for column in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(map(_quote, self.key))})")
        listed = "".join(f"  {part},\n" for part in parts).removesuffix(",\n")
        given = ", ".join(f"{name} = {quote_text(value)}" for name, value in self.options.items())
        return f"CREATE TABLE {_quote(self.name)} (\n{listed}\n) WITH ({given});"


def to_table_name(*parts: str) -> str:
    """Return the name of a table here for what has a name elsewhere.

    >>> to_table_name("Sales-EU"), to_table_name("_raw", "2024 orders"), to_table_name("…")
    ('sales_eu', 'raw_t_2024_orders', 'found')
    """
    names = [_NO_NAME.sub("_", part.lower()).strip("_") for part in parts]
    return "_".join(f"t_{name}" if name[0].isdigit() else name for name in names if name) or "found"


def keep_columns(columns: Iterable[FoundColumn]) -> tuple[tuple[FoundColumn, ...], tuple[str, ...]]:
    """Return the columns that a table can have, in lower case where that leaves them apart, and what is to be known of others."""
    listed = list(columns)
    folded = [column.name.lower() for column in listed]
    kept, notes = list[FoundColumn](), list[str]()
    for column, lower in zip(listed, folded, strict=True):
        if folded.count(lower) > 1:
            alike = sum(one.name == column.name for one in listed) > 1
            why = "another one has its name" if alike else "another name differs from it in case alone"
            notes.append(f"column {column.name!r} is left out: {why}")
            continue
        try:
            kept.append(column._replace(name=check_name(lower, "column")))
        except SqlError as error:
            notes.append(f"column {column.name!r} is left out: {error.message}")
    return tuple(kept), tuple(notes)


def to_found_columns(schema: pa.Schema) -> list[FoundColumn]:
    """Return the columns of rows of Arrow; what no type here takes is text."""
    return [FoundColumn(field.name, _to_type(field.type), str(field.type)) for field in schema]


def guess_key(table: FoundTable) -> FoundTable:
    """Return a table with a key by its columns' names, where no key is known; what has none says what to do."""
    names = [column.name for column in table.columns]
    singular = table.name.removesuffix("s")
    wanted = (
        "id",
        f"{table.name}_id",
        f"{singular}_id",
        "key",
        f"{table.name}_key",
        f"{singular}_key",
        "uuid",
    )
    found = next((name for name in wanted if name in names), None)
    if found is None:
        return replace(table, key_need=f"no column tells its rows apart by its name: {HOW_TO_NAME_KEY}")
    note = f"that {found} is its key is a guess by the name; --key {table.name}=… names another"
    return replace(table, key=(found,), key_note=note)


def _to_type(kind: pa.DataType) -> str:
    if pa.types.is_null(kind):
        return "string"
    try:
        return from_arrow(kind) if _has_plain_fields(kind) else "jsonb"
    except UnsupportedSql:
        return "string"


def _has_plain_fields(kind: pa.DataType, depth: int = MOST_NESTED) -> bool:
    """Tell whether a type holds only fields whose names and types a column here can have, and nests so deep at most."""
    if not depth:
        return False
    if pa.types.is_struct(kind):
        return bool(kind.num_fields) and all(
            re.fullmatch(r"\w+", field.name) and _has_plain_fields(field.type, depth - 1) for field in kind
        )
    if pa.types.is_map(kind):
        return _has_plain_fields(kind.key_type, depth - 1) and _has_plain_fields(kind.item_type, depth - 1)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_plain_fields(kind.value_type, depth - 1)
    return not pa.types.is_null(kind)


def _format_type(kind: str) -> str:
    return quote_type(kind) if field_names(kind) or "<" in kind else kind.upper()


def _quote(name: str) -> str:
    return quote_part(name, DIALECT)
