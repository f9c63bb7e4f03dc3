"""Several fragments in one task: each reads what those before it have written, and reports its files by itself.

Method: a query's stages are pipelined in one process as long as their data is small. Nothing is visible before a commit, so a
result is a proposal: the driver takes it only if `identify_reads` gives the same for the tables as they are when its turn comes.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from engine.arrow import as_values
from engine.hummock import Commit, Reader, SstInfo, TableVersion, Version
from engine.meta.epochs.frontier import needs_run
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint
from engine.operators.arrow.map_in_arrow import Body, run_alone
from engine.operators.dynamic_filter import count_passed_rows
from engine.operators.fragment_journal import FragmentJournal, JournalEntry, State
from engine.operators.lookups.table_parameters import TableAt, bind_tables
from engine.spark_internals import count_attempts, read_task_text
from engine.sql.plan import DynamicFilter

FIRST_TIME = "it is the first epoch in which these inputs have changed"
BY_THE_CLOCK = "it follows the clock"
NO_TIME = "the shared action had no time left"
MOST_SECONDS = 2.0
MOST_WAITED = 3
"""A task begins with no further fragment after so many processor seconds, or after so many times as long on the clock, as on a
busy machine or over a store that is far away: what is left is for the next action."""
SHARED_SCHEMA = StructType([StructField("report", BinaryType(), False)])
"""Of each fragment its encoded `FragmentReport`: for each task Spark writes code anew that copies rows column by column."""
Bodies = Mapping[tuple[str, tuple[str, ...]], Body]
"""What computes a table's change, by the table and those of its inputs that have changed."""


class FragmentReport(msgspec.Struct, frozen=True, array_like=True):
    """What a task reports of a fragment: why it was left out, or what identifies the rows that it has read, the seconds, and what
    was written, by the columns of `RESULT_SCHEMA`; nothing if that is nothing.
    """

    table: str
    left_out: str | None = None
    identity: bytes = b""
    seconds: float = 0.0
    result: tuple[Any, ...] | None = None
    requests: dict[str, int] = {}
    """Requests of the task that are in no result, by kind."""

    def encode(self) -> bytes:
        """Return it as a row of `SHARED_SCHEMA` holds it."""
        return msgspec.msgpack.encode(self)


decode_report: Callable[[bytes], FragmentReport] = msgspec.msgpack.Decoder(FragmentReport).decode


@dataclass(frozen=True)
class SharedFragment:
    """One fragment of a shared task: its table goes from epoch `old` to `new`, unless more than `most_rows` have changed for it,
    or are passed by the bounds of its `filters`.

    `reads` are the tables that its bodies read, `shapes` the sets of changed inputs of which it has bodies: the task may hold
    others yet, of a table that had its name before.
    """

    table: str
    inputs: tuple[str, ...]
    dependencies: tuple[str, ...]
    reads: tuple[str, ...]
    shapes: frozenset[tuple[str, ...]]
    old: int
    new: int
    most_rows: int
    filters: tuple[DynamicFilter, ...] = ()


@dataclass(frozen=True)
class SharedCall:
    """What one action is to do: of each of its tasks the fragments, inputs before their readers, over the tables of a version.

    What reads one of the `unknown` tables is left out: their new content comes from elsewhere. With a `journal`, a file that all
    tasks reach, they take the same fragments from it, each whichever is next.
    """

    tables: Mapping[str, TableVersion]
    epoch: int
    tasks: tuple[tuple[SharedFragment, ...], ...]
    unknown: frozenset[str]
    journal: str | None = None

    def encode(self) -> str:
        """Return it as a text."""
        return base64.b64encode(zlib.compress(pickle.dumps(self, protocol=5), 1)).decode()

    @staticmethod
    def decode(text: str) -> SharedCall:
        """Return what `encode` has made a text of."""
        found: SharedCall = pickle.loads(zlib.decompress(base64.b64decode(text)))
        return found


