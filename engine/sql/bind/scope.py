"""Names in scope: which sources a query has, and which internal column a name means."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.expression.change_columns import ROW
from engine.sql.parsing.location import locate
from engine.sql.plan import Node

WRITTEN_AT = "_rw_timestamp"
"""When a row was written, a column that every stored relation has, though no table holds it."""


@dataclass(frozen=True)
class FromSource:
    """One item of FROM: its alias, its plan, and its columns as (visible name, internal name).

    `hidden` are those that have to be named: the row id of a table without a key.
    """

    alias: str
    plan: Node
    columns: tuple[tuple[str, str], ...]
    hidden: tuple[tuple[str, str], ...] = ()


@dataclass
class Scope:
    """The sources of one SELECT, inside those of the SELECTs around it.

    `using` are the columns that USING shows once, `merged` their other halves; `outer_columns` collects the columns of outer
    scopes that were named, with which the query is correlated.
    """

    sql: str
    sources: list[FromSource] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    using: list[str] = field(default_factory=list)
    outer: Scope | None = None
    outer_columns: set[str] = field(default_factory=set)

    def add(self, source: FromSource, node: exp.Expr) -> None:
        """Add a source; raises SqlError if its alias is taken."""
        if source.alias and any(source.alias == other.alias for other in self.sources):
            raise self.build_error(
                f"the name {source.alias} occurs twice in FROM", node, "give each its own alias"
            )
        self.sources.append(source)

    def build_error(self, message: str, node: exp.Expr | None, hint: str = "") -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = locate(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def resolve(self, column: exp.Column) -> tuple[str, tuple[str, ...]]:
        """Return the internal column that a reference means, and the fields of it if it is a struct's.

        The innermost scope that knows the name decides. Raises SqlError if no column fits, or several.
        """
        found = self._find_column(column)
        if found is None:
            raise self._build_unknown_error(column)
        return found

    def _find_column(self, column: exp.Column) -> tuple[str, tuple[str, ...]] | None:
        found = self._find_own_column(column)
        if found is None and self.outer is not None:
            found = self.outer._find_column(column)
            if found is not None:
                self.outer_columns.add(found[0])
        return found

    def _find_own_column(self, column: exp.Column) -> tuple[str, tuple[str, ...]] | None:
        parts = [part.name if part.args.get("quoted") else part.name.lower() for part in column.parts]
        if len(parts) > 1 and parts[0] in {source.alias for source in self.sources}:
            one = self._find_one(parts[0], parts[1], column)
            if one is None:
                raise self._build_unknown_error(column)
            return one, tuple(parts[2:])
        one = self._find_one(None, parts[0], column)
        return None if one is None else (one, tuple(parts[1:]))

    def _find_one(self, alias: str | None, name: str, node: exp.Expr) -> str | None:
        sources = self.sources if alias is None else [s for s in self.sources if s.alias == alias]
        pairs = [
            (source.alias, visible, internal)
            for source in sources
            for visible, internal in source.columns
            if self._is_same_name(visible, name) and (alias is not None or internal not in self.merged)
        ]
        if not pairs:
            pairs = [(source.alias, *pair) for source in sources for pair in source.hidden if pair[0] == name]
        found = [pair for pair in pairs if pair[1] == name] or pairs
        if len(found) > 1:
            where = list(dict.fromkeys(f"{source}.{visible}" for source, visible, _ in found))
            hint = f"write {' or '.join(where)}"
            if len(where) < len(found):
                hint = "two columns of the query in FROM have this name: give one of them another with AS"
            raise self.build_error(f"column {name} is ambiguous", node, hint)
        return found[0][2] if found else None

    def _list_all_sources(self) -> list[FromSource]:
        return self.sources + (self.outer._list_all_sources() if self.outer is not None else [])

    def _build_unknown_error(self, column: exp.Column) -> SqlError:
        """Return the error for a name that no scope knows."""
        parts = [part.name if part.args.get("quoted") else part.name.lower() for part in column.parts]
        sources = self._list_all_sources()
        if len(parts) > 1:
            mine = [source for source in sources if source.alias == parts[0]][:1]
            if not mine:
                known = [source.alias for source in sources if source.alias]
                hint = f"in scope are {', '.join(known)}" if known else "nothing is in scope: add FROM"
                return self.build_error(f"{parts[0]} is not in FROM", column, hint)
            sources = mine
        name = parts[min(len(parts), 2) - 1]
        if name == WRITTEN_AT:
            hint = "it can be named in a query that is answered once; give the table a column with a DEFAULT of now()"
            return self.build_error(f"{name} is not kept: a view cannot show it", column, hint)
        names = list(dict.fromkeys(visible for source in sources for visible, _ in source.columns))
        near = difflib.get_close_matches(name, names, 3)
        hint = f"did you mean {', '.join(near)}?" if near else f"columns are {', '.join(names)}"
        return self.build_error(
            f"there is no column {'.'.join(parts[:2])}", column, hint if names else "add FROM"
        )

    @staticmethod
    def _is_same_name(visible: str, name: str) -> bool:
        return visible.lower() == name.lower()  # as in Spark, whose quotes do not make names case-sensitive

    def find_visible(self, name: str, sources: list[FromSource]) -> list[str]:
        """Return the internal columns that `name` means in some of the sources; one that USING has merged away is none."""
        return [
            internal
            for source in sources
            for visible, internal in source.columns
            if self._is_same_name(visible, name) and internal not in self.merged
        ]

    def merge_columns(self, visible: str, hidden: str) -> None:
        """Let USING show one of two equal columns only, before all others."""
        self.merged.add(hidden)
        self.using = [visible if column == hidden else column for column in self.using]
        if visible not in self.using:
            self.using.append(visible)

    def show_instead(self, name: str, either: str, left: str, right: str) -> None:
        """Let the column `either` stand for two that a FULL JOIN compares: it has the value of the one that is there."""
        self.merged |= {left, right}
        self.using = [column for column in self.using if column not in (left, right)] + [either]
        self.sources.append(FromSource("", self.sources[-1].plan, ((name, either),)))

    def show_first(self, columns: Sequence[str]) -> None:
        """Let `*` begin with these columns: those of the last join USING some, before those of joins inside it."""
        self.using = [*columns, *(column for column in self.using if column not in columns)]

    def expand_star(self, alias: str | None, node: exp.Expr) -> list[tuple[str, str]]:
        """Return the columns that `*` or `alias.*` means."""
        sources = [s for s in self.sources if alias is None or s.alias == alias]
        if not sources:
            raise self.build_error(
                f"{alias} is not in FROM",
                node,
                f"in scope are {', '.join(s.alias for s in self.sources if s.alias)}",
            )
        pairs = [pair for source in sources for pair in source.columns if pair[0] != ROW]
        if alias is not None:
            return pairs
        unmerged = [pair for pair in pairs if pair[1] not in self.merged]
        first = [pair for column in self.using for pair in unmerged if pair[1] == column]
        return first + [pair for pair in unmerged if pair not in first]
