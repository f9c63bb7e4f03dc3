"""Puts, deletions and reads through the three verbs."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import DuplicateKey, InvalidRow, StorageError, TableExists, UnknownTable
from engine.hummock import Delete, Hummock, Put, Table
from tests.hummock.conftest import SCHEMA, content, keys, rows


def test_what_was_put_is_read_back_by_another_handle(store: Hummock, table: Table, open_store) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    assert content(open_store(create=False)) == {1: "a", 2: "b"}


def test_the_last_row_of_a_key_in_a_put_counts(store: Hummock, table: Table) -> None:
    twice = pa.table({"id": [1, 2, 1], "v": ["old", "b", "new"]})
    store.ingest_batch({table: [Put(twice)]})
    assert content(store) == {1: "new", 2: "b"}


def test_later_operations_win_over_earlier_ones(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "b"})), Delete(keys(1, 2)), Put(rows({2: "c"}))]})
    assert content(store) == {2: "c"}


def test_a_deletion_of_a_missing_key_is_no_error(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: Delete(keys(7))})
    assert content(store) == {}


def test_get_finds_the_row_of_each_epoch(store: Hummock, table: Table) -> None:
    first = store.ingest_batch({table: [Put(rows({1: "a"}))]})
    second = store.ingest_batch({table: [Put(rows({1: "b"}))]})
    third = store.ingest_batch({table: [Delete(keys(1))]})
    assert [store.get(table, {"id": 1}, epoch=e) for e in (first - 1, first, second, third)] == [
        None,
        {"id": 1, "v": "a"},
        {"id": 1, "v": "b"},
        None,
    ]


def test_multi_get_gives_a_row_per_key_in_order_with_nulls_where_absent(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({1: "a", 2: "b"}))]})
    found = store.multi_get(table, keys(2, 9, 1, 2), columns=["v"])
    assert found.column("v").to_pylist() == ["b", None, "a", "b"]
    assert store.multi_get(table, keys()).num_rows == 0


def test_a_batch_commits_several_tables_in_one_epoch(store: Hummock) -> None:
    store.create_table("a", SCHEMA, ["id"], ["id"])
    store.create_table("b", SCHEMA, ["id"])
    with store.epoch() as batch:
        batch.put("a", rows({1: "x"}))
        batch.put("b", rows({1: "y", 2: "z"}))
        batch.delete("b", keys(2))
        assert content(store, "a") == {}
    assert batch.result_epoch == store.version.epoch
    assert (content(store, "a"), content(store, "b")) == ({1: "x"}, {1: "y"})


def test_a_batch_whose_body_raises_commits_nothing(store: Hummock, table: Table) -> None:
    number = store.version.number
    with pytest.raises(KeyError), store.epoch() as batch:
        batch.put(table, rows({1: "x"}))
        raise KeyError
    assert store.refresh().number == number
    assert content(store) == {}


def test_a_batch_that_spills_lets_later_operations_win(store: Hummock, table: Table, monkeypatch) -> None:
    monkeypatch.setattr("engine.hummock.writes.batch.SPILL_BYTES", 1)
    with store.epoch() as batch:
        batch.put(table, rows({1: "a", 2: "b"}))
        batch.put(table, rows({1: "A"}))
        batch.delete(table, keys(2))
    assert store.version.tables["t"].file_count == 4
    assert content(store) == {1: "A"}
    assert store.get(table, {"id": 1}) == {"id": 1, "v": "A"}
    assert store.get(table, {"id": 2}) is None


def test_rows_come_in_key_order_without_a_distribution_key(store: Hummock) -> None:
    table = store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({table: [Put(rows({i: str(i) for i in (5, 3, 9)}))]})
    store.ingest_batch({table: [Put(rows({i: str(i) for i in (4, 1, 9)}))]})
    assert list(content(store)) == [1, 3, 4, 5, 9]


@pytest.mark.parametrize("distribution", [["a"], None])
def test_a_prefix_gives_its_rows_in_key_order(store: Hummock, distribution: list[str] | None) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("v", pa.int64())])
    table = store.create_table("p", schema, ["a", "b"], distribution)

    def put(*values: tuple[str, int, int]) -> Put:
        return Put(pa.table([pa.array(c) for c in zip(*values, strict=True)], schema=schema))

    store.ingest_batch({table: [put(("x", 5, 1), ("x", 1, 1), ("y", 2, 1))]})
    store.ingest_batch({table: [put(("x", 3, 2), ("x", 5, 2)), Delete(pa.table({"a": ["x"], "b": [1]}))]})
    batches = list(store.iter(table, prefix={"a": "x"}, columns=["b", "v"]))
    assert [row for batch in batches for row in batch.to_pylist()] == [{"b": 3, "v": 2}, {"b": 5, "v": 2}]


def test_a_range_gives_the_rows_between_its_bounds(store: Hummock) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    table = store.create_table("r", schema, ["a", "b"])
    store.ingest_batch({table: [Put(pa.table({"a": ["k", "l", "m"], "b": [1, 2, 3]}))]})
    store.ingest_batch(
        {table: [Put(pa.table({"a": ["l", "l"], "b": [1, 3]})), Delete(pa.table({"a": ["m"], "b": [3]}))]}
    )
    found = [row for b in store.iter(table, range=({"a": "l", "b": 2}, {"a": "n"})) for row in b.to_pylist()]
    assert found == [{"a": "l", "b": 2}, {"a": "l", "b": 3}]
    assert [b.num_rows for b in store.iter(table, range=(None, {"a": "l"}))] == [1]


def test_hash_ranges_partition_a_table(store: Hummock) -> None:
    table = store.create_table("t", SCHEMA, ["id"], ["id"])
    store.ingest_batch({table: [Put(rows({i: str(i) for i in range(1000)}))]})
    store.ingest_batch({table: [Put(rows({i: "new" for i in range(0, 1000, 3)}))]})
    lowest, highest = -(1 << 63), (1 << 63) - 1
    parts = [(lowest, -1), (0, 1 << 61), ((1 << 61) + 1, highest)]
    found = [r["id"] for part in parts for b in store.iter(table, hash_range=part) for r in b.to_pylist()]
    assert sorted(found) == list(range(1000))


def test_null_keys_are_stored_and_found(store: Hummock) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int64())])
    table = store.create_table("n", schema, ["k", "n"], ["k"])
    put = {"k": [None, None, "a", "a"], "n": [None, 1, None, 2], "v": [1, 2, 3, 4]}
    store.ingest_batch({table: [Put(pa.table(put, schema=schema))]})
    store.ingest_batch({table: [Put(pa.table({"k": [None], "n": [None], "v": [9]}, schema=schema))]})
    assert store.get(table, {"k": None, "n": None})["v"] == 9
    assert store.get(table, {"k": None, "n": 1})["v"] == 2
    assert store.get(table, {"k": "a", "n": None})["v"] == 3
    assert sum(batch.num_rows for batch in store.iter(table)) == 4


KEYS = [
    (pa.bool_(), [False, True]),
    (pa.int8(), [-1, 0, 7]),
    (pa.int32(), [-(2**31), 5]),
    (pa.float32(), [-1.5, 0.0, 2.5]),
    (pa.float64(), [float("-inf"), -1.0, 0.0, 1e300, float("nan")]),
    (pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9.99")]),
    (pa.decimal128(38, 4), [Decimal("-12345678901234567890.1234"), Decimal("0.0000")]),
    (pa.string(), ["", "a", "ab", "ż"]),
    (pa.binary(), [b"", b"\x00", b"\xff"]),
    (pa.date32(), [dt.date(1900, 1, 1), dt.date(2024, 2, 29)]),
    (pa.timestamp("us"), [dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 2, 3, 4)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS, ids=lambda part: str(part)[:20])
@pytest.mark.parametrize("distributed", [True, False], ids=["distributed", "ordered"])
def test_every_key_type_is_overwritten_and_found(
    store: Hummock, kind, values: list, distributed: bool
) -> None:
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = store.create_table("k", schema, ["k"], ["k"] if distributed else None)
    with_null = [*values, None]
    for version in (1, 2):
        given = pa.table(
            {"k": pa.array(list(reversed(with_null)), kind), "v": [version] * len(with_null)}, schema=schema
        )
        store.ingest_batch({table: [Put(given)]})
    for value in with_null:
        assert store.get(table, {"k": value})["v"] == 2
    assert sum(batch.num_rows for batch in store.iter(table)) == len(with_null)
    store.compact(table)
    assert sum(batch.num_rows for batch in store.iter(table)) == len(with_null)


def test_minus_zero_and_zero_are_one_key(store: Hummock) -> None:
    schema = pa.schema([("k", pa.float64()), ("v", pa.int64())])
    table = store.create_table("z", schema, ["k"], ["k"])
    store.ingest_batch({table: [Put(pa.table({"k": [0.0], "v": [1]}))]})
    store.ingest_batch({table: [Put(pa.table({"k": [-0.0], "v": [2]}))]})
    assert [row["v"] for batch in store.iter(table) for row in batch.to_pylist()] == [2]


def test_nested_values_survive(store: Hummock) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("at", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))])),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    table = store.create_table("nested", schema, ["id"], ["id"])
    row = {"id": 1, "tags": ["a", None], "at": {"x": 1, "y": [2]}, "m": [("k", 1)]}
    empty = {"id": 2, "tags": None, "at": None, "m": None}
    store.ingest_batch({table: [Put(pa.Table.from_pylist([row, empty], schema=schema))]})
    before = store.version.epoch
    store.ingest_batch({table: [Put(pa.Table.from_pylist([row], schema=schema))]})
    assert store.get(table, {"id": 1}) == row
    assert store.get(table, {"id": 2}) == empty
    assert list(store.iter_log(table, before)) == []


def test_wrong_rows_are_refused_with_the_column_named(store: Hummock, table: Table) -> None:
    with pytest.raises(InvalidRow, match="v is missing"):
        store.ingest_batch({table: [Put(keys(1))]})
    with pytest.raises(InvalidRow, match="no column w"):
        store.ingest_batch({table: [Put(pa.table({"id": [1], "v": ["a"], "w": [1]}))]})
    with pytest.raises(InvalidRow, match="column id"):
        store.ingest_batch({table: [Put(pa.table({"id": ["one"], "v": ["a"]}))]})
    with pytest.raises(InvalidRow, match="primary key"):
        store.ingest_batch({table: [Delete(pa.table({"v": ["a"]}))]})
    with pytest.raises(InvalidRow, match="no column w"):
        list(store.iter(table, columns=["w"]))


def test_a_run_with_a_key_twice_is_refused(store: Hummock, table: Table) -> None:
    twice = pa.table({"id": [1, 1], "v": ["a", "b"], "_op": pa.array([0, 0], pa.uint8())})
    with pytest.raises(DuplicateKey, match="'id': 1"):
        store.reader.write_run(table, twice)


def test_a_key_that_python_has_no_date_for_is_told_too(store: Hummock) -> None:
    made = store.create_table("stay", pa.schema([("day", pa.date32())]), ["day"])
    days = pa.array([4_000_000] * 2, pa.int32()).cast(pa.date32())
    with pytest.raises(DuplicateKey, match=r"'day': '\+12921-08-18'"):
        store.reader.write_run(made, pa.table({"day": days, "_op": pa.array([0, 0], pa.uint8())}))


def test_an_unknown_table_is_told_with_near_names(store: Hummock) -> None:
    store.create_table("orders", SCHEMA, ["id"])
    with pytest.raises(UnknownTable, match="did you mean orders"):
        store.table("order")


def test_a_table_is_created_once_and_dropped_for_all(
    store: Hummock, table: Table, open_store: Callable
) -> None:
    with pytest.raises(TableExists, match="t exists already"):
        store.create_table("t", SCHEMA, ["id"])
    other = open_store()
    store.drop_table(table)
    with pytest.raises(UnknownTable):
        other.ingest_batch({"t": [Put(rows({1: "a"}))]})


@pytest.mark.parametrize(
    ("primary", "distribution", "message"),
    [
        (["nope"], None, "no column nope"),
        ([], None, "primary key"),
        (["id"], ["v"], "part of the primary key"),
        (["tags"], None, "cannot be a key"),
    ],
)
def test_keys_that_do_not_fit_the_schema_are_refused(store: Hummock, primary, distribution, message) -> None:
    with pytest.raises(InvalidRow, match=message):
        store.create_table(
            "bad", SCHEMA.append(pa.field("tags", pa.list_(pa.int64()))), primary, distribution
        )


def test_opening_where_no_store_is_fails_without_create(open_store: Callable) -> None:
    with pytest.raises(StorageError, match="create=True"):
        open_store(create=False)


def test_a_store_whose_folder_was_removed_can_be_made_anew_at_its_address(tmp_path: Path) -> None:
    url = (tmp_path / "s").as_uri()
    for value in ("first", "second"):
        with Hummock.open(url, cache_dir=tmp_path / "c") as store:
            store.create_table("t", SCHEMA, ["id"])
            store.ingest_batch({"t": [Put(rows({1: value}))]})
            with store.epoch() as batch:
                batch.put("t", rows({2: value}))
            assert content(store) == {1: value, 2: value}
        shutil.rmtree(tmp_path / "s")


def test_a_store_whose_folder_was_removed_under_it_says_so(tmp_path: Path) -> None:
    store = Hummock.open((tmp_path / "s").as_uri(), cache_dir=tmp_path / "c")
    store.create_table("t", SCHEMA, ["id"])
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(StorageError, match="was removed"):
        store.ingest_batch({"t": [Put(rows({1: "a"}))]})
    assert not (tmp_path / "s").exists()


def test_the_row_count_is_an_upper_bound_whatever_is_deleted(store: Hummock, table: Table) -> None:
    store.ingest_batch({table: [Put(rows({n: "x" for n in range(100)}))]})
    for step in range(5):
        store.ingest_batch({table: [Delete(keys(*range(1000 * step + 1000, 1000 * step + 1100)))]})
    assert store.version.tables["t"].row_count >= 100
    store.ingest_batch({table: [Delete(keys(*range(10)))]})
    assert store.version.tables["t"].row_count >= 90
    store.compact(table)
    assert store.version.tables["t"].row_count == 90
