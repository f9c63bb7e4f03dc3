"""How a domain's part of a run ended, and what is reported of each of its views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine import tracing
from engine.errors import CheckFailed, RowFailed, TidelineError
from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import find_succeeded_view
from engine.meta.domains.creation import find_computed_table, list_creations
from engine.meta.domains.domain import Domain
from engine.meta.domains.quarantine import read_quarantine
from engine.meta.epochs.barrier import Barrier
from engine.meta.epochs.flush_plan import FlushStep
from engine.meta.status.check_results import ViewCheckResults, find_check_results
from engine.runtime.domains.domain_run import DomainEpoch
from engine.runtime.epoch.epoch_run import FragmentEpoch
from engine.runtime.epoch.report import ViewReport
from engine.runtime.spark.errors import is_job_cancelled
from engine.sql.catalog import COMPANIONS


@dataclass
class DomainOutcome:
    """How a domain's part of a run ended; `steps` are those that it has carried out."""

    fragments: dict[str, list[FragmentEpoch]] = field(default_factory=dict)
    commit_seconds: float = 0.0
    seconds: float = 0.0
    lag_seconds: float = 0.0
    error: str | None = None
    error_type: str = ""
    checks: Mapping[str, ViewCheckResults] = field(default_factory=dict)
    failing_row: RowFailed | None = None
    again: bool = False
    """Whether its last step has tried once more what it failed on before."""
    waits_for: str | None = None
    barrier: Barrier | None = None
    mutations: tuple[str, ...] = ()
    steps: tuple[FlushStep, ...] = ()

    @property
    def driver_bytes(self) -> int:
        """What has passed through the driver for all of the domain's tables."""
        return sum(epoch.driver_bytes for epochs in self.fragments.values() for epoch in epochs)

    def merge(self, later: DomainOutcome) -> DomainOutcome:
        """Return both parts of a run as one."""
        fragments = {
            owner: [*self.fragments.get(owner, ()), *later.fragments.get(owner, ())]
            for owner in {**self.fragments, **later.fragments}
        }
        timed = replace(
            later,
            commit_seconds=self.commit_seconds + later.commit_seconds,
            seconds=self.seconds + later.seconds,
            lag_seconds=max(self.lag_seconds, later.lag_seconds),
        )
        return replace(
            timed,
            fragments=fragments,
            barrier=later.barrier or self.barrier,
            mutations=self.mutations + later.mutations,
            steps=self.steps + later.steps,
        )

    def fail(self, failure: Exception) -> None:
        """Note what a domain has failed on; a job that somebody has ended is no failure of its."""
        if is_job_cancelled(failure):
            self.waits_for = "its job was cancelled in Spark; the next run does it"
            return
        self.failing_row = failure if isinstance(failure, RowFailed) else None
        self.checks = failure.checks if isinstance(failure, CheckFailed | RowFailed) else {}
        self.error_type = tracing.name_error(failure)
        is_explained = isinstance(failure, TidelineError)
        self.error = (
            str(failure) if is_explained else f"{type(failure).__name__}: {_abbreviate_error(failure)}"
        )

    def add(self, done: DomainEpoch) -> None:
        """Count one more epoch in."""
        self.barrier = done.barrier
        for owner, epochs in done.fragments.items():
            self.fragments[owner] = [*self.fragments.get(owner, ()), *epochs]
        self.commit_seconds += done.commit_seconds


def build_reports(
    domain: Domain, version: Version, stored: StoredCatalog, outcome: DomainOutcome
) -> Iterator[ViewReport]:
    """Yield what a run did for each view of a domain, which stands as in `version` now; of companions the views tell."""
    kinds = {owner: stored.catalog.relations[owner].kind for owner in domain.members}
    for owner in (owner for owner, kind in kinds.items() if kind not in COMPANIONS or owner == domain.name):
        done = outcome.fragments.get(owner, [])
        table = find_computed_table(version, owner)
        committed = table.committed_epoch if table is not None else None
        report = ViewReport(owner, committed, done[-1].previous if done else committed)
        report = _add_changes(report, done)
        report = _add_ending(report, done, outcome)
        succeeded = find_succeeded_view(owner)
        if succeeded is None:
            yield _add_progress(report, domain, version, stored)
        elif report.error is not None:
            yield replace(report, error=f"the next query of {succeeded} fails: {report.error}")


