"""Rows in words, for those who ask why one is not there: how many, by which values, and which values instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.arrow import as_rows, as_values
from engine.hummock.rows.key_numbers import deduplicate
from engine.runtime.answers.operator_texts import show_columns

MOST_CANDIDATES = 10_000
"""So many rows that come into an operator are looked at."""
MOST_NAMED = 3
"""So many values are named."""
MOST_CHARACTERS = 200
"""Of a value with more only the first ones are shown."""


def count_rows(rows: pa.Table, number: int | None = None) -> str:
    """Return how many of rows, all where nothing is said, in words."""
    count = rows.num_rows
    if number is not None and number != count:
        return f"{number:,} of {count:,} rows"
    if count == MOST_CANDIDATES:
        return f"{count:,} rows or more"
    return "the row" if count == 1 else f"{count:,} rows"


def describe_wanted(rows: pa.Table) -> str:
    """Return by which values rows are looked for."""
    if not rows.num_columns:
        return ""
    return " with " + describe_values(rows, rows.column_names)


def describe_values(rows: pa.Table, columns: Sequence[str], names: Mapping[str, str] | None = None) -> str:
    """Return the values of some columns in rows, the first few that are there."""
    if not columns:
        return ""
    some = deduplicate(rows.select(list(dict.fromkeys(columns))))
    said = [
        ", ".join(f"{show_columns(name, names)} = {format_value(value)}" for name, value in row.items())
        for row in as_rows(some.slice(0, MOST_NAMED))
    ]
    more = f" or {some.num_rows - MOST_NAMED:,} others" if some.num_rows > MOST_NAMED else ""
    return " or ".join(said) + more


def describe_mismatch(found: pa.Table, wanted: pa.Table, columns: Sequence[str]) -> str:
    """Return which values rows have instead of wanted ones."""
    said = []
    for name in columns:
        here, asked = (
            list(dict.fromkeys(map(_write_value, as_values(rows.column(name))))) for rows in (found, wanted)
        )
        if set(asked) <= set(here):
            continue
        some, others = (" or ".join(map(shorten_text, texts[:MOST_NAMED])) for texts in (here, asked))
        some += " or another" if len(here) > MOST_NAMED else ""
        said.append(f"{show_columns(name)} is {some}, not {others}")
    if said:
        return " and ".join(said)
    return f"no row has {describe_values(wanted, wanted.column_names)} at once"


def format_value(value: object) -> str:
    """Return a value as sentences show it, a long one by how it begins."""
    return shorten_text(_write_value(value))


def shorten_text(text: str) -> str:
    """Return a text as sentences show it: of a long one how it begins, and how long it is."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)"


def _write_value(value: object) -> str:
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
