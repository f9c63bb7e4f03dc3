"""When two keys are one: rows numbered by their keys, as the store tells keys apart.

Null is one value, NaN is one, and -0.0 is 0.0, inside of arrays, structs and maps as well. `ordering.equal_values` says so of
pairs, and this module of any number of rows: whatever groups, dedupes or looks keys up in memory does it by these numbers. To
Arrow's groups -0.0 and 0.0 are two values, and to Python's dicts each NaN is another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import Column, as_values, choose_values, decode_dictionary, to_positions
from engine.hummock.rows.ordering import extract_number_key, mark_zero_signs, normalize_key, one_chunk


def number_keys(keys: pa.Table) -> np.ndarray:
    """Return a number for each row, the same where keys are one, from 0 on in the order in which keys first come.

    >>> number_keys(pa.table({"d": [0.0, 7.0, -0.0, None], "s": ["a", "b", "a", None]})).tolist()
    [0, 1, 0, 2]
    """
    plain = extract_number_key(keys)
    if plain is not None and _is_unique(plain):  # the usual case, which a sort tells sooner
        return np.arange(keys.num_rows)
    numbers = np.zeros(keys.num_rows, dtype=np.int64)
    for at, column in enumerate(keys.columns):
        own = _number_values(column)
        numbers = own if at == 0 else _renumber(numbers * (int(own.max(initial=0)) + 1) + own)
    return numbers


def number_rows(rows: pa.Table) -> np.ndarray:
    """Return a number for each row as `number_keys` does, other ones where zeros have other signs.

    >>> number_rows(pa.table({"d": [0.0, -0.0, 0.0]})).tolist()
    [0, 1, 0]
    """
    for column in rows.columns:
        signs = mark_zero_signs(one_chunk(column))
        if signs is not None:
            rows = rows.append_column(f"sign {rows.num_columns}", pa.array(signs))
    return number_keys(rows)


def find_first_of_each(numbers: np.ndarray) -> np.ndarray:
    """Return the place of each key's first row, by its number."""
    return np.flatnonzero(numbers > np.maximum.accumulate(np.append(-1, numbers))[:-1])


def find_last_of_each(numbers: np.ndarray) -> np.ndarray:
    """Return the place of each key's last row, by its number."""
    last = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    last[numbers] = np.arange(len(numbers))  # of several the last one stays
    return last


def deduplicate(rows: pa.Table) -> pa.Table:
    """Return each row once, as it first comes; all columns tell rows apart."""
    first = find_first_of_each(number_keys(rows))
    return rows if len(first) == rows.num_rows else rows.take(to_positions(first))


def find_members(keys: pa.Table, others: pa.Table) -> np.ndarray:
    """Tell for each of some keys whether it is among others."""
    numbers = number_keys(pa.concat_tables([keys, others.select(keys.column_names).cast(keys.schema)]))
    there = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    there[numbers[keys.num_rows :]] = True
    found: np.ndarray = there[numbers[: keys.num_rows]]
    return found


def _is_unique(numbers: np.ndarray) -> bool:
    ordered = np.sort(numbers)
    return bool((ordered[1:] != ordered[:-1]).all())


def _renumber(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as small ones, from 0 on in the order in which they first come."""
    return _encode_chunks([pa.array(numbers)])


def _number_values(column: Column) -> np.ndarray:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_nested(kind):
        known: dict[Any, int] = {}
        found = (known.setdefault(_normalize(value), len(known)) for value in as_values(column))
        return np.fromiter(found, dtype=np.int64, count=len(column))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return _encode_chunks([decode_dictionary(chunk) for chunk in chunks])


def _encode_chunks(chunks: list[pa.Array[Any]]) -> np.ndarray:
    if not sum(map(len, chunks)):
        return np.zeros(0, dtype=np.int64)
    normal: Any = normalize_key(pa.chunked_array(chunks))
    if pa.types.is_floating(normal.type):  # there are many NaN, by their bits
        normal = choose_values(pc.is_nan(normal), pa.scalar(math.nan, normal.type), normal)
    encoded = normal.dictionary_encode(null_encoding="encode")
    return np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.int64)


def _normalize(value: Any) -> Any:
    """Return a nested value as one that Python finds again."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _normalize(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_normalize(part) for part in value)
    return value
