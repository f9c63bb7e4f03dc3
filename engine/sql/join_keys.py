"""Pairs of expressions that a join compares become bare columns of one type on both sides: lookups are by exact type."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.errors import SqlError
from engine.sql.expression_types import is_number, wider
from engine.sql.plan import Expr, Join, JoinKind, Node, Project, quote
from engine.sql.pushdown import conjunction

Pair = tuple[Expr, Expr]


class JoinKeys:
    """Builds joins; `types` are the certain types of printed expressions, `notes` say which rule was used where, and why."""

    def __init__(
        self, types: dict[str, str], fresh: Callable[[str], str], sql: str, notes: list[str]
    ) -> None:
        self.types, self.fresh, self.sql, self.notes = types, fresh, sql, notes
        self._copies: dict[str, str] = {}

    def note(self, text: str) -> None:
        """Say which rule was used, and why, for EXPLAIN to show."""
        if text not in self.notes:
            self.notes.append(text)

    def copied(self, column: str, source: Expr) -> None:
        """Remember that a column holds the values of an expression, so that the two compare whatever their type is."""
        self._copies[quote(column)] = self._copies.get(source.sql, source.sql)
        if source.sql in self.types:
            self.types[quote(column)] = self.types[source.sql]

    def group_by(self, pairs: Iterable[Pair]) -> tuple[tuple[tuple[str, Expr], ...], tuple[Pair, ...]]:
        """Return group keys for the right sides of the pairs, and the pairs over those keys."""
        keys, over = [], []
        for left, right in pairs:
            name = self.fresh("group:outer")
            self.copied(name, right)
            keys.append((name, right))
            over.append((left, Expr.of(name)))
        return tuple(keys), tuple(over)

    def join(
        self,
        left: Node,
        right: Node,
        kind: JoinKind,
        pairs: Iterable[Pair],
        residual: Iterable[Expr] = (),
        null_safe: bool = False,
    ) -> Join:
        """Return the join on equal `pairs` = (left expression, right expression) that satisfies `residual`.

        Raises SqlError for sides whose types are unknown or cannot be compared.
        """
        added: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
        on: list[tuple[str, str]] = []
        rest = list(residual)
        for pair in pairs:
            typed = self._one_type(*pair)
            if typed is None:
                rest.append(_comparison(*pair, null_safe))
                continue
            names = []
            for n, expr in enumerate(typed):
                name = expr.column or next((known for known, e in added[n] if e.sql == expr.sql), None)
                if name is None:
                    name = self.fresh("join:key")
                    added[n].append((name, expr))
                    if expr.sql in self.types:
                        self.types[quote(name)] = self.types[expr.sql]
                names.append(name)
            if (names[0], names[1]) not in on:
                on.append((names[0], names[1]))
        left, right = with_columns(left, added[0]), with_columns(right, added[1])
        return Join(left, right, kind, tuple(on), conjunction(rest), null_safe=null_safe and bool(on))

    def _one_type(self, a: Expr, b: Expr) -> Pair | None:
        """Return both sides in the type in which they compare without loss, or None if numbers have no such type."""
        one, other = self.types.get(a.sql), self.types.get(b.sql)
        if (one is None or other is None) and self._copies.get(a.sql, a.sql) == self._copies.get(
            b.sql, b.sql
        ):
            return a, b
        for side, kind in ((a, one), (b, other)):
            if kind is None:
                raise self._error(
                    side, "the type of a join's side cannot be told", "write CAST(… AS type) around it"
                )
        assert one is not None and other is not None
        common = wider(one, other)
        if common is not None:
            return self._cast(a, one, common), self._cast(b, other, common)
        if is_number(one) and is_number(other):
            return None
        raise self._error(a, f"a join compares {one} with {other}", "CAST one side to the other's type")

    def _cast(self, expr: Expr, kind: str, common: str) -> Expr:
        if kind == common:
            return expr
        sql = f"CAST({expr.sql} AS {common.upper()})"
        self.types[sql] = common
        return Expr(sql, expr.columns, expr.position)

    def _error(self, expr: Expr, message: str, hint: str) -> SqlError:
        line, column = expr.position
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)


def _comparison(a: Expr, b: Expr, null_safe: bool) -> Expr:
    columns = tuple(dict.fromkeys(a.columns + b.columns))
    return Expr(f"({a.sql}) {'<=>' if null_safe else '='} ({b.sql})", columns, a.position)


def with_columns(node: Node, added: Iterable[tuple[str, Expr]]) -> Node:
    """Return the node with computed columns added."""
    extra = tuple(added)
    if not extra:
        return node
    return Project(node, tuple((column, Expr.of(column)) for column in node.columns) + extra)
