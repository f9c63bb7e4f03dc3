"""What models change in the rows of a store, tried on a branch of it, which shares its files and follows nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dagster_tideline.models.change_plan import is_public
from dagster_tideline.sync import SyncReport, sync_models
from engine.errors import EpochFailed
from engine.log_store.change_counts import ChangeCounts
from engine.log_store.changes import Changes
from engine.meta.catalog.successions import find_succeeded_view, list_successions
from engine.meta.domains.creation import CREATED, list_creations
from engine.runtime.answers.stored_rows import StoredRows

if TYPE_CHECKING:
    from dagster_tideline.models.loader import Model
    from engine.hummock import Version
    from engine.runtime.epoch.report import FlushReport
    from engine.session import Session

STEP_SECONDS = 30.0
"""For so long views that are built in the background are worked on, before it is looked whether all are whole."""


@dataclass(frozen=True)
class TriedRows:
    """What becomes of the rows of a table or view: their number, None where it has none, and how many come, go and change.

    There are no `counts` where it is new, gone, or has another key. `columns` says by column in how many updated rows it changes;
    `not_compared` are columns that only one side has, or with another type. `problem` says why it is not whole.
    """

    name: str
    before: int | None = None
    after: int | None = None
    counts: ChangeCounts | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    problem: str = ""

    @property
    def differs(self) -> bool:
        """Whether there is something to see: other rows, other columns, or a problem."""
        is_same = self.counts is not None and not self.counts.changed and not self.not_compared
        return bool(self.problem) or not is_same


@dataclass(frozen=True)
class _Content:
    """The rows of a table or view at the newest epoch of a moment."""

    stored: StoredRows
    epoch: int

    def count(self) -> int:
        """Return how many rows there are."""
        return self.stored.store.reader.count_rows(self.stored.table, self.epoch)


def try_models(session: Session, models: Sequence[Model]) -> tuple[TriedRows, ...]:
    """Make a branch hold what the models declare, and return what that changes in the rows of its tables and views, inputs first.

    What waits in the branch is computed before, so that the models alone make the difference. Nothing outside is written.
    """
    _compute(session)
    before = _read_contents(session)
    report = sync_models(session, models)
    problems = _compute(session)
    after = _read_contents(session)
    names = [name for name in session.catalog.sort_by_dependency() if name in after or name in problems]
    gone = [name for name in before if name not in {*names, *report.renamed.values()}]
    tried = [_try_relation(name, before, after, report) for name in (*names, *gone)]
    return tuple(replace(one, problem=problems.get(one.name, one.problem)) for one in tried)


def _compute(session: Session) -> dict[str, str]:
    """Bring all views on, those that are built beside others too; return why some are not whole, by view."""
    while True:
        number = session.store.refresh().number
        report = session.flush(background_seconds=STEP_SECONDS)
        version = session.store.version
        problems = _find_problems(report, version)
        if not _list_unfinished(version) - problems.keys() or version.number == number:
            return problems


def _find_problems(report: FlushReport, version: Version) -> dict[str, str]:
    found = {find_succeeded_view(view.view) or view.view: view.error or "" for view in report.failed}
    for behind in report.quarantined:
        parts = "; ".join(f"partition {name}: {error}" for name, error in behind.quarantined.items())
        found[find_succeeded_view(behind.view) or behind.view] = parts
    for name, succession in list_successions(version).items():
        if succession.held and not succession.approved:
            found[name] = f"its gate holds the change up: {succession.held}"
    return found


def _list_unfinished(version: Version) -> set[str]:
    """Return the views that are built, or have a successor that has not taken over."""
    building = (
        name for one in list_creations(version).values() if one.state != CREATED for name in one.tables
    )
    return {find_succeeded_view(name) or name for name in building} | set(list_successions(version))


def _read_contents(session: Session) -> dict[str, _Content]:
    """Return what tables and views hold now; one without content yet is left out."""
    found = {}
    for name, relation in session.catalog.relations.items():
        if relation.kind not in ("table", "materialized view") or not is_public(relation):
            continue
        stored = StoredRows.find(session.store, name)
        try:
            found[name] = _Content(stored, stored.find_newest_epoch())
        except EpochFailed:
            continue
    return found


def _try_relation(
    name: str, before: Mapping[str, _Content], after: Mapping[str, _Content], report: SyncReport
) -> TriedRows:
    old, new = before.get(report.renamed.get(name, name)), after.get(name)
    tried = TriedRows(name, None if old is None else old.count(), None if new is None else new.count())
    if old is None or new is None:
        return tried
    shared, others = _match_columns(old, new)
    if not _has_same_key(old, new):
        return replace(tried, not_compared=others)
    counts = ChangeCounts(columns=dict.fromkeys(shared, 0))
    reader, tables, epochs = (
        new.stored.store.reader,
        (old.stored.table, new.stored.table),
        (old.epoch, new.epoch),
    )
    if tables[0].table_id == tables[1].table_id:
        changes = reader.compare(tables[1], *epochs, columns=list(shared))
    else:
        changes = reader.compare_tables(*tables, epochs, columns=list(shared))
    for change in changes:
        counts.add(Changes.of(change, list(shared)))
    columns = {shared[stored]: rows for stored, rows in counts.columns.items() if rows}
    return replace(tried, counts=counts, columns=columns, not_compared=others)


def _match_columns(old: _Content, new: _Content) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the columns of both, by stored name as users name them, and the names of those that differ."""
    kinds = [
        {
            column.storage_name: (column.name, one.stored.table.schema.field(column.storage_name).type)
            for column in one.stored.relation.visible_columns
        }
        for one in (old, new)
    ]
    shared = {stored: kind[0] for stored, kind in kinds[1].items() if kinds[0].get(stored) == kind}
    others = (kind[0] for one in kinds for stored, kind in one.items() if stored not in shared)
    return shared, tuple(dict.fromkeys(others))


def _has_same_key(old: _Content, new: _Content) -> bool:
    one, other = (
        (
            table.primary_key,
            table.distribution_key,
            [table.schema.field(name).type for name in table.primary_key],
        )
        for table in (old.stored.table, new.stored.table)
    )
    return one == other
