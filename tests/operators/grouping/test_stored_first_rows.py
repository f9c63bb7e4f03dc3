"""The first rows of groups follow from those that are stored and the change, and a group that does not say enough is read anew."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import DuplicateKey
from engine.hummock import Delete, Hummock, Put, Table
from engine.operators.arrow import first_rows
from engine.operators.arrow.expressions import Inexact
from engine.operators.arrow.ordered_rows import Sorting
from engine.operators.grouping.stored_first_rows import SHORT, MergeFirstRows
from engine.operators.lookups.table_parameters import TableAt
from engine.sql.window_calls import SortKey
from tests.long_rest import mark_rest_long

SCHEMA = pa.schema([("g", pa.string()), ("n", pa.float64()), ("id", pa.int64()), ("note", pa.string())])
STORED = pa.schema([pa.field(f"{field.name}_", field.type) for field in SCHEMA])
SIGNED = SCHEMA.append(pa.field("_w", pa.int64()))
LIMIT = 3
Row = tuple[Any, ...]
Rows = Mapping[int, Row]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / "store").as_uri()) as opened:
        yield opened


def draw_row(chance: random.Random, id_: int) -> Row:
    group, number = chance.choice(["a", "b", None]), chance.choice([None, -0.0, 0.0, 1.0, 2.0, float("nan")])
    return group, number, id_, chance.choice(["x", "y"])


def change_rows(chance: random.Random, before: Rows) -> dict[int, Row]:
    """Return rows of which some have come, changed or gone."""
    after = dict(before)
    for id_ in chance.sample(range(16), chance.randrange(7)):
        if id_ in after and chance.random() < 0.5:
            del after[id_]
        else:
            after[id_] = draw_row(chance, id_)
    return after


def build_change(chance: random.Random, before: Rows, after: Rows) -> pa.Table:
    """Return the signed change between two sets of rows, some of them with rows that cancel each other, in any order."""
    signed = [(*row, -1) for id_, row in before.items() if repr(after.get(id_)) != repr(row)]
    signed += [(*row, 1) for id_, row in after.items() if repr(before.get(id_)) != repr(row)]
    for row in chance.sample(list(after.values()), min(2, len(after))):
        signed += [(*row, 1), (*row, -1)]
    chance.shuffle(signed)
    columns = list(zip(*signed, strict=True)) or [()] * 5
    return pa.table(list(columns), schema=SIGNED)


def order_rows(rows: Rows, grouped: bool) -> dict[str | None, list[Row]]:
    """Return of each group all rows in the order n DESC NULLS LAST, then the key."""

    def place(row: Row) -> tuple[Any, ...]:
        number = row[1]
        if number is None:
            return 2, 0.0, row[2]
        return (0, 0.0, row[2]) if number != number else (1, -number, row[2])

    groups: dict[str | None, list[Row]] = {}
    for row in sorted(rows.values(), key=place):
        groups.setdefault(row[0] if grouped else "all", []).append(row)
    return groups


def list_first(rows: Rows, grouped: bool) -> list[Row]:
    return [row for group in order_rows(rows, grouped).values() for row in group[:LIMIT]]


def as_texts(rows: list[Row]) -> list[str]:
    """Return rows as texts; a zero that only gets another sign is no change."""
    return sorted(repr(row).replace("-0.0", "0.0") for row in rows)


def apply_change(store: Hummock, state: Table, before: list[Row], after: list[Row]) -> None:
    """Store the rows after a change in the place of those before it."""
    keys = {row[:1] + row[2:3] for row in after}
    gone = [row for row in before if row[:1] + row[2:3] not in keys]
    some = [pa.table(list(zip(*rows, strict=True)) or [()] * 4, schema=STORED) for rows in (gone, after)]
    store.ingest_batch({state: [Delete(some[0]), Put(some[1])]})


def merge(store: Hummock, change: pa.Table, grouped: bool) -> list[dict[str, Any]]:
    """Return the signed change of the stored rows."""
    version = store.refresh().tables["state"]
    sorting = Sorting((SortKey("n", descending=True, nulls_first=False),), (SortKey("id"),))
    body = MergeFirstRows(
        store.url,
        dict(store.options),
        TableAt(version, version.committed_epoch, version.committed_epoch),
        tuple(zip(SCHEMA.names, STORED.names, strict=True)),
        ("g",) if grouped else (),
        ("id",),
        sorting,
        LIMIT,
    )
    return [row for batch in body(iter(change.to_batches(max_chunksize=3))) for row in batch.to_pylist()]


@pytest.mark.parametrize("grouped", mark_rest_long([True, False]), ids=["grouped", "all rows"])
def test_stored_rows_and_the_change_give_the_first_rows(store: Hummock, grouped: bool) -> None:
    chance = random.Random(5)
    state = store.create_table("state", STORED, ("g_", "id_"), ("g_",))
    rows: dict[int, Row] = {}
    short_groups = 0
    for epoch in range(150):
        after = change_rows(chance, rows) if epoch % 40 else {}
        found = merge(store, build_change(chance, rows, after), grouped)
        short = {row["g"] if grouped else "all" for row in found if row[SHORT]}
        before_first, after_first = list_first(rows, grouped), list_first(after, grouped)
        kept = {repr(row): row for row in before_first}
        for row in sorted(found, key=lambda row: int(row["_w"])):
            values = tuple(row[name] for name in SCHEMA.names)
            if row["_w"] < 0:
                del kept[repr(values)]
            elif row["_w"] > 0:
                assert repr(values) not in kept
                kept[repr(values)] = values
        anew = [row for row in after_first if (row[0] if grouped else "all") in short]
        assert as_texts([*kept.values(), *anew]) == as_texts(after_first), epoch
        groups = order_rows(rows, grouped)
        assert all(len(groups[name]) >= LIMIT for name in short)  # what is stored whole is not read anew
        short_groups += len(short)
        apply_change(store, state, before_first, after_first)
        rows = after
    assert 5 < short_groups < 120


def test_two_rows_of_one_key_are_refused(store: Hummock) -> None:
    store.create_table("state", STORED, ("g_", "id_"), ("g_",))
    twice = pa.table([["a", "a"], [1.0, 2.0], [7, 7], ["x", "y"], [1, 1]], schema=SIGNED)
    with pytest.raises(DuplicateKey, match="'id': 7"):
        merge(store, twice, grouped=True)


@pytest.mark.parametrize(("stored_rows", "changed_rows"), [(3, 1), (0, 3)], ids=["stored", "changed"])
def test_more_rows_than_one_task_may_hold_are_left_to_spark(
    store: Hummock, stored_rows: int, changed_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "MOST_ROWS", 2)
    state = store.create_table("state", STORED, ("g_", "id_"), ("g_",))
    apply_change(store, state, [], [("a", 1.0, id_, "x") for id_ in range(stored_rows)])
    rows = [("a", 2.0, 10 + id_, "x", 1) for id_ in range(changed_rows)]
    with pytest.raises(Inexact, match="first rows among 3 rows"):
        merge(store, pa.table(list(zip(*rows, strict=True)), schema=SIGNED), grouped=True)
