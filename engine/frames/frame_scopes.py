"""Where the columns of a frame stand in a query made of it: each is that frame's own, whatever else has its name by now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engine.sql.expression.spark_sql import quote


@dataclass(frozen=True)
class FrameScope:
    """What a frame's columns are called by (None: by their names alone), and which of them are there.

    `only` are those that a select has taken along, None for all. Those `merged` are given by a join USING them as the other side
    has them: the frame's own stand behind `called`, and are `gone` where that is no longer. Those `unseen` are given by a join
    USING them, and not as the frame's own.
    """

    alias: str | None
    only: frozenset[str] | None = None
    merged: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()

    def has_column(self, name: str | None) -> bool:
        """Tell whether a column of the frame, or with None each of them, can be named here."""
        lacks = self.gone if self.alias else self.gone | self.merged
        if name is None:
            return self.only is None and not lacks
        return name.lower() not in lacks and (self.only is None or name.lower() in self.only)

    def merge_columns(self, names: Collection[str]) -> FrameScope:
        """Return the place after a join USING columns, which are the other side's from there on."""
        return replace(self, merged=self.merged | {name.lower() for name in names})

    def hide_columns(self, names: Collection[str]) -> FrameScope:
        """Return the place after a join that gives columns of these names, which are not the frame's own."""
        return replace(self, unseen=self.unseen | {name.lower() for name in names})

    def nest(self, name: str) -> FrameScope:
        """Return the place of the frame in a query that becomes an item of FROM under a name."""
        return FrameScope(name, self.only, gone=self.gone | self.merged, unseen=self.unseen)

    def select(self, items: Sequence[tuple[str, str | None]], qualified: bool) -> FrameScope:
        """Return the place after a select: columns that it takes along as they are stay those of the frame."""
        before = f"{quote(self.alias)}." if self.alias and qualified else ""
        texts = {text.lower() for text, _ in items}
        if "*" in texts:
            return replace(self, merged=frozenset(), gone=self.gone | self.merged)
        if before and f"{before}*".lower() in texts:
            return replace(self, merged=frozenset(), unseen=frozenset())
        names = {name for text, name in items if name and text.lower() == f"{before}{quote(name)}".lower()}
        return FrameScope(self.alias, frozenset(name.lower() for name in names if self.has_column(name)))
