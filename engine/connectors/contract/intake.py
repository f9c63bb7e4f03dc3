"""What a source brings, as one commit: rows of its table, the position behind them, and the rows that were set aside.

Either all three stand or none does, so no row comes twice and none is lost, whatever crashes and whoever polls at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from engine.errors import SourceError
from engine.hummock import Commit, Hummock, Put, SstInfo, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_all, require_same_tables
from engine.hummock.transact import POLL, commit_with_retry
from engine.hummock.writes.batch import Operation, write_operations
from engine.meta.status.dead_letters import DEAD_LETTER, DeadLetter, build_letter_rows

Result = TypeVar("Result")


@dataclass(frozen=True)
class Intake:
    """The parts of such a commit.

    `system` are rows of system tables, among them the records of positions. The table's rows are `operations`, or `files` that
    tasks have written. `checks` say that nobody has gone on from the position meanwhile; `truncate` lets go of changes.
    """

    system: Mapping[str, Sequence[Operation]]
    checks: Sequence[Precondition | None]
    operations: Sequence[Operation] = ()
    files: Sequence[SstInfo] = ()
    letters: Sequence[DeadLetter] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)
    truncate: Mapping[str, int] = field(default_factory=dict)


def commit_intake(store: Hummock, version: Version, table: TableVersion, intake: Intake) -> Version:
    """Commit what was worked out over a version for a table; raises Conflict, and what the checks raise."""
    return commit_intakes(store, version, [(table, intake)])


def commit_intakes(store: Hummock, version: Version, parts: Sequence[tuple[TableVersion, Intake]]) -> Version:
    """Commit what was worked out over a version for several tables, all of it or nothing."""
    asked: dict[str, list[Operation]] = {}
    writes: dict[str, Sequence[SstInfo]] = {}
    files: dict[str, Sequence[SstInfo]] = {}
    watermarks, truncate = dict[str, int](), dict[str, int]()
    checks: list[Precondition | None] = []
    for table, intake in parts:
        for name, operations in intake.system.items():
            asked.setdefault(name, []).extend(operations)
        if intake.letters:
            asked.setdefault(DEAD_LETTER, []).append(Put(build_letter_rows(table.name, intake.letters)))
        if intake.operations:
            asked[table.name] = list(intake.operations)
        if intake.files:
            files[table.name] = intake.files
        watermarks |= intake.watermarks
        truncate |= intake.truncate
        checks += intake.checks
    known = {name: version.tables[name] for name in asked}
    tables = {name: held.table for name, held in known.items()}
    writes |= write_operations(store.reader, tables, asked)
    writes |= files
    for name in truncate:
        writes.setdefault(name, ())
    check = require_all(*checks, require_same_tables(known))
    return store.commit(Commit(writes=writes, watermarks=watermarks, truncate=truncate, precondition=check))


def commit_polled(store: Hummock, table: str, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt returns that no other writer was in the way of; raises SourceError if others always are."""

    def build_error(lost: int) -> SourceError:
        return SourceError(f"table {table}: other writers were faster {lost} times: poll again")

    return commit_with_retry(store, attempt, POLL, build_error=build_error)
