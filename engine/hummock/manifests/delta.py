"""A manifest's content: the difference to the version before. `rebase` makes one from a commit, `apply` adds
it to a version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping

import msgspec
import pyarrow as pa

from engine.hummock.epoch import COUNTER_BITS, next_epoch
from engine.hummock.manifests import invariants, pass_through
from engine.hummock.manifests.kept_fingerprints import (
    alter_fingerprint,
    choose_fingerprint,
    decode_known,
    drop_unreadable,
    encode_known,
    move_fingerprint,
)
from engine.hummock.version import (
    MOST_QUIET,
    BranchPoint,
    Commit,
    Fingerprint,
    Generation,
    LogEntry,
    SstInfo,
    Table,
    TableOptions,
    TableVersion,
    Version,
)

GARBAGE_RETENTION_MS = 24 * 3600 * 1000


class TableSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table as a manifest writes it; `schema` is an Arrow IPC schema message."""

    name: str
    table_id: int
    schema: bytes
    primary_key: tuple[str, ...]
    distribution_key: tuple[str, ...]
    options: TableOptions = TableOptions()

    @classmethod
    def of(cls, table: Table, table_id: int) -> TableSpec:
        """Return the written form of a table."""
        schema = table.schema.serialize().to_pybytes()
        keys = tuple(table.primary_key), tuple(table.distribution_key)
        return cls(table.name, table_id, schema, *keys, table.options)

    def to_table(self) -> Table:
        """Return the table."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        return Table(self.name, schema, self.primary_key, self.distribution_key, self.options)


class NewGeneration(msgspec.Struct, frozen=True):
    """A compaction's result as a manifest writes it."""

    upto: int
    runs: tuple[tuple[SstInfo, ...], ...]


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What manifest `number` adds to manifest `number - 1`; `commit_id` tells whose it is."""

    number: int
    epoch: int
    commit_id: str
    writer: str | None = None
    create: tuple[TableSpec, ...] = ()
    drop: tuple[str, ...] = ()
    writes: dict[str, tuple[SstInfo, ...]] = {}
    labels: dict[str, int] = {}
    compactions: dict[str, NewGeneration] = {}
    truncate: dict[str, int] = {}
    acks: dict[str, dict[str, int | None]] = {}
    pins: dict[str, dict[str, int | None]] = {}
    catalog: dict[str, str | None] = {}
    claimed: dict[str, int] = {}
    alter: dict[str, TableSpec] = {}
    watermarks: dict[str, int] = {}
    horizon_ms: int = 0
    requests: tuple[int, ...] = ()
    """What the process has asked of the store since its last commit, as `metrics.packed`; tells nothing of the content."""
    branches: dict[str, bool] = {}
    """Of each branch that it names whether it begins after this manifest, or is dropped."""
    closed: bool = False
    fingerprints: dict[str, tuple[int, bytes]] = {}
    """Of tables that were read: an epoch, and the form and the fingerprint of the rows at it."""
    passed: dict[str, int] = {}
    """Bytes that have passed through the process since its last commit, by what they passed for; tells as little."""

    def find_earlier_name(self, table: str) -> str | None:
        """Return what a table that is there after this commit was called before it, None if the commit has created it."""
        for old, spec in self.alter.items():
            if spec.name == table:
                return old
        return None if any(spec.name == table for spec in self.create) else table


def rebase(commit: Commit, base: Version, commit_id: str, seconds: float, number: int | None = None) -> Delta:
    """Return the delta that adds `commit` to `base` at `seconds` of the wall clock; `number` is the manifest's, by
    default the next.

    Raises Fenced, Conflict, UnknownTable, TableExists or InvariantViolation where it does not fit; nothing
    has happened then.
    """
    if commit.precondition is not None:
        commit.precondition(base)
    epoch = next_epoch(base.epoch, seconds)
    created = {table.name: table for table in commit.create}
    new = {*created, *(table.name for table in commit.alter.values())}
    invariants.check_commit(commit, base, epoch)
    moved = (*commit.writes, *commit.watermarks)
    labels = {name: commit.epochs.get(name, epoch) for name in moved} | dict(commit.epochs)
    claimed = {} if commit.claim is None else {commit.claim: base.generations.get(commit.claim, 0) + 1}
    specs = tuple(TableSpec.of(table, base.next_table_id + i) for i, table in enumerate(created.values()))
    acks = _filter_holds(commit.acks, base, new)
    pins = _filter_holds(commit.pins, base, new)
    return Delta(
        number=base.number + 1 if number is None else number,
        epoch=epoch,
        commit_id=commit_id,
        writer=commit.writer,
        create=specs,
        drop=tuple(commit.drop),
        writes={name: tuple(ssts) for name, ssts in commit.writes.items() if ssts},
        labels=labels,
        compactions={name: NewGeneration(c.upto, c.runs) for name, c in commit.compactions.items()},
        truncate={
            name: _clamp_truncation(base.tables[name], upto, acks.get(name, {}), pins.get(name, {}))
            for name, upto in commit.truncate.items()
            if name in base.tables and name not in commit.drop
        },
        acks=acks,
        pins=pins,
        catalog=dict(commit.catalog),
        claimed=claimed,
        alter={name: TableSpec.of(table, base.tables[name].table_id) for name, table in commit.alter.items()},
        watermarks=dict(commit.watermarks),
        horizon_ms=max(base.horizon_ms, commit.horizon_ms or 0),
        branches=dict(commit.branches),
        fingerprints={name: encode_known(found) for name, found in commit.fingerprints.items()},
        closed=bool(commit.close),
    )


def apply_delta(base: Version, delta: Delta) -> Version:
    """Return the version after `delta`; a pure function, so that every process gets the same version from the
    same chain.
    """
    tables = dict(base.tables)
    gone: set[str] = set()
    for name in delta.drop:
        gone |= tables.pop(name).list_objects()
    for spec in delta.create:
        table = spec.to_table()
        tables[spec.name] = TableVersion(table, spec.table_id, fingerprint=Fingerprint.of_none(table))
    tables = _apply_alters(tables, delta.alter) if delta.alter else tables
    for name in {
        *delta.labels,
        *delta.compactions,
        *delta.truncate,
        *delta.acks,
        *delta.pins,
        *delta.fingerprints,
    }:
        before = tables[name]
        tables[name] = _apply_to_table(before, name, delta)
        if name in delta.compactions or name in delta.truncate:
            gone |= before.list_objects() - tables[name].list_objects()
    return Version(
        number=delta.number,
        epoch=delta.epoch,
        tables=tables,
        catalog=base.catalog.apply_changes(delta.catalog) if delta.catalog else base.catalog,
        generations={**base.generations, **delta.claimed} if delta.claimed else base.generations,
        next_table_id=base.next_table_id + len(delta.create),
        horizon_ms=max(base.horizon_ms, delta.horizon_ms),
        garbage=_update_garbage(base, delta, gone),
        branches=_update_branches(base, delta) if delta.branches else base.branches,
        origin=base.origin,
        closed=base.closed or delta.closed,
    )


def _apply_alters(tables: dict[str, TableVersion], specs: Mapping[str, TableSpec]) -> dict[str, TableVersion]:
    """Give tables their new forms, all at once; those that are consumers of others go on under their new names."""
    names = {name: spec.name for name, spec in specs.items() if spec.name != name}
    found = {name: version for name, version in tables.items() if name not in names}
    for name, spec in specs.items():
        before, after = tables[name], spec.to_table()
        kept = alter_fingerprint(before.fingerprint, before.table, after)
        found[spec.name] = dataclasses.replace(before, table=after, fingerprint=kept)
    if not names:
        return found

    def rename(consumers: Mapping[str, int]) -> dict[str, int]:
        return {names.get(consumer, consumer): epoch for consumer, epoch in consumers.items()}

    return {
        other: dataclasses.replace(version, acks=rename(version.acks), pins=rename(version.pins))
        for other, version in found.items()
    }


def _apply_to_table(table: TableVersion, name: str, delta: Delta) -> TableVersion:
    log, committed, quiet = table.log, table.committed_epoch, table.quiet
    if name in delta.labels:
        committed = max(committed, delta.labels[name])
        if name in delta.writes:
            log = (*log, LogEntry(committed, delta.writes[name]))
        elif committed > table.committed_epoch:
            quiet = (*quiet, committed)[-MOST_QUIET:]
    given = delta.fingerprints.get(name)
    fingerprint = choose_fingerprint(table.fingerprint, None if given is None else decode_known(given))
    fingerprint = move_fingerprint(table.table, fingerprint, log, committed)
    generations, watermarks = table.generations, table.watermarks
    if name in delta.watermarks:
        watermarks = (*watermarks, (committed, delta.watermarks[name]))
    if name in delta.compactions:
        new = delta.compactions[name]
        retained = generations[:-1] if generations[-1].upto == new.upto else generations
        generations = (*retained, Generation(new.upto, new.runs))
    if name in delta.truncate:
        if table.table.options.passes:
            pinned = bool(_merge_holds(table.pins, delta.pins.get(name)))
            log, generations = pass_through.truncate(
                log, generations, quiet, delta.truncate[name], pinned=pinned
            )
        else:
            log, generations = _truncate_history(log, generations, delta.truncate[name])
        before = sum(1 for epoch, _ in watermarks if epoch <= generations[0].upto)
        watermarks = watermarks[max(0, before - 1) :]
        quiet = tuple(label for label in quiet if label > generations[0].upto)
        fingerprint = drop_unreadable(fingerprint, committed, generations[0].upto)
    return dataclasses.replace(
        table,
        committed_epoch=committed,
        log=log,
        generations=generations,
        acks=_merge_holds(table.acks, delta.acks.get(name)),
        pins=_merge_holds(table.pins, delta.pins.get(name)),
        watermarks=watermarks,
        quiet=quiet,
        fingerprint=fingerprint,
    )


def _truncate_history(
    log: tuple[LogEntry, ...], generations: tuple[Generation, ...], upto: int
) -> tuple[tuple[LogEntry, ...], tuple[Generation, ...]]:
    """Drop what only reads below `upto` need: the generation that serves `upto` stays, and the log above it."""
    serving = max(i for i, generation in enumerate(generations) if i == 0 or generation.upto <= upto)
    oldest = generations[serving].upto
    return tuple(entry for entry in log if entry.epoch > oldest), generations[serving:]


def _clamp_truncation(
    table: TableVersion, upto: int, acks: Mapping[str, int | None], pins: Mapping[str, int | None]
) -> int:
    """The epoch up to which history may go: not beyond any consumer's acknowledged epoch, nor any pin."""
    holds = [*_merge_holds(table.acks, acks).values(), *_merge_holds(table.pins, pins).values()]
    return min([upto, *holds])