class StagedFragments:
    """What the fragments of a run have written so far: `version` is what the store would hold if they were committed now.

    Of `unknown` tables that is not known.
    """

    def __init__(self, version: Version, unknown: Collection[str]) -> None:
        self.version, self.unknown = version, set(unknown)

    def is_unknown(self, fragment: SharedFragment) -> bool:
        """Tell whether the new content of something that a fragment reads comes from elsewhere."""
        return not self.unknown.isdisjoint((*fragment.dependencies, *fragment.reads))

    def is_due(self, fragment: SharedFragment) -> bool:
        """Tell whether a fragment is to be computed now: all that it reads is known, and some of it has changed."""
        if self.is_unknown(fragment):
            self.unknown.add(fragment.table)
            return False
        return needs_run(self.version, fragment.table, fragment.dependencies, fragment.new)

    def add(self, fragment: SharedFragment, ssts: tuple[SstInfo, ...] | None) -> None:
        """Stage what a fragment has written; None if it was not computed."""
        if ssts is None:
            self.unknown.add(fragment.table)
            return
        version, epochs = self.version, {fragment.table: fragment.new}
        # its domain commits after others, each of which moves the epoch on
        reached = StagedCheckpoint(replace(version, epoch=max(version.epoch, fragment.new)))
        reached.add(Commit(writes={fragment.table: ssts}, epochs=epochs))
        self.version = replace(reached.version, epoch=version.epoch)


@dataclass(frozen=True)
class SharedTask:
    """A body: runs the fragments that its job names for its task, by `bodies` that are packed; gives a report of each."""

    url: str
    options: Mapping[str, Any]
    bodies: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text = read_task_text()
        assert text is not None, "a shared task runs without a call that names its fragments"
        call, bodies = SharedCall.decode(text), _load_bodies(self.bodies)
        reader = Reader.open(self.url, self.options)
        for batch in batches:
            for number in as_values(batch.column(0)):
                if number < len(call.tasks):
                    reports = run_task(call, number, bodies, reader)
                    encoded = pa.array([report.encode() for report in reports], pa.binary())
                    yield pa.RecordBatch.from_arrays([encoded], SHARED_SCHEMA.names)


@dataclass(frozen=True)
class TaskClock:
    """When a task began, by the clock and by the processor time of its process."""

    wall: float
    processor: float

    @staticmethod
    def start() -> TaskClock:
        """Return the clock of a task that begins now."""
        return TaskClock(time.perf_counter(), time.process_time())

    def has_time_left(self) -> bool:
        """Tell whether the task may begin with another fragment."""
        waited = time.perf_counter() - self.wall < MOST_WAITED * MOST_SECONDS
        return waited and time.process_time() - self.processor < MOST_SECONDS


class Turns(Protocol):
    """Which of some fragments a task runs next, by their numbers."""

    def take(self, stage: Callable[[JournalEntry], None], has_time: Callable[[], bool]) -> Iterator[int]:
        """Yield the numbers of the fragments to run, as of FragmentJournal."""

    def take_rest(self) -> Sequence[int]:
        """Return the numbers of those for which no task had time."""

    def end(self, number: int, state: State, ssts: tuple[SstInfo, ...] = ()) -> None:
        """Record how a fragment has ended."""


@dataclass(frozen=True)
class OwnTurns:
    """The turns of a task that has its fragments to itself: one after the other."""

    count: int

    def take(self, stage: Callable[[JournalEntry], None], has_time: Callable[[], bool]) -> Iterator[int]:
        """Yield all numbers."""
        return iter(range(self.count))

    def take_rest(self) -> Sequence[int]:
        """Return nothing."""
        return ()

    def end(self, number: int, state: State, ssts: tuple[SstInfo, ...] = ()) -> None:
        """Do nothing: nobody else waits for it."""


def find_inputs(fragments: Sequence[SharedFragment]) -> dict[str, set[str]]:
    """Return of each fragment's table which of the others are read for it."""
    tables = {one.table for one in fragments}
    return {
        one.table: tables & {*one.inputs, *one.dependencies, *one.reads} - {one.table} for one in fragments
    }


