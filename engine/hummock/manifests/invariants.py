"""The checks that every commit passes before its manifest is created, each a named function with its reason."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import pyarrow as pa

from engine.errors import (
    BranchDropped,
    BranchExists,
    Conflict,
    Fenced,
    InvalidRow,
    InvariantViolation,
    TableExists,
    UnknownStore,
    UnknownTable,
)
from engine.hummock.epoch import COUNTER_BITS, format_epoch
from engine.hummock.rows.expiry import can_have_watermark
from engine.hummock.rows.row_hash import xxhash64
from engine.hummock.version import HASH, OP, ROW_EPOCH, Commit, Version


def check_commit(commit: Commit, base: Version, epoch: int) -> None:
    """Run every check of `commit` against the version it would follow and the epoch it would get."""
    check_branches(commit, base)
    check_writer(commit, base)
    check_tables_exist(commit, base)
    check_altered_tables(commit, base)
    check_options(commit, base)
    check_watermarks(commit, base)
    check_well_formed(commit)
    check_labels(commit, base, epoch)
    check_files_retained(commit, base)
    check_consumers(commit, base)
    check_compaction_inputs(commit, base)
    check_horizon(commit, epoch)
    check_fingerprints(commit, base)


def check_writer(commit: Commit, base: Version) -> None:
    """A writer generation that a newer one has replaced commits nothing: a zombie run must not win."""
    if commit.writer is None or commit.generation is None:
        return
    newest = base.generations.get(commit.writer, 0)
    if commit.generation < newest:
        raise Fenced(
            f"writer {commit.writer}: generation {commit.generation} was replaced by {newest}; "
            f"another process has taken over: claim again and read again"
        )
    if commit.generation > newest:
        raise InvariantViolation(
            f"writer {commit.writer} never claimed generation {commit.generation}; it has {newest}"
        )


def check_branches(commit: Commit, base: Version) -> None:
    """A branch that was dropped takes no commit; one that begins has a name that is free, one that is dropped is there."""
    if base.closed:
        raise BranchDropped("the branch was dropped: open its parent, or another branch")
    for name, begins in commit.branches.items():
        if begins and name in base.branches:
            raise BranchExists(f"branch {name} exists already: open it, drop it, or choose another name")
        if not begins and name not in base.branches:
            raise UnknownStore(describe_unknown_branch(name, base))
    if commit.close and base.branches:
        raise Conflict(
            f"the branch has branches of its own, {', '.join(sorted(base.branches))}: drop them first"
        )


def describe_unknown_branch(name: str, version: Version) -> str:
    """Return what to say of a name that is no branch of a version."""
    known = ", ".join(sorted(version.branches)) or "none"
    return f"no branch {name}; there is {known}: `tideline branch create {name}` makes it"


def check_tables_exist(commit: Commit, base: Version) -> None:
    """What a commit names exists, and what it creates does not: names are the identity of tables."""
    dropped = set(commit.drop)
    created: set[str] = set()
    for name in commit.drop:
        if name not in base.tables:
            raise unknown_table_error(name, base.tables)
    for table in commit.create:
        if table.name in created or (table.name in base.tables and table.name not in dropped):
            raise TableExists(f"table {table.name} exists already; drop it first, or open it by its name")
        created.add(table.name)
    altered = {table.name for table in commit.alter.values()}  # holds name tables as they are called by then
    holders = {
        name
        for part in (commit.acks, commit.pins)
        for name, who in part.items()
        if set(who.values()) != {None} and name not in altered
    }
    for name in {*commit.writes, *commit.epochs, *commit.compactions, *commit.watermarks, *holders}:
        if name not in created and (name not in base.tables or name in dropped):
            raise unknown_table_error(name, base.tables)


def check_altered_tables(commit: Commit, base: Version) -> None:
    """A table that is altered exists and stays sorted: keys and the types of the columns that stay are the same.

    Two may exchange their names in one commit.
    """
    named = [table.name for table in commit.alter.values()]
    if len({*named}) < len(named):
        raise TableExists(f"two tables get one name: {', '.join(sorted(named))}")
    for name, table in commit.alter.items():
        before = base.tables.get(name)
        if before is None:
            raise unknown_table_error(name, base.tables)
        if table.name != name and table.name in base.tables and table.name not in commit.alter:
            raise TableExists(f"table {table.name} exists already: choose another name")
        old = before.table
        if (table.primary_key, table.distribution_key) != (old.primary_key, old.distribution_key):
            raise InvariantViolation(f"table {name}: ALTER cannot change the keys")
        for field in table.schema:
            if field.name in old.schema.names and old.schema.field(field.name).type != field.type:
                raise InvariantViolation(f"table {name}: ALTER cannot change the type of column {field.name}")
        if not set(table.primary_key) <= set(table.schema.names):
            raise InvariantViolation(f"table {name}: ALTER cannot take a key column away")


def check_options(commit: Commit, base: Version) -> None:
    """A table's options name what it has: rows that hide must be found again by every reader."""
    for table in (*commit.create, *commit.alter.values()):
        options = table.options
        for name, seconds in (("ttl", options.ttl_seconds), ("retention", options.retention_seconds)):
            if seconds is not None and not 0 < seconds < 1e12:
                raise InvalidRow(f"table {table.name}: {name}_seconds={seconds} is no time above 0")
        if options.ttl_seconds is not None and ROW_EPOCH in table.schema.names:
            raise InvalidRow(
                f"table {table.name}: {ROW_EPOCH} is reserved where rows expire; rename the column"
            )
        column = options.watermark_column
        if column is not None:
            if column not in table.schema.names:
                raise InvalidRow(f"table {table.name} has no column {column} for a watermark")
            if not can_have_watermark(table.schema.field(column).type):
                kind = table.schema.field(column).type
                raise InvalidRow(
                    f"table {table.name}: column {column} of {kind} cannot carry a watermark: "
                    f"it takes an integer, a date or a timestamp"
                )
    for name, table in commit.alter.items():
        before = base.tables.get(name)
        column = None if before is None else before.table.options.watermark_column
        if before is not None and before.watermarks and table.options.watermark_column != column:
            raise InvariantViolation(f"table {name}: its watermark is in column {column} and cannot be moved")


