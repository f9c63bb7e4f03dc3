"""Sinks as the store knows them: whether one is paused, which table it reads, and how far its readers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.errors import Conflict
from engine.hummock import TableVersion, Version
from engine.hummock.epoch import seconds_of
from engine.hummock.manifests.preconditions import Precondition, require
from engine.meta.catalog.records import Prefix, Record
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.sql.catalog import Relation

KIND: Literal["sink"] = "sink"
NEWEST_START = "sinks/start"
COPY = "copy"
"""The option of a sink that belongs to its view, whose statement made both: it goes with the view."""
GROUPS = "vnode_groups"
Holds = dict[str, dict[str, int | None]]
Phase = Literal["waiting", "snapshot", "log", "paused", "lapsed"]


class SinkStartConflict(Conflict):
    """Another sink has begun since a beginning was made: over the newest version it gets another number."""


class PromisedRange(msgspec.Struct, frozen=True):
    """The range that a sink delivers next, up to the epoch `upto`: whoever delivers it, and however often, its bounds are these.

    `number` is the store's epoch when it was promised, so above that of every promise before it, whatever became of the sink in
    between; `first` is that of the first promise since the sink began.
    """

    upto: int
    number: int
    first: int


class SinkState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sink needs beside its relation: `table_id` is the table that it reads (0: none yet), `since` from which epoch.

    `start` is the store's epoch when it began with the rows as they were, so another one after each RESET, and above every epoch
    that was delivered before; 0 for sinks from before there were any. `lapsed` says why it cannot go on. `note` is what its
    target has noted with what was acknowledged last.
    """

    table_id: int = 0
    since: int = 0
    paused: bool = False
    lapsed: str = ""
    start: int = 0
    promise: PromisedRange | None = None
    note: str = ""


SINKS = Record.of_json(Prefix.SINK, SinkState)


@dataclass(frozen=True)
class SinkProgress:
    """How far a sink is: `epoch` is what all its readers have delivered, `rows` and `bytes` what is still to come.

    Phases: `waiting` (its view has not been computed), `snapshot` (the first delivery), `log`, `paused`, `lapsed`.
    """

    phase: Phase
    epoch: int | None = None
    rows: int = 0
    bytes: int = 0
    oldest: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether there is something to do for it now."""
        return self.phase == "snapshot" or (self.phase == "log" and self.oldest is not None)

    def lag_seconds(self, now: float) -> float:
        """The age of the oldest change that was not delivered."""
        return 0.0 if self.oldest is None else max(0.0, now - seconds_of(self.oldest))


def list_sinks(stored: StoredCatalog) -> Iterator[Relation]:
    """Yield the relations of all sinks."""
    for relation in stored.catalog.relations.values():
        if relation.kind == KIND:
            yield relation


def is_delta_copy(relation: Relation) -> bool:
    """Tell whether a relation is the sink that keeps a view's Delta table, made by the view's own statement."""
    return relation.kind == KIND and relation.options.get(COPY) == "true"


def list_copies(stored: StoredCatalog, view: str) -> tuple[Relation, ...]:
    """Return the sinks that belong to a view: one, or none."""
    return tuple(one for one in list_sinks(stored) if is_delta_copy(one) and find_sink_source(one) == view)


def find_sink_source(relation: Relation) -> str:
    """Return the table or view that a sink reads."""
    return relation.depends_on[0]


def read_sink_state(version: Version, name: str) -> SinkState:
    """Return the state of a sink."""
    return SINKS.read(version, name) or SinkState()


def encode_sink_state(name: str, state: SinkState | None) -> dict[str, str | None]:
    """Return the catalog entry that keeps a sink's state; None removes it."""
    return SINKS.remove(name) if state is None else SINKS.record(name, state)


def record_sink_start(start: int) -> dict[str, str | None]:
    """Return the catalog entry that keeps the number of the newest beginning of any sink, also of those that were dropped."""
    return {NEWEST_START: str(start)}


