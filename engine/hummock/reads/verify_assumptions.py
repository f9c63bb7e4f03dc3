"""Where the claims of a commit are checked: against the version that it follows, before anybody sees it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from engine.assumptions import KNOWN_PLACES
from engine.hummock.manifests.invariants import check_labels, check_writer
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.reads.look_ahead import build_loader
from engine.hummock.reads.lookup import FoundRows, find_rows, prepare_keys
from engine.hummock.reads.merge import list_newest_first, merge_parts
from engine.hummock.rows.expiry import expiry_at
from engine.hummock.rows.fingerprint import WIDTH
from engine.hummock.sorted_files.assumption_checks import (
    check_compacted,
    check_moved,
    check_new_keys,
    check_replaced,
    check_unchanged,
)
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.sorted_files.sst import build_file_schema
from engine.hummock.version import HASH, OP, Commit, Compaction, Run, SstInfo, TableVersion, Version
from engine.verification import build_assumption_error, should_verify


def verify_commit(commit: Commit, files: FileSet) -> Commit:
    """Return the commit; where claims are checked, one that is refused if a file says falsely that its keys are new, or names
    other rows as replaced than those that stand there.
    """
    if not should_verify():
        return commit
    claimed = {
        name: [sst for sst in ssts if sst.new_keys or sst.replaced is not None]
        for name, ssts in commit.writes.items()
    }
    claimed = {name: ssts for name, ssts in claimed.items() if ssts}
    if not claimed:
        return commit
    created = {table.name for table in commit.create}

    check = require_all(
        commit.precondition,
        partial(
            check_writer, commit
        ),  # who was overtaken gets an error that says so: the table has gone on since
        lambda base: check_labels(commit, base, sys.maxsize),
        *(partial(_check_claimed, files, name, claimed[name]) for name in claimed.keys() - created),
    )
    return dataclasses.replace(commit, precondition=check)


def _check_claimed(files: FileSet, name: str, claimed: Sequence[SstInfo], base: Version) -> None:
    table = base.tables.get(name)
    if table is not None and not table.table.options.passes:  # of those nobody has the rows to look into
        _check_new_keys(files, table, [sst for sst in claimed if sst.new_keys])
        _check_replaced(files, table, [sst for sst in claimed if not sst.new_keys])


def _check_new_keys(files: FileSet, table: TableVersion, claimed: Sequence[SstInfo]) -> None:
    runs, key = table.as_of(table.committed_epoch), list(table.primary_key)

    def find(keys: pa.Table) -> tuple[np.ndarray, pa.Table]:
        return find_rows(files, table.table, runs, prepare_keys(table.table, keys, null_safe=True), key)

    for sst in claimed:
        check_new_keys(table.name, sst, files.open_file(sst).rows.select(key), find)


def _check_replaced(files: FileSet, table: TableVersion, claimed: Sequence[SstInfo]) -> None:
    claimed = [
        sst for sst in claimed if (sst.fingerprint or b"")[:-WIDTH] == table.table.form
    ]  # else it does not count
    if not claimed or not table.table.has_fingerprint:
        return
    names = table.schema.names
    keys = pa.concat_tables([files.open_file(sst).rows.select(list(table.primary_key)) for sst in claimed])
    looked_for = prepare_keys(table.table, keys, null_safe=True)
    _, stored = find_rows(files, table.table, table.as_of(table.committed_epoch), looked_for, names)
    check_replaced(table.table, claimed, stored)


def check_compaction_result(
    files: FileSet,
    table: TableVersion,
    before: Sequence[Run],
    done: Compaction,
    hidden_at: int,
    moved: Run | None,
) -> None:
    """Check what a compaction is about to replace the runs `before` by; `moved` is the run that was put together unread.

    Raises ClaimBroken if a row that is not hidden at `hidden_at` would be lost, changed or come back.
    """
    if moved is not None:
        check_moved(table.name, moved, lambda sst: files.open_file(sst).hashes)
    parts = [_read_rows(files, table, runs, hidden_at) for runs in (before, done.runs)]
    check_compacted(table.name, parts[0], parts[1])


def check_no_change(files: FileSet, table: TableVersion, after: int, upto: int) -> None:
    """Check that a table without log entries in (after, upto] reads the same at both; one that hides rows may not."""
    if table.table.options.passes:
        return
    if expiry_at(table, upto) is not None or table.as_of(after) == table.as_of(upto):
        return
    before, now = (_read_rows(files, table, table.as_of(epoch), epoch) for epoch in (after, upto))
    check_unchanged(table.name, after, upto, before, now)


def check_known_places(name: str, known: FoundRows, searched: FoundRows) -> None:
    """Check `KNOWN_PLACES` of the old rows of a change of a table against a search of its own."""
    if _list_places(known) != _list_places(searched):
        raise build_assumption_error(
            KNOWN_PLACES,
            f"table {name}: old rows at {_list_places(known)[:3]}, not {_list_places(searched)[:3]}",
        )


def _list_places(found: FoundRows) -> list[tuple[int, str, int]]:
    """The key of each row that was found, its file, and its hash there: of a cold file the place depends on what was fetched."""
    if found.rows is None:
        return []
    where = zip(found.rows.key.tolist(), found.rows.source.tolist(), found.rows.place.tolist(), strict=True)
    opened = [(sst.sst_id, file.hashes) for sst, file in found.opened]
    return [(key, opened[source][0], int(opened[source][1][place])) for key, source, place in where]


def _read_rows(files: FileSet, table: TableVersion, runs: Sequence[Run], epoch: int) -> Iterator[pa.Table]:
    """The rows that runs show at an epoch, in order."""
    expiry, columns = expiry_at(table, epoch), build_file_schema(table.table).names
    needed = list(dict.fromkeys([*columns, *([] if expiry is None else expiry.columns)]))
    parts = merge_parts(
        list_newest_first(runs),
        build_loader(files, needed, table.schema),
        table.primary_key,
        None,
        keep_tombstones=False,
        expiry=expiry,
    )
    return (rows.select([name for name in columns if name not in (HASH, OP)]) for rows in parts)
