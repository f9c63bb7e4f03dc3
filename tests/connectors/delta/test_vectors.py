"""Deletion vectors as Delta's protocol writes them: arrays, bitmaps and runs, in a file or in the log."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from engine.connectors.delta.vectors import Vector, decode_rows
from engine.errors import SourceError

MAGIC = struct.pack("<i", 1681511377)
ALPHABETS = (
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)


def bitmap(containers: list[tuple[int, list[int], bool]]) -> bytes:
    """Return a Roaring bitmap of containers, each with its high part, its low parts, and whether it is kept as runs."""
    runs = [as_runs for _, _, as_runs in containers]
    size = len(containers)
    head = struct.pack("<II", 12346, size)
    if any(runs):
        flags = np.packbits(runs, bitorder="little").tobytes()
        head = struct.pack("<I", 12347 | (size - 1) << 16) + flags
    head += b"".join(struct.pack("<HH", high, len(low) - 1) for high, low, _ in containers)
    if not any(runs) or size >= 4:
        head += bytes(4 * size)  # where each begins, which nobody reads who reads all
    return head + b"".join(container(low, as_runs) for _, low, as_runs in containers)


def container(low: list[int], as_runs: bool) -> bytes:
    if as_runs:
        starts = [n for n in low if n - 1 not in low]
        ends = [n for n in low if n + 1 not in low]
        pairs = [struct.pack("<HH", first, last - first) for first, last in zip(starts, ends, strict=True)]
        return struct.pack("<H", len(pairs)) + b"".join(pairs)
    if len(low) <= 4096:
        return struct.pack(f"<{len(low)}H", *low)
    bits = np.zeros(1 << 16, dtype=bool)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()


def vector(bitmaps: dict[int, bytes]) -> bytes:
    body = b"".join(struct.pack("<I", high) + data for high, data in bitmaps.items())
    return MAGIC + struct.pack("<q", len(bitmaps)) + body


def test_arrays_bitmaps_and_runs_of_rows() -> None:
    few, many, run = [0, 5, 65535], list(range(0, 20000, 2)), [7, 8, 9, 20]
    plain = bitmap([(0, few, False), (3, many, False)])
    mixed = bitmap([(0, few, False), (1, run, True), (2, many, False), (9, few, False)])
    found = decode_rows(vector({0: plain, 2: mixed})).tolist()
    expected = few + [(3 << 16) + n for n in many]
    for high, low in ((0, few), (1, run), (2, many), (9, few)):
        expected += [(2 << 32) + (high << 16) + n for n in low]
    assert found == expected
    assert decode_rows(vector({0: bitmap([(1, run, True)])})).tolist() == [(1 << 16) + n for n in run]
    assert decode_rows(b"").tolist() == []


def test_a_vector_in_the_log_and_one_in_a_file() -> None:
    data = vector({0: bitmap([(0, [1, 2], False)])})
    padded = data + bytes(-len(data) % 4)
    text = base64.b85encode(padded).decode().translate(str.maketrans(*ALPHABETS))
    inline = Vector("i", text, None, len(data), 2)
    assert decode_rows(inline.decode_inline()).tolist() == [1, 2]
    kept = Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, len(data), 2)
    assert kept.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    stored = len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    assert kept.check_stored(stored) == data
    for wrong in (stored[:-1], stored[:-1] + bytes([stored[-1] ^ 1]), b""):
        with pytest.raises(SourceError, match="is damaged"):
            kept.check_stored(wrong)
    assert Vector("p", "s3://bucket/dv.bin").path == "s3://bucket/dv.bin"


def test_what_is_no_vector_is_said() -> None:
    data = vector({0: bitmap([(0, [1, 2], False)])})
    with pytest.raises(SourceError, match="is damaged"):
        decode_rows(data[:-1])
    with pytest.raises(SourceError, match="not known here"):
        decode_rows(b"\0" + data[1:])
    with pytest.raises(SourceError, match="not known here"):
        _ = Vector("x", "").path