def check_watermarks(commit: Commit, base: Version) -> None:
    """A watermark never falls: what is below it may be deleted already."""
    created = {table.name: table for table in commit.create}
    for name, value in commit.watermarks.items():
        before = base.tables.get(name)
        table = created.get(name) or (before.table if before is not None else None)
        if table is None or table.options.watermark_column is None:
            raise InvalidRow(f"table {name} has no watermark column: name one with alter_table first")
        if before is not None and before.watermarks and value <= before.watermarks[-1][1]:
            raise InvariantViolation(
                f"table {name}: the watermark {value} is not above {before.watermarks[-1][1]}, which it has already"
            )


def check_well_formed(commit: Commit) -> None:
    """Keys are columns that can be hashed, and rows of one key share a hash: an update must meet the row it
    replaces.
    """
    for table in commit.create:
        if not table.primary_key:
            raise InvalidRow(f"table {table.name} needs a primary key")
        for name in (*table.primary_key, *table.distribution_key):
            if name not in table.schema.names:
                known = ", ".join(table.schema.names)
                raise InvalidRow(f"table {table.name} has no column {name} for a key; it has {known}")
        outside = set(table.distribution_key) - set(table.primary_key)
        if outside:
            raise InvalidRow(
                f"table {table.name}: distribution key {', '.join(sorted(outside))} must be part of the primary "
                f"key"
            )
        reserved = {HASH, OP} & set(table.schema.names)
        if reserved or len(set(table.schema.names)) < len(table.schema.names):
            what = f"{', '.join(sorted(reserved))} is reserved" if reserved else "a column name occurs twice"
            raise InvalidRow(f"table {table.name}: {what}; rename the column")
        for name in table.primary_key:
            try:
                xxhash64([pa.array([], table.schema.field(name).type)])
            except InvalidRow as error:
                raise InvalidRow(f"table {table.name}: column {name} cannot be a key: {error}") from error


def check_labels(commit: Commit, base: Version, epoch: int) -> None:
    """A table's content at an epoch that is past never changes: a label is above the committed epoch, and no
    future.
    """
    for name, label in commit.epochs.items():
        table = base.tables.get(name)
        committed = table.committed_epoch if table is not None and name not in commit.drop else 0
        writes = bool(commit.writes.get(name)) or name in commit.watermarks
        if label < committed or (label == committed and writes):
            message = (
                f"table {name} has committed epoch {format_epoch(committed)}; epoch {format_epoch(label)} cannot be "
                "written any more"
            )
            if commit.writer is not None:
                raise Fenced(f"writer {commit.writer}: {message}")
            raise InvariantViolation(message)
        if label > epoch:
            raise InvariantViolation(
                f"table {name}: label {label} is above {epoch}, the epoch of its own commit"
            )


