"""A table as it must be at each of its epochs: what the state machine holds the engine to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from engine.hummock.epoch import COUNTER_BITS, epoch_at
from engine.hummock.rows.column_defaults import with_default

TTL = 300.0
"""No sum of the times that pass comes near it: multiples of 200 s, and less than 100 s beside them."""
KEYS = pa.schema([("a", pa.int64()), ("b", pa.string())])
Key = tuple[int | None, str | None]
Rows = dict[Key, dict[str, int | None]]
BORN = "born"
"""Beside the columns of a row: when it was written, in ms."""


@dataclass(frozen=True)
class Written:
    """A table from one epoch on: its rows, those that hide among them, its watermark, and the keys that were written."""

    label: int
    rows: Rows
    watermark: int | None
    keys: frozenset[Key] = frozenset()


@dataclass
class Modelled:
    """A table as it must be: its columns with their defaults, and its rows at each epoch."""

    table_id: int
    distribution: tuple[str, ...]
    columns: dict[str, int | None] = field(default_factory=lambda: {"v": None})
    expires: str | None = None
    past: list[Written] = field(default_factory=lambda: [Written(0, {}, None)])

    @property
    def options(self) -> dict[str, Any]:
        """The table's options."""
        return {"ttl": {"ttl_seconds": TTL}, "watermark": {"watermark_column": "v"}}.get(
            self.expires or "", {}
        )

    @property
    def watermark(self) -> int | None:
        """The newest watermark."""
        return self.past[-1].watermark

    def at(self, epoch: int) -> Rows:
        """The rows at an epoch, seen through the columns of now."""
        written = next(each for each in reversed(self.past) if each.label <= epoch)
        return self.seen(written.rows, written.watermark, epoch)

    def seen(self, rows: Rows, watermark: int | None, epoch: int) -> Rows:
        """Rows as they are seen through the columns of now, but for those that hide."""

        def hides(row: dict[str, int | None]) -> bool:
            value, born = row["v"], row[BORN]
            assert born is not None
            past_ttl = self.expires == "ttl" and born + TTL * 1000 <= epoch >> COUNTER_BITS
            return past_ttl or (watermark is not None and value is not None and value < watermark)

        return {
            key: {n: row.get(n, default) for n, default in self.columns.items()}
            for key, row in rows.items()
            if not hides(row)
        }

    def touched(self, after: int, upto: int) -> set[Key]:
        """The keys that were written in (after, upto]."""
        return {key for each in self.past if after < each.label <= upto for key in each.keys}

    def schema(self) -> pa.Schema:
        """The table's schema."""
        fields = [
            pa.field(n, pa.int64())
            if default is None
            else with_default(pa.field(n, pa.int64()), pa.scalar(default))
            for n, default in self.columns.items()
        ]
        return pa.schema([*KEYS, *fields])

    def rows(self, values: dict[Key, int]) -> pa.Table:
        """Rows to put: every column holds the value."""
        keys = {"a": [k[0] for k in values], "b": [k[1] for k in values]}
        return pa.table({**keys, **{n: list(values.values()) for n in self.columns}}, schema=self.schema())

    def after(
        self, values: dict[Key, int], gone: set[Key], now: float, before: Rows | None = None
    ) -> Written:
        """What a write at a time leads to; `before` it the rows were those of the newest epoch, or as given."""
        born = epoch_at(now) >> COUNTER_BITS
        new = {key: {**dict.fromkeys(self.columns, value), BORN: born} for key, value in values.items()}
        rows = {**(self.past[-1].rows if before is None else before), **new}
        kept = {key: row for key, row in rows.items() if key not in gone}
        return Written(0, kept, self.watermark, frozenset([*values, *gone]))
