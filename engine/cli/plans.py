"""What a run would do, as columns for people and as numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.cli.layout import WIDE_ONLY, Column, duration
from engine.cli.standing import Listing
from engine.hummock.epoch import epoch_time, seconds_of

if TYPE_CHECKING:
    from engine.meta.flush_plan import DomainPlan, FlushPlan, Step


def flush_listing(plan: FlushPlan, now: float) -> Listing:
    """Return a row for each step of a plan, and one for each domain that does nothing."""
    rows = [(one, step) for one in plan.domains for step in one.steps or (None,)]
    columns = (
        Column("domain", [one.name for one, _ in rows]),
        Column("work", [_work(one, step) for one, step in rows]),
        Column("rows", [_rows(step) for _, step in rows], right=True, rank=1),
        Column("waiting", [_waiting(step, now) for _, step in rows], right=True, rank=2),
        Column("up to (UTC)", [_time(step.label) if step else "" for _, step in rows], rank=3),
        Column("from (UTC)", [_time(_previous(step)) for _, step in rows], rank=4),
        Column("up to", [_number(step.label) if step else "" for _, step in rows], True, WIDE_ONLY),
        Column("from", [_number(_previous(step)) for _, step in rows], True, WIDE_ONLY),
    )
    notes = [_note(one, step) for one, step in rows]
    records = [_record(one, step) for one, step in rows]
    footer = f"the cut of the run: {epoch_time(plan.cut)} UTC" if plan.cut else ""
    return Listing(columns, notes, records, "there is no view", footer)


def _work(plan: DomainPlan, step: Step | None) -> str:
    if step is not None:
        return step.work
    return "waits" if plan.waits_for else "nothing"


def _rows(step: Step | None) -> str:
    """Return the rows that wait, with a plus where more may come of what is brought on before."""
    if step is None or not step.fragments:
        return ""
    return f"{step.rows:,}{'+' if _is_open(step) else ''}"


def _is_open(step: Step) -> bool:
    return any(fragment.unknown for fragment in step.fragments)


def _waiting(step: Step | None, now: float) -> str:
    if step is None or step.oldest_change is None:
        return ""
    return duration(max(0.0, now - seconds_of(step.oldest_change)))


def _previous(step: Step | None) -> int | None:
    """Return the epoch that a domain has before a step, None where it has no content."""
    return step.barrier.barrier.prev if step is not None and step.barrier is not None else None


def _note(plan: DomainPlan, step: Step | None) -> str:
    lines = list(step.lines) if step is not None else []
    if step is None or step is plan.steps[-1]:
        lines += [plan.waits_for] if plan.waits_for else []
        lines += plan.notes
    return "\n".join(lines)


def _record(plan: DomainPlan, step: Step | None) -> dict[str, Any]:
    return {
        "domain": plan.name,
        "work": _work(plan, step),
        "up_to": step.label if step else None,
        "from": _previous(step) or None,
        "rows": step.rows if step and step.fragments else None,
        "rows_may_grow": _is_open(step) if step else False,
        "oldest_change": step.oldest_change if step else None,
        "waits_for": plan.waits_for,
        "details": _note(plan, step),
    }


def _time(epoch: int | None) -> str:
    return epoch_time(epoch) if epoch else ""


def _number(epoch: int | None) -> str:
    return str(epoch) if epoch else ""
