"""The fingerprint of rows: the sum, modulo 2**128, of a hash of each row, whatever their order.

The hash of a row is made of its values, each mixed with the stored name of its column. A null adds nothing, so that rows have the
hash that they had when a column of nulls is added to their table. What the store calls identical has one hash: every NaN is one,
and zeros differ by their sign. `docs/format.md` says how it is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import xxhash

from engine.arrow import Column, as_values, decode_dictionary, to_mask, to_positions
from engine.errors import InvalidRow
from engine.hummock.rows.ordering import one_chunk

WIDTH = 16
"""Bytes of a fingerprint, as it is stored: big-endian."""
_MODULUS = 1 << 128
_STEP = 16_384
"""So many rows are hashed at once: what is computed of them stays in the processor's cache."""
_SHORT_BYTES = 256
"""Texts up to this length are hashed by their words, all at once; of a longer one XXH64 is taken."""
_P1, _P2, _P3 = (np.uint64(prime) for prime in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_ABSENT = np.uint64(0xD6E8FEB86659FD93)
"""What stands for a null within a nested value."""
_HIGH, _LOW = np.uint64(0xA0761D6478BD642F), np.uint64(0xE7037ED1A0B428DB)
_HALF, _MASK = np.uint64(32), np.uint64(0xFFFFFFFF)
_WORD_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def add_fingerprints(parts: Iterable[int]) -> int:
    """Return the fingerprint of rows that come together; negative ones take rows away.

    >>> add_fingerprints([5, 7, -5])
    7
    """
    return sum(parts) % _MODULUS


def encode_fingerprint(value: int) -> bytes:
    """Return a fingerprint as it is stored."""
    return value.to_bytes(WIDTH, "big")


def decode_fingerprint(stored: bytes) -> int:
    """Return the fingerprint that is stored."""
    return int.from_bytes(stored, "big")


def compute_fingerprint(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> int:
    """Return the fingerprint of rows, looked at through `columns`; raises InvalidRow for a type that cannot be hashed.

    >>> one, two = pa.table({"a": [1, 2], "b": ["x", None]}), pa.table({"a": [2, 1], "b": [None, "x"]})
    >>> compute_fingerprint(one, ["a", "b"]) == compute_fingerprint(two, ["a", "b"])
    True
    """
    arrays = [one_chunk(rows.column(name)) for name in columns]
    found = 0
    for start in range(0, rows.num_rows, _STEP):
        count = min(_STEP, rows.num_rows - start)
        high, low = hash_rows([array.slice(start, count) for array in arrays], columns, count)
        found += (_sum_words(high) << 64) + _sum_words(low)
    return found % _MODULUS


def hash_rows(columns: Sequence[Column], names: Sequence[str], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two halves of the hash of each row."""
    high, low = np.zeros(rows, dtype=np.uint64), np.zeros(rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for name, column in zip(names, columns, strict=True):
            array = decode_dictionary(one_chunk(column))
            if array.null_count == len(array):
                continue
            seeds = _derive_seeds(name)
            values = _hash_values(array)
            parts = [_mix(values ^ seed) for seed in seeds]
            if array.null_count:
                valid = to_mask(array.is_valid())
                parts = [np.where(valid, part, np.uint64(0)) for part in parts]
            high += parts[0]
            low += parts[1]
        low = _mix((low ^ _LOW) + high * _P2)
        high = _mix(high ^ _HIGH)
    return high, low


@lru_cache(maxsize=4096)
def _derive_seeds(name: str) -> tuple[np.uint64, np.uint64]:
    whole = xxhash.xxh3_128_intdigest(name.encode())
    return np.uint64(whole >> 64), np.uint64(whole & 0xFFFFFFFFFFFFFFFF)


def _sum_words(words: np.ndarray) -> int:
    return (int((words >> _HALF).sum()) << 32) + int((words & _MASK).sum())


def _mix(words: np.ndarray) -> np.ndarray:
    """Return a word for each word, one to one, of which each bit depends on all bits."""
    words = words + _P1
    words = (words ^ (words >> np.uint64(30))) * _P2
    words = (words ^ (words >> np.uint64(27))) * _P3
    return cast(np.ndarray, words ^ (words >> np.uint64(31)))


def _hash_values(array: pa.Array[Any]) -> np.ndarray:
    """Return a word for each value; what it is for a null is left open."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.uint64)
    if pa.types.is_boolean(kind):
        return array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    if pa.types.is_floating(kind):
        return _hash_floats(array)
    if pa.types.is_decimal(kind) or pa.types.is_interval(kind):
        return _hash_wide(array)
    if isinstance(array, pa.ExtensionArray):
        return _hash_values(array.storage)
    if isinstance(array, pa.StructArray):
        return _hash_structs(array)
    if pa.types.is_nested(kind):
        return _hash_lists(array)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return _hash_texts(array.cast(pa.large_binary()))
    if any(test(kind) for test in _TEXTS):
        return _hash_texts(array)
    if pa.types.is_primitive(kind):
        return _read_words(array, kind.bit_width)
    raise InvalidRow(f"a column of type {kind} has no fingerprint")


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


def _read_words(array: pa.Array[Any], bits: int) -> np.ndarray:
    """Return the bits of values of a fixed width, those above them zero."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=np.uint64)
    words = np.frombuffer(memoryview(buffer), dtype=_UNSIGNED[bits], count=array.offset + len(array))
    return words[array.offset :].astype(np.uint64)


def _hash_floats(array: pa.Array[Any]) -> np.ndarray:
    """Return the bits of numbers, those of one NaN for all of them."""
    words = _read_words(array, array.type.bit_width)
    exponent, sign = {16: (0x7C00, 0x7FFF), 32: (0x7F800000, 0x7FFFFFFF)}.get(
        array.type.bit_width, (0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF)
    )
    none = (words & np.uint64(sign)) > np.uint64(exponent)
    return np.where(none, np.uint64(exponent + 1), words) if none.any() else words


def _hash_wide(array: pa.Array[Any]) -> np.ndarray:
    """Return a word for each value of several words, as decimals are."""
    count = array.type.bit_width // 64
    if count <= 1:
        return _read_words(array, array.type.bit_width)
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=np.uint64)
    size = (array.offset + len(array)) * count
    words = np.frombuffer(memoryview(buffer), dtype=np.uint64, count=size).reshape(-1, count)
    return _fold_words(words[array.offset :].T)


def _fold_words(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return a word for each sequence of words, which are told apart by their places."""
    found: Any = np.uint64(0)
    for part in parts:
        found = _mix(part + found * _P3)
    return cast(np.ndarray, found)


def _hash_structs(array: pa.StructArray) -> np.ndarray:
    parts = [_fill_absent(field) for field in array.flatten()]
    return _fold_words(parts) if parts else np.zeros(len(array), dtype=np.uint64)


def _fill_absent(array: pa.Array[Any]) -> np.ndarray:
    """Return a word for each part of a nested value, a certain one for a null."""
    array = decode_dictionary(array)
    words = _mix(_hash_values(array))
    return np.where(to_mask(array.is_valid()), words, _ABSENT) if array.null_count else words


def _hash_lists(array: pa.Array[Any]) -> np.ndarray:
    """Return a word for each list or map: of its length, and of its items with their places."""
    if isinstance(array, pa.FixedSizeListArray):
        array = array.cast(pa.list_(array.type.value_field))
    offsets = _read_offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    if isinstance(array, pa.MapArray):
        sides = [_fill_absent(side.slice(first, last - first)) for side in (array.keys, array.items)]
        items = _fold_words(sides)
    else:
        items = _fill_absent(cast("pa.ListArray[Any]", array).values.slice(first, last - first))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    places = np.arange(len(items)) - np.repeat(starts, lengths)
    items = _mix(items ^ (places.astype(np.uint64) * _P2))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
    return _mix(sums[offsets[1:] - first] - sums[starts]) + lengths.astype(np.uint64)


def _read_offsets(array: pa.Array[Any]) -> np.ndarray:
    """Return where each value of lists or texts begins among their parts, and where the last ends."""
    kind, buffer = array.type, array.buffers()[1]
    is_large = (
        pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    )
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype=np.int64)
    offsets = np.frombuffer(memoryview(buffer), np.int64 if is_large else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _hash_texts(array: pa.Array[Any]) -> np.ndarray:
    """Return a word for each text: of its length and its words of eight bytes, all texts at once."""
    offsets = _read_offsets(array)
    starts, lengths = offsets[:-1], np.diff(offsets)
    buffer = array.buffers()[2]
    data = np.zeros(8, dtype=np.uint8)
    if buffer is not None and len(buffer):
        data = np.frombuffer(memoryview(buffer), dtype=np.uint8)
    shift = 0
    if len(data) < int(offsets[-1]) + 8 and len(
        array
    ):  # so that a whole word can be read where the last one begins
        shift = int(offsets[0])
        data = np.concatenate([data[shift : int(offsets[-1])], np.zeros(8, dtype=np.uint8)])
    words = np.ndarray((max(len(data) - 7, 0),), dtype="<u8", buffer=data, strides=(1,))
    found = lengths.astype(np.uint64) * _P1
    active, place = np.flatnonzero((lengths > 0) & (lengths <= _SHORT_BYTES)), 0
    at, left = starts[active] - shift, lengths[active]
    while len(active):
        part = words[at] & _WORD_MASKS[np.minimum(left, 8)]
        found[active] = _mix(found[active] ^ part)
        place += 1
        going = left > 8
        active, at, left = active[going], at[going] + 8, left[going] - 8
    longer = np.flatnonzero(lengths > _SHORT_BYTES)
    if len(longer):
        texts = as_values(array.take(to_positions(longer)).cast(pa.large_binary()))
        digests = (0 if text is None else xxhash.xxh64_intdigest(text) for text in texts)
        found[longer] = np.fromiter(digests, dtype=np.uint64, count=len(longer))
    return found
