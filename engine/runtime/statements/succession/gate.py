"""The gate of a change: how much the next query of a view may change its rows before somebody has to approve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import require_all
from engine.log_store.change_counts import ChangeCounts
from engine.log_store.changes import Changes
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog, require_same_catalog
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions
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


def find_gate_reason(
    store: Hummock, version: Version, stored: StoredCatalog, view: str, succession: Succession
) -> str:
    """Return why the gate of a change holds it up, "" where it does not; both tables are read for it.

    Raises Conflict where they have content at no epoch together, as after one of them has moved meanwhile.
    """
    if GATE not in succession.options:
        return ""
    bounds = parse_gate(succession.options[GATE], "")
    epoch = find_meeting_epoch(version, stored, view, succession.successor)
    if epoch is None:
        raise Conflict(f"{view} and {succession.successor} have content at no epoch together")
    relation = stored.catalog.get(view)
    counts = ChangeCounts(
        columns={one.storage_name: 0 for one in list_shared_columns(version, relation, succession.successor)}
    )
    for changes in read_difference(store, version, relation, succession.successor, epoch):
        counts.add(changes)
    rows = store.reader.count_rows(version.tables[view], epoch) or counts.inserted
    found = ((bound, _count(bound, relation, counts)) for bound in bounds)
    broken = [_describe(bound, count, rows) for bound, count in found if not bound.is_kept(count, rows)]
    return "; ".join(broken)


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


def record_held(store: Hummock, version: Version, held: Mapping[str, str]) -> None:
    """Note of views why their gates hold them up."""
    pending = list_successions(version)
    for view, reason in held.items():
        after = msgspec.structs.replace(pending[view], held=reason)
        same = require_all(require_same_catalog(version), SUCCESSIONS.require_same(version, view, _MOVED))
        store.commit(Commit(catalog=SUCCESSIONS.record(view, after), precondition=same))


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
    if epoch is None:
        hint = "flushes build it; tideline backfill shows how far they are"
        raise SqlError(f"the next query of {name} is still being computed", hint=hint)
    return version, stored, found, epoch
