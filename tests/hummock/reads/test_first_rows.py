"""The first and the last row of a key's rows equal those of a whole lookup, whatever lies above them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put
from tests.long_rest import mark_rest_long

SCHEMA = pa.schema([("g", pa.string()), ("x", pa.float64()), ("n", pa.int64()), ("v", pa.int64())])
GROUPS = st.sampled_from(["a", "b", None])
VALUES = st.sampled_from([None, float("nan"), -1.5, 0.0, 1.0, 2.0, 3.5])
KEYS = st.tuples(GROUPS, VALUES, st.integers(0, 3))
EPOCHS = st.lists(
    st.tuples(st.lists(KEYS, max_size=12, unique=True), st.lists(KEYS, max_size=12, unique=True)),
    min_size=1,
    max_size=6,
)


def keyed(keys: list[tuple], columns: int) -> pa.Table:
    arrays = [pa.array([key[i] for key in keys], SCHEMA.field(i).type) for i in range(columns)]
    return pa.table(arrays, names=SCHEMA.names[:columns])


@pytest.mark.parametrize("distributed", mark_rest_long([["g"], None]), ids=["distributed", "ordered"])
@settings(max_examples=30, deadline=None)
@given(epochs=EPOCHS)
def test_the_first_and_the_last_row_are_those_of_the_group(epochs: list, distributed: list | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Hummock.open((Path(folder) / "store").as_uri(), cache_dir=Path(folder) / "cache")
        check_ends(store, epochs, distributed)


def check_ends(store: Hummock, epochs: list, distributed: list | None) -> None:
    table = store.create_table("s", SCHEMA, ["g", "x", "n"], distributed)
    for number, (put, deleted) in enumerate(epochs):
        rows = keyed(put, 3).append_column("v", pa.array([number] * len(put), pa.int64()))
        changes = [Put(rows)] if put else []
        gone = [key for key in deleted if repr(key) not in {repr(other) for other in put}]
        changes += [Delete(keyed(gone, 3))] if gone else []
        if changes:
            store.ingest_batch({table: changes})
    version, epoch = store.version.tables["s"], store.version.epoch
    keys = pa.table({"g": pa.array(["b", None, "zz", "a", "b"], pa.string())})
    index, rows = store.reader.lookup(version, keys, epoch, null_safe=True)
    for last in (False, True):
        wanted = {}
        for i, row in zip(index.tolist(), rows.to_pylist(), strict=True):
            if last or i not in wanted:
                wanted[i] = row
        found, answer = store.reader.find_first_rows(version, keys, epoch, columns=SCHEMA.names, last=last)
        assert repr(dict(zip(found.tolist(), answer.to_pylist(), strict=True))) == repr(wanted)


def test_more_leading_columns_narrow_the_rows(store: Hummock) -> None:
    table = store.create_table("s", SCHEMA, ["g", "x", "n"], ["g"])
    rows = [("a", x, n, n) for x in (1.0, 2.0) for n in range(50)]
    store.ingest_batch({table: [Put(pa.table([list(c) for c in zip(*rows, strict=True)], schema=SCHEMA))]})
    version = store.version.tables["s"]
    keys = pa.table({"g": ["a", "a"], "x": [2.0, 7.0]})
    index, found = store.reader.find_first_rows(version, keys, store.version.epoch, columns=["n"], last=True)
    assert (index.tolist(), found.to_pylist()) == ([0], [{"n": 49}])


def test_rows_in_a_large_group_are_found_by_their_whole_key(store: Hummock) -> None:
    table = store.create_table("s", SCHEMA, ["g", "x", "n"], ["g"])
    rows = pa.table([["a"] * 1000, np.arange(1000.0), np.arange(1000), np.arange(1000)], schema=SCHEMA)
    store.ingest_batch({table: [Put(rows)]})
    store.ingest_batch({table: [Delete(keyed([("a", 500.0, 500)], 3))]})
    version = store.version.tables["s"]
    asked = keyed([("a", 999.0, 999), ("a", 500.0, 500), ("a", 3.0, 3), ("a", 3.0, 4), ("b", 3.0, 3)], 3)
    index, found = store.reader.lookup(version, asked, store.version.epoch, columns=["v"])
    assert list(zip(index.tolist(), found.column("v").to_pylist(), strict=True)) == [(0, 999), (2, 3)]


def test_columns_that_do_not_lead_the_key_are_refused(store: Hummock) -> None:
    table = store.create_table("s", SCHEMA, ["g", "x", "n"], ["g"])
    keys = pa.table({"g": ["a"], "n": [1]})
    with pytest.raises(InvalidRow, match="leading columns of the key g, x, n"):
        store.reader.find_first_rows(store.version.tables["s"], keys, store.version.epoch, columns=["v"])
    assert table.primary_key == ("g", "x", "n")


def test_the_columns_may_be_the_whole_key(store: Hummock) -> None:
    table = store.create_table("s", SCHEMA, ["g", "x", "n"], ["g"])
    rows = [("a", float(n), n, 0) for n in range(5)]
    store.ingest_batch({table: [Put(pa.table([list(c) for c in zip(*rows, strict=True)], schema=SCHEMA))]})
    store.ingest_batch({table: [Put(pa.table([["a"], [3.0], [3], [1]], schema=SCHEMA))]})
    store.ingest_batch({table: [Delete(keyed([("a", 2.0, 2)], 3))]})
    version = store.version.tables["s"]
    asked = keyed([("a", 3.0, 3), ("a", 2.0, 2), ("a", 4.0, 4), ("b", 3.0, 3), ("a", 4.0, 3)], 3)
    for last in (False, True):
        index, found = store.reader.find_first_rows(
            version, asked, store.version.epoch, columns=["n", "v"], last=last
        )
        assert dict(zip(index.tolist(), found.to_pylist(), strict=True)) == {
            0: {"n": 3, "v": 1},
            2: {"n": 4, "v": 0},
        }
