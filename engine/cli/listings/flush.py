"""What a run would do, as columns for people and as numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.cli.layout import WIDE_ONLY, TextColumn, format_duration
from engine.cli.listings.status import Listing
from engine.hummock.epoch import format_epoch_time, seconds_of

if TYPE_CHECKING:
    from engine.meta.epochs.flush_plan import DomainPlan, FlushPlan, FlushStep


def build_flush_listing(plan: FlushPlan, now: float) -> Listing:
    """Return a row for each step of a plan, and one for each domain that does nothing."""
    rows = [(one, step) for one in plan.domains for step in one.steps or (None,)]
    columns = (
        TextColumn("domain", [one.name for one, _ in rows]),
        TextColumn("work", [_format_work(one, step) for one, step in rows]),
        TextColumn("rows", [_format_rows(step) for _, step in rows], right=True, rank=1),
        TextColumn("waiting", [_format_waiting(step, now) for _, step in rows], right=True, rank=2),
        TextColumn("up to (UTC)", [_format_time(step.label) if step else "" for _, step in rows], rank=3),
        TextColumn("from (UTC)", [_format_time(_get_previous_epoch(step)) for _, step in rows], rank=4),
        TextColumn(
            "up to", [_format_number(step.label) if step else "" for _, step in rows], True, WIDE_ONLY
        ),
        TextColumn("from", [_format_number(_get_previous_epoch(step)) for _, step in rows], True, WIDE_ONLY),
    )
    notes = [_format_note(one, step) for one, step in rows]
    records = [_build_record(one, step) for one, step in rows]
    footer = (
        f"the target epoch of the run: {format_epoch_time(plan.target_epoch)} UTC"
        if plan.target_epoch
        else ""
    )
    return Listing(columns, notes, records, "there is no view", footer)


def _format_work(plan: DomainPlan, step: FlushStep | None) -> str:
    if step is not None:
        return step.work
    return "waits" if plan.waits_for else "nothing"


def _format_rows(step: FlushStep | None) -> str:
    """Return the rows that wait, with a plus where more may come of what is brought on before."""
    if step is None or not step.fragments:
        return ""
    return f"{step.rows:,}{'+' if _is_open(step) else ''}"


def _is_open(step: FlushStep) -> bool:
    return any(fragment.unknown for fragment in step.fragments)


def _format_waiting(step: FlushStep | None, now: float) -> str:
    if step is None or step.oldest_change is None:
        return ""
    return format_duration(max(0.0, now - seconds_of(step.oldest_change)))


def _get_previous_epoch(step: FlushStep | None) -> int | None:
    """Return the epoch that a domain has before a step, None where it has no content."""
    return step.barrier.barrier.prev if step is not None and step.barrier is not None else None


def _format_note(plan: DomainPlan, step: FlushStep | None) -> str:
    lines = list(step.lines) if step is not None else []
    if step is None or step is plan.steps[-1]:
        lines += [plan.waits_for] if plan.waits_for else []
        lines += plan.notes
    return "\n".join(lines)


def _build_record(plan: DomainPlan, step: FlushStep | None) -> dict[str, Any]:
    return {
        "domain": plan.name,
        "work": _format_work(plan, step),
        "up_to": step.label if step else None,
        "from": _get_previous_epoch(step) or None,
        "rows": step.rows if step and step.fragments else None,
        "rows_may_grow": _is_open(step) if step else False,
        "oldest_change": step.oldest_change if step else None,
        "waits_for": plan.waits_for,
        "details": _format_note(plan, step),
    }


def _format_time(epoch: int | None) -> str:
    return format_epoch_time(epoch) if epoch else ""


def _format_number(epoch: int | None) -> str:
    return str(epoch) if epoch else ""