def _merge_holds(before: Mapping[str, int], changes: Mapping[str, int | None] | None) -> Mapping[str, int]:
    if not changes:
        return before
    return {name: epoch for name, epoch in {**before, **changes}.items() if epoch is not None}


def _filter_holds(
    holds: Mapping[str, Mapping[str, int | None]], base: Version, new: Container[str]
) -> dict[str, dict[str, int | None]]:
    return {
        table: dict(consumers)
        for table, consumers in holds.items()
        if table in base.tables or table in new or any(epoch is not None for epoch in consumers.values())
    }


def _update_branches(base: Version, delta: Delta) -> dict[str, BranchPoint]:
    kept = {name: point for name, point in base.branches.items() if delta.branches.get(name, True)}
    begun = (name for name, begins in delta.branches.items() if begins)
    return kept | dict.fromkeys(begun, BranchPoint(delta.number, delta.epoch))


def _update_garbage(base: Version, delta: Delta, gone: set[str]) -> tuple[tuple[int, str], ...]:
    if not gone and delta.horizon_ms <= base.horizon_ms and not base.garbage:
        return base.garbage
    oldest = max(delta.horizon_ms, (delta.epoch >> COUNTER_BITS) - GARBAGE_RETENTION_MS)
    retained = base.garbage
    if retained and retained[0][0] >> COUNTER_BITS < oldest:
        retained = tuple(entry for entry in retained if entry[0] >> COUNTER_BITS >= oldest)
    return (*retained, *((delta.epoch, path) for path in sorted(gone))) if gone else retained
