"""Changes by key become files: of each key what counts, over parts of any size, equal to what a dictionary holds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from engine.hummock import Commit, Hummock, Put
from engine.hummock.rows.row_hash import xxhash64
from engine.runtime.writes import change_tasks
from engine.runtime.writes.change_tasks import ChangeResult, WriteChanges
from engine.runtime.writes.spill import PLACE
from engine.session import Session

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("v", pa.float64()),
        ("m", pa.map_(pa.string(), pa.int32())),
        (PLACE, pa.int64()),
    ]
)
Row = tuple[Any, ...]
"""Of a change: the columns, when it was, and whether the row goes."""


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    with Session((tmp_path / "store").as_uri()) as opened:
        opened.sql("CREATE TABLE t (a BIGINT, b STRING, v DOUBLE, m MAP<STRING, INT>, PRIMARY KEY (a, b))")
        yield opened


def value(chance: random.Random) -> Row:
    number = chance.choice([None, 0.0, 1.5, float("nan"), float("inf")])
    return number, chance.choice([None, [], [("k", 1)], [("k", None), ("l", 2)]])


def body_of(lake: Session, **said: bool) -> WriteChanges:
    store = lake.store
    table = store.refresh().tables["t"]
    return WriteChanges(store.url, dict(store.options), lake.catalog.get("t"), table.table, **said)


def placed(rows: list[Row]) -> pa.Table:
    items = [(*columns, at * 2 + (not gone)) for *columns, at, gone in rows]
    return pa.table(
        [
            pa.array(list(values), field.type)
            for values, field in zip(zip(*items, strict=True), SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )


def ordered(rows: list[Row]) -> pa.Table:
    table = placed(rows)
    hashes = pa.array(xxhash64([table.column("a"), table.column("b")]))
    keyed = table.append_column("_h", hashes)
    return keyed.sort_by([(name, "ascending") for name in ("_h", "a", "b", PLACE)]).drop_columns("_h")


def run(lake: Session, body: WriteChanges, rows: pa.Table, size: int) -> ChangeResult:
    """Run a task over batches of a size, commit what it has written, and return what it says."""
    (answer,) = body(iter(rows.to_batches(size)))
    done = msgspec.msgpack.decode(answer.column(0)[0].as_py(), type=ChangeResult)
    if done.rows:
        few = pa.ipc.open_stream(done.rows).read_all()
        done.ssts += tuple(lake.store.reader.write_run(body.table, few))
    if done.ssts:
        lake.store.commit(Commit(writes={"t": done.ssts}))
    return done


def held(store: Hummock) -> dict[Row, Row]:
    store.refresh()
    rows = [row for batch in store.iter("t") for row in batch.to_pylist()]
    return {(row["a"], row["b"]): shown((row["v"], row["m"])) for row in rows}


def shown(row: Row) -> Row:
    return tuple(repr(one) for one in row)


@pytest.mark.parametrize("seed", range(12))
def test_parts_of_any_size_give_what_a_dictionary_holds(
    lake: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(change_tasks, "WRITE_ROWS", chance.choice([1, 2, 5, 10_000]))
    keys = [(a, b) for a in range(6) for b in ("", "x")]
    expected: dict[Row, Row] = {}
    for _ in range(6):
        compares = chance.random() < 0.5
        rows: list[Row] = []
        after: dict[Row, Row] = {} if compares else dict(expected)
        if compares:
            stored = [row for batch in lake.store.iter("t") for row in batch.to_pylist()]
            rows += [(row["a"], row["b"], row["v"], row["m"], 0, True) for row in stored]
            for key in chance.sample(keys, chance.randrange(1, len(keys))):
                old = next(((r["v"], r["m"]) for r in stored if (r["a"], r["b"]) == key), None)
                new = old if old is not None and chance.random() < 0.5 else value(chance)
                rows.append((*key, *new, 1, False))
                after[key] = shown(new)
        else:
            for place in range(1, chance.randrange(2, 40)):
                key, gone, new = chance.choice(keys), chance.random() < 0.3, value(chance)
                rows.append((*key, *new, place, gone))
                after.pop(key, None)
                if not gone:
                    after[key] = shown(new)
        changed = sum(after.get(key) != expected.get(key) for key in keys)
        done = run(lake, body_of(lake, compares=compares), ordered(rows), chance.choice([1, 3, 100]))
        expected = after
        assert held(lake.store) == expected
        assert done.aside == done.twice == 0
        if compares:
            assert done.puts + done.deletes == changed


def test_of_rows_of_one_place_the_greatest_is_taken_whatever_their_order(lake: Session) -> None:
    rows = [(1, "", float(n), None, 1, False) for n in (3, 9, 5)] + [(2, "", 0.0, None, 1, False)]
    for _ in range(3):
        for order in (rows, rows[::-1]):
            for size in (1, 100):
                stored = [
                    (row["a"], row["b"], row["v"], row["m"], 0, True)
                    for batch in lake.store.iter("t")
                    for row in batch.to_pylist()
                ]
                whole = ordered([*order, *stored])
                done = run(lake, body_of(lake, compares=True), whole, size)
                assert (done.twice, done.aside) == (2, 2)
                assert sorted(json.loads(letter.raw)["v"] for letter in done.letters) == [3.0, 5.0]
                assert done.puts == (0 if stored else 2)
                assert held(lake.store)[1, ""] == shown((9.0, None))


def test_of_several_old_rows_of_a_key_it_is_not_known_which_one_is_there(lake: Session) -> None:
    run(lake, body_of(lake), ordered([(1, "", 9.0, None, 1, False), (2, "", 2.0, None, 1, False)]), 9)
    old: list[Row] = [(1, "", v, None, 0, True) for v in (5.0, 9.0)] + [(2, "", 2.0, None, 0, True)]
    new: list[Row] = [(1, "", v, None, 0, False) for v in (3.0, 5.0)] + [(2, "", 2.0, None, 0, False)]
    for size in (1, 2, 100):
        assert run(lake, body_of(lake, compares=True), ordered(old + new), size).puts == 1
        assert held(lake.store)[1, ""] == shown((5.0, None))


def test_rows_without_a_key_that_a_difference_says_were_there_are_not_set_aside_again(lake: Session) -> None:
    rows: list[Row] = [(None, "x", v, None, 0, True) for v in (1.0, 2.0, 2.0)]
    rows += [(None, "x", v, None, 0, False) for v in (2.0, 2.0, 2.0, 3.0)]
    rows += [(1, None, 1.0, None, 0, True), (None, None, 1.0, None, 0, False)]
    for size in (1, 100):
        done = run(lake, body_of(lake, compares=True), ordered(rows), size)
        assert (done.aside, sorted(json.loads(one.raw)["v"] for one in done.letters)) == (3, [1.0, 2.0, 3.0])


def test_rows_without_a_key_are_set_aside_as_far_as_they_come(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_tasks, "MOST_LETTERS", 3)
    rows: list[Row] = [(None, "x", 1.0, None, n, n % 2 == 0) for n in range(10)]
    rows += [(1, None, 2.0, None, 11, False), (1, "x", 2.0, None, 12, False)]
    done = run(lake, body_of(lake), ordered(rows), 4)
    assert (done.aside, len(done.letters), done.puts) == (6, 3, 1)
    assert {letter.reason for letter in done.letters} <= {
        "the key a is null",
        "the key b is null",
        "the key a, b is null",
    }
    assert list(held(lake.store)) == [(1, "x")]


@pytest.mark.parametrize("size", [1, 100])
def test_rows_without_a_place_come(lake: Session, size: int) -> None:
    rows: list[Row] = [(n, "x", float(n), None, 0, False) for n in (1, 2, 2)] + [
        (None, "x", 0.0, None, 0, False)
    ]
    done = run(lake, body_of(lake, compares=True, new=True), ordered(rows).drop_columns(PLACE), size)
    assert (done.puts, done.deletes, done.twice, done.aside) == (2, 0, 1, 2)
    assert {letter.place for letter in done.letters} == {1}
    assert held(lake.store) == {(n, "x"): shown((float(n), None)) for n in (1, 2)}


def test_few_rows_in_any_order_give_the_same(lake: Session) -> None:
    lake.store.ingest_batch(
        {"t": [Put(pa.table({"a": [7], "b": ["z"], "v": [1.0], "m": pa.nulls(1, SCHEMA.field("m").type)}))]}
    )
    rows: list[Row] = [
        (7, "z", 2.0, None, 4, True),
        (1, "x", 2.0, None, 3, False),
        (1, "x", 1.0, None, 2, False),
        (7, "z", 3.0, None, 3, False),
    ]
    done = body_of(lake).write_rows(placed(rows), lake.store.reader)
    assert (done.puts, done.deletes) == (1, 1)
    lake.store.commit(Commit(writes={"t": done.ssts}))
    assert held(lake.store) == {(1, "x"): shown((2.0, None))}
