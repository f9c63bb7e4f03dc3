"""In which partitions of a view rows break a check: those are left behind, as they are where a row fails."""

from __future__ import annotations

from dataclasses import dataclass

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, build_table
from engine.meta.domains.quarantine import find_partitioning
from engine.runtime.executor import Executor, FragmentTask
from engine.runtime.partitions.poison_search import MOST_CANDIDATES
from engine.sql.checks import FAILED, Check
from engine.sql.expression.nodes import Column, Literal
from engine.sql.expression.template import fill_template
from engine.sql.plan import Scan


@dataclass(frozen=True)
class BrokenChecks:
    """Tells the partitions in which checks of views fail over what is staged."""

    executor: Executor
    stored: StoredCatalog

    def find_partitions(self, view: str, check: Check, staged: Version, epoch: int) -> frozenset[str] | None:
        """Return the partitions of a view that have rows which break a check, in one Spark job.

        None if they alone do not break it: the view is not cut, the check is not of rows, nor of groups with the columns by which
        it is cut among theirs, or they are too many to leave them behind one by one.
        """
        how = find_partitioning(self.stored, view)
        if how is None or check.kind not in ("rows", "groups"):
            return None
        visible_names = {column.storage_name: column.name for column in self.stored.catalog.get(view).columns}
        fragment = self.stored.plans[check.breaks].fragments[-1]
        available = {name for name, _ in fragment.columns}
        by = tuple(visible_names[name] for name in how.columns)
        if not available.issuperset(by):
            return None
        read = (*by, FAILED) if check.kind == "rows" else by
        items = tuple((name, name) for name in read)
        scan = Scan(check.breaks, items, fragment.key, fragment.distribution_key)
        key = how.build_key(tuple(Column(name) for name in by))
        if check.kind == "rows":
            bit = Literal(str(1 << check.bit))
            key = fill_template(
                "CASE WHEN (:failed & :bit) <> 0 THEN :key END", failed=Column(FAILED), bit=bit, key=key
            )
        rows = staged.tables[check.breaks].row_count
        task = FragmentTask(fragment, build_table(fragment), staged.tables, None, epoch, rows)
        found = self.executor.partitions(task, [(scan, key)], MOST_CANDIDATES)
        return None if len(found) >= MOST_CANDIDATES else frozenset(found)
