"""Names in scope: which sources a query has, and which internal column a name means."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.plan import Node
from engine.sql.position import place
from engine.sql.statements import identifier


@dataclass(frozen=True)
class Source:
    """One item of FROM: its alias, its plan, and its columns as (visible name, internal name)."""

    alias: str
    plan: Node
    columns: tuple[tuple[str, str], ...]


@dataclass
class Scope:
    """The sources of one SELECT; `merged` are columns of USING that stand once in `*`."""

    sql: str
    sources: list[Source] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)

    def add(self, source: Source, node: exp.Expression) -> None:
        """Add a source; raises SqlError if its alias is taken."""
        if any(source.alias == other.alias for other in self.sources):
            raise self.error(f"the name {source.alias} stands twice in FROM", node, "give each its own alias")
        self.sources.append(source)

    def error(self, message: str, node: exp.Expression | None, hint: str = "") -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = place(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def resolve(self, column: exp.Column) -> str:
        """Return the internal column that a reference means; raises SqlError if none or several fit."""
        name = identifier(column.this)
        alias = identifier(column.args["table"]) if column.args.get("table") else None
        sources = self.sources if alias is None else [s for s in self.sources if s.alias == alias]
        if alias is not None and not sources:
            known = ", ".join(s.alias for s in self.sources)
            raise self.error(f"{alias} is not in FROM", column, f"in scope are {known}")
        found = [
            internal
            for source in sources
            for visible, internal in source.columns
            if visible == name and (alias is not None or internal not in self.merged)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            where = " or ".join(f"{s.alias}.{name}" for s in sources if name in dict(s.columns))
            raise self.error(f"column {name} is ambiguous", column, f"write {where}")
        names = [visible for source in sources for visible, _ in source.columns]
        near = difflib.get_close_matches(name, names, 3)
        hint = (
            f"did you mean {', '.join(near)}?" if near else f"columns are {', '.join(dict.fromkeys(names))}"
        )
        raise self.error(f"there is no column {column.sql()}", column, hint)

    def star(self, alias: str | None, node: exp.Expression) -> list[tuple[str, str]]:
        """Return the columns that `*` or `alias.*` means."""
        sources = [s for s in self.sources if alias is None or s.alias == alias]
        if not sources:
            raise self.error(f"{alias} is not in FROM", node)
        return [
            pair for s in sources for pair in s.columns if alias is not None or pair[1] not in self.merged
        ]
