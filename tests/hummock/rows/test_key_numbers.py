"""Rows numbered by their keys: as the store tells keys apart, whatever type they have."""

from __future__ import annotations

import datetime
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Hummock, Put, xxhash64
from engine.hummock.rows.key_numbers import (
    deduplicate,
    find_first_of_each,
    find_last_of_each,
    find_members,
    number_keys,
)
from engine.hummock.rows.ordering import equal_values, order_by_key
from engine.hummock.sorted_files.assumption_checks import is_same_rows

NAN = float("nan")
OTHER_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_0001))[0]
EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [0.0, -0.0, NAN, OTHER_NAN, 1e308, -1e308, 5e-324, float("inf"), None]),
    "float": (pa.float32(), [0.0, -0.0, NAN, float("-inf"), None]),
    "bigint": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None]),
    "tinyint": (pa.int8(), [0, -128, 127, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("-0.00"), Decimal(10) ** 35, None]),
    "string": (pa.string(), ["", " ", "a", "A", "á", "a\u0301", "\0", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, -(2**63), 2**63 - 1, None]),
    "time": (pa.time64("us"), [0, 86_399_999_999, None]),
    "duration": (pa.duration("us"), [0, -1, 2**63 - 1, None]),
    "struct": (pa.struct([("x", pa.float64())]), [{"x": 0.0}, {"x": -0.0}, {"x": NAN}, {"x": None}, None]),
    "array": (pa.list_(pa.float64()), [[0.0], [-0.0], [NAN], [OTHER_NAN], [], [None], [0.0, 1.0], None]),
}
NESTED = ("struct", "array")


def _column(kind: str, choose: random.Random, rows: int) -> pa.Array[Any]:
    arrow, values = EDGES[kind]
    return pa.array([choose.choice(values) for _ in range(rows)], arrow)


@pytest.mark.parametrize("kind", EDGES)
def test_rows_have_one_number_where_their_keys_are_equal_to_the_store(kind: str) -> None:
    column = pa.array(EDGES[kind][1] * 2, EDGES[kind][0])
    numbers = number_keys(pa.table({"k": column}))
    rows = len(column)
    for at in range(rows):
        same = equal_values(column, column.take(pa.array([at] * rows)))
        assert np.array_equal(same, numbers == numbers[at]), column[at]


@pytest.mark.parametrize("seed", range(20))
def test_several_columns_are_one_key_as_they_are_to_the_order_of_files(seed: int) -> None:
    choose = random.Random(seed)
    kinds = choose.sample([kind for kind in EDGES if kind not in NESTED], choose.randint(1, 3))
    keys = pa.table({f"k{n}": _column(kind, choose, 60) for n, kind in enumerate(kinds)})
    order, first = order_by_key(xxhash64(keys.columns), keys)
    groups = np.empty(keys.num_rows, dtype=np.int64)
    groups[order] = np.cumsum(first)
    numbers = number_keys(keys)
    assert len(set(zip(groups, numbers, strict=True))) == len(set(groups)) == len(set(numbers))
    starts, ends = find_first_of_each(numbers), find_last_of_each(numbers)
    assert numbers[starts].tolist() == numbers[ends].tolist() == list(range(len(starts)))
    assert (starts <= ends).all() and (np.diff(starts) > 0).all()
    assert is_same_rows(deduplicate(keys), keys.take(pa.array(starts)))
    assert find_members(keys, keys.slice(0, 1)).tolist() == (numbers == 0).tolist()


def test_a_table_holds_as_many_rows_as_its_keys_have_numbers(tmp_path: Path) -> None:
    choose = random.Random(7)
    with Hummock.open(tmp_path.as_uri()) as store:
        for kind in EDGES:
            if kind in NESTED:
                continue
            schema = pa.schema([("k", EDGES[kind][0]), ("n", pa.int64())])
            rows = pa.table([_column(kind, choose, 40), pa.array(range(40), pa.int64())], schema=schema)
            table = store.create_table(kind, schema, primary_key=["k"], distribution_key=["k"])
            store.ingest_batch({table: [Put(rows)]})
            numbers = number_keys(rows.select(["k"]))
            held = pa.Table.from_batches(list(store.iter(table)))
            assert sorted(held.column("n").to_pylist()) == sorted(find_last_of_each(numbers).tolist()), kind


def test_spark_counts_the_same_keys(spark: SparkSession) -> None:
    kinds = ("double", "float", "decimal", "string", "binary", "struct", "array")
    values = {kind: [value for value in EDGES[kind][1] if value is not None] for kind in kinds}
    rows = max(map(len, values.values()))
    columns = {
        kind: pa.array([values[kind][n % len(values[kind])] for n in range(rows)], EDGES[kind][0])
        for kind in kinds
    }
    counts = [f"count(DISTINCT {kind}) AS {kind}" for kind in kinds]
    found = spark.createDataFrame(pa.table(columns)).selectExpr(*counts).collect()[0].asDict()
    assert found == {
        kind: int(number_keys(pa.table({"k": column})).max()) + 1 for kind, column in columns.items()
    }


def test_chunks_are_one_column_and_no_rows_have_no_keys() -> None:
    column = pa.chunked_array([pa.array([0.0, NAN]), pa.array([], pa.float64()), pa.array([OTHER_NAN, -0.0])])
    assert number_keys(pa.table({"k": column})).tolist() == [0, 1, 1, 0]
    none = pa.table({"a": pa.chunked_array([], pa.float64()), "b": pa.chunked_array([], pa.string())})
    assert number_keys(none).tolist() == find_first_of_each(number_keys(none)).tolist() == []
    assert find_last_of_each(number_keys(none)).tolist() == [] and deduplicate(none).num_rows == 0
