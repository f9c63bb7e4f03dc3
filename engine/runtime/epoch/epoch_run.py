"""One epoch of one fragment: its inputs' changes in (committed, e] become its table's change, in files that a commit can name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from engine.errors import EpochFailed
from engine.hummock import Commit, Table, Version
from engine.hummock.epoch import format_epoch
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.epochs.fragment_work import plan_fragment_work
from engine.operators import changelog, full_refresh, temporal_filter
from engine.operators.change import Change, sum_terms
from engine.operators.compile import delta
from engine.operators.context import EpochContext
from engine.operators.grouping import recompute, top_n, windows
from engine.operators.grouping.aggregate import keyed_recompute, partials_delta, recompute_only_group
from engine.operators.joins import few_rows, temporal_join
from engine.runtime.epoch.first_content import (
    compute_content,
    compute_first_content,
    compute_step_content,
    is_batch_step,
)
from engine.runtime.executor import FragmentTask, TaskResult, Way
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import (
    ChangelogRows,
    FirstRows,
    FullRefresh,
    IndexCopy,
    JoinedOnArrival,
    KeyedRecompute,
    Linear,
    Lookups,
    ReferenceRecompute,
    StoredPartials,
    TimedRows,
    WindowRecompute,
)
from engine.sql.incremental.states.table_columns import reads_expiring
from engine.sql.incremental.temporal_joins import find_arriving_side
from engine.sql.incremental.watermarks.state_expiry import find_closing_filters
from engine.sql.plan import Aggregate, Project, Recompute, TemporalFilter, TopN, list_scans


@dataclass(frozen=True)
class FragmentEpoch:
    """What one fragment's epoch did."""

    previous: int | None
    epoch: int
    rows_in: int
    inserted: int
    updated: int
    deleted: int
    seconds: dict[str, float]
    rebuilt: str | None = None
    rows_read_again: int = 0
    rows_written_again: int = 0
    table: str = ""
    driver_bytes: int = 0
    skew: str | None = None
    way: Way | None = None


def record_fragment(
    version: Version, task: FragmentTask, computed: TaskResult, dependencies: tuple[str, ...]
) -> tuple[FragmentEpoch, Commit]:
    """Return what a task of `build_task` over a version has done, and the commit that makes it visible."""
    table = task.fragment.table
    changes = computed.changes
    commit = Commit(
        create=() if task.old is not None else (task.table,),
        writes={table: tuple(sst for change in changes for sst in change.ssts)},
        epochs={table: task.new},
        acks={name: {table: task.new} for name in dependencies},
    )
    done = FragmentEpoch(
        task.old,
        task.new,
        task.rows,
        sum(change.inserted for change in changes),
        sum(change.updated for change in changes),
        sum(change.deleted for change in changes),
        dict(computed.seconds),
        describe_expiry(version, table, dependencies) if task.whole else None,
        computed.rows_read,
        sum(change.again for change in changes),
        table,
        sum(change.driver_bytes for change in changes),
        computed.skew,
        computed.way,
    )
    return done, commit


def build_task(
    version: Version,
    fragment: Fragment,
    dependencies: tuple[str, ...],
    upto: int,
    made: Table,
) -> FragmentTask:
    """Return what has to be computed to bring a fragment's table to `upto`: as a whole where an input's log was let go.

    `made` is the table as it is to be created if it does not exist.
    """
    work = plan_fragment_work(version, fragment, dependencies, upto)
    table = made if work.previous is None else version.tables[fragment.table].table
    task = FragmentTask(fragment, table, version.tables, work.previous, upto, work.rows)
    return replace(task, whole=work.how == "computed whole")


def describe_expiry(version: Version, name: str, dependencies: tuple[str, ...]) -> str:
    """Return in words why a table cannot follow the change logs of what it reads."""
    if name in list_replaced_tables(version):
        return f"{name} has got another query, or is computed anew: the difference was committed"
    own = version.tables[name].committed_epoch
    safe_epochs = [(table, version.tables[table].safe_epoch) for table in dependencies]
    logs = ", ".join(
        f"that of {table} begins at epoch {format_epoch(safe)}" for table, safe in safe_epochs if safe > own
    )
    at = format_epoch(own)
    return (
        f"{name} was at epoch {at} and could not follow the change log ({logs}): the difference was committed"
    )


def adapt_context(fragment: Fragment, context: EpochContext) -> EpochContext:
    """Return the context in which a fragment's rule runs: that of a recomputed query is as large as its tables."""
    if isinstance(fragment.plan, Recompute):
        return context.for_whole_tables([fragment.table, *(scan.table for scan in fragment.plan.inputs)])
    return context


ChangeRule = Callable[[EpochContext], Change | None]
"""What computes the signed change of a fragment's table in an epoch; None if nothing changes."""


def compute_fragment_change(fragment: Fragment, context: EpochContext) -> Change | None:
    """Return the signed change of a fragment's table in the context's epoch, or None if there is none."""
    return choose_rule(fragment, context)(context)


