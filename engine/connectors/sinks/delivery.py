"""One sink on its way: ranges of the log are handed to its target and acknowledged; a failure backs off and reads again."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from pyspark.sql import SparkSession

from engine.connectors.sinks.contract import DeliveryResult, SinkBatch, SinkTarget, TargetContext
from engine.connectors.sinks.options import SinkOptions, list_log_columns
from engine.connectors.sinks.promises import is_promised, limit_to_promise, with_promise
from engine.connectors.sinks.registry import find_sink_connector
from engine.connectors.sinks.start import add_precondition, build_start
from engine.errors import SinkError, TidelineError
from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.back_off import Attempts
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.preconditions import Precondition, require_all, require_same_table
from engine.hummock.monitoring.driver_traffic import track_bytes, track_traffic
from engine.hummock.object_store import ObjectStore
from engine.hummock.transact import RetryPolicy, commit_once, commit_with_retry
from engine.log_store.changes import Changes
from engine.log_store.fan_out import Channel
from engine.log_store.sink import RETRIES, LogRange, SinkLogStore, VnodeGroup
from engine.meta.catalog.stored_catalog import RELATIONS, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.sinks import (
    SINKS,
    SinkProgress,
    compute_progress,
    encode_sink_state,
    find_sink_source,
    is_paused_by_branch,
    list_consumers,
    read_sink_state,
    release_holds,
)
from engine.runtime.epoch.report import SinkReport
from engine.runtime.spark.session import connect
from engine.sql.catalog import Relation

RANGES_PER_COMMIT = 64
RACE = RetryPolicy(20)
_NOTHING = (DeliveryResult(0), 0.0, 0)
"""What a run has delivered, its seconds, and the bytes that passed through this process, before it has done anything."""


class Delivery:
    """Delivers the log of one sink; `run` is called by one thread at a time."""

    def __init__(
        self,
        store: Hummock,
        relation: Relation,
        open_target: Callable[[str], ObjectStore],
        clock: Callable[[], float],
        spark: Callable[[], SparkSession] = connect,
    ) -> None:
        self.relation, self.options = relation, SinkOptions.of(relation.options)
        self.error: str | None = None
        self._store, self._open_target, self._clock = store, open_target, clock
        self._spark = spark
        self._target: SinkTarget | None = None
        self._start = 0
        self._stopped = threading.Event()
        self._channels: dict[str, Channel] = {}
        self._attempts = Attempts(RETRIES)
        self._is_reported = True
        self._forget_result()
        columns = list_log_columns(relation)
        groups = self.options.vnode_groups
        self.readers = [
            SinkLogStore(store, find_sink_source(relation), consumer, columns, VnodeGroup(number, groups))
            for number, consumer in enumerate(list_consumers(relation))
        ]

    def is_due(self, at: SinkProgress, eager: bool) -> bool:
        """Tell whether there is something to do now; without `eager` not before a failed sink's time has come."""
        if at.is_due:
            return eager or not self._attempts.is_waiting(self._clock())
        return (at.phase == "lapsed" and self.error is None) or (
            at.phase == "paused" and self._is_overdue(at)
        )

    def forget_resolved_failure(self, version: Version) -> None:
        """Forget a failure that is over: the sink began anew since then, or another process has delivered what it lacked."""
        if self.error is None:
            return
        at = compute_progress(version, self.relation)
        anew = read_sink_state(version, self.relation.name).start != self._start
        if anew or (at.phase == "log" and not at.is_due):
            self.error, self._attempts = None, self._attempts.forget()
            for reader in self.readers:
                reader.record_acknowledgement()

    def _is_overdue(self, at: SinkProgress) -> bool:
        return at.lag_seconds(self._clock()) > self.options.retention_seconds

    def record_idle(self) -> None:
        """Note that there is nothing to do for the sink in this run; what nobody was told of stays to be reported."""
        if self._is_reported:
            self._forget_result()

    def _forget_result(self) -> None:
        self._done, self._seconds, self._passed = _NOTHING

    @property
    def fan_out_key(self) -> tuple[object, ...] | None:
        """Sinks with the same key read the same epochs of the same log, and can share the reading; None reads for itself."""
        if not find_sink_connector(self.relation).each_epoch:
            return None  # it takes all that waits as one net change
        return (
            find_sink_source(self.relation),
            tuple(list_log_columns(self.relation)),
            self.options.vnode_groups,
        )

    def share_channels(self, channels: Mapping[str, Channel]) -> None:
        """Take what a common reading of the log gives in the next run, by reader."""
        self._channels = {r.consumer: channels[r.consumer] for r in self.readers if r.consumer in channels}

    def stop(self) -> None:
        """Ask a run in another thread to end after the range that it is at."""
        self._stopped.set()

    def close(self) -> None:
        """Release what the target holds open; while no run is under way."""
        target, self._target = self._target, None
        if target is not None:
            find_sink_connector(self.relation).close_target(target)

    def run(self) -> None:
        """Deliver what is due, the groups of vnodes one after the other; a failure is kept in `error` and never raised."""
        started = time.perf_counter()
        self.record_idle()
        self._is_reported = False
        with track_traffic(self._store.counters, f"sink {self.relation.name}") as traffic:
            failures = self._deliver_all()
        self._passed += traffic.bytes
        self.error = failures[0][1] if failures else None
        attempts = (one for one, _ in failures)
        self._attempts = min(attempts, key=lambda one: one.retry_at, default=Attempts(RETRIES))
        for reader in self.readers:
            self._release_channel(reader)
        self._expire_if_due()
        self._seconds += time.perf_counter() - started

    def _deliver_all(self) -> list[tuple[Attempts, str]]:
        """Deliver of each group; returns of those that failed how often they were tried, and why."""
        failures = []
        for reader in self.readers:
            try:
                self._deliver_group(reader)
            except TidelineError as failure:
                failures.append(self._record_failure(reader, str(failure)))
            except Exception as failure:  # the other groups go on, and so do the views
                failures.append(self._record_failure(reader, f"{type(failure).__name__}: {failure}"))
        return failures

    def report(self, version: Version, running: bool) -> SinkReport:
        """Return how far the sink is, and what has been delivered since the last report, by runs that have ended."""
        at = compute_progress(version, self.relation)
        self._is_reported = self._is_reported or not running
        done, seconds, passed = _NOTHING if running else (self._done, self._seconds, self._passed)
        return SinkReport(
            sink=self.relation.name,
            source=find_sink_source(self.relation),
            phase="delivering" if running else at.phase,
            into=self.options.into,
            epoch=at.epoch,
            rows=done.rows,
            files=done.files,
            bytes=done.bytes,
            lag_rows=at.rows,
            lag_bytes=at.bytes,
            lag_seconds=at.lag_seconds(self._clock()),
            seconds=seconds,
            driver_bytes=passed,
            error=self.error,
            attempts=max(reader.attempts.count for reader in self.readers),
            retry_at=self._attempts.retry_at or None,
        )

    def _deliver_group(self, reader: SinkLogStore) -> None:
        release = partial(self._release_channel, reader)  # another process was faster: read again and follow
        while commit_with_retry(self._store, partial(self._deliver_next, reader), RACE, prepare=release):
            pass

    def _deliver_next(self, reader: SinkLogStore) -> bool:
        """Deliver what comes next; False if there is nothing, or somebody has stopped the delivery."""
        if self._stopped.is_set():
            return False
        version = self._store.refresh()
        table = self._find_table(version)
        if table is None:
            return False
        if reader.find_position(table) is None:
            self._attach(version, table)
            return True
        return self._deliver_ranges(reader, version, table)

    def _find_table(self, version: Version) -> TableVersion | None:
        """Return the table if there may be something to deliver; raises SinkError if the sink cannot go on."""
        if load_catalog(version).catalog.relations.get(self.relation.name) != self.relation:
            return None  # dropped, or created again as something else, which is delivered by another object
        state = read_sink_state(version, self.relation.name)
        self._start = state.start
        table = find_computed_table(version, find_sink_source(self.relation))
        if state.lapsed:
            raise SinkError(state.lapsed)
        if state.table_id and (table is None or table.table_id != state.table_id):
            raise SinkError(
                f"sink {self.relation.name}: {find_sink_source(self.relation)} was built again since the last delivery, and what "
                f"changed is not known; {self._suggest_remedy()}"
            )
        if (
            state.table_id
            and table is not None
            and not set(list_consumers(self.relation))
            <= {
                *table.acks,
                *table.pins,
            }
        ):
            raise SinkError(
                f"sink {self.relation.name}: its place in the log of {table.name} is gone; {self._suggest_remedy()}"
            )
        return None if state.paused else table

    def _attach(self, version: Version, table: TableVersion) -> None:
        """Hold the table's log from here on, for all groups at once."""
        part = build_start(version, self.relation, table, self.options.snapshot)
        self._store.commit(add_precondition(part, self._require_unchanged(version, table)))

    def _require_unchanged(self, base: Version, table: TableVersion) -> Precondition:
        name = self.relation.name
        changed = f"sink {name} or what it reads was changed at the same time"
        return require_all(
            require_same_table(table, changed),
            SINKS.require_same(base, name, changed),
            RELATIONS.require_same(base, name, f"sink {name} was dropped at the same time"),
        )

    def _deliver_ranges(self, reader: SinkLogStore, base: Version, table: TableVersion) -> bool:
        """Deliver some ranges and acknowledge them in one commit; False if there are none."""
        state = read_sink_state(base, self.relation.name)
        target, note = self._get_target(state.start), state.note
        some = itertools.islice(reader.list_ranges(table, each_epoch=target.each_epoch), RANGES_PER_COMMIT)
        upto: int | None = None
        done: list[DeliveryResult] = []
        for waiting in some:
            if target.promises and not is_promised(state, waiting):
                self._promise(reader, base, table, waiting)
                return True
            part = limit_to_promise(state, waiting) if target.promises else waiting
            channel = self._channels.get(reader.consumer)
            shared = channel is not None and channel.is_next(part)
            changes = channel.read(part) if channel and shared else reader.read(table, part)
            portion = SinkBatch(part, reader.group, table, _count_traffic(changes), state.promise, note)
            done.append(target.take(portion))
            note = done[-1].note
            upto = part.upto
            if self._stopped.is_set() or not target.each_epoch:
                break
        if upto is None:
            return False
        self._acknowledge(reader, base, table, upto, done)
        reader.record_acknowledgement()
        self._done = _sum_results([self._done, *done])
        return True

    def _promise(self, reader: SinkLogStore, base: Version, table: TableVersion, part: LogRange) -> None:
        """Commit the bounds of the range that is delivered next, so that who repeats it repeats just that."""
        state = with_promise(read_sink_state(base, self.relation.name), part, base.epoch)
        check = require_all(self._require_unchanged(base, table), reader.require_unmoved(table))
        self._store.commit(Commit(catalog=encode_sink_state(self.relation.name, state), precondition=check))

    def _acknowledge(
        self,
        reader: SinkLogStore,
        base: Version,
        table: TableVersion,
        upto: int,
        done: Sequence[DeliveryResult],
    ) -> None:
        ack = reader.truncate(table, upto)
        state, note = read_sink_state(base, self.relation.name), done[-1].note
        noted = (
            {}
            if note == state.note
            else encode_sink_state(self.relation.name, msgspec.structs.replace(state, note=note))
        )
        guard = Commit(
            catalog=noted,
            precondition=require_all(self._require_unchanged(base, table), reader.require_unmoved(table)),
        )
        self._store.commit(merge_commits(guard, ack, *(one.commit for one in done)))

    def _release_channel(self, reader: SinkLogStore) -> None:
        channel = self._channels.pop(reader.consumer, None)
        if channel is not None:
            channel.close()

    def _get_target(self, start: int) -> SinkTarget:
        if is_paused_by_branch(self._store.version, self.relation):
            raise SinkError(
                f"sink {self.relation.name} rests: {self._store.url} is a branch, whose sinks write nothing outside of it; "
                f"read the rows, or write them by a sink INTO a table"
            )
        if self._target is None or self._target.start != start:
            self.close()
            opening = TargetContext(self._store, self.relation, start, self._spark, self._open_target)
            self._target = find_sink_connector(self.relation).open_target(opening)
        return self._target

    def _record_failure(self, reader: SinkLogStore, error: str) -> tuple[Attempts, str]:
        self.close()
        return reader.record_failure(self._clock()), error

    def _expire_if_due(self) -> None:
        """Let go of the log of a sink that has failed, or was paused, for longer than its retention."""
        version = self._store.version
        at = compute_progress(version, self.relation)
        if at.phase in ("lapsed", "waiting") or not self._is_overdue(at):
            return
        if self.error is None and at.phase != "paused":
            return
        why = "it was paused" if self.error is None else f"the last error: {self.error}"
        reason = (
            f"sink {self.relation.name} has not delivered for more than {self.options.retention_seconds:.0f} s, its retention, "
            f"and the changes that it lacks were released ({why}); {self._suggest_remedy()}"
        )
        acks, pins = release_holds(self.relation)
        state = msgspec.structs.replace(read_sink_state(version, self.relation.name), lapsed=reason)
        table = version.tables[find_sink_source(self.relation)]
        checks = [
            self._require_unchanged(version, table),
            *(reader.require_unmoved(table) for reader in self.readers),
        ]
        entry = encode_sink_state(self.relation.name, state)
        release = Commit(acks=acks, pins=pins, catalog=entry, precondition=require_all(*checks))
        if commit_once(self._store, lambda: self._store.commit(release)) is not None:
            self.error = reason
        # else it was changed, or delivered, at the same time: the next failure looks again

    def _suggest_remedy(self) -> str:
        return (
            f"ALTER SINK {self.relation.name} RESET delivers the current rows and continues from there, "
            f"DROP SINK {self.relation.name} ends it"
        )


def _count_traffic(changes: Iterator[Changes]) -> Iterator[Changes]:
    """Yield changes, counted as what passes through this process; a target whose tasks read the log takes none of them."""
    for change in changes:
        track_bytes(change.nbytes)
        yield change


def _sum_results(parts: Sequence[DeliveryResult]) -> DeliveryResult:
    return DeliveryResult(
        sum(p.rows for p in parts), sum(p.files for p in parts), sum(p.bytes for p in parts)
    )
