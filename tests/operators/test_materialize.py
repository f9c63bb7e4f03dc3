"""Signed rows net to one operation a key, whatever cancels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DuplicateKey
from engine.hummock import Hummock
from engine.operators.materialize import net_by_key, write_change

Row = tuple[int | None, float | None, tuple[int, ...] | None]
rows = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 0.5, float("nan")]),
    st.sampled_from([None, (), (1,), (1, 2)]),
)
SCHEMA = pa.schema({"k": pa.int64(), "x": pa.float64(), "l": pa.list_(pa.int64()), "_w": pa.int64()})


def table(signed: list[tuple[Row, int]]) -> pa.Table:
    """Return signed rows as Arrow."""
    listed = [
        {"k": k, "x": x, "l": None if many is None else list(many), "_w": w} for (k, x, many), w in signed
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


@given(
    st.dictionaries(st.sampled_from([None, 1, 2, 3]), st.tuples(st.none() | rows, st.none() | rows)),
    st.lists(rows, max_size=12),
    st.randoms(use_true_random=False),
)
def test_what_cancels_leaves_the_old_and_the_new_row_of_each_key(pairs, noise, chance) -> None:
    signed: list[tuple[Row, int]] = [(row, w) for row in noise for w in (1, -1)]
    expected = {}
    for key, (old, new) in pairs.items():
        before, after = (None if row is None else (key, row[1], row[2]) for row in (old, new))
        signed += [(row, w) for row, w in ((before, -1), (after, 1)) if row is not None]
        if repr(before) != repr(after):
            expected[key] = (before, after)
    chance.shuffle(signed)
    net, inserted, updated, deleted = net_by_key(table(signed), ("k",), "t")
    found = {row["k"]: row for row in net.to_pylist()}
    assert found.keys() == expected.keys()
    for key, (_, after) in expected.items():
        assert found[key]["_op"] == (1 if after is None else 0)
        if after is not None:
            listed = None if after[2] is None else list(after[2])
            assert repr((found[key]["x"], found[key]["l"])) == repr((after[1], listed))
    kinds = Counter(
        "i" if before is None else "d" if after is None else "u" for before, after in expected.values()
    )
    assert (inserted, updated, deleted) == (kinds["i"], kinds["u"], kinds["d"])


def test_two_rows_of_a_key_that_do_not_cancel_are_an_error() -> None:
    with pytest.raises(DuplicateKey, match="more than one row for the key"):
        net_by_key(table([((1, 0.5, None), 1), ((1, 1.5, None), 1), ((1, 2.5, None), -1)]), ("k",), "t")


def test_rows_that_differ_in_the_sign_of_a_zero_cancel() -> None:
    signed: list[tuple[Row, int]] = [
        ((1, 0.5, None), -1),
        ((1, -0.0, None), -1),
        ((1, 0.0, None), 1),
        ((1, 2.5, None), 1),
    ]
    net, _, updated, _ = net_by_key(table(signed), ("k",), "t")
    assert (net.column("x").to_pylist(), updated) == ([2.5], 1)


def test_rows_that_only_come_in_are_written_as_they_are(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        made = store.create_table("t", SCHEMA.remove(3), ["k"], ["k"])
        rows = table([((3, 0.5, ()), 1), ((1, float("nan"), None), 1), ((2, None, (1,)), 1)])
        change = write_change(store.reader, made, rows)
        assert (change.inserted, change.updated, change.deleted) == (3, 0, 0)
        assert [sst.rows for sst in change.ssts] == [3] and all(sst.new_keys for sst in change.ssts)


def test_two_rows_that_come_in_with_one_key_are_an_error_of_the_query(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        made = store.create_table("t", SCHEMA.remove(3), ["k"], ["k"])
        with pytest.raises(DuplicateKey, match="t: the query gives more than one row for the key") as raised:
            write_change(store.reader, made, table([((1, 0.5, None), 1), ((1, 0.5, None), 1)]))
        assert raised.value.__context__ is None


def test_rows_with_lists_of_dates_that_python_has_not_cancel() -> None:
    days = pa.array([[4_000_000], [4_000_001], [4_000_001], [4_000_002]], pa.list_(pa.int32()))
    signed = pa.table({"k": [1] * 4, "l": days.cast(pa.list_(pa.date32())), "_w": [-1, 1, -1, 1]})
    net, _, updated, _ = net_by_key(signed, ("k",), "t")
    assert (net.column("l").cast(pa.list_(pa.int32())).to_pylist(), updated) == ([[4_000_002]], 1)


def test_a_key_that_python_has_no_date_for_is_told_where_it_stands_twice() -> None:
    days = pa.array([4_000_000] * 2, pa.int32()).cast(pa.date32())
    with pytest.raises(DuplicateKey, match=r"for the key .*12921-08-18"):
        net_by_key(pa.table({"k": days, "x": [1, 2], "_w": [1, 1]}), ("k",), "t")