def check_files_retained(commit: Commit, base: Version) -> None:
    """A file older than the collector's horizon may be deleted already, so it can no longer become visible."""
    new = [sst for ssts in commit.writes.values() for sst in ssts]
    new += [
        sst for c in commit.compactions.values() for run in c.runs for sst in run if run not in c.base.runs
    ]
    live: set[str] | None = None
    for sst in new:
        if parse_created_ms(sst.path) < base.horizon_ms:
            if live is None:
                live = {
                    path
                    for name in commit.compactions
                    if name in base.tables
                    for path in base.tables[name].list_objects()
                }
            if sst.path not in live:
                raise Conflict(
                    f"file {sst.path} was written before the collector's horizon and may be gone: write the "
                    f"change again"
                )


def check_consumers(commit: Commit, base: Version) -> None:
    """A consumer's acknowledged epoch is readable: it needs the old rows there and the log above."""
    for part in (commit.acks, commit.pins):
        for name, consumers in part.items():
            table = base.tables.get(name)
            if table is None or name in commit.drop:
                continue
            for consumer, acknowledged in consumers.items():
                if acknowledged is not None and acknowledged < table.safe_epoch:
                    raise Conflict(
                        f"{consumer} would go on from epoch {format_epoch(acknowledged)} of table {name}, whose history "
                        f"begins at {format_epoch(table.safe_epoch)}: read the table again at a newer epoch"
                    )


def check_compaction_inputs(commit: Commit, base: Version) -> None:
    """A compaction replaces what it has read: the same table, and no compaction in between."""
    for name, compaction in commit.compactions.items():
        table = base.tables.get(name)
        if table is None or name in commit.drop or table.table_id != compaction.table_id:
            raise Conflict(f"table {name} was dropped while it was compacted")
        if table.generations[-1] != compaction.base:
            raise Conflict(f"table {name} was compacted by another process at the same time")
        if not compaction.base.upto <= compaction.upto <= table.committed_epoch:
            raise InvariantViolation(
                f"table {name}: a compaction up to {compaction.upto} must lie between {compaction.base.upto} and "
                f"the committed epoch {table.committed_epoch}"
            )


def check_horizon(commit: Commit, epoch: int) -> None:
    """The collector shuts out files named before a moment that has been: a later one would refuse those being written."""
    if commit.horizon_ms is not None and commit.horizon_ms > epoch >> COUNTER_BITS:
        raise InvariantViolation(
            f"the collector's horizon {commit.horizon_ms} is above {epoch >> COUNTER_BITS}, the moment of its own commit: "
            f"set this machine's clock"
        )


def check_fingerprints(commit: Commit, base: Version) -> None:
    """A fingerprint that was read is of the columns that the table has, at an epoch from which its history is whole."""
    for name, found in commit.fingerprints.items():
        table = base.tables.get(name)
        if table is None or name in commit.drop or name in commit.alter:
            raise Conflict(f"table {name} was dropped or altered while it was read: read it again")
        if not table.table.has_fingerprint:
            raise InvalidRow(f"table {name} has no fingerprint")
        if found.form != table.table.form:
            raise Conflict(f"table {name} got other columns while it was read: read it again")
        if not table.safe_epoch <= found.epoch <= table.committed_epoch:
            raise Conflict(
                f"table {name} cannot be read any more at epoch {format_epoch(found.epoch)}: read it again"
            )


def parse_created_ms(path: str) -> int:
    """Return the milliseconds that stand in a file's name: when it was named, in epoch time."""
    try:
        return int(path.rpartition("/")[2].partition("-")[0])
    except ValueError as error:
        raise InvariantViolation(f"{path} is not named as a file of this store is") from error


def unknown_table_error(name: str, known: Iterable[str]) -> UnknownTable:
    """Return the error for a name that is no table, with names that are near."""
    near = difflib.get_close_matches(name, list(known), 3)
    hint = f"; did you mean {', '.join(near)}?" if near else "; create it first"
    return UnknownTable(f"no table {name} in the store{hint}")
