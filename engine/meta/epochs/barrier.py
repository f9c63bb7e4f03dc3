"""Barriers: what closes one epoch of a domain and opens the next; durable in the manifest before the work of the epoch starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from engine.hummock import Version
from engine.hummock.epoch import format_epoch_time
from engine.hummock.manifests.preconditions import Precondition, require
from engine.meta.catalog.records import Prefix, Record
from engine.meta.domains.failures import is_failing

Kind = Literal["initial", "barrier", "checkpoint"]
Mutation = Literal["nothing", "add", "recompute", "update", "stop", "pause", "resume", "throttle"]

Minting = Literal["rerun", "anew", "again", "recompute"]
"""What a barrier that a crash left open is to the next: run again, passed by, or passed by to compute partitions again; `again`
is one that a failure left open, behind which the same is tried once more.
"""

DEADLINE_SECONDS = 600.0


class Barrier(msgspec.Struct, frozen=True):
    """Closes epoch `prev` and opens `curr`; the work behind it is the changes in (prev, curr].

    Kinds: `initial` (the first content of a domain), `barrier` (the epoch is sealed, nothing is committed), `checkpoint` (it is
    committed). Mutations: `add` (views that have no content yet get it), `recompute` (partitions are computed again, which
    changes content although no input has changed), `stop` (views were dropped), and what
    users ask for: `update` (of the parallelism), `pause`, `resume`, `throttle`.
    """

    prev: int
    curr: int
    kind: Kind = "checkpoint"
    mutation: Mutation = "nothing"

    @property
    def is_checkpoint(self) -> bool:
        """Whether everything before the barrier is to become durable; before the initial one there is nothing."""
        return self.kind == "checkpoint"

    @property
    def text(self) -> str:
        """The barrier in words."""
        carried = "" if self.mutation == "nothing" else f" with mutation {self.mutation}"
        prev = format_epoch_time(self.prev) if self.prev else "the beginning"
        return f"{self.kind} ({prev}, {format_epoch_time(self.curr)}] UTC{carried}"


class OpenBarrier(msgspec.Struct, frozen=True):
    """A barrier whose work is under way or was broken off: `tables` are those of the domain, times are seconds since 1970.

    A run that has not committed at `deadline` counts as dead; whoever runs the domain next takes its barrier over.
    """

    barrier: Barrier
    tables: tuple[str, ...]
    minted: float
    deadline: float


BARRIERS = Record.of_json(Prefix.BARRIER, OpenBarrier)


def find_open_barrier(version: Version, domain: str) -> OpenBarrier | None:
    """Return the barrier that a domain has not committed yet, or None."""
    return BARRIERS.read(version, domain)


def require_open_barrier(domain: str, barrier: Barrier) -> Precondition:
    """Return the precondition that a barrier is the one that its domain has open: what was computed behind it is of its range."""
    message = f"the epoch of domain {domain} that was computed is not the one that is open"
    return require(lambda version: _is_open(version, domain, barrier), message)


def _is_open(version: Version, domain: str, barrier: Barrier) -> bool:
    left = find_open_barrier(version, domain)
    return left is not None and left.barrier == barrier


class CommitUnit(Protocol):
    """What commits together, a domain: its tables, and what they read from outside."""

    @property
    def name(self) -> str: ...

    @property
    def tables(self) -> tuple[str, ...]: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...


def mint_barrier(
    version: Version, domain: CommitUnit, reach: int, now: float, how: Minting = "rerun"
) -> OpenBarrier:
    """Return the barrier of a domain's next epoch, up to `reach` at most.

    One that a crash has left open is taken as it was, so that the rerun reads the same range; not so after a failure, which
    another range may end, nor when the domain has other tables by now or has committed since, nor when the history of one of
    its inputs begins later by now, nor `anew`, nor where either of the two is to `recompute`: what the domain had at the end of
    the one left open may have been read since.
    """
    held = [version.tables[table].committed_epoch for table in domain.tables if table in version.tables]
    prev = max(held, default=0)
    kind: Kind = "checkpoint" if held else "initial"
    mutation: Mutation = "nothing" if len(held) == len(domain.tables) else "add"
    if how == "recompute":
        mutation = "recompute"
    curr, left = max(reach, prev), find_open_barrier(version, domain.name)
    failing = how == "anew" or is_failing(version, domain.name)
    same = left is not None and left.tables == domain.tables and left.barrier.prev == prev and not failing
    recompute = mutation == "recompute" or (left is not None and left.barrier.mutation == "recompute")
    safe = max(
        (version.tables[name].safe_epoch for name in domain.inputs if name in version.tables), default=0
    )
    if left is not None and same and not recompute and max(prev + 1, safe) <= left.barrier.curr <= reach:
        curr = left.barrier.curr
    return OpenBarrier(Barrier(prev, curr, kind, mutation), domain.tables, now, now + DEADLINE_SECONDS)


def find_recompute_epochs(version: Version) -> Mapping[str, int]:
    """Return by table the epoch from which on its content is about to change although no input does."""
    return version.catalog.derive(_read_recompute_epochs)


def _read_recompute_epochs(catalog: Mapping[str, str], before: Mapping[str, int] | None) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for barrier in BARRIERS.decode_all(catalog).values():
        if barrier.barrier.mutation == "recompute":
            found |= dict.fromkeys(barrier.tables, barrier.barrier.curr)
    return found


def record_barrier(domain: str, barrier: OpenBarrier) -> dict[str, str | None]:
    """Return the catalog entry that makes a barrier durable."""
    return BARRIERS.record(domain, barrier)


def close_barrier(version: Version, domain: str) -> dict[str, str | None]:
    """Return the catalog entry of the commit that closes a domain's open barrier, if it has one."""
    return BARRIERS.remove_existing(version, [domain])
