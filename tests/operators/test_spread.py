"""Packed rows: of what flows give each task gets those of its vnodes, unchanged; groups are folded before and after."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.arrow import group_batches
from engine.hummock.rows.row_hash import VNODES, vnode_of, xxhash64
from engine.operators import spread
from engine.operators.arrow import folds
from engine.operators.arrow.compiler import Compiler, Item
from engine.operators.flow import Flow
from engine.operators.spread import Pack, Unpack, spread_by_vnode, union_packed
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.parser import parse_expression

PARTS = 3


@dataclass(frozen=True)
class Given:
    """A body that starts a task with rows."""

    rows: pa.Table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from self.rows.to_batches(max_chunksize=7)


@dataclass(frozen=True)
class KeepKeys:
    """A body: the rows that have a key."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(batch.column("k").is_valid())


@dataclass(frozen=True)
class Context:
    """What is asked of an epoch's context."""

    partitions: int = PARTS


def many(rows: int, seed: int = 3) -> pa.Table:
    """Return rows of many types, with nulls, zeros of both signs and NaN among the keys."""
    chance = random.Random(seed)
    some = [None, *range(9)]
    return pa.table(
        {
            "k": pa.array([chance.choice(some) for _ in range(rows)], pa.int64()),
            "f": pa.array([chance.choice([None, 0.0, -0.0, float("nan"), 1.5]) for _ in range(rows)]),
            "t": pa.array([chance.choice([None, "", "a", "ü" * 40]) for _ in range(rows)]),
            "d": pa.array([decimal.Decimal(chance.randrange(10**6)) for _ in range(rows)], pa.decimal128(38, 9)),
            "at": pa.array([datetime.datetime(2024, 1, 1)] * rows, pa.timestamp("us", "UTC")),
            "l": pa.array([chance.choice([None, [], [1, None]]) for _ in range(rows)], pa.list_(pa.int32())),
            "s": pa.array([{"x": n, "y": None} for n in range(rows)], pa.struct({"x": pa.int64(), "y": pa.string()})),
        }
    )  # fmt: skip


def unpacked(batches: list[pa.RecordBatch]) -> dict[int, pa.Table]:
    """Return the rows of each place."""
    places: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for n, place in enumerate(batch.column(0).to_pylist()):
            places.setdefault(place, []).extend(Unpack()(iter([batch.slice(n, 1)])))
    return {place: pa.Table.from_batches(found) for place, found in places.items()}


