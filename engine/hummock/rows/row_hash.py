"""Spark's `xxhash64` over Arrow columns, vectorised: XXH64 with seed 42, columns chained, a null leaves the
hash as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from engine.arrow import as_values, decode_dictionary
from engine.errors import InvalidRow
from engine.hummock.rows.ordering import one_chunk

SEED = 42
VNODES = 256
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_WIDEST_LONG_DECIMAL = 18


def xxhash64(columns: Sequence[pa.Array[Any] | pa.ChunkedArray[Any]]) -> np.ndarray:
    """Return the int64 hash of each row over `columns`; equals Spark's `xxhash64(c1, c2, ...)`.

    Raises InvalidRow for a type that cannot be hashed (nested and unsigned types).
    """
    if not columns:
        raise InvalidRow("xxhash64 needs at least one column")
    rows = len(columns[0])
    seed = np.full(rows, SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            seed = _hash_column(_flatten(column), seed)
    return seed.view(np.int64)


def vnode_of(hashes: np.ndarray) -> np.ndarray:
    """Return the vnode 0..255 of each hash: its top 8 bits, in the order of the signed hashes."""
    vnodes: np.ndarray = np.right_shift(hashes, 56) + VNODES // 2
    return vnodes.astype(np.int64)


def _flatten(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return decode_dictionary(one_chunk(column))


def _hash_column(array: pa.Array[Any], seed: np.ndarray) -> np.ndarray:
    kind = array.type
    if pa.types.is_null(kind):
        return seed
    hashed = _hash_values(array, kind, seed)
    if array.null_count:
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashed, seed)
    return hashed


def _hash_values(array: pa.Array[Any], kind: pa.DataType, seed: np.ndarray) -> np.ndarray:
    if pa.types.is_boolean(kind):
        return _hash_int(_to_numbers(array.cast(pa.uint8())), seed)
    if pa.types.is_signed_integer(kind):
        return (_hash_long if kind.bit_width == 64 else _hash_int)(_to_numbers(array), seed)
    if pa.types.is_floating(kind) and kind.bit_width >= 32:
        values = _to_numbers(array)
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
        if kind.bit_width == 32:
            return _hash_int(values.view(np.int32), seed)
        return _hash_long(values.view(np.int64), seed)
    if pa.types.is_date32(kind):
        return _hash_int(_to_numbers(array.cast(pa.int32())), seed)
    if pa.types.is_timestamp(kind):
        return _hash_long(_to_numbers(array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())), seed)
    if pa.types.is_time64(kind):
        return _hash_long(_to_numbers(array.cast(pa.time64("ns")).cast(pa.int64())), seed)
    if pa.types.is_duration(kind):
        return _hash_long(_to_numbers(array.cast(pa.duration("us")).cast(pa.int64())), seed)
    if pa.types.is_decimal128(kind):
        if kind.precision <= _WIDEST_LONG_DECIMAL:
            return _hash_long(split_decimals(array)[:, 0], seed)
        return _hash_bytes(array, seed, _encode_big_endian)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _hash_bytes(array, seed, lambda a: as_values(a.cast(_binary_type(a.type))))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hash_bytes(array, seed, as_values)
    raise InvalidRow(
        f"a column of type {kind} cannot be hashed: keys are numbers, strings, binary, dates or times"
    )


def _binary_type(kind: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def _to_numbers(array: pa.Array[Any]) -> np.ndarray:
    if array.null_count:
        array = array.fill_null(pa.scalar(0, array.type))
    return array.to_numpy(zero_copy_only=False)


def split_decimals(array: pa.Array[Any]) -> np.ndarray:
    """Return the unscaled values of a decimal128 array as an (n, 2) int64 array: low word, high word."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty((0, 2), dtype=np.int64)
    words: np.ndarray = np.frombuffer(memoryview(buffer), dtype=np.int64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _encode_big_endian(array: pa.Array[Any]) -> list[bytes | None]:
    """The two's complement of each unscaled value in as few bytes as hold it, as java.math.BigInteger gives
    it.
    """
    words = split_decimals(array)
    values = (int(high) << 64 | (int(low) & 0xFFFFFFFFFFFFFFFF) for low, high in words)
    return [
        value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
        for value in values
    ]


def _rotate_left(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _mix(h: np.ndarray) -> np.ndarray:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    h ^= h >> np.uint64(32)
    return h


def _hash_long(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    words = (
        values.astype(np.int64, copy=False).view(np.uint64)
        if values.flags.c_contiguous
        else values.astype(np.uint64)
    )
    h = seed + _P5 + np.uint64(8)
    h ^= _rotate_left(words * _P2, 31) * _P1
    return _mix(_rotate_left(h, 27) * _P1 + _P4)


def _hash_int(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    words = values.astype(np.int32, copy=False).astype(np.uint32).astype(np.uint64)
    h = seed + _P5 + np.uint64(4)
    h ^= words * _P1
    return _mix(_rotate_left(h, 23) * _P2 + _P3)


def _hash_bytes(
    array: pa.Array[Any], seed: np.ndarray, values: Callable[[pa.Array[Any]], list[bytes | None]]
) -> np.ndarray:
    digest = xxhash.xxh64_intdigest
    if len(array) and (seed == seed[0]).all():
        start = int(seed[0])
        encoded = _encode_if_it_pays(array)
        if encoded is not None:
            words = [0 if v is None else digest(v, start) for v in values(encoded.dictionary)]
            codes = encoded.indices.fill_null(0).to_numpy()
            return np.take(np.array(words or [0], dtype=np.uint64), codes)
        hashed = (0 if v is None else digest(v, start) for v in values(array))
    else:
        pairs = zip(values(array), seed.tolist(), strict=True)
        hashed = (0 if v is None else digest(v, s) for v, s in pairs)
    return np.fromiter(hashed, dtype=np.uint64, count=len(array))


def _encode_if_it_pays(array: pa.Array[Any]) -> pa.DictionaryArray[Any, Any] | None:
    sample = array.slice(0, 1000)
    if len(array) < 5000 or pa.types.is_decimal(array.type) or pc.count_distinct(sample).as_py() > 500:
        return None
    return array.dictionary_encode()
