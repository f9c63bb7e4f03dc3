"""The gate of a change: how much the next query of a view may change its rows before somebody has to approve it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import require_all
from engine.log_store.change_counts import ChangeCounts
from engine.log_store.changes import Changes
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog, require_same_catalog
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.failures import is_failing
from engine.meta.epochs.content import Content
from engine.runtime.relations import build_name_error
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.statements.options.gate_bounds import GATE, GateBound, parse_gate


def find_meeting_epoch(version: Version, stored: StoredCatalog, view: str, successor: str) -> int | None:
    """Return the newest epoch at which a view and its successor have content, None before the successor has any."""
    return Content(version, stored.inputs).find_common([view, successor], version.epoch)


def read_difference(
    store: Hummock, version: Version, view: Relation, successor: str, epoch: int
) -> Iterator[Changes]:
    """Yield by what the rows of a view's successor differ from the view's at an epoch, through the columns that both show."""
    columns = [column.storage_name for column in list_shared_columns(version, view, successor)]
    tables = version.tables[view.name], version.tables[successor]
    for change in store.reader.compare_tables(*tables, (epoch, epoch), columns=columns):
        yield Changes.of(change, columns)


def list_shared_columns(version: Version, view: Relation, successor: str) -> tuple[RelationColumn, ...]:
    """Return the columns that users see of a view and that its successor has, too."""
    names = set(version.tables[successor].table.schema.names)
    return tuple(column for column in view.visible_columns if column.storage_name in names)


@dataclass(frozen=True)
class GateAnswer:
    """What the gate of a change says: `reason` is why it holds the change up, empty where it does not.

    It is not `asked` where a view has content at no epoch of its next query, so that nothing can be counted.
    """

    reason: str = ""
    asked: bool = True

    @property
    def lets_pass(self) -> bool:
        """Whether the change may take over."""
        return self.asked and not self.reason


def ask_gate(
    store: Hummock, version: Version, stored: StoredCatalog, view: str, succession: Succession
) -> GateAnswer:
    """Return what the gate of a change says; both tables are read for it.

    A view that fails may never have content at an epoch of its next query: somebody has to approve the change then.
    """
    if GATE not in succession.options:
        return GateAnswer()
    bounds = parse_gate(succession.options[GATE], "")
    epoch = find_meeting_epoch(version, stored, view, succession.successor)
    if epoch is None:
        fails = is_failing(version, find_domain_name(stored, view))
        return GateAnswer(_CANNOT_ASK.format(view) if fails else "", asked=False)
    relation = stored.catalog.get(view)
    retyped = _list_retyped(relation, stored.catalog.get(succession.successor))
    if uncounted := [bound.text for bound in bounds if _is_uncounted(bound, retyped)]:
        reason = f"{', '.join(retyped)} gets another type, and the gate cannot count how it changes"
        return GateAnswer(f"{reason}: {'; '.join(uncounted)}")
    counts = ChangeCounts(
        columns={one.storage_name: 0 for one in list_shared_columns(version, relation, succession.successor)}
    )
    for changes in read_difference(store, version, relation, succession.successor, epoch):
        counts.add(changes)
    rows = store.reader.count_rows(version.tables[view], epoch) or counts.inserted
    found = ((bound, _count(bound, relation, counts)) for bound in bounds)
    broken = [_describe(bound, count, rows) for bound, count in found if not bound.is_kept(count, rows)]
    return GateAnswer("; ".join(broken))


def _list_retyped(before: Relation, after: Relation) -> list[str]:
    """Return the columns that two forms of a view show by other types, by name."""
    kinds = {column.name: column.visible_type for column in after.visible_columns}
    return [
        one.name
        for one in before.visible_columns
        if kinds.get(one.name, one.visible_type) != one.visible_type
    ]


def _is_uncounted(bound: GateBound, retyped: Collection[str]) -> bool:
    """Tell whether a bound is about values of columns that get another type."""
    if bound.column:
        return bound.column.lower() in {name.lower() for name in retyped}
    return bool(retyped) and bound.measure in ("rows_changed", "rows_updated")


_CANNOT_ASK = "the gate cannot be asked while {0} fails: it has rows at no epoch of its next query"


def _count(bound: GateBound, view: Relation, counts: ChangeCounts) -> int:
    names = {column.name.lower(): column.storage_name for column in view.visible_columns}
    measured: Mapping[str, int] = {
        "rows_changed": counts.changed,
        "rows_inserted": counts.inserted,
        "rows_deleted": counts.deleted,
        "rows_updated": counts.updated,
    }
    return (
        counts.columns.get(names.get(bound.column.lower(), ""), 0)
        if bound.column
        else measured[bound.measure]
    )


def _describe(bound: GateBound, count: int, rows: int) -> str:
    share = f", {100 * count / max(rows, 1):.4g} %" if bound.is_share else ""
    return f"the gate is {bound.text}, and it is {count:,} of {rows:,} rows{share}"


def approve_change(store: Hummock, view: str, sql: str) -> None:
    """Let the next query of a view that its gate holds up take over; raises SqlError where none is held up."""
    version = store.refresh()
    held = list_successions(version).get(view)
    if held is None or not held.held:
        hint = "tideline status lists what is being built, and what a gate holds up"
        raise build_name_error(f"no gate holds up a change of {view}", view, sql, hint)
    after = msgspec.structs.replace(held, held="", approved=True)
    same = require_all(require_same_catalog(version), SUCCESSIONS.require_same(version, view, _MOVED))
    store.commit(Commit(catalog=SUCCESSIONS.record(view, after), precondition=same))


def record_held(store: Hummock, version: Version, answers: Mapping[str, GateAnswer]) -> None:
    """Note of views why their gates hold them up, in one commit; nothing where that is known."""
    pending = list_successions(version)
    notes: dict[str, str | None] = {}
    for view, answer in answers.items():
        unasked = bool(answer.reason) and not answer.asked
        after = msgspec.structs.replace(pending[view], held=answer.reason, unasked=unasked)
        if after != pending[view]:
            notes |= SUCCESSIONS.record(view, after)
    if not notes:
        return
    same = (SUCCESSIONS.require_same(version, view, _MOVED) for view in answers)
    store.commit(Commit(catalog=notes, precondition=require_all(require_same_catalog(version), *same)))


_MOVED = "the change was approved, discarded or replaced at the same time"


def read_pending(store: Hummock, view: str) -> tuple[Version, StoredCatalog, Succession, int]:
    """Return the version, the catalog, and of a view's next query the successor and the epoch at which both have content.

    Raises SqlError where there is none, where it has taken over already, and where it has no content yet.
    """
    version = store.refresh()
    stored = load_catalog(version)
    name = stored.catalog.get(view).name
    found = list_successions(version).get(name)
    if found is None or found.copied:
        hint = (
            "ALTER MATERIALIZED VIEW … AS gives it another one; tideline diff VIEW A B compares two moments"
        )
        raise SqlError(f"{name} has no next query that waits to take over", hint=hint)
    epoch = find_meeting_epoch(version, stored, name, found.successor)
    if epoch is None and Content(version, stored.inputs).find_newest(found.successor, version.epoch) is None:
        hint = "flushes build it; tideline backfill shows how far they are"
        raise SqlError(f"the next query of {name} is still being computed", hint=hint)
    if epoch is None:
        hint = "run FLUSH; if that fails, tideline status says why, and APPROVE lets the next query take over"
        raise SqlError(f"{name} has rows at no epoch of its next query, which cannot be compared", hint=hint)
    return version, stored, found, epoch