def number_inputs(fragments: Sequence[SharedFragment]) -> list[frozenset[int]]:
    """Return of each fragment, by its number, the numbers of those that are read for it."""
    numbers = {one.table: number for number, one in enumerate(fragments)}
    inputs = find_inputs(fragments)
    return [frozenset(numbers[name] for name in inputs[one.table]) for one in fragments]


def pack_bodies(bodies: Bodies) -> bytes:
    """Return bodies as a task holds them: they travel with each job."""
    return zlib.compress(pickle.dumps(bodies, protocol=5))


@lru_cache(maxsize=4)
def _load_bodies(pickled: bytes) -> Bodies:
    found: Bodies = pickle.loads(zlib.decompress(pickled))
    return found


def run_task(call: SharedCall, number: int, bodies: Bodies, reader: Reader) -> list[FragmentReport]:
    """Run the fragments of a task, or its part of those that all tasks take from a journal; what they write is one object."""
    with reader.bundle_writes():
        reports = list(_run_turns(call, call.tasks[number], bodies, reader))
    requests = reader.files.counters.count_unreported()
    reader.files.counters.mark_reported(requests)
    return [msgspec.structs.replace(reports[0], requests=requests), *reports[1:]] if reports else []


def _run_turns(
    call: SharedCall, fragments: Sequence[SharedFragment], bodies: Bodies, reader: Reader
) -> Iterator[FragmentReport]:
    if call.journal is not None and count_attempts():
        raise RuntimeError(
            "a task that shares its fragments is not run again: the others wait for what it has begun"
        )
    if call.journal is None:
        yield from run_fragments(call, fragments, OwnTurns(len(fragments)), bodies, reader)
    else:
        with FragmentJournal(call.journal, number_inputs(fragments)) as journal:
            yield from run_fragments(call, fragments, journal, bodies, reader)


def run_fragments(
    call: SharedCall,
    fragments: Sequence[SharedFragment],
    turns: Turns,
    bodies: Bodies,
    reader: Reader,
) -> Iterator[FragmentReport]:
    """Run those of some fragments whose turns come, and yield a report of each that was due.

    One that fails is left out, and what reads it: it fails in an action of its own, which says why.
    """
    staged = StagedFragments(Version(epoch=call.epoch, tables=call.tables), call.unknown)
    clock = TaskClock.start()

    def stage(entry: JournalEntry) -> None:
        if entry.state != State.UNCHANGED:
            staged.add(fragments[entry.number], entry.ssts if entry.state == State.WRITTEN else None)

    for number in turns.take(stage, clock.has_time_left):
        fragment = fragments[number]
        if staged.is_unknown(fragment):
            yield FragmentReport(fragment.table, "an input is computed in another way")
        if not staged.is_due(fragment):
            turns.end(number, State.LEFT_OUT if staged.is_unknown(fragment) else State.UNCHANGED)
            continue
        began = time.perf_counter()
        report: tuple[bytes, pa.RecordBatch | None] | str = NO_TIME
        if clock.has_time_left():
            report = _run_fragment(fragment, staged.version, bodies, reader)
        if isinstance(report, str):
            turns.end(number, State.LEFT_OUT)
            staged.add(fragment, None)
            yield FragmentReport(fragment.table, report)
            continue
        identity, written = report
        ssts = () if written is None else _decode_ssts(written)
        turns.end(number, State.WRITTEN, ssts)
        staged.add(fragment, ssts)
        result = None if written is None else tuple(written.to_pylist()[0].values())
        spent = time.perf_counter() - began
        yield FragmentReport(fragment.table, identity=identity, seconds=spent, result=result)
    for number in turns.take_rest():
        yield FragmentReport(fragments[number].table, NO_TIME)