def choose_rule(
    fragment: Fragment, context: EpochContext, *, whole: bool = False, mine: Expr | None = None
) -> ChangeRule:
    """Return by which rule a fragment's change is computed in the context's epoch.

    With `whole` it is the difference between the query over the whole inputs and what the table has, of rows that `mine` is
    true for.
    """
    if context.old is None:
        return partial(compute_first_content, fragment)
    if is_batch_step(fragment, context):
        return partial(compute_step_content, fragment)
    if whole and find_closing_filters(fragment.plan) and isinstance(fragment.rule, Linear):
        return partial(_compute_after_expiry, fragment)
    if whole:
        refuse_recompute(fragment)
        return partial(_compute_difference, fragment, mine=mine)
    match fragment.rule:
        case Lookups() if fragment.expiry is None and few_rows.can_join_anew(
            fragment.plan, fragment.table, context
        ):
            return partial(few_rows.delta, fragment.plan, fragment.table)
        case Linear() | Lookups() | IndexCopy():
            return partial(delta, fragment.plan)
        case StoredPartials() | KeyedRecompute():
            return partial(_compute_aggregate_change, fragment, fragment.rule)
        case FirstRows():
            return partial(_compute_top_n_change, fragment)
        case WindowRecompute():
            return partial(_compute_windows_change, fragment, fragment.rule)
        case TimedRows():
            return partial(_compute_timed_change, fragment)
        case JoinedOnArrival():
            return partial(_compute_arrivals_change, fragment, fragment.rule)
        case ChangelogRows():
            assert isinstance(fragment.plan, Project)
            return partial(changelog.delta, fragment.plan, fragment.table)
        case ReferenceRecompute():
            assert isinstance(fragment.plan, Project)
            return partial(recompute.keyed_delta, fragment.plan)
        case FullRefresh():
            return partial(_compute_difference, fragment, mine=mine)


def _compute_after_expiry(fragment: Fragment, context: EpochContext) -> Change | None:
    """Return the change where the logs do not reach back to the old epoch, and closed rows are final."""
    return delta(fragment.plan, replace(context, log_expired=True))


def _compute_timed_change(fragment: Fragment, context: EpochContext) -> Change | None:
    assert isinstance(fragment.plan, TemporalFilter)
    change = delta(fragment.plan.input, context)
    return temporal_filter.delta(fragment.plan, fragment.table, change, context)


def _compute_aggregate_change(
    fragment: Fragment, rule: StoredPartials | KeyedRecompute, context: EpochContext
) -> Change | None:
    plan = fragment.plan
    assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
    change = delta(plan.input.input, context)
    if change is None:
        return None
    match rule:
        case StoredPartials():
            return partials_delta(plan, fragment.table, rule.partials, change, context)
        case KeyedRecompute(by=()):
            found = recompute_only_group(plan, fragment.table, change, context)
            return _compute_difference(fragment, context) if found is None else found
        case KeyedRecompute():
            return keyed_recompute(plan, fragment.table, change, context)


def _compute_top_n_change(fragment: Fragment, context: EpochContext) -> Change | None:
    top = fragment.plan
    assert isinstance(top, Project) and isinstance(top.input, TopN)
    change = delta(top.input.input, context)
    if change is None:
        return None
    found = top_n.delta(top, fragment.table, change, context)
    return _compute_difference(fragment, context) if found is None else found


def _compute_windows_change(
    fragment: Fragment, rule: WindowRecompute, context: EpochContext
) -> Change | None:
    top = fragment.plan
    assert isinstance(top, Project)
    node, _ = windows.find_windows(top.input)
    assert node is not None
    change = delta(node.input, context)
    if change is None:
        return None
    found = windows.delta(top, fragment.table, change, rule.reach, context)
    return _compute_difference(fragment, context) if found is None else found


def _compute_arrivals_change(
    fragment: Fragment, rule: JoinedOnArrival, context: EpochContext
) -> Change | None:
    left = find_arriving_side(fragment.plan)
    change = delta(left, context)
    if change is None:
        return None
    come = delta(fragment.plan, context)
    assert come is not None
    if left.append_only:
        return come
    table, columns = fragment.table, fragment.plan.columns
    gone = temporal_join.find_removed(left, change.rows, table, rule.by, columns, context)
    # a row that changes may find what it has found before
    return sum_terms([come.rows, gone], 2, (come,), context)


def refuse_recompute(fragment: Fragment) -> None:
    """Raise EpochFailed for a table that cannot be computed again: what its rows have met is in no table any more."""
    match fragment.rule:
        case JoinedOnArrival():
            what = "the rows of a temporal join as they were when they came"
        case ChangelogRows():
            what = "all changes of a table"
        case FullRefresh():
            return
        case _ if fragment.expiry is not None and fragment.expiry.late:
            what = "rows of a join as long as the other side may meet them"
        case _ if any(scan.passes and scan.append_only for scan in list_scans(fragment.plan)):
            what = "rows of a source under numbers of their own, which are others whenever the source is read again"
        case _ if reads_expiring(fragment.plan):
            what = "rows that have left a table or a state by themselves, below a watermark or after retention_seconds"
        case _:
            return
    raise EpochFailed(
        f"{fragment.table} holds {what}, and cannot be computed again from what its tables hold now, as is needed where the "
        "history that it lacks was let go; its content is unchanged: read it as it is, or DROP the view and create it anew, "
        "with the rows of today"
    )


def _compute_difference(fragment: Fragment, context: EpochContext, mine: Expr | None = None) -> Change:
    return Change(full_refresh.diff_rows(compute_content(fragment, context), fragment.table, context, mine))
