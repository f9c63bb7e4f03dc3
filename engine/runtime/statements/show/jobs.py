"""SHOW JOBS and CANCEL JOBS: views that are being created, by number; giving one up drops it."""

from __future__ import annotations

import pyarrow as pa

from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import list_creations
from engine.meta.domains.domain import find_domain_name
from engine.runtime.domains.wait_for_creation import list_unfinished_domains
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.drop import drop_relation
from engine.sql.batch.system_tables import CLASS, compute_oid
from engine.sql.statements.session.session_statements import CancelJobs, ShowJobs
from engine.sql.statements.statement_types import Drop

_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "statement": pa.string(),
    "progress": pa.string(),
}
_SCHEMA = pa.schema(list(_COLUMNS.items()))


def execute_show_jobs(statement: ShowJobs, context: StatementContext) -> pa.Table:
    """Return the views that are being created: number, name, statement, and how much of the snapshot is read."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    made = list_creations(version)
    rows = []
    for name in _list_jobs(store).values():
        creation = made.get(find_domain_name(stored, name))
        progress = f"{creation.rows} of {creation.total} rows" if creation is not None else "not begun"
        text = stored.catalog.get(name).sql
        rows.append({"id": compute_oid(CLASS, name), "name": name, "statement": text, "progress": progress})
    return pa.Table.from_pylist(rows, _SCHEMA)


def execute_cancel_jobs(statement: CancelJobs, context: StatementContext) -> pa.Table:
    """Drop views that are being created; returns their numbers.

    Raises SqlError for a number that is no job's, before any is dropped.
    """
    known = _list_jobs(context.store)
    for number in statement.numbers:
        if number not in known:
            hint = "SHOW JOBS lists what is being created"
            raise build_name_error(f"there is no job {number}", str(number), statement.sql, hint)
    for number in dict.fromkeys(statement.numbers):
        drop_relation(context.store, Drop("materialized view", known[number], True, False, statement.sql))
    return pa.table({"id": pa.array(statement.numbers, pa.int64())})


def _list_jobs(store: Hummock) -> dict[int, str]:
    """Return the views that are being created, by number."""
    version = store.refresh()
    stored = load_catalog(version)
    left = list_unfinished_domains(version, stored, ())
    return {
        compute_oid(CLASS, name): name
        for name in left
        if stored.catalog.get(name).kind == "materialized view"
    }
