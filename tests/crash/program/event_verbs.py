"""Verbs of a table with a watermark: rows come out of order, some of them late, and views show what is closed, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.hummock import Commit, Hummock, Put, Table
from engine.meta.catalog.stored_catalog import encode_entries, load_catalog
from engine.runtime.writes.watermarks import ArrivingRows, build_watermark_table
from engine.sql.catalog import (
    LATE,
    WATERMARK,
    Relation,
    RelationColumn,
    Watermark,
    build_watermark_relation,
    watermark_name,
)
from tests.crash.broken import Broken

EVENTS, DELAY = "e", 20
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("g", pa.int64())])
MARK = f"(SELECT max(t) FROM {EVENTS}) - {DELAY}"
"""The watermark, as the judge knows it: rows that are late are in no table."""
_BELOW = f"(SELECT id, t, g FROM {EVENTS} WHERE t < {MARK}) b"
_NUMBERED = (
    "row_number() OVER (PARTITION BY g ORDER BY t, id) AS p, row_number() OVER (PARTITION BY g ORDER BY t, id DESC) AS q, "
    "lag(id) OVER (PARTITION BY g ORDER BY t, id) AS l"
)
_FOLLOWED = "lead(id) OVER (PARTITION BY g ORDER BY t, id) AS p, lead(id) OVER (PARTITION BY g ORDER BY t, id DESC) AS q"
_WITHIN = (
    "row_number() OVER (PARTITION BY t ORDER BY g, id) AS p, row_number() OVER (PARTITION BY t ORDER BY g DESC, id) AS q, "
    "lead(g) OVER (PARTITION BY t ORDER BY g, id) AS n"
)
_TIED_WITHIN = "lead(g) OVER (PARTITION BY t ORDER BY g) AS p"
_TIED = "lead(t) OVER (PARTITION BY g ORDER BY t) AS p"
"""Which of the rows that tie comes first shows in none of what is selected."""
CLOSED = {
    f"SELECT id, t, g FROM {EVENTS} WHERE g < 4": f"SELECT id, t, g FROM {EVENTS} WHERE g < 4 AND t < {MARK}",
    f"SELECT t, count(*) AS n, sum(g) AS s FROM {EVENTS} GROUP BY t": (
        f"SELECT t, count(*) AS n, sum(g) AS s FROM {EVENTS} WHERE t < {MARK} GROUP BY t"
    ),
    f"SELECT t, g, count(*) AS n FROM {EVENTS} GROUP BY t, g": (
        f"SELECT t, g, count(*) AS n FROM {EVENTS} WHERE t < {MARK} GROUP BY t, g"
    ),
    f"SELECT id, t, g, {_NUMBERED} FROM {EVENTS}": f"SELECT id, t, g, {_NUMBERED} FROM {_BELOW}",
    f"SELECT id, t, g, {_FOLLOWED} FROM {EVENTS}": (
        f"SELECT * FROM (SELECT id, t, g, {_FOLLOWED} FROM {_BELOW}) w WHERE p IS NOT NULL AND q IS NOT NULL"
    ),
    f"SELECT id, t, g, {_WITHIN} FROM {EVENTS}": f"SELECT id, t, g, {_WITHIN} FROM {_BELOW}",
    f"SELECT t, g, {_TIED_WITHIN} FROM {EVENTS}": f"SELECT t, g, {_TIED_WITHIN} FROM {_BELOW}",
    f"SELECT t, g, {_TIED} FROM {EVENTS}": (
        f"SELECT * FROM (SELECT t, g, {_TIED} FROM {_BELOW}) w WHERE p IS NOT NULL"
    ),
}
"""The queries of views that emit on window close, and what they must hold."""


@dataclass(frozen=True)
class Arrived:
    """What has come: the rows in time, how many were late, the watermark, and the time of the newest rows."""

    rows: tuple[tuple[int, int, int], ...] = ()
    late: int = 0
    mark: int | None = None
    written: int = 0


def create_events(store: Hummock) -> None:
    """Create the table and its watermark."""
    columns = tuple(RelationColumn(field.name, "bigint", nullable=field.name != "id") for field in SCHEMA)
    relation = Relation(
        name=EVENTS,
        kind="table",
        columns=columns,
        primary_key=("id",),
        distribution_key=("id",),
        append_only=True,
        watermark=Watermark("t", DELAY),
    )
    beside, shown = build_watermark_table(relation), build_watermark_relation(relation)
    assert beside is not None and shown is not None
    made = encode_entries({one.name: one for one in (relation, shown)}, {})
    store.commit(Commit(create=(Table(EVENTS, SCHEMA, ("id",), ("id",)), beside), catalog=made))


def arrive(store: Hummock, before: Arrived, times: list[tuple[int, int]]) -> Arrived:
    """Write rows (time, group) in one commit; return what has come then."""
    rows = [(before.written + n, time, group) for n, (time, group) in enumerate(times)]
    version = store.refresh()
    arrivals = ArrivingRows(store, version, load_catalog(version).catalog.get(EVENTS))
    given = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    store.ingest_batch(
        {EVENTS: [Put(arrivals.filter_late(given))], **arrivals.build_writes()},
        precondition=arrivals.require_unmoved(),
    )
    return after(before, times)


def after(before: Arrived, times: list[tuple[int, int]]) -> Arrived:
    """Return what has come when all rows of a commit have."""
    rows = [(before.written + n, time, group) for n, (time, group) in enumerate(times)]
    taken = [row for row in rows if before.mark is None or row[1] >= before.mark]
    marks = [*(row[1] - DELAY for row in taken), *([] if before.mark is None else [before.mark])]
    return replace(
        before,
        rows=(*before.rows, *taken),
        late=before.late + len(rows) - len(taken),
        mark=max(marks, default=None),
        written=before.written + len(rows),
    )


def check_events(store: Hummock, *allowed: Arrived) -> Arrived:
    """Return which of some states the table, its watermark and the count of late rows are in; raises Broken for none."""
    rows = Counter(tuple(row.values()) for batch in store.iter(EVENTS) for row in batch.to_pylist())
    marks = [row for batch in store.iter(watermark_name(EVENTS)) for row in batch.to_pylist()]
    mark, late = (marks[0][WATERMARK], marks[0][LATE]) if marks else (None, 0)
    for state in allowed:
        if (rows, mark, late) == (Counter(state.rows), state.mark, state.late):
            return state
    raise Broken(f"{EVENTS} has {len(rows)} rows, watermark {mark}, {late} late rows: neither is {allowed}")