def _add_changes(report: ViewReport, done: list[FragmentEpoch]) -> ViewReport:
    """Return a report with the rows that a view's fragments have read and written."""
    own = [epoch for epoch in done if epoch.table == report.view]
    report = replace(
        report,
        rows_in=sum(epoch.rows_in for epoch in done),
        driver_bytes=sum(epoch.driver_bytes for epoch in done),
        inserted=sum(epoch.inserted for epoch in own),
        updated=sum(epoch.updated for epoch in own),
        deleted=sum(epoch.deleted for epoch in own),
    )
    return replace(
        report,
        partition_rows_read=sum(epoch.rows_read_again for epoch in done),
        partition_rows_written=sum(epoch.rows_written_again for epoch in own),
        rebuilt=next((epoch.rebuilt for epoch in done if epoch.rebuilt is not None), None),
        skew=tuple(dict.fromkeys(epoch.skew for epoch in done if epoch.skew is not None)),
        ways={epoch.table: str(epoch.way) for epoch in done if epoch.way is not None},
    )


def _add_ending(report: ViewReport, done: list[FragmentEpoch], outcome: DomainOutcome) -> ViewReport:
    """Return a report with how long its domain took, how it ended and what it waits for."""
    stages: dict[str, float] = {}
    for epoch in done:
        for stage, spent in epoch.seconds.items():
            stages[stage] = stages.get(stage, 0.0) + spent
    if done:
        stages["commit"] = outcome.commit_seconds
    report = replace(report, seconds=outcome.seconds, stages=stages, lag_seconds=outcome.lag_seconds)
    skipped = not done and outcome.error is None
    report = replace(report, error=outcome.error, skipped=skipped, waits_for=outcome.waits_for)
    barrier = outcome.barrier.text if outcome.barrier is not None else None
    return replace(report, barrier=barrier, mutations=outcome.mutations)


def _add_progress(report: ViewReport, domain: Domain, version: Version, stored: StoredCatalog) -> ViewReport:
    """Return a report with where its view stands after the run."""
    view = report.view
    plan, creation = stored.plans[view], list_creations(version).get(domain.name)
    tables = [version.tables[f.table] for f in plan.fragments if f.table in version.tables]
    reads = stored.catalog.relations[view].depends_on
    report = replace(
        report,
        state_bytes=sum(table.size_bytes for table in tables),
        input_epochs={name: report.epoch for name in reads if report.epoch},
        rule=plan.fragments[-1].rule.word,
        quarantined={key: one.text for key, one in read_quarantine(version, view).items()},
        checks=dict(judged.results) if (judged := find_check_results(version, view)) is not None else {},
    )
    if creation is None:
        return report
    return replace(report, backfill_phase=creation.phase, consumed=creation.consumed)


def _abbreviate_error(failure: Exception) -> str:
    """Return the beginning of an error; of one in a Spark worker what it says, without the places in the code."""
    lines = [line for line in str(failure).splitlines() if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):
        lines = [line for line in lines if not line.startswith(("Traceback ", "  ", "\t"))]
    return "\n".join(lines[:12])


def list_free_domains(domains: Iterable[Domain], done: Mapping[str, DomainOutcome]) -> set[str]:
    """Return those of some domains, inputs first, that neither wait nor have failed, nor read what does."""
    found: set[str] = set()
    for domain in domains:
        ended = done.get(domain.name) or DomainOutcome()
        if ended.error is None and ended.waits_for is None and found.issuperset(domain.upstreams):
            found.add(domain.name)
    return found
