"""What must still hold of the version a commit follows, besides the invariants: the tables it was made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.errors import Conflict
from engine.hummock.manifests.invariants import unknown_table_error
from engine.hummock.version import TableVersion, Version

Precondition = Callable[[Version], None]


def require(
    holds: Callable[[Version], bool], message: str, error: Callable[[str], Exception] = Conflict
) -> Precondition:
    """Return the check that `holds` is true of the version; it raises an error, by default Conflict, with the message."""

    def check(version: Version) -> None:
        if not holds(version):
            raise error(message)

    return check


def require_all(*checks: Precondition) -> Precondition:
    """Return the check that all of some checks pass, in their order."""

    def check(version: Version) -> None:
        for one in checks:
            one(version)

    return check


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
        if further is not None:
            further(version)

    return check


def require_unaltered(*before: TableVersion) -> Precondition:
    """Return the check that tables are as they were when their change was worked out."""

    def check(version: Version) -> None:
        for seen in before:
            now = version.tables.get(seen.name)
            if now is None or now.table != seen.table:
                raise Conflict(
                    f"table {seen.name} was altered by another process at the same time: alter it again"
                )

    return check
