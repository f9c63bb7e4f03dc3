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
from engine.sql.typing.text_lengths import format_column_type

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

    def find_relation(version: Version) -> Relation:
        relation = resolve_writable(load_catalog(version), name, "restore")
        if ROW_ID in relation.primary_key and backup.summary.store != store.url:
            raise InvalidRow(
                f"table {name} has no key, and the backup is of another store, {backup.summary.store}: {BESIDE}"
            )
        _check(relation, version.tables[name], backup.version)
        return relation

    find_relation(store.refresh())
    with _open_copy(place, backup.summary.number, name, tell) as copy:

        def attempt() -> tuple[int, int]:
            version = store.refresh()
            relation, table = find_relation(version), version.tables[name]
            different, gone = _compare(store, table, copy)
            if relation.append_only:
                _require_additions(store, table, different, gone)
            steps: list[Operation] = [Put(different)] if different.num_rows else []
            steps += [Delete(gone)] if gone.num_rows else []
            if steps:
                ingest_steps(store, relation, version, steps)
            return different.num_rows, gone.num_rows

        return TableRestored(backup.summary, *commit_with_retry(store, attempt, WRITE))


def _require_additions(store: Hummock, table: TableVersion, different: pa.Table, gone: pa.Table) -> None:
    """Raise InvalidRow where a table that is APPEND ONLY would lose rows, or get other ones under their keys."""
    if gone.num_rows:
        raise InvalidRow(
            f"table {table.name} is APPEND ONLY, and has {gone.num_rows:,} rows that the backup has not: {BESIDE}"
        )
    keys = different.select(list(table.primary_key))
    known, _ = store.reader.lookup(
        table, keys, table.committed_epoch, columns=keys.column_names, null_safe=True
    )
    if len(known):
        raise InvalidRow(
            f"table {table.name} is APPEND ONLY, and has {len(known):,} rows that are others in the backup: {BESIDE}"
        )


def _check(relation: Relation, table: TableVersion, backup: Version) -> None:
    """Raise InvalidRow where the rows of a backup cannot become those of the table."""
    name = relation.name
    known, before = load_catalog(backup).catalog.relations, backup.tables.get(name)
    then = known.get(name)
    if before is None or then is None or then.kind != "table":
        tables = (one.name for one in known.values() if one.kind == "table" and not one.name.startswith("_"))
        listed = ", ".join(tables)
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
    if ROW_ID in table.primary_key and (before.table_id, then.since) != (table.table_id, relation.since):
        raise InvalidRow(
            f"table {name} has no key, and was made anew since the backup, so its rows cannot be told apart: {BESIDE}"
        )
    same_key = before.primary_key == table.primary_key
    same_columns = before.schema.equals(table.schema, check_metadata=False) and _take_values(relation, then)
    if not same_key or not same_columns:
        columns = ", ".join(
            f"{one.name} {format_column_type(one)}{'' if one.nullable else ' NOT NULL'}"
            for one in then.visible_columns
        )
        raise InvalidRow(f"table {name} had other columns or another key at the backup ({columns}): {BESIDE}")


def _take_values(relation: Relation, before: Relation) -> bool:
    """Tell whether the columns take all values that they had before: files alone do not tell texts, JSON and lengths apart."""

    def list_kinds(one: Relation) -> dict[str, tuple[object, ...]]:
        return {c.storage_name: (c.visible_type, c.length, c.fixed, c.generated) for c in one.columns}

    could_be_null = {column.storage_name for column in before.columns if column.nullable}
    needed = {column.storage_name for column in relation.columns if not column.nullable}
    return list_kinds(relation) == list_kinds(before) and not needed & could_be_null


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
