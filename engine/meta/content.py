"""Content: at which epochs a table has content, and at which several have it together; comparisons of numbers in one manifest.

A source table has content at every epoch. What is computed has it at the labels of its commits, and after each of them for as
long as nothing that it reads has changed and all that it reads has content itself. In between, the newest label below is another
epoch's content: to read it there would show a state that never was. While partitions are computed again, which changes content
though no input has changed, there is none from the end of that barrier on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.hummock import Version
from engine.meta.barrier import recomputed_from
from engine.meta.creation import computed, creations
from engine.meta.crossing import crossing_after, follows_clock
from engine.meta.replaced import replaced


class Content:
    """The epochs at which the tables of one version have content; `inputs` are by table what it is computed from."""

    def __init__(self, version: Version, inputs: Mapping[str, Sequence[str]]) -> None:
        self.version, self._inputs = version, inputs
        self._first = {
            table: made.epoch for made in creations(version).values() for table in made.tables
        }  # the labels below are steps of a backfill, which nobody may read
        self._known: dict[tuple[str, int], int | None] = {}

    def newest(self, table: str, upto: int) -> int | None:
        """Return the newest epoch at or below `upto` at which a table has content, or None."""
        at = (table, upto)
        if at not in self._known:
            self._known[at] = self._newest(table, upto)
        return self._known[at]

    def common(self, tables: Iterable[str], upto: int) -> int | None:
        """Return the newest epoch at or below `upto` at which all of some tables have content, or None."""
        names, epoch = tuple(tables), upto
        while True:
            lowest = epoch
            for name in names:
                found = self.newest(name, lowest)
                if found is None:
                    return None
                lowest = found
            if lowest == epoch:
                return epoch
            epoch = lowest

    def has(self, table: str, epoch: int) -> bool:
        """Tell whether a table has content at an epoch."""
        return self.newest(table, epoch) == epoch

    def may_have(self, table: str, epoch: int) -> bool:
        """Tell whether a table has content at an epoch, or had and what it reads has let go of the log that would show it.

        Who runs a table stops where a reader needs it (`arrival_stops`), so no label in between says that nothing had changed.
        """
        if self.has(table, epoch):
            return True
        own = computed(self.version, table)
        label = own.label_upto(epoch) if own is not None else None
        if label is None or label < self._first.get(table, 0):
            return False
        known = (self.version.tables.get(name) for name in self._inputs.get(table, ()))
        if all(one is not None and one.safe_epoch <= label for one in known):
            return False
        bounds = [
            recomputed_from(self.version).get(table, epoch + 1),
            crossing_after(self.version, table, label),
        ]
        for name in self._inputs.get(table, ()):
            one = self.version.tables.get(name)
            if one is not None and one.safe_epoch <= label:
                bounds.append(one.first_change(label))
            if not self.may_have(name, epoch):
                return False
        return all(bound is None or bound > epoch for bound in bounds)

    def following(self, table: str, epoch: int) -> int | None:
        """Return the first label above an epoch from which on a table has content again, or None."""
        own = computed(self.version, table)
        return None if own is None else own.label_above(max(epoch, self._first.get(table, 0) - 1))

    def _newest(self, table: str, upto: int) -> int | None:
        inputs = self._inputs.get(table, ())
        if not inputs and table in self.version.tables and not follows_clock(self.version, table):
            return min(upto, self.version.epoch)
        own = computed(self.version, table)
        label = own.label_upto(upto) if own is not None else None
        if label is None or label < self._first.get(table, 0):
            return None
        if table in replaced(self.version):
            return label  # its query has others rows by now
        changes = []
        for name in inputs:
            upstream = self.version.tables.get(name)
            if upstream is None or upstream.safe_epoch > label:
                return label  # whether it changed since then, nobody can tell any more
            changes.append(upstream.first_change(label))
        changes.append(crossing_after(self.version, table, label))
        bound = min([upto, *(change - 1 for change in changes if change is not None)])
        bound = min(bound, recomputed_from(self.version).get(table, bound + 1) - 1)
        known = self.common(inputs, bound) if bound > label else None
        return label if known is None else max(label, known)
