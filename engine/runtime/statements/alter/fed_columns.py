"""What feeds a table and fills no DEFAULT in: an altered column is one that the table, or its sink, could be made with."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import SqlError
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.status.sinks import list_sinks
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.statements.ddl.defaults import explain_not_fed

BuildError = Callable[[str, str], SqlError]


def refuse_unfed(
    stored: StoredCatalog, after: Relation, column: RelationColumn, build_error: BuildError
) -> None:
    """Raise SqlError, made of a message and a hint, for a column of an altered table that what feeds the table cannot fill."""
    if "connector" in after.options and (reason := explain_not_fed(after)) is not None:
        raise build_error(reason, "or leave it out")
    sequence = "" if "envelope" in after.options else after.options.get("sequence", "").strip()
    if column.default is not None and sequence.lower() == column.name.lower():
        message = f"{column.name} is the sequence of {after.name}: a DEFAULT is no place among changes"
        raise build_error(message, f"leave its DEFAULT out: a row without {column.name} is set aside")
    if column.nullable and column.default is None:
        return
    for sink in list_sinks(stored):
        into = sink.options.get("into") == after.name
        if into and column.name not in {one.name for one in sink.columns}:
            what = "has a DEFAULT" if column.default is not None else "is NOT NULL"
            message = f"column {column.name} {what}, and the sink {sink.name} into {after.name} brings none"
            hint = f"leave that out; or DROP SINK {sink.name}, and create it again with the column"
            raise build_error(message, hint)
