"""What an epoch run tells: one report per view, numbers first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from engine.errors import EpochFailed
from engine.meta.status.check_results import CheckResult


@dataclass(frozen=True)
class ViewReport:
    """What one run did for one view; `rows_in` are upper bounds of changed input rows, seconds are wall time by stage.

    A view that was left alone on purpose says in `waits_for` why. `barrier` is the one that the run has committed, `mutations`
    are what it has put in force; `rebuilt` says why the view was computed as a whole. `backfill_phase` and `consumed` (rows by
    phase) tell of views that were made by snapshot backfill. `driver_bytes` have passed through the driver: what tasks answer,
    rows that are copied there, and those that a pandera schema checks. `checks` are by name how they came out at the newest
    epoch, if only as what has stopped it. `skew` says of each table of the view which key has so many changed rows that one
    task worked for it alone, `ways` where its newest epoch was computed and why there.
    """

    view: str
    epoch: int | None
    previous_epoch: int | None
    rows_in: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    state_bytes: int = 0
    driver_bytes: int = 0
    input_epochs: dict[str, int] = field(default_factory=dict)
    lag_seconds: float = 0.0
    rule: str = ""
    error: str | None = None
    skipped: bool = False
    waits_for: str | None = None
    barrier: str | None = None
    mutations: tuple[str, ...] = ()
    rebuilt: str | None = None
    backfill_phase: str | None = None
    consumed: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)
    partition_rows_read: int = 0
    partition_rows_written: int = 0
    skew: tuple[str, ...] = ()
    ways: dict[str, str] = field(default_factory=dict)
    checks: dict[str, CheckResult] = field(default_factory=dict)

    @property
    def rows_out(self) -> int:
        """How many rows of the view changed."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class SinkReport:
    """How far a sink is, and what its last delivery brought; `lag_*` is what is still to come.

    `phase` is waiting, snapshot, log, paused, lapsed, or delivering for one that is under way. `driver_bytes` are of the changes
    that passed through this process on their way. A sink that fails is tried again after `retry_at`, seconds since 1970.
    """

    sink: str
    source: str
    phase: str
    into: str | None = None
    epoch: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    lag_rows: int = 0
    lag_bytes: int = 0
    lag_seconds: float = 0.0
    seconds: float = 0.0
    driver_bytes: int = 0
    error: str | None = None
    attempts: int = 0
    retry_at: float | None = None


@dataclass(frozen=True)
class FlushReport:
    """The reports of one run, inputs before their readers; a failing view does not stop the others.

    `driver_bytes` are those of all views, and of indexes, which have no report.
    """

    views: tuple[ViewReport, ...]
    seconds: float = 0.0
    sinks: tuple[SinkReport, ...] = ()
    driver_bytes: int = 0

    def __getitem__(self, view: str) -> ViewReport:
        return next(report for report in self.views if report.view == view)

    def merge(self, later: FlushReport) -> FlushReport:
        """Return one report of two runs: of each view the later one, unless the first has brought it on and there was no more."""
        new = {after.view: after for after in later.views}
        views = tuple(_choose_newer(report, new.get(report.view, report)) for report in self.views)
        passed = self.driver_bytes + later.driver_bytes
        return FlushReport(views, self.seconds + later.seconds, self.sinks, passed)

    @property
    def failed(self) -> tuple[ViewReport, ...]:
        """The reports of the views that failed."""
        return tuple(report for report in self.views if report.error is not None)

    @property
    def quarantined(self) -> tuple[ViewReport, ...]:
        """The reports of the views of which partitions stay behind."""
        return tuple(report for report in self.views if report.quarantined)

    def raise_for_quarantine(self) -> None:
        """Raise EpochFailed that names every partition that stays behind and why; do nothing if none does."""
        if self.quarantined:
            lines = [
                f"view {r.view}, partition {k} {t}"
                for r in self.quarantined
                for k, t in r.quarantined.items()
            ]
            raise EpochFailed("all else is up to date, but not every partition:\n" + "\n".join(lines))

    def raise_for_errors(self) -> None:
        """Raise EpochFailed that names every view that failed and why; do nothing if none did."""
        if self.failed:
            raise EpochFailed("\n".join(f"view {r.view}: {r.error}" for r in self.failed))

    def raise_for_all(self) -> None:
        """Raise EpochFailed for views that failed, else for partitions that stay behind; do nothing if there are none."""
        self.raise_for_errors()
        self.raise_for_quarantine()

    def of(self, views: Collection[str]) -> FlushReport:
        """Return the report of some of the views."""
        return replace(self, views=tuple(report for report in self.views if report.view in views), sinks=())


def _choose_newer(before: ViewReport, after: ViewReport) -> ViewReport:
    """Return which of two reports of a view tells how it stands: a failure is over where the view no longer lags."""
    is_over = before.waits_for is not None or (before.error is not None and after.waits_for is None)
    return after if not after.skipped or is_over else before


def merge_sink_reports(
    before: tuple[SinkReport, ...], later: tuple[SinkReport, ...]
) -> tuple[SinkReport, ...]:
    """Return one report a sink of two runs: how far it is now, and what both have brought."""
    done = {report.sink: report for report in before}
    found = []
    for report in later:
        first = done.get(report.sink)
        if first is not None:
            report = replace(
                report,
                rows=first.rows + report.rows,
                files=first.files + report.files,
                bytes=first.bytes + report.bytes,
                seconds=first.seconds + report.seconds,
                driver_bytes=first.driver_bytes + report.driver_bytes,
            )
        found.append(report)
    return tuple(found)