def _run_fragment(
    fragment: SharedFragment, version: Version, bodies: Bodies, reader: Reader
) -> tuple[bytes, pa.RecordBatch | None] | str:
    """Return what identifies the rows that a fragment has read, and its report, which is None if nothing was written.

    A text says why a fragment cannot be computed here.
    """
    tables, span = version.tables, (fragment.old, fragment.new)
    try:
        changed = tuple(name for name in fragment.inputs if tables[name].list_changes(*span))
        rows = sum(tables[name].count_changed_rows(*span) for name in changed)
        rows += count_passed_rows(reader, tables, fragment.filters, span)
        shape = choose_shape(fragment.shapes, changed)
        if shape is None:
            return FIRST_TIME
        if rows > fragment.most_rows:
            return f"{rows:,} rows have changed for it, and {fragment.most_rows:,} at most go into a shared action"
        body = bodies[fragment.table, shape]
        read = {name: tables[name] for name in fragment.reads}
        identity = identify_reads(read, *span)
        with bind_tables({name: TableAt(table, *span) for name, table in read.items()}):
            reports = run_alone(body)
    except Exception as failure:
        return f"it failed in the shared action ({type(failure).__name__})"
    return identity, reports[0] if reports else None


def choose_shape(shapes: Collection[tuple[str, ...]], changed: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the least of some sets of inputs that has all of those that have changed, None if there is none.

    The body for it computes the epoch: an input that has not changed gives it no rows.
    """
    wide = [shape for shape in shapes if set(changed) <= set(shape)]
    return min(wide, key=lambda shape: (len(shape), shape), default=None)


def _decode_ssts(report: pa.RecordBatch) -> tuple[SstInfo, ...]:
    return msgspec.msgpack.decode(report.column("ssts")[0].as_py(), type=tuple[SstInfo, ...])


def identify_reads(tables: Mapping[str, TableVersion], old: int, new: int) -> bytes:
    """Return what is the same for two sets of tables only if they give the same rows at and between two epochs.

    These are the files of the log, in their order, and the last change before it: a compaction leaves them as they are. Of a
    table that hides rows by time or watermark a compaction may drop some, and what is seen of it, or follows its watermark,
    depends on the epochs and on the watermarks, too. Raises EpochExpired.
    """
    parts: list[object] = []
    for name, table in sorted(tables.items()):
        changes = table.list_changes(old, new)
        runs = [table.as_of(epoch) for epoch in (old, new)]  # raises where rows are not kept
        last = table.find_last_entry_upto(old)
        base = table.safe_epoch if last is None else [last.epoch, _identify_run(last.ssts)]
        parts += [name, table.table_id, base, [_identify_run(entry.ssts) for entry in changes]]
        options = table.table.options
        if table.watermarks or options.ttl_seconds is not None or options.watermark_column is not None:
            marks = [table.watermark_at(epoch) for epoch in (old, new)]
            hides = [options.ttl_seconds, options.watermark_column]
            files = [[_identify_run(run) for run in some] for some in runs]
            parts += [old, new, files, [entry.epoch for entry in changes], marks, hides]
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


def _identify_run(run: Sequence[SstInfo]) -> list[tuple[str, int, bool]]:
    return [(sst.path, sst.offset, sst.new_keys) for sst in run]


def narrow_tables(
    tables: Mapping[str, TableVersion], fragments: Sequence[SharedFragment]
) -> dict[str, TableVersion]:
    """Return the tables that fragments read, with as much of their history as these need."""
    spans: dict[str, tuple[int, int]] = {}
    for fragment in fragments:
        for name in {fragment.table, *fragment.inputs, *fragment.dependencies, *fragment.reads}:
            low, high = spans.get(name, (fragment.old, fragment.new))
            spans[name] = (min(low, fragment.old), max(high, fragment.new))
    found = {}
    for name, (low, high) in spans.items():
        table = tables[name]
        narrow = table.narrow(max(low, table.safe_epoch), max(high, table.committed_epoch))
        found[name] = replace(narrow, committed_epoch=table.committed_epoch)
    return found
