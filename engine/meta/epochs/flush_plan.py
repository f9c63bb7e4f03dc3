"""FlushPlan: what a run over lagging domains would do, as a value that can be printed; made by `domains/flush_planning.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.hummock import Version
from engine.hummock.epoch import format_epoch_time
from engine.meta.domains.domain import Domain
from engine.meta.epochs.barrier import Barrier, Minting, OpenBarrier
from engine.meta.epochs.fragment_work import FragmentWork
from engine.meta.epochs.target_epoch import read_target_epoch

Work = Literal[
    "nothing",
    "mutation",
    "backfill step",
    "first content",
    "epoch",
    "computed whole",
    "recompute partitions",
]

RECOMPUTE: Work = "recompute partitions"


@dataclass(frozen=True)
class FlushRequest:
    """What a run is asked for, and by which time it goes.

    `views` are those to bring on with all that they read, None for all. Without `eager` what has failed waits for its time, and
    epochs that are sealed wait for their checkpoint. `partitions` are by view those to be computed again. `now` is in seconds
    since 1970; a new view over `backfill_rows` rows or more is built step by step.
    """

    now: float
    backfill_rows: int
    views: tuple[str, ...] | None = None
    eager: bool = True
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunTarget:
    """Where a run brings domains: to its `cut`, and on the way to the one `before` it, which another run may be heading for.

    Until a barrier of the run announces its target, a newer one of another run takes its place.
    """

    epoch: int
    previous: int = 0
    minted: bool = False

    def adopt_newer(self, version: Version) -> RunTarget:
        """Return the aim of a run that sees a version."""
        return self if self.minted else replace(self, epoch=max(self.epoch, read_target_epoch(version)))

    def mark_minted(self, version: Version, stop: int) -> RunTarget:
        """Return the aim after a barrier to `stop` was minted over a version."""
        if self.minted or stop != self.epoch:
            return self
        return replace(self, minted=True, previous=read_target_epoch(version))

    def extend_to(self, epoch: int) -> RunTarget:
        """Return the aim after partitions that were computed again have taken a domain to `epoch`: what reads it follows."""
        return replace(self, epoch=max(self.epoch, epoch))


@dataclass(frozen=True)
class Recomputation:
    """Partitions of a view that are to be computed again as a whole: those `asked` for, and quarantined ones that are due.

    Of the latter only those are computed whose own rows have changed. `reach` is the epoch of the inputs.
    """

    view: str
    requested: frozenset[str]
    due: frozenset[str]
    reach: int


@dataclass(frozen=True)
class FlushStep:
    """One thing that a run does for a domain; each is one commit, of a backfill many.

    `stop` is the epoch of the inputs that it reflects, and `label` the epoch under which it is committed. `oldest_change` is the
    first change that it takes in, `snapshot` the epoch that a backfill reads. Nothing is done where it `waits_for` something.
    """

    work: Work
    stop: int = 0
    barrier: OpenBarrier | None = None
    minting: Minting = "rerun"
    fragments: tuple[FragmentWork, ...] = ()
    again: tuple[Recomputation, ...] = ()
    mutations: tuple[str, ...] = ()
    oldest_change: int | None = None
    snapshot: int | None = None
    waits_for: str | None = None

    @property
    def epoch(self) -> Barrier:
        """The barrier that opens the step's epoch; only of those that compute one."""
        assert self.barrier is not None, f"{self.work} has no barrier of its own"
        return self.barrier.barrier

    @property
    def label(self) -> int | None:
        """The epoch under which it is committed, None where it is not known before."""
        if self.barrier is not None:
            return self.barrier.barrier.curr
        return self.snapshot or self.stop or None

    @property
    def rows(self) -> int:
        """An upper bound of the changed input rows that are read, as far as they are known before."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def lines(self) -> tuple[str, ...]:
        """What it does in words, a line each."""
        texts = [f"takes {text}" for text in self.mutations]
        texts += [_format_fragment(fragment, self.work) for fragment in self.fragments]
        texts += [_format_partitions(again) for again in self.again]
        if self.work == RECOMPUTE and not self.again:
            texts.append("closes the barrier of a recomputation that was broken off")
        return tuple(texts)


@dataclass(frozen=True)
class DomainPlan:
    """What a run does for one domain, step by step.

    `waits_for` is why it does no more, `reads` are domains that the same run brings on before: what they change decides how much
    there is to do. `notes` tell of failures and of partitions that stay in quarantine. One that is `built` step by step comes
    after all others. One that is not `due` is left alone; `held` is why, where it lags all the same.
    """

    domain: Domain = field(repr=False)
    due: bool = True
    built: bool = False
    hold_reason: str | None = None
    steps: tuple[FlushStep, ...] = ()
    waits_for: str | None = None
    reads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The domain's name."""
        return self.domain.name


@dataclass(frozen=True)
class FlushPlan:
    """What a run does that begins now, domain by domain, inputs before their readers.

    It is what the run does at most. A domain that reads what the run brings on before has less to do where that changes nothing;
    a failure, and another process, change the rest: a run makes the plan of each domain anew when its turn comes.
    """

    target_epoch: int
    domains: tuple[DomainPlan, ...]

    def __getitem__(self, domain: str) -> DomainPlan:
        return next(plan for plan in self.domains if plan.name == domain)

    @property
    def due(self) -> tuple[DomainPlan, ...]:
        """The domains that are worked on, in the order in which their work begins."""
        due = [plan for plan in self.domains if plan.due]
        return (*(plan for plan in due if not plan.built), *(plan for plan in due if plan.built))

    def __str__(self) -> str:
        return "\n".join(self._format_lines())

    def _format_lines(self) -> Iterator[str]:
        yield f"to the target epoch {format_epoch_time(self.target_epoch)} UTC"
        for plan in self.domains:
            for step in plan.steps:
                at = "" if step.label is None else f" up to {format_epoch_time(step.label)} UTC"
                yield f"{plan.name}: {step.work}{at}"
                yield from (f"  {line}" for line in step.lines)
            if not plan.steps:
                yield f"{plan.name}: nothing"
            if plan.waits_for:
                yield f"  {plan.waits_for}"
            yield from (f"  {note}" for note in plan.notes)


def _format_fragment(fragment: FragmentWork, work: Work) -> str:
    rows = [f"{fragment.rows:,} {'row' if fragment.rows == 1 else 'rows'}"] if fragment.rows else []
    rows += [f"what comes of {name}" for name in fragment.unknown]
    how = "" if fragment.how == work or work == "backfill step" else f", {fragment.how}"
    return f"{fragment.table} by {fragment.rule}{how}: {' and '.join(rows) or 'no rows'}"


def _format_partitions(again: Recomputation) -> str:
    parts = []
    if again.requested:
        parts.append(f"{', '.join(sorted(again.requested))} as asked")
    if waiting := sorted(again.due - again.requested):
        parts.append(f"{', '.join(waiting)} of the quarantine, as far as their rows have changed")
    return f"partitions of {again.view} as a whole: {'; '.join(parts)}"
