"""The checks of the assumptions by which a view gets another query without being computed anew."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from engine.assumptions import TAKEN_OVER, UNREAD_COLUMNS
from engine.hummock import Hummock, TableVersion, Version
from engine.hummock.sorted_files.assumption_checks import is_same_rows
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.runtime.statements.alter.index_columns import list_indexes
from engine.sql.plan import list_scans
from engine.verification import build_assumption_error


def check_taken_over(store: Hummock, version: Version, view: str, successor: str) -> None:
    """Check `TAKEN_OVER` of a view and its successor, each at its newest epoch."""
    names = version.tables[successor].table.schema.names  # the view may have more, which go
    own, other = (_read(store, version.tables[name], names) for name in (view, successor))
    if not is_same_rows(own, other):
        raise build_assumption_error(
            TAKEN_OVER,
            f"{view} holds {own.num_rows} rows, its successor {successor} {other.num_rows}, or other values",
        )


def check_unread(stored: StoredCatalog, view: str, columns: Collection[str]) -> None:
    """Check `UNREAD_COLUMNS` of a view whose hidden `columns` are to be null; its indexes hold copies of them."""
    copies = {view, *list_indexes(stored, view)}
    for table, fragment in stored.fragments.items():
        for scan in list_scans(fragment.plan):
            read = {source for _, source in scan.items} & set(columns) if scan.table in copies else set()
            if read and table not in copies:
                raise build_assumption_error(
                    UNREAD_COLUMNS, f"{table} reads the hidden columns {', '.join(sorted(read))} of {view}"
                )


def _read(store: Hummock, table: TableVersion, columns: list[str]) -> pa.Table:
    batches = store.reader.scan(table, table.committed_epoch, columns=columns)
    return pa.Table.from_batches(batches, schema=pa.schema(map(table.table.schema.field, columns)))
