"""Rows that no rule has written: a view, or a state of it, holds something else than what its query gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.hummock import Commit, Delete, Put
from engine.session import Session


def list_rows(session: Session, table: str) -> list[dict[str, Any]]:
    return [row for batch in session.store.iter(table) for row in batch.to_pylist()]


def overwrite(session: Session, name: str, put: list[dict[str, Any]], delete: list[dict[str, Any]]) -> None:
    """Write and delete stored rows of a table, past all rules."""
    table = session.store.refresh().tables[name].table
    keys = pa.schema([table.schema.field(one) for one in table.primary_key])
    gone = [{key: row[key] for key in keys.names} for row in delete]
    written = Put(pa.Table.from_pylist(put, table.schema))
    session.store.ingest_batch({name: [written, Delete(pa.Table.from_pylist(gone, keys))]})


def falsify_rows(session: Session, view: str = "v") -> None:
    """Let a view of `g` and `total` hold a wrong value, one row too few and one too many."""
    first, second, *_ = sorted(list_rows(session, view), key=lambda row: row["g"])
    key = session.store.refresh().tables[view].table.primary_key
    added = {**first, **dict.fromkeys(key, 77), "g": 77}
    overwrite(session, view, [{**first, "total": first["total"] + 1000}, added], [second])


def falsify_state(session: Session, table: str, view: str) -> None:
    """Change numbers of a state and take a row away, without that its view follows."""
    version = session.store.refresh().tables[table]
    numbers = [
        field.name
        for field in version.schema
        if pa.types.is_integer(field.type) and field.name not in version.table.primary_key
    ]
    *rows, last = list_rows(session, table)
    wrong = [{**row, **{name: (row[name] or 0) + 1000 for name in numbers}} for row in rows]
    overwrite(session, table, wrong if numbers else [], [last])
    epoch = session.store.refresh().epoch
    session.store.commit(Commit(epochs={view: epoch}))
