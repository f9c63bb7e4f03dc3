"""How the checks of views have come out, as the store remembers it: a commit notes what it changes of that, a failure too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engine.hummock import Version
from engine.meta.catalog.records import Prefix, Record
from engine.sql.catalog import Relation
from engine.sql.checks import PANDERA, Severity


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a check came out: how many `rows` break it, and the first of their keys; of a fall how many go.

    A `note` says it in words where rows and keys do not.
    """

    passed: bool
    severity: Severity = "error"
    rows: int = 0
    sample: tuple[str, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        """What came out, in words."""
        if self.passed:
            return "passed"
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        such_as = ", such as" if self.rows > len(self.sample) else ":"
        return self.note or (f"{rows}{such_as} {'; '.join(self.sample)}" if self.sample else rows)


class ViewCheckResults(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the checks of a view came out at its newest epoch, committed or, if one has stopped it, at epoch `stopped`."""

    results: dict[str, CheckResult]
    stopped: int | None = None


RESULTS = Record.of_json(Prefix.CHECKS, ViewCheckResults)


def find_check_results(version: Version, view: str) -> ViewCheckResults | None:
    """Return how the checks of a view have come out, None for one that has none or was never computed."""
    return RESULTS.read(version, view)


def list_check_names(relation: Relation) -> tuple[str, ...]:
    """Return the names of a view's checks, that of its pandera schema included."""
    own = tuple(check.name for check in relation.checks)
    return (*own, PANDERA) if PANDERA in relation.options else own


def record_check_results(version: Version, view: str, found: ViewCheckResults) -> dict[str, str | None]:
    """Return the catalog entry that holds how the checks of a view came out; nothing where it says so already."""
    entry = RESULTS.record(view, found)
    return {} if RESULTS.read_text(version, view) in entry.values() else entry


def record_failed_checks(version: Version, view: str, found: ViewCheckResults) -> dict[str, str | None]:
    """Return the entry of an epoch that a check has stopped; of checks that were not asked what was known stays."""
    before = find_check_results(version, view)
    known = {} if before is None else before.results
    return record_check_results(version, view, ViewCheckResults({**known, **found.results}, found.stopped))


def forget_check_results(version: Version, views: Iterable[str]) -> dict[str, str | None]:
    """Return the catalog entries that go with views."""
    return RESULTS.remove_existing(version, views)


def rename_check_results(version: Version, names: Mapping[str, str]) -> dict[str, str | None]:
    """Return the catalog entries of views under their new names."""
    return RESULTS.rename(version, names)