@pytest.mark.parametrize("by", [("k",), ("f",), ("t", "k"), ("d",), ("at",)])
@pytest.mark.parametrize("most", [1, 10, 10_000])
def test_each_place_gets_the_rows_of_its_vnodes_in_their_order(
    by: tuple[str, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "PACK_ROWS", most)
    rows = many(200)
    places = unpacked(list(Pack(by, PARTS)(iter(rows.to_batches(max_chunksize=7)))))
    wanted = vnode_of(xxhash64([rows.column(name) for name in by])) * PARTS // VNODES
    assert sum(found.num_rows for found in places.values()) == 200
    for place, found in places.items():
        assert repr(found.to_pylist()) == repr(rows.filter(pa.array(wanted == place)).to_pylist())
        assert found.schema == rows.schema


def test_no_rows_are_no_streams() -> None:
    rows = many(5).slice(0, 0)
    assert list(Pack(("k",), PARTS)(iter(rows.to_batches()))) == []
    assert list(Pack(("k",), PARTS)(iter([pa.RecordBatch.from_pylist([], schema=rows.schema)]))) == []


def test_rows_are_gathered_by_number_or_by_size() -> None:
    batches = many(30).to_batches(max_chunksize=4)
    assert [rows.num_rows for rows in group_batches(batches, 10)] == [12, 12, 6]
    assert [rows.num_rows for rows in group_batches(batches, 10**6, size=1)] == [4] * 7 + [2]


def test_what_moves_is_what_flows_give_and_a_key_is_in_one_task(spark: SparkSession) -> None:
    rows = many(300)
    flow = Flow(spark.range(0, 2, 1, 2), (Given(rows),), derive_spark_schema(rows.schema))
    moved = spread_by_vnode(flow, ("t",), Context())  # type: ignore[arg-type]
    assert isinstance(moved, Flow)
    found = moved.frame.withColumn("task", F.spark_partition_id())
    assert "_packed" in found._jdf.queryExecution().executedPlan().toString()
    collected = found.collect()
    twice = [repr(tuple(row)) for row in flow.frame.collect()]
    assert sorted(repr(tuple(row)[:-1]) for row in collected) == sorted(twice) and len(twice) == 600
    tasks: dict[str | None, set[int]] = {}
    for row in collected:
        tasks.setdefault(row["t"], set()).add(row["task"])
    assert all(len(of) == 1 for of in tasks.values())


FLAT = ["k", "f", "t", "d", "at"]


def test_a_union_is_moved_as_its_flows_give_it_whatever_they_call_and_hold_columns(
    spark: SparkSession,
) -> None:
    one = many(300).select(FLAT)
    other = many(200, seed=4).select(FLAT).rename_columns(["a", "b", "c", "d", "e"])
    encoded = other.set_column(2, "c", other.column("c").cast(pa.large_string()).dictionary_encode())
    empty = other.slice(0, 0)
    schemas = derive_spark_schema(one.schema), derive_spark_schema(other.schema)
    base = spark.range(0, 2, 1, 2)
    first, second = Flow(base, (Given(one),), schemas[0]), Flow(base, (Given(encoded),), schemas[1])
    inner = union_packed([first, second])
    assert inner is not None
    whole = union_packed([inner, Flow(base, (Given(empty),), schemas[1])])
    assert whole is not None and len(whole.flows) == 3 and whole.columns == FLAT
    plain = Flow(base, (Given(other),), schemas[1])  # Java reads no rows that are held by a dictionary
    wanted = sorted(repr(tuple(row)) for flow in (first, plain) for row in flow.frame.collect())
    assert sorted(repr(tuple(row)) for row in whole.frame.collect()) == wanted
    kept = whole.then(KeepKeys(), whole.schema)
    moved = spread_by_vnode(kept, ("k",), Context())  # type: ignore[arg-type]
    assert isinstance(moved, Flow)
    found = moved.frame.withColumn("task", F.spark_partition_id())
    assert found._jdf.queryExecution().executedPlan().toString().count("MapInArrow") == 4
    collected = found.collect()
    tasks = {(row["k"], row["task"]) for row in collected}
    assert len(tasks) == len({key for key, _ in tasks}) > 3
    assert sorted(repr(tuple(row)[:-1]) for row in collected) == [row for row in wanted if "(None" not in row]


def test_a_union_of_rows_that_spark_holds_is_not_packed(spark: SparkSession) -> None:
    rows = many(10)
    flat, schema = rows.select(FLAT), derive_spark_schema(rows.select(FLAT).schema)
    flow = Flow(spark.range(0, 1), (Given(flat),), schema)
    assert union_packed([flow]) is None
    assert union_packed([flow, flow.frame]) is None
    assert union_packed([flow, Flow(flow.frame, (), schema)]) is None
    nested = Flow(spark.range(0, 1), (Given(rows),), derive_spark_schema(rows.schema))
    assert union_packed([nested, nested]) is None
    narrow = Flow(
        spark.range(0, 1), (Given(flat.select(["k"])),), derive_spark_schema(flat.select(["k"]).schema)
    )
    assert union_packed([flow, narrow]) is None


CALLS = (
    "sum(n * w)",
    "count(n)",
    "count(1)",
    "count_if(n > 3)",
    "min(n)",
    "max(t)",
    "coalesce(sum(if(w > 0, n, NULL)), 0) + count(1)",
)


@pytest.mark.parametrize("distinct", [2, 40, 5_000])
def test_folds_in_two_bodies_are_those_in_one(distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "FOLDED_ROWS", 64)
    chance = random.Random(distinct)
    rows = pa.table(
        {
            "g": pa.array([chance.choice([None, *range(distinct)]) for _ in range(900)], pa.int64()),
            "n": pa.array([chance.choice([None, *range(9)]) for _ in range(900)], pa.int64()),
            "w": pa.array([chance.choice([-1, 1]) for _ in range(900)], pa.int64()),
            "t": pa.array([chance.choice([None, "a", "b", ""]) for _ in range(900)]),
        }
    )
    calls: list[Item] = [(f"c{n}", parse_expression(text)) for n, text in enumerate(CALLS)]
    keys: list[Item] = [("key", parse_expression("g"))]
    found = Compiler(derive_spark_schema(rows.schema), lambda: True).compile_groups(keys, calls)
    assert found is not None
    whole, _ = found
    ahead, rest = whole.split_in_two()
    parts = [rows.slice(start, 300) for start in (0, 300, 600)]  # as of three tasks
    moved = [batch for part in parts for batch in ahead(iter(part.to_batches(max_chunksize=20)))]
    folded = sum(batch.num_rows for batch in moved)
    assert folded < 100 if distinct == 2 else folded <= 900
    assert [field.name for field in ahead.schema.fields] == moved[0].schema.names
    one = pa.Table.from_batches(whole(iter(rows.to_batches(max_chunksize=20))))
    two = pa.Table.from_batches(rest(iter(moved)))
    order = [("key", "ascending")]
    assert two.sort_by(order).to_pylist() == one.sort_by(order).to_pylist()
    assert two.schema == one.schema
