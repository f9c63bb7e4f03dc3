"""One table put back to what a backup holds of it: one commit writes the difference, and views get just that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock import Delete, Hummock, Put, TableVersion, Version
from engine.hummock.backups.backup_format import BackupSummary
from engine.hummock.backups.backup_place import BackupPlace
from engine.hummock.backups.copying import Tell
from engine.hummock.backups.restore import open_target, restore_backup
from engine.hummock.reads.differences import find_other_keys, select_different
from engine.hummock.transact import WRITE, commit_with_retry
from engine.hummock.writes.batch import Operation
from engine.meta.catalog.stored_catalog import load_catalog
from engine.runtime.writes.conflicts import ingest_steps
from engine.runtime.writes.dml import resolve_writable
from engine.sql.catalog import ROW_ID, Relation, explain_reserved

BESIDE = "restore the whole backup beside the store (--store), and copy what you need"


@dataclass(frozen=True)
class TableRestored:
    """Which backup a table was put back to, how many rows were written, and how many were deleted."""

    summary: BackupSummary
    written: int
    deleted: int


def restore_table(
    store: Hummock,
    place: BackupPlace,
    name: str,
    number: int | None = None,
    tell: Tell = lambda progress: None,
) -> TableRestored:
    """Put a table of a store back to what a backup, by default the newest, holds of it.

    The keys of the table and the rows that differ are held in memory, the files of the table in a temporary folder. Raises
    InvalidRow for a table that cannot be put back by itself; then nothing is written.
    """
    backup = place.read_backup(number)
    name = name.lower()
    before = backup.version.tables.get(name)
    relation = resolve_writable(load_catalog(store.refresh()), name, "restore")
    if ROW_ID in relation.primary_key and backup.summary.store != store.url:
        raise InvalidRow(
            f"table {name} has no key, and the backup is of another store, {backup.summary.store}: {BESIDE}"
        )
    _check(relation, store.version.tables[name], before, backup.version)
    with _open_copy(place, backup.summary.number, name, tell) as copy:

        def attempt() -> tuple[int, int]:
            version = store.refresh()
            table = version.tables[name]
            _check(relation, table, before, backup.version)
            different, gone = _compare(store, table, copy)
            if relation.append_only and gone.num_rows:
                raise InvalidRow(
                    f"table {name} is APPEND ONLY, and has {gone.num_rows:,} rows that the backup has not: {BESIDE}"
                )
            steps: list[Operation] = [Put(different)] if different.num_rows else []
            steps += [Delete(gone)] if gone.num_rows else []
            if steps:
                ingest_steps(store, relation, version, steps)
            return different.num_rows, gone.num_rows

        return TableRestored(backup.summary, *commit_with_retry(store, attempt, WRITE))


def _check(relation: Relation, table: TableVersion, before: TableVersion | None, backup: Version) -> None:
    """Raise InvalidRow where the rows of a backup cannot become those of the table."""
    name = relation.name
    if before is None:
        known = load_catalog(backup).catalog.relations.values()
        listed = ", ".join(one.name for one in known if one.kind == "table" and not one.name.startswith("_"))
        raise InvalidRow(f"the backup has no table {name}: its tables are {listed or 'none'}")
    if explain_reserved(name, "table"):
        raise InvalidRow(
            f"{name} is the system's own, and goes with what it tells of: restore the whole backup, or another table"
        )
    if relation.options.get("connector"):
        raise InvalidRow(
            f"table {name} follows a source, whose position a backup does not move: ALTER TABLE {name} RESYNC brings it to "
            "what the source holds"
        )
    if relation.hides_rows or relation.watermark is not None:
        raise InvalidRow(
            f"table {name} has a WATERMARK or rows that expire, and old rows would be late: {BESIDE}"
        )
    if ROW_ID in table.primary_key and before.table_id != table.table_id:
        raise InvalidRow(
            f"table {name} has no key, and was made anew since the backup, so its rows cannot be told apart: {BESIDE}"
        )
    same_key = before.primary_key == table.primary_key
    if not same_key or not before.schema.equals(table.schema, check_metadata=False):
        columns = ", ".join(f"{field.name} {field.type}" for field in before.schema)
        raise InvalidRow(f"table {name} had other columns or another key at the backup ({columns}): {BESIDE}")


@contextmanager
def _open_copy(place: BackupPlace, number: int, name: str, tell: Tell) -> Iterator[Hummock]:
    """Give a store, in a temporary folder, that has this one table of a backup."""
    with tempfile.TemporaryDirectory(prefix="tideline-restore-") as folder:
        url = (Path(folder) / "store").as_uri()
        restore_backup(place, open_target(url), number, tell=tell, only={name})
        with Hummock.open(url) as copy:
            yield copy


def _compare(store: Hummock, table: TableVersion, copy: Hummock) -> tuple[pa.Table, pa.Table]:
    """Return the rows that do not stand in the table as they are, and the keys that it has beside them."""
    held, keys = [table.schema.empty_table()], list[pa.Table]()
    kept = copy.version.tables[table.name]
    for batch in copy.reader.scan(kept, kept.committed_epoch):
        rows = pa.Table.from_batches([batch]).select(table.schema.names)
        held.append(select_different(store, table, rows))
        keys.append(rows.select(list(table.primary_key)))
    return pa.concat_tables(held), find_other_keys(store, table, keys)
