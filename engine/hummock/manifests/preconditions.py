"""What must still hold of the version a commit follows, besides the invariants: the tables it was made for, and what was read.

A precondition is called with the version each attempt of a commit is based on, and raises to give up. Larger ones are composed
of these; those over entries of the catalog are made by their records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.errors import Conflict
from engine.hummock.manifests.invariants import unknown_table_error
from engine.hummock.version import TableVersion, Version

Precondition = Callable[[Version], None]
BuildError = Callable[[str], Exception]


def require_all(*checks: Precondition | None) -> Precondition:
    """Return the check that all of some checks pass, in their order; None is no check."""
    given = tuple(check for check in checks if check is not None)

    def check(version: Version) -> None:
        for one in given:
            one(version)

    return check


def require_none(find: Callable[[Version], str | None], error: BuildError = Conflict) -> Precondition:
    """Return the check that `find` finds nothing that is in the way; it raises an error that says what was found."""

    def check(version: Version) -> None:
        if (found := find(version)) is not None:
            raise error(found)

    return check


def require(holds: Callable[[Version], bool], message: str, error: BuildError = Conflict) -> Precondition:
    """Return the check that `holds` is true of the version; it raises an error with the message."""
    return require_none(lambda version: None if holds(version) else message, error)


def require_same_tables(
    tables: Mapping[str, TableVersion], further: Precondition | None = None
) -> Precondition:
    """Return the check that these tables are still the ones that rows were written for, and then the `further` one."""
    ids = {name: table.table_id for name, table in tables.items()}

    def check(version: Version) -> None:
        for name, table_id in ids.items():
            now = version.tables.get(name)
            if now is None:
                raise unknown_table_error(name, version.tables)
            if now.table_id != table_id:
                raise Conflict(f"table {name} was dropped and created again during the write: write again")

    return require_all(check, further)


def require_same_table(seen: TableVersion | None, message: str, error: BuildError = Conflict) -> Precondition:
    """Return the check that a table is there and was not made anew; of None it never holds."""
    return require(lambda version: _is_same(seen, version), message, error)


def require_unchanged(
    seen: TableVersion, message: str | None = None, error: BuildError = Conflict
) -> Precondition:
    """Return the check that a table is still as it was read: the same, and nothing written since."""
    text = message or f"table {seen.name} changed since it was read"
    return require(lambda version: _is_unchanged(seen, version), text, error)


def require_unaltered(*before: TableVersion) -> Precondition:
    """Return the check that tables are as they were when their change was worked out."""
    return require_all(*(_require_unaltered(seen) for seen in before))


def require_absent_table(name: str) -> Precondition:
    """Return the check that a table is not there."""
    message = f"{name} was created by another process at the same time"
    return require(lambda version: name not in version.tables, message)


def _require_unaltered(seen: TableVersion) -> Precondition:
    message = f"table {seen.name} was altered by another process at the same time: alter it again"
    return require(lambda version: is_unaltered(seen, version), message)


def is_unaltered(seen: TableVersion, version: Version) -> bool:
    """Tell whether a table has the columns, keys and options that it had."""
    now = version.tables.get(seen.name)
    return now is not None and now.table == seen.table


def _is_same(seen: TableVersion | None, version: Version) -> bool:
    now = None if seen is None else version.tables.get(seen.name)
    return seen is not None and now is not None and now.table_id == seen.table_id


def _is_unchanged(seen: TableVersion, version: Version) -> bool:
    now = version.tables.get(seen.name)
    return now is not None and (now.table_id, now.committed_epoch) == (seen.table_id, seen.committed_epoch)
