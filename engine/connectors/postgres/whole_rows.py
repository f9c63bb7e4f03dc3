"""Messages of pgoutput that each bring a whole row of one table, taken apart together: column by column instead of row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.connectors.postgres.pgoutput import COUNT_PLACE, NULL, TEXT, decode_message
from engine.errors import SourceError

_SIZE = 4
_WEIGHTS = np.array([1 << 24, 1 << 16, 1 << 8, 1], dtype=np.int64)
_ABSENT = np.zeros(_SIZE, dtype=np.uint8)


def read_columns(messages: Sequence[bytes], places: Sequence[int]) -> list[pa.Array[Any]]:
    """Return the values at some places of the rows as texts; raises SourceError for a message that is broken.

    The messages are those of which `read_whole_row_key` has read a key.
    """
    whole = b"".join(messages)
    data = np.concatenate([np.frombuffer(whole, np.uint8), _ABSENT])
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    at = ends - sizes + COUNT_PLACE
    counts = (data[at].astype(np.int64) << 8) + data[at + 1]
    at += 2
    found = {}
    try:
        for place in range(int(counts[0])):
            kinds = data[at]
            is_text = kinds == TEXT
            if not (is_text | (kinds == NULL)).all():
                raise _find_broken(messages)
            given = data[at[:, np.newaxis] + np.arange(1, 1 + _SIZE)] @ _WEIGHTS
            starts = at + 1 + np.where(is_text, _SIZE, 0)
            at = starts + np.where(is_text, given, 0)
            if place in places:
                found[place] = _cut(whole, starts, at, is_text)
    except IndexError as error:
        raise _find_broken(messages) from error
    if not np.array_equal(at, ends) or not (counts == counts[0]).all():
        raise _find_broken(messages)
    return [found[place] for place in places]


def _cut(whole: bytes, starts: np.ndarray, ends: np.ndarray, given: np.ndarray) -> pa.Array[Any]:
    spans = zip(starts.tolist(), ends.tolist(), given.tolist(), strict=True)
    values = [whole[start:end] if is_given else None for start, end, is_given in spans]
    return pa.array(values, pa.binary()).cast(pa.string())


def _find_broken(messages: Sequence[bytes]) -> SourceError:
    """Return what is wrong with the first message that is broken."""
    for message in messages:
        try:
            decode_message(message)
        except SourceError as error:
            return error
    return SourceError("rows of pgoutput have more or fewer values than the rows before them")
