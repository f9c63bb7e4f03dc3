"""What keeps a store small and quick to read: small runs merged as they come, the write stop, history cut at the
retention, files collected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.errors import Conflict, StorageError, UnknownStore, UnknownTable, WriteStopped
from engine.hummock import compaction
from engine.hummock.background import Background
from engine.hummock.branches import StorePlace, drop_branch
from engine.hummock.compaction.lease import LEASE_PREFIX, expire_leases
from engine.hummock.epoch import COUNTER_BITS, epoch_at
from engine.hummock.manifests import pass_through
from engine.hummock.manifests.chain import ManifestChain
from engine.hummock.manifests.invariants import unknown_table_error
from engine.hummock.object_store import ObjectStore
from engine.hummock.reads.reader import Reader
from engine.hummock.store_clock import StoreClock
from engine.hummock.upkeep import gc
from engine.hummock.upkeep.backup_holds import list_expired_holds, remove_leases
from engine.hummock.upkeep.fingerprints import move_on
from engine.hummock.upkeep.history import Holder, ReleasedHistory, list_holders, list_released
from engine.hummock.upkeep.pins import Pin, expire_pins, list_pins
from engine.hummock.version import Commit, Compaction, Fingerprint, Table, TableVersion, Version
from engine.hummock.writes.write_stop import with_write_stop

_LOG = logging.getLogger(__name__)
WRITE_STOP_SECONDS = 60.0
STOPPED_LOOK_SECONDS = 0.05


AutoCompact = Literal["background", "inline", "off"]


@dataclass(frozen=True)
class StoreParts:
    """What an open store is made of: its manifests, its objects, how they are read, what time it is, and where it is."""

    chain: ManifestChain
    objects: ObjectStore
    reader: Reader
    clock: StoreClock
    place: StorePlace


@dataclass(frozen=True)
class ExpiredHolds:
    """What was taken away because its time was over: pins, the tables that compactors had claimed, and holds of backups."""

    pins: tuple[Pin, ...]
    leases: tuple[str, ...]
    backups: tuple[str, ...] = ()


class Maintenance:
    """Compaction, retention and collection of one open store; safe for threads.

    `auto_compact` as of `Hummock.open`: where the merges that commits ask for run, if at all. `refresh` looks for
    newer manifests.
    """

    def __init__(
        self,
        parts: StoreParts,
        background: Background,
        refresh: Callable[[], Version],
        *,
        retention_seconds: float,
        auto_compact: AutoCompact,
    ) -> None:
        self._chain, self._objects, self._place = parts.chain, parts.objects, parts.place
        self._reader, self._clock = parts.reader, parts.clock
        self._counters, self._background = parts.reader.files.counters, background
        self._refresh, self._retention, self._auto_compact = refresh, retention_seconds, auto_compact
        self._compacting = threading.Lock()

    def commit_writes(self, commit: Commit, tables: Sequence[str]) -> Version:
        """Commit what writes to the tables `written` once none of them has too many runs, and have small runs merged.

        Raises what `Hummock.commit` raises, and WriteStopped after 60 s in which nothing lowered the number of runs.
        """
        version = self._commit_with_stop(with_write_stop(commit, tables))
        self.compact_after_write(tables)
        return version

    def compact_after_write(self, names: Sequence[str]) -> None:
        """Have small runs merged of tables that were written."""
        for name in names:
            self._compact_tier_if_due(name)

    def next_task(self, name: str) -> compaction.CompactionTask | None:
        """Return what a compactor should do for a table of the known version now, or None; no I/O."""
        version = self._chain.version
        table = version.tables.get(name)
        return (
            None
            if table is None
            else compaction.next_task(table, version, self.find_retention_start(table.table))
        )

    def compact(
        self, name: str, picker: compaction.Picker, executor: compaction.RangeExecutor | None = None
    ) -> compaction.CompactionReport:
        """Merge what `picker` picks of a table, large merges by `executor`, and commit it; raises UnknownTable."""
        started = time.perf_counter()
        self._refresh()
        with self._compacting:
            version = self._chain.version
            table = version.tables.get(name)
            if table is None:
                raise unknown_table_error(name, version.tables)
            task = None if table.table.options.passes else picker.pick(table)
            if task is not None:
                hidden = compaction.choose_hidden_epoch(table, self.find_retention_start(table.table))
                task = dataclasses.replace(task, hidden_at=hidden)
            done = None if task is None else compaction.run_task(self._reader, task, executor)
            if done is not None:
                self.commit_compaction(name, done)
        return compaction.build_report(table, done, started)

    def commit_compaction(
        self, name: str, done: Compaction, catalog: Mapping[str, str | None] | None = None
    ) -> None:
        """Make a compaction visible, with entries of the catalog, and cut the table's history at its retention.

        Raises Conflict if its inputs were replaced meanwhile.
        """
        table = self._chain.version.tables.get(name)
        upto = {} if table is None else {name: self.find_retention_start(table.table)}
        moved = {} if table is None else self._try_to_move_fingerprint(table, upto[name])
        self._chain.commit(
            Commit(compactions={name: done}, truncate=upto, catalog=catalog or {}, fingerprints=moved)
        )

    def move_fingerprints(self, names: Collection[str] | None = None) -> Version:
        """Bring the fingerprints of tables on that are behind, by default of all, and return the version then."""
        before = self._refresh()
        for name, table in before.tables.items():
            if names is None or name in names:
                self._keep_fingerprints(self._move_fingerprint(table))
        return self._chain.version

    def _keep_fingerprints(self, moved: Mapping[str, Fingerprint]) -> None:
        """Commit fingerprints that were moved on, unless a table was altered or dropped meanwhile."""
        if moved:
            with contextlib.suppress(Conflict):
                self._chain.commit(Commit(fingerprints=moved))

    def keep_fingerprint(self, name: str, found: Fingerprint) -> Version:
        """Have a table keep a fingerprint that was computed of its rows; raises Conflict if it became another meanwhile."""
        return self._chain.commit(Commit(fingerprints={name: found}))

    def _move_fingerprint(self, table: TableVersion, cut: int | None = None) -> dict[str, Fingerprint]:
        """Return the fingerprint of a table that is behind, moved on by its change log, by its name.

        Only where history up to `cut` is to go by which it could be moved on later: the longer it waits the more changes of a
        key are one.
        """
        known = table.fingerprint
        waits = cut is not None and known is not None and known.epoch >= table.clamp_truncation(cut)
        moved = None if waits else move_on(self._reader, table)
        return {} if moved is None else {table.name: moved}

    def _try_to_move_fingerprint(self, table: TableVersion, cut: int) -> dict[str, Fingerprint]:
        """Return the fingerprint moved on before history goes; nothing where that cannot be read: upkeep goes on without it."""
        try:
            return self._move_fingerprint(table, cut)
        except StorageError as error:
            _LOG.warning(
                "the fingerprint of table %s ends, as its changes cannot be read: %s", table.name, error
            )
            return {}

    def collect(self, *, dry_run: bool, grace_seconds: float) -> gc.GcReport:
        """Delete the files that nothing needs, after pins and claims that are over and the history beyond the retention."""
        if not dry_run:
            self.end_holds()
            self.truncate()
        return self.delete_garbage(dry_run=dry_run, grace_seconds=grace_seconds)

    def end_holds(self) -> ExpiredHolds:
        """Take away pins, claims of compactors and holds of backups whose time is over, and return which."""
        version = self._refresh()
        now_ms = epoch_at(self._clock()) >> COUNTER_BITS
        pins, leases = expire_pins(version, now_ms), expire_leases(version, self._clock())
        if pins or leases:
            self._chain.commit(Commit(pins=pins, catalog=leases))
        ended = tuple(pin for pin in list_pins(version) if pin.name in pins.get(pin.table, {}))
        tables = tuple(key.removeprefix(LEASE_PREFIX) for key in leases)
        return ExpiredHolds(ended, tables, self._end_backup_holds(version))

    def _end_backup_holds(self, version: Version) -> tuple[str, ...]:
        """Drop what backups that have died have held; one that has branches by now is somebody's, and stays."""
        ended = []
        for name in list_expired_holds(version, self._clock()):
            with contextlib.suppress(UnknownStore, Conflict):
                drop_branch(self._place, self._chain, name, self._clock)
            if name not in self._chain.version.branches:
                ended.append(name)
        if ended:
            self._chain.commit(remove_leases(ended))
        return tuple(ended)

    def truncate(self) -> tuple[ReleasedHistory, ...]:
        """Let go of the history that no retention, consumer or pin asks for, and return it by table."""
        before = self._refresh()
        due, moved = {}, dict[str, Fingerprint]()
        for name, table in before.tables.items():
            upto = self.find_retention_start(table.table)
            if pass_through.is_truncation_due(table, upto):
                due[name] = upto
                continue
            clamped = table.clamp_truncation(upto)
            if len(table.generations) > 1 and table.generations[1].upto <= clamped:
                due[name] = upto
                moved |= self._try_to_move_fingerprint(table, upto)
        if not due:
            return ()
        self._keep_fingerprints(moved)
        return list_released(before, self._chain.commit(Commit(truncate=due)))

    def delete_garbage(self, *, dry_run: bool, grace_seconds: float) -> gc.GcReport:
        """Delete the files that nothing needs, and nothing else."""
        return gc.collect(
            self._objects,
            self._chain,
            now=self._clock(),
            grace_seconds=grace_seconds,
            dry_run=dry_run,
            place=self._place.place,
        )

    def list_holders(self) -> tuple[Holder, ...]:
        """Return who keeps history of the known version beyond its retention, the one of longest standing first; no I/O."""
        return list_holders(self._chain.version, self.find_retention_start)

    def find_retention_start(self, table: Table) -> int:
        """The first epoch of a table that its retention keeps readable: none of one that passes, which consumers hold alone."""
        if table.options.passes:
            return epoch_at(self._clock())
        own = table.options.retention_seconds
        return epoch_at(self._clock() - (self._retention if own is None else own))

    def _commit_with_stop(self, stopping: Commit) -> Version:
        """Commit a write, or wait while one of its tables has more runs than reads should merge: the write stop."""
        deadline: float | None = None
        while True:
            try:
                return self._chain.commit(stopping)
            except WriteStopped as stopped:
                now = self._clock.monotonic()
                if deadline is None:
                    self._counters.add("stalls")
                    deadline = now + WRITE_STOP_SECONDS
                elif now > deadline:
                    raise
                self._relieve(stopped.table)
                self._counters.add("stall_seconds", self._clock.monotonic() - now)

    def _relieve(self, name: str) -> None:
        """Lower the number of a table's runs, or give another process time to do it."""
        if self._auto_compact == "off":
            self._clock.sleep(STOPPED_LOOK_SECONDS)
            self._refresh()
            return
        with self._compacting:
            table = self._refresh().tables.get(name)
            task = None if table is None else compaction.choose_relief(table)
            if task is not None:
                self._run_task(name, task)

    def _compact_tier_if_due(self, name: str) -> None:
        table = self._chain.version.tables.get(name)
        if table is None or self._auto_compact == "off" or not compaction.is_tier_due(table):
            return
        if self._auto_compact == "inline":
            self._background.run(name, lambda: self._compact_tier(name))
        else:
            self._background.offer(f"compaction of {name}", lambda: self._compact_tier(name))

    def _compact_tier(self, name: str) -> None:
        table = self._chain.version.tables.get(name)
        if table is None:
            return
        task = compaction.Tier(compaction.TIER_ROWS, compaction.TIER_RUNS).pick(table)
        if task is None or not self._compacting.acquire(blocking=False):
            return
        try:
            self._run_task(name, task)
        finally:
            self._compacting.release()

    def _run_task(self, name: str, task: compaction.CompactionTask) -> None:
        """Do a small compaction; where another process was faster, or the table is gone, there is nothing to do."""
        with contextlib.suppress(Conflict, UnknownTable):
            self.commit_compaction(name, compaction.run_task(self._reader, task))
