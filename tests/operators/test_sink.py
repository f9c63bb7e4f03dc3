"""Signed rows net to one operation a key, whatever cancels."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DuplicateKey
from engine.operators.sink import net_by_key

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
