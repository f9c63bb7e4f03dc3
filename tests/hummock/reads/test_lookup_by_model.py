"""Lookups over random states give what a plain search of the rows gives: any key, epoch and number of files."""

from __future__ import annotations

import datetime
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.hummock import Delete, Hummock, Put, Table
from engine.hummock.compaction import Full, Tier
from engine.hummock.reads import lookup
from tests.long_rest import mark_rest_long

NAN = float("nan")
AT = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
DRAWS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "constant": (pa.int32(), [7]),
    "number": (pa.int64(), [*range(40), -(2**63), 2**63 - 1]),
    "few": (pa.int32(), [0, 1, None]),
    "flag": (pa.bool_(), [True, False]),
    "maybe": (pa.bool_(), [True, False, None]),
    "moment": (pa.timestamp("us", "UTC"), [AT + datetime.timedelta(hours=n) for n in range(30)]),
    "double": (pa.float64(), [0.0, -0.0, NAN, 1.5, None, *map(float, range(20))]),
    "text": (pa.string(), ["", "a", "á", "\0", None, *map(str, range(40))]),
}
KEYS = [
    (("constant", "flag", "moment"), 1),
    (("constant", "number"), 1),
    (("constant", "few", "text"), 1),
    (("few", "maybe", "number"), 1),
    (("number",), 1),
    (("text",), 1),
    (("double", "text"), 2),
    (("number", "flag"), 0),
    (("text", "number", "few"), 0),
    (("number", "text", "moment"), 3),
]


def normalize(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


class Model:
    """A table and, at each epoch, its rows by key."""

    def __init__(self, folder: Path, chance: random.Random, key: tuple[str, ...], distributed: int) -> None:
        self.chance, self.key = chance, key
        self.schema = pa.schema(
            [*((name, DRAWS[name][0]) for name in key), ("v", pa.int64()), ("s", pa.string())]
        )
        self.store = Hummock.open(folder.as_uri(), cache_dir=folder.parent / "cache", auto_compact="off")
        self.table: Table = self.store.create_table(
            "t", self.schema, list(key), list(key[:distributed]) or None
        )
        self.states: dict[int, dict[tuple[Any, ...], dict[str, Any]]] = {}
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for step in range(7):
            puts = [self.draw_row() for _ in range(chance.choice([1, 3, 300 if step == 0 else 40]))]
            by_key = {self.as_key(row): row for row in puts}
            gone = {one: row for one, row in rows.items() if chance.random() < 0.1 and one not in by_key}
            rows = {one: row for one, row in {**rows, **by_key}.items() if one not in gone}
            changes: list[Put | Delete] = [Put(self.as_table(list(by_key.values())))]
            if gone:
                changes.append(Delete(self.as_table(list(gone.values())).select(list(key))))
            self.store.ingest_batch({self.table: changes})
            self.states[self.store.version.tables["t"].committed_epoch] = rows
            if step in (2, 4) and chance.random() < 0.6:
                self.store.compact("t", chance.choice([Full(), Tier()]))

    def draw_row(self) -> dict[str, Any]:
        keys = {name: self.chance.choice(DRAWS[name][1]) for name in self.key}
        return keys | {"v": self.chance.randrange(3), "s": self.chance.choice(["x", "yy", None])}

    def as_key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(normalize(row[name]) for name in self.key)

    def as_table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.schema)


@pytest.mark.parametrize("together", mark_rest_long([2_500, 0, 1 << 18]))
@pytest.mark.parametrize(
    ("key", "distributed"), KEYS, ids=lambda each: "-".join(each) if isinstance(each, tuple) else None
)
def test_a_lookup_finds_what_a_search_of_all_rows_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...], distributed: int, together: int
) -> None:
    monkeypatch.setattr(lookup, "TOGETHER_BYTES", together)
    chance = random.Random(f"{key}{together}")
    model = Model(tmp_path / "store", chance, key, distributed)
    version = model.store.version.tables["t"]
    for _ in range(12):
        epoch = chance.choice([one for one in model.states if one >= version.safe_epoch])
        state = model.states[epoch]
        asked = list(key[: chance.randint(max(distributed, 1), len(key))])
        if distributed and chance.random() < 0.3:
            asked += [
                name for name in (*key[distributed:], "v") if name not in asked and chance.random() < 0.5
            ]
        known = list(state.values())
        given = [
            chance.choice(known) if known and chance.random() < 0.7 else model.draw_row()
            for _ in range(chance.choice([0, 1, 30]))
        ]
        null_safe, columns = chance.random() < 0.5, chance.choice([None, ["v"], [key[-1], "s"]])
        keys = model.as_table(given).select(asked)
        index, rows = model.store.reader.lookup(version, keys, epoch, columns=columns, null_safe=null_safe)
        found = [
            (int(at), *map(normalize, row.values())) for at, row in zip(index, rows.to_pylist(), strict=True)
        ]
        expected = [
            (at, *(normalize(row[name]) for name in columns or model.schema.names))
            for at, one in enumerate(given)
            for row in state.values()
            if all(normalize(row[name]) == normalize(one[name]) for name in asked)
            and (null_safe or all(one[name] is not None for name in asked))
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert index.tolist() == sorted(index)
