"""Names in scope: which sources a query has, and which internal column a name means."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.plan import Node
from engine.sql.position import place


@dataclass(frozen=True)
class Source:
    """One item of FROM: its alias, its plan, and its columns as (visible name, internal name)."""

    alias: str
    plan: Node
    columns: tuple[tuple[str, str], ...]


@dataclass
class Scope:
    """The sources of one SELECT; `using` are the columns that USING shows once, `merged` their other halves."""

    sql: str
    sources: list[Source] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    using: list[str] = field(default_factory=list)

    def add(self, source: Source, node: exp.Expression) -> None:
        """Add a source; raises SqlError if its alias is taken."""
        if any(source.alias == other.alias for other in self.sources):
            raise self.error(f"the name {source.alias} stands twice in FROM", node, "give each its own alias")
        self.sources.append(source)

    def error(self, message: str, node: exp.Expression | None, hint: str = "") -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = place(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def resolve(self, column: exp.Column) -> tuple[str, tuple[str, ...]]:
        """Return the internal column that a reference means, and the fields of it if it is a struct's.

        Raises SqlError if no column fits, or several.
        """
        parts = [part.name if part.args.get("quoted") else part.name.lower() for part in column.parts]
        aliases = {source.alias for source in self.sources}
        if len(parts) == 1:
            return self._one(None, parts[0], column), ()
        if parts[0] in aliases:
            return self._one(parts[0], parts[1], column), tuple(parts[2:])
        if any(self._fits(visible, parts[0]) for source in self.sources for visible, _ in source.columns):
            return self._one(None, parts[0], column), tuple(parts[1:])
        raise self.error(
            f"{parts[0]} is not in FROM", column, f"in scope are {', '.join(s.alias for s in self.sources)}"
        )

    def _one(self, alias: str | None, name: str, node: exp.Expression) -> str:
        sources = self.sources if alias is None else [s for s in self.sources if s.alias == alias]
        pairs = [
            (source.alias, visible, internal)
            for source in sources
            for visible, internal in source.columns
            if self._fits(visible, name) and (alias is not None or internal not in self.merged)
        ]
        found = [pair for pair in pairs if pair[1] == name] or pairs
        if len(found) == 1:
            return found[0][2]
        if found:
            where = " or ".join(f"{source}.{visible}" for source, visible, _ in found)
            raise self.error(f"column {name} is ambiguous", node, f"write {where}")
        names = [visible for source in sources for visible, _ in source.columns]
        near = difflib.get_close_matches(name, names, 3)
        hint = (
            f"did you mean {', '.join(near)}?" if near else f"columns are {', '.join(dict.fromkeys(names))}"
        )
        shown = name if alias is None else f"{alias}.{name}"
        raise self.error(f"there is no column {shown}", node, hint)

    @staticmethod
    def _fits(visible: str, name: str) -> bool:
        return visible.lower() == name.lower()  # as in Spark, whose quotes do not make names case-sensitive

    def visible(self, name: str, sources: list[Source]) -> list[str]:
        """Return the internal columns that `name` means in some of the sources; one that USING has merged away is none."""
        return [
            internal
            for source in sources
            for visible, internal in source.columns
            if self._fits(visible, name) and internal not in self.merged
        ]

    def merge(self, kept: str, hidden: str) -> None:
        """Let USING show one of two equal columns only, before all others."""
        self.merged.add(hidden)
        self.using = [kept if column == hidden else column for column in self.using]
        if kept not in self.using:
            self.using.append(kept)

    def star(self, alias: str | None, node: exp.Expression) -> list[tuple[str, str]]:
        """Return the columns that `*` or `alias.*` means."""
        sources = [s for s in self.sources if alias is None or s.alias == alias]
        if not sources:
            raise self.error(
                f"{alias} is not in FROM", node, f"in scope are {', '.join(s.alias for s in self.sources)}"
            )
        pairs = [pair for source in sources for pair in source.columns]
        if alias is not None:
            return pairs
        shown = [pair for pair in pairs if pair[1] not in self.merged]
        first = [pair for column in self.using for pair in shown if pair[1] == column]
        return first + [pair for pair in shown if pair not in first]
