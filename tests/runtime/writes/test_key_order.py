"""Packed rows come to the tasks that write in the order of their hash, key and place, whatever the batches and ranges."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from engine.hummock.rows.row_hash import xxhash64
from engine.runtime.writes import key_order
from engine.runtime.writes.key_order import HASH, RANGE, ROWS, PackRows, UnpackRows, sort_by_key
from engine.runtime.writes.spill import PLACE
from engine.session import Session

KINDS = {
    "numbers": (pa.int64(), lambda chance: chance.randrange(300)),
    "texts": (pa.string(), lambda chance: f"{'longer than twelve ' * chance.randrange(2)}{chance.randrange(300)}"),
    "nulls": (pa.int64(), lambda chance: chance.choice([None, *range(200)])),
    "floats": (pa.float64(), lambda chance: chance.choice([0.0, -0.0, float("nan"), float("inf"), chance.randrange(300)])),
    "decimals": (pa.decimal128(30, 2), lambda chance: chance.randrange(10**25)),
}  # fmt: skip


class Handed:
    """A body that hands on what it gets."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches


def rows_of(kind: str, count: int, seed: int) -> pa.Table:
    arrow, value = KINDS[kind]
    chance = random.Random(seed)
    key = pa.array([value(chance) for _ in range(count)], arrow)
    also = pa.array([chance.choice([None, "a", "b"]) for _ in range(count)])
    places = chance.sample(range(count), count)  # no two alike: the order is known
    table = pa.table({"k": key, "also": also, "v": [f"v{place}" for place in places], PLACE: places})
    return table.append_column(HASH, pa.array(xxhash64([key, also])))


def ordered(rows: pa.Table, ranges: int, size: int) -> pa.Table:
    """Pack rows by several tasks, bring the streams of each range together, in any order, and unpack them."""
    packed = [
        (number, stream)
        for task in (rows.slice(0, rows.num_rows // 3), rows.slice(rows.num_rows // 3))
        for batch in PackRows(ranges)(iter(task.to_batches(size)))
        for number, stream in zip(
            batch.column(RANGE).to_pylist(), batch.column(ROWS).to_pylist(), strict=True
        )
    ]
    random.Random(ranges).shuffle(packed)
    packed.sort(key=lambda one: one[0])
    assert len({number for number, _ in packed}) > ranges // 2
    chunks = [packed[at : at + 3] for at in range(0, len(packed), 3)]
    batches = [
        pa.record_batch(
            [pa.array([n for n, _ in some], pa.int32()), pa.array([s for _, s in some])], [RANGE, ROWS]
        )
        for some in chunks
    ]
    return pa.Table.from_batches(UnpackRows(("k", "also", PLACE), Handed())(iter(batches)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ranges", "size"), [(1, 10_000), (7, 100), (64, 10_000), (300, 37)])
def test_packed_rows_come_in_their_order(
    monkeypatch: pytest.MonkeyPatch, kind: str, ranges: int, size: int
) -> None:
    monkeypatch.setattr(key_order, "PACK_ROWS", 400)
    rows = rows_of(kind, 2_000, ranges)
    found = ordered(rows, ranges, size)
    assert found.column_names == ["k", "also", "v", PLACE]
    records = rows.to_pylist()
    for row, zero in zip(records, rows.column("k"), strict=True):
        row["k"] = str(row["k"] + 0.0) if kind == "floats" else zero.as_py()
    groups: dict[tuple[int, str, str], list[int]] = {}
    for row in records:
        groups.setdefault((row[HASH], str(row["k"]), str(row["also"])), []).append(row[PLACE])
    seen = [(str(row["k"] + 0.0) if kind == "floats" else str(row["k"]), str(row["also"]), row[PLACE])
            for row in found.to_pylist()]  # fmt: skip
    together = [
        (key, [place for *_, place in some]) for key, some in itertools.groupby(seen, key=lambda one: one[:2])
    ]
    assert len(together) == len(groups)  # a key's rows are not interrupted by another's
    hashes = {key[1:]: key[0] for key in groups}
    assert [hashes[key] for key, _ in together] == sorted(hash_ for hash_, *_ in groups)
    for key, places in together:
        assert places == sorted(groups[(hashes[key], *key)])


def test_a_task_holds_a_range_at_a_time_and_hands_on_bounded_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "PACK_ROWS", 100)
    rows = rows_of("numbers", 3_000, 1)
    (packed,) = [
        pa.Table.from_batches(list(PackRows(4)(iter(rows.to_batches(100))))).sort_by(RANGE).combine_chunks()
    ]
    taken = 0

    def streams() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for at in range(packed.num_rows):
            taken = at
            yield from packed.slice(at, 1).to_batches()

    last = packed.column(RANGE).to_pylist()
    for batch in UnpackRows(("k", "also", PLACE), Handed())(streams()):
        assert batch.num_rows <= 100
        assert last[taken] - last[0] <= 3
        if taken < packed.num_rows - 1:  # rows come as soon as the next range begins
            assert last[taken] != last[taken - 1]


@pytest.mark.parametrize(
    ("columns", "packs"),
    [
        ("id BIGINT PRIMARY KEY, v STRING", True),
        ("id VARCHAR(3) PRIMARY KEY, v STRING", False),
        ("id CHAR(3) PRIMARY KEY, v STRING", False),
        ("id BIGINT, v VARCHAR(3), PRIMARY KEY (id)", True),
        ("a STRING, id BIGINT, v STRING, PRIMARY KEY (id, a)", True),
    ],
)
def test_rows_are_packed_where_a_hash_tells_the_key_as_it_is_kept(
    session: Session, columns: str, packs: bool
) -> None:
    session.sql(f"CREATE TABLE t ({columns})")
    relation, spark = session.catalog.get("t"), session.computing
    names = ", ".join(f"'x' AS {column.name}" for column in relation.columns)
    rows = spark.range(10).selectExpr(*names.split(", "), f"0L AS {PLACE}")
    many = sort_by_key(relation, rows, key_order.PACKED_FROM + 1, spark)
    few = sort_by_key(relation, rows, key_order.PACKED_FROM, spark)
    assert few.key == ()
    by_source = {column.storage_name: column.name for column in relation.columns}
    assert many.key == ((*(by_source[name] for name in relation.primary_key), PLACE) if packs else ())


def test_hashes_at_the_ends_fall_into_the_first_and_the_last_range() -> None:
    ends = np.array([-(1 << 63), -1, 0, (1 << 63) - 1], np.int64)
    rows = pa.table({"v": [1, 2, 3, 4], HASH: ends})
    (batch,) = PackRows(10)(iter(rows.to_batches()))
    assert batch.column(RANGE).to_pylist() == [0, 4, 5, 9]