def require_newest_start(start: int) -> Precondition:
    """Return the precondition that no sink has begun at an epoch, or later: one of the same name may have, and be gone."""
    return require(
        lambda version: int(version.catalog.get(NEWEST_START) or 0) < start,
        "another sink has begun at the same time; try again",
        SinkStartConflict,
    )


def list_consumers(relation: Relation) -> tuple[str, ...]:
    """Return the names of a sink's readers, one a group of vnodes, as acknowledgements and pins have them."""
    return tuple(f"{SINKS.key(relation.name)}/{n}" for n in range(int(relation.options.get(GROUPS, "1"))))


def release_holds(relation: Relation) -> tuple[Holds, Holds]:
    """Return the acknowledgements and pins of a commit that lets go of all that a sink holds.

    They name every reader whatever it holds now: another process may deliver the first rows before the commit is made.
    """
    gone: dict[str, int | None] = dict.fromkeys(list_consumers(relation))
    return {find_sink_source(relation): gone}, {find_sink_source(relation): dict(gone)}


def is_paused_by_branch(version: Version, relation: Relation) -> bool:
    """Tell whether a sink rests because the store is a branch: what is outside belongs to its parent."""
    return version.is_branch and "into" not in relation.options


def list_sinks_to_pause(version: Version, stored: StoredCatalog) -> list[str]:
    """Return the sinks to places outside of the store that are not paused."""
    outside = (relation.name for relation in list_sinks(stored) if "into" not in relation.options)
    return [name for name in outside if not read_sink_state(version, name).paused]


def encode_paused_sinks(version: Version, names: Sequence[str]) -> dict[str, str | None]:
    """Return the catalog entries by which sinks are paused."""
    found: dict[str, str | None] = {}
    for name in names:
        found |= encode_sink_state(name, msgspec.structs.replace(read_sink_state(version, name), paused=True))
    return found


def compute_progress(version: Version, relation: Relation) -> SinkProgress:
    """Return how far a sink is, from one manifest alone."""
    state, table = (
        read_sink_state(version, relation.name),
        find_computed_table(version, find_sink_source(relation)),
    )
    if is_paused_by_branch(version, relation):
        state = msgspec.structs.replace(state, paused=True)
    if state.lapsed or (state.table_id and (table is None or table.table_id != state.table_id)):
        return SinkProgress("lapsed")
    if table is None:
        return SinkProgress("paused" if state.paused else "waiting")
    if not state.table_id:
        return SinkProgress("paused" if state.paused else "snapshot")
    acks, pins = _read_positions(table, relation)
    if pins:
        epoch, at = None, min(pins.values())
        oldest: int | None = max(at, state.since)
        rows = sum(sst.rows for run in table.as_of(at) for sst in run)
        size = sum(sst.length for run in table.as_of(at) for sst in run)
    else:
        epoch = min(acks.values(), default=table.committed_epoch)
        oldest = table.find_first_change(epoch)
        rows = size = 0
    if acks or pins:
        pending = table.list_changes(min([*acks.values(), *pins.values()]), table.committed_epoch)
        rows += sum(entry.rows for entry in pending)
        size += sum(sst.length for entry in pending for sst in entry.ssts)
    phase: Phase = "paused" if state.paused else "snapshot" if pins else "log"
    return SinkProgress(phase, epoch, rows, size, oldest)


def _read_positions(table: TableVersion, relation: Relation) -> tuple[Mapping[str, int], Mapping[str, int]]:
    names = set(list_consumers(relation))
    acks = {name: epoch for name, epoch in table.acks.items() if name in names}
    return acks, {name: epoch for name, epoch in table.pins.items() if name in names}


__all__ = [
    "GROUPS",
    "KIND",
    "PromisedRange",
    "SinkProgress",
    "SinkState",
    "compute_progress",
    "encode_sink_state",
    "find_sink_source",
    "is_paused_by_branch",
    "list_consumers",
    "list_sinks",
    "read_sink_state",
    "release_holds",
]
