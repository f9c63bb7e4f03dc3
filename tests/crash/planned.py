"""What a run has done is what its plan said: exactly where it reads source tables, at most where it reads what the run brought on.

Partitions that are computed again take the cut of all domains after them to an epoch that nobody knows before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.meta.epochs.flush_plan import RECOMPUTE, DomainPlan, FlushPlan, FlushStep, Work
from engine.meta.epochs.time_boundary import is_timed
from engine.runtime.domains.flush import FlushRunner
from engine.runtime.domains.flush_planning import plan_flush
from engine.runtime.epoch.report import FlushReport, ViewReport
from tests.crash.broken import Broken

EPOCHS: tuple[Work, ...] = ("first content", "epoch", "computed whole")


def check_planned(run: FlushRunner, report: FlushReport) -> None:
    """Raise Broken if the last run of a process, which no other has met, did what its plan did not say, or less."""
    ended = {view.view: view for view in report.views}
    moved = False
    planned = plan_last_run(run)
    for plan in (*planned.due, *(one for one in planned.domains if not one.due)):
        done = run.executed.get(plan.name, ())
        if bool(plan.due) is not (plan.name in run.executed):
            raise Broken(f"{plan.name} was {'due' if plan.due else 'not due'}, and the run thought otherwise")
        whole = all(
            ended[member].error is None and ended[member].waits_for is None
            for member in plan.domain.members
            if member in ended
        )
        moved = moved or any(step.work == RECOMPUTE for step in (*plan.steps, *done))
        certain = not plan.reads and not moved
        _check(plan, done, whole=whole, certain=certain)
        if certain and whole and [step.work for step in done] in [[work] for work in EPOCHS]:
            _check_reports(plan, ended)


def plan_last_run(run: FlushRunner) -> FlushPlan:
    """Return the plan of the last run of a process, as it could be seen when that began."""
    assert run.last is not None
    return plan_flush(run.last.version, run.last.request)


def _check(plan: DomainPlan, done: Sequence[FlushStep], *, whole: bool, certain: bool) -> None:
    message = f"{plan.name} was to do {_words(plan.steps)} and did {_words(done)}"
    left = list(plan.steps)
    if len(done) > 1 and done[-1].work == RECOMPUTE and not any(s.work == RECOMPUTE for s in left):
        done = done[:-1]  # an epoch has put partitions into quarantine, of which some are tried at once
    built = brought = False
    timed = any(is_timed(fragment) for _, fragment in plan.domain.fragments)
    for step in done:
        if built and step.work in EPOCHS:
            continue  # a backfill is many commits, and at which cuts the domain stops after it is known then
        sure = certain and not (
            timed and brought
        )  # an epoch that brings rows tells when they cross a bound next
        if timed and brought and not left and step.work in EPOCHS:
            continue
        built = built or step.work == "backfill step"
        while left and not _fits(step, left[0], sure):
            if sure and left[0].work not in (RECOMPUTE, "backfill step"):
                raise Broken(message)
            left.pop(0)
        if not left:
            raise Broken(message)
        left.pop(0)
        brought = brought or step.work in EPOCHS
    if certain and whole and not built and any(step.work in EPOCHS for step in left):
        raise Broken(message)


def _fits(done: FlushStep, planned: FlushStep, certain: bool) -> bool:
    """Whether a step is one that was planned; what reads views that come before it may be smaller, and so built otherwise.

    Of an epoch that was to bring on one view of a domain, and to build another, that alone may be left.
    """
    if not certain:
        builds = ("first content", "backfill step")
        fits = done.work == planned.work or (done.work in builds and planned.work in builds)
        return fits or (planned.work == "epoch" and done.work == "first content")
    if done.work not in EPOCHS:
        return done.work == planned.work
    return _known(done) == _known(planned)


def _known(step: FlushStep) -> tuple[object, ...]:
    """Return what a plan knows of an epoch: where a fragment stands is left out if it reads what the step before may not have moved."""
    fragments = [replace(one, previous=None) if one.unknown else one for one in step.fragments]
    return step.work, step.stop, step.label, fragments


def _words(steps: Sequence[FlushStep]) -> str:
    return "; ".join(f"{step.work} to {step.stop} as {step.label}" for step in steps) or "nothing"


def _check_reports(plan: DomainPlan, ended: Mapping[str, ViewReport]) -> None:
    """Look at what one epoch of a domain has really done: its barrier, its label, and the rows that it has read."""
    (step,) = plan.steps
    planned = {fragment.table: fragment for fragment in step.fragments}
    for member in plan.domain.members:
        own = [f.table for owner, f in plan.domain.fragments if owner == member]
        works = [planned[table] for table in own if table in planned]
        report = ended.get(member)
        if report is None or not works:
            continue
        rows, is_known = sum(work.rows for work in works), not any(work.unknown for work in works)
        if report.barrier != step.epoch.text or (is_known and report.epoch != step.label):
            raise Broken(f"{member} was to get {step.epoch.text}, and got {report.barrier} at {report.epoch}")
        if report.rows_in < rows or (is_known and report.rows_in != rows):
            raise Broken(f"{member} was to read {rows} rows, and read {report.rows_in}")
