"""How the checks of views come out over what an epoch is about to commit: the hidden views of what breaks them tell.

A hidden view that an epoch has not touched says what it said before (`CHECK_STANDS`), so a check costs what changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from textwrap import shorten

from engine.arrow import as_rows
from engine.assumptions import CHECK_UNCHANGED
from engine.errors import CheckFailed
from engine.hummock import Reader, TableVersion, Version
from engine.hummock.epoch import format_epoch_time
from engine.hummock.monitoring.driver_traffic import track_bytes, track_traffic
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.check_results import (
    CheckResult,
    ViewCheckResults,
    find_check_results,
    record_check_results,
)
from engine.runtime.executor import Executor
from engine.runtime.partitions.broken_checks import BrokenChecks
from engine.sql.catalog import Relation
from engine.sql.checks import FAILED, PANDERA, ROWS, Check
from engine.verification import build_assumption_error, should_verify

SHOWN_KEYS = 3
MOST_READ = 10_000
"""So many rows are looked through for keys to show, where rows that break other checks stand before those."""
MOST_COLUMNS = 6
MOST_TEXT = 120


@dataclass(frozen=True)
class StagedEpoch:
    """What is about to be committed: the version that it would make, at an epoch, and the tables in which that differs.

    Partitions `behind`, by view, stay as they are: what breaks a check in them stops nobody else.
    """

    before: Version
    after: Version
    changed: AbstractSet[str]
    epoch: int
    behind: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


def check_views(
    reader: Reader, stored: StoredCatalog, views: Iterable[str], staged: StagedEpoch, executor: Executor
) -> dict[str, str | None]:
    """Return the catalog entries that tell how the checks of some views come out over what nobody sees yet.

    Raises CheckFailed if a check fails that is an error, in a partition that is not behind where it is one of partitions.
    """
    entries: dict[str, str | None] = {}
    broken: dict[str, ViewCheckResults] = {}
    partitions: dict[str, dict[str, str]] = {}
    messages: list[str] = []
    whole = False
    for view in views:
        relation = stored.catalog.relations[view]
        if not relation.checks and PANDERA not in relation.options:
            continue
        with track_traffic(reader.files.counters, f"check {view}"):
            results = _CheckEvaluation(reader, stored, relation, staged).evaluate()
        failing = {n: one for n, one in results.items() if not one.passed and one.severity == "error"}
        for check in (check for check in relation.checks if check.name in failing):
            found = BrokenChecks(executor, stored).find_partitions(view, check, staged.after, staged.epoch)
            failing_keys = None if found is None else found - staged.behind.get(view, frozenset())
            if failing_keys is not None and not failing_keys:
                del failing[check.name]
            whole = whole or failing_keys is None
            for key in failing_keys or ():
                of_it = partitions.setdefault(view, {})
                of_it[key] = "; ".join(
                    filter(None, [of_it.get(key), _format_check(relation, check, results)])
                )
        if failing:
            broken[view] = ViewCheckResults(results, staged.epoch)
            messages.append(_format_failure(relation, failing, results, staged.before))
        entries |= record_check_results(staged.before, view, ViewCheckResults(results))
    if broken:
        raise CheckFailed("\n".join(messages), broken, {} if whole else partitions)
    return entries


class _CheckEvaluation:
    """Tells how the checks of one view come out."""

    def __init__(
        self, reader: Reader, stored: StoredCatalog, relation: Relation, staged: StagedEpoch
    ) -> None:
        self.reader, self.stored, self.relation = reader, stored, relation
        self.before, self.after, self.brought = staged.before, staged.after, staged.changed
        known = find_check_results(staged.before, relation.name)
        self.known = known.results if known is not None and known.stopped is None else {}
        self._counted: dict[str, dict[int, int]] = {}

    def evaluate(self) -> dict[str, CheckResult]:
        """Return by name how the checks come out."""
        found = {check.name: self._evaluate_check(check) for check in self.relation.checks}
        if PANDERA in self.relation.options:  # rows that break it have stopped the epoch by now
            found[PANDERA] = CheckResult(True)
        return found

    def _evaluate_check(self, check: Check) -> CheckResult:
        if check.kind == "fall":
            return self._check_fall(check)
        known = self.known.get(check.name)
        if known is None or not self.brought.isdisjoint({check.counts, check.breaks}):
            return self._query_check(check)
        if should_verify() and (recounted := self._query_check(check)) != known:
            raise build_assumption_error(
                CHECK_UNCHANGED,
                f"check {check.name} of {self.relation.name}, of which the epoch is said to touch nothing, came out as "
                f'"{known.text}" before; asked again it is "{recounted.text}"',
            )
        return known

    def _query_check(self, check: Check) -> CheckResult:
        """Return how a check comes out by its hidden views."""
        if not check.breaks:
            return CheckResult(True, check.severity)
        counts = self._read_counts(self.after, check.counts)
        if check.kind == "rows":
            rows = sum(count for failed, count in counts.items() if failed >> check.bit & 1)
        else:
            rows = sum(counts.values())
        sample = (
            tuple(islice(self._list_broken_keys(self.after.tables[check.breaks], check), SHOWN_KEYS))
            if rows
            else ()
        )
        return CheckResult(rows == 0, check.severity, rows, sample)

    def _check_fall(self, check: Check) -> CheckResult:
        """Return whether too large a share of the rows goes."""
        touched = check.counts in self.brought
        if find_computed_table(self.before, check.counts) is None or not (touched or should_verify()):
            return CheckResult(True, check.severity)
        had = sum(self._read_counts(self.before, check.counts).values())
        left = sum(self._read_counts(self.after, check.counts).values())
        if not touched and had != left:
            raise build_assumption_error(
                CHECK_UNCHANGED,
                f"{self.relation.name}, whose count the epoch is said not to touch, had {had} rows before and has {left}",
            )
        if had - left <= had * check.limit:
            return CheckResult(True, check.severity)
        note = f"{had - left:,} of {had:,} rows would go"
        return CheckResult(False, check.severity, had - left, note=note)

    def _read_counts(self, version: Version, name: str) -> dict[int, int]:
        """Return what a hidden view counts, by the checks that rows break where it tells those apart."""
        table = version.tables[name]
        if version is self.after and name in self._counted:
            return self._counted[name]
        by_check = FAILED in table.schema.names
        found: dict[int, int] = {}
        for rows in self.reader.scan(
            table, table.committed_epoch, columns=[FAILED, ROWS] if by_check else [ROWS]
        ):
            track_bytes(rows.nbytes)
            keys = rows.column(FAILED).to_pylist() if by_check else [0] * rows.num_rows
            for key, count in zip(keys, rows.column(ROWS).to_pylist(), strict=True):
                assert key is not None and count is not None  # as the hidden view counts
                found[key] = count
        if version is self.after:
            self._counted[name] = found
        return found

    def _list_broken_keys(self, table: TableVersion, check: Check) -> Iterator[str]:
        """Yield the keys of the rows that break a check, in words."""
        columns = self.stored.catalog.relations[check.breaks].columns
        visible = [
            column for column in columns if not column.hidden and column.storage_name not in (FAILED, ROWS)
        ]
        names = {column.storage_name: column.name for column in visible[:MOST_COLUMNS]}
        columns_read = [*names, FAILED] if check.kind == "rows" else list(names)
        read = 0
        for rows in self.reader.scan(table, table.committed_epoch, columns=columns_read):
            track_bytes(rows.nbytes)
            for row in as_rows(rows.slice(0, MOST_READ - read)):
                if check.kind != "rows" or row[FAILED] >> check.bit & 1:
                    yield ", ".join(
                        f"{name} = {_format_value(row[stored])}" for stored, name in names.items()
                    )
            read += rows.num_rows
            if read >= MOST_READ:
                return


def _format_value(value: object) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _format_failure(
    relation: Relation, failing: Container[str], results: Mapping[str, CheckResult], before: Version
) -> str:
    """Return what is wrong with a view, what is seen of it until it is mended, and what to do."""
    wrong = "; ".join(
        _format_check(relation, check, results) for check in relation.checks if check.name in failing
    )
    table = find_computed_table(before, relation.name)
    if table is None:  # ALTER takes no other checks while it is being created
        return f"{wrong}; it has no content yet: correct the rows that it reads, or DROP the view and CREATE it with other checks"
    stays = f"it stays as of {format_epoch_time(table.committed_epoch)} UTC"
    return f"{wrong}; {stays}: correct the rows that it reads, or ALTER the view to have other checks"


def _format_check(relation: Relation, check: Check, results: Mapping[str, CheckResult]) -> str:
    """Return in words that a check of a view fails, and on what."""
    text = shorten(check.text, MOST_TEXT, placeholder=" …")
    return f"check {check.name} of {relation.name} ({text}) fails: {results[check.name].text}"
