"""Which epochs of a run may be computed before their turn: those of which all is known but what their inputs will hold."""

from __future__ import annotations

from engine.hummock import Version
from engine.meta.domains.quarantine import QUARANTINES
from engine.meta.epochs.flush_plan import DomainPlan, FlushPlan
from engine.meta.epochs.time_boundary import is_timed
from engine.runtime.executor import PlannedEpochs, PlannedFragment
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import FullRefresh


def list_epochs_ahead(plan: FlushPlan, version: Version) -> PlannedEpochs:
    """Return the epochs of a run's plan over a version that may be computed ahead.

    Only of domains that go to their end in one step of an ordinary epoch; the tables of the others are unknown.
    """
    fragments: list[PlannedFragment] = []
    unknown: set[str] = set()
    for domain_plan in plan.due:
        if _has_plain_epoch(domain_plan, version):
            for planned in _list_fragments(domain_plan, version):
                if isinstance(planned, PlannedFragment):
                    fragments.append(planned)
                else:
                    unknown.add(planned)
        else:
            unknown.update(domain_plan.domain.tables)
    return PlannedEpochs(version.tables, version.epoch, tuple(fragments), frozenset(unknown))


def _has_plain_epoch(plan: DomainPlan, version: Version) -> bool:
    """Tell whether a run brings a domain on by one epoch, of all its partitions."""
    if plan.built or len(plan.steps) != 1 or plan.steps[0].work != "epoch":
        return False
    return not any(QUARANTINES.has(version, view) for view in plan.domain.members)


def _list_fragments(plan: DomainPlan, version: Version) -> list[PlannedFragment | str]:
    """Return the fragments of a domain's one epoch; of those that cannot be computed ahead the table's name."""
    (step,) = plan.steps
    by_table: dict[str, Fragment] = {fragment.table: fragment for _, fragment in plan.domain.fragments}
    found: list[PlannedFragment | str] = []
    for work in step.fragments:
        fragment = by_table[work.table]
        if (
            work.how != "epoch"
            or work.previous is None
            or is_timed(fragment)
            or isinstance(fragment.rule, FullRefresh)
            or step.label is None
        ):
            found.append(work.table)
        else:
            dependencies = plan.domain.dependencies[work.table]
            found.append(PlannedFragment(fragment, dependencies, work.previous, step.label))
    return found
