"""Content: at which epochs a table has content, and at which several have it together; comparisons of numbers in one manifest.

A source table has content at every epoch. What is computed has it at the labels of its commits, and after each of them for as
long as nothing that it reads has changed and all that it reads has content itself. In between, the newest label below is another
epoch's content: to read it there would show a state that never was. While partitions are computed again, which changes content
though no input has changed, there is none from the end of that barrier on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.hummock import Version
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.domains.creation import find_computed_table, list_creations, list_incomplete_tables
from engine.meta.epochs.barrier import find_recompute_epochs
from engine.meta.epochs.time_boundary import find_boundary_after, follows_clock


class Content:
    """The epochs at which the tables of one version have content; `inputs` are by table what it is computed from."""

    def __init__(self, version: Version, inputs: Mapping[str, Sequence[str]]) -> None:
        self.version, self._inputs = version, inputs
        self._first = {
            table: made.epoch for made in list_creations(version).values() for table in made.tables
        }  # the labels below are steps of a backfill, which nobody may read
        self._incomplete, self._replaced = list_incomplete_tables(version), list_replaced_tables(version)
        self._recomputed = find_recompute_epochs(version)
        self._known: dict[tuple[str, int], int | None] = {}

    def find_newest(self, table: str, upto: int) -> int | None:
        """Return the newest epoch at or below `upto` at which a table has content, or None."""
        at = (table, upto)
        if at not in self._known:
            self._known[at] = self._find_newest(table, upto)
        return self._known[at]

    def find_common(self, tables: Iterable[str], upto: int) -> int | None:
        """Return the newest epoch at or below `upto` at which all of some tables have content, or None."""
        names, epoch = tuple(tables), upto
        while True:
            lowest = epoch
            for name in names:
                found = self.find_newest(name, lowest)
                if found is None:
                    return None
                lowest = found
            if lowest == epoch:
                return epoch
            epoch = lowest

    def has_content(self, table: str, epoch: int) -> bool:
        """Tell whether a table has content at an epoch."""
        return self.find_newest(table, epoch) == epoch

    def may_have_content(self, table: str, epoch: int) -> bool:
        """Tell whether a table has content at an epoch, or had and what it reads has let go of the log that would show it.

        Who runs a table stops where a reader needs it (`list_arrival_stops`), so no label in between says that nothing had
        changed.
        """
        if self.has_content(table, epoch):
            return True
        own = find_computed_table(self.version, table)
        label = own.find_label_upto(epoch) if own is not None else None
        if label is None or label < self._first.get(table, 0):
            return False
        known = (self.version.tables.get(name) for name in self._inputs.get(table, ()))
        if all(one is not None and one.safe_epoch <= label for one in known):
            return False
        bounds = [
            find_recompute_epochs(self.version).get(table, epoch + 1),
            find_boundary_after(self.version, table, label),
        ]
        for name in self._inputs.get(table, ()):
            one = self.version.tables.get(name)
            if one is not None and one.safe_epoch <= label:
                bounds.append(one.find_first_change(label))
            if not self.may_have_content(name, epoch):
                return False
        return all(bound is None or bound > epoch for bound in bounds)

    def find_next(self, table: str, epoch: int) -> int | None:
        """Return the first label above an epoch from which on a table has content again, or None."""
        own = find_computed_table(self.version, table)
        return None if own is None else own.find_label_above(max(epoch, self._first.get(table, 0) - 1))

    def _find_newest(self, table: str, upto: int) -> int | None:
        inputs = self._inputs.get(table, ())
        if not inputs and table in self.version.tables and not follows_clock(self.version, table):
            return min(upto, self.version.epoch)
        own = None if table in self._incomplete else self.version.tables.get(table)
        label = own.find_label_upto(upto) if own is not None else None
        if label is None or label < self._first.get(table, 0):
            return None
        if label == upto or table in self._replaced:
            return label  # there is nothing newer, or its query has others rows by now
        changes = []
        for name in inputs:
            upstream = self.version.tables.get(name)
            if upstream is None or upstream.safe_epoch > label:
                return label  # whether it changed since then, nobody can tell any more
            changes.append(upstream.find_first_change(label))
        changes.append(find_boundary_after(self.version, table, label))
        bound = min([upto, *(change - 1 for change in changes if change is not None)])
        bound = min(bound, self._recomputed.get(table, bound + 1) - 1)
        known = self.find_common(inputs, bound) if bound > label else None
        return label if known is None else max(label, known)
