"""Pairs of expressions that a join compares become bare columns of one type on both sides: lookups are by exact type.

Applies to every join as it is built: the types that a key is cast to are known of the columns bound so far, and a clash is told
with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.errors import SqlError
from engine.sql.expression.nodes import Arithmetic, Cast, Column, Comparison, Expr, Literal, annotate
from engine.sql.expression.template import as_columns, join_conditions
from engine.sql.plan import Join, JoinKind, Node, Project
from engine.sql.rewrites.contract import BindingExample
from engine.sql.typing.expression_types import find_wider_type, get_expr_type, is_number

EXAMPLE = BindingExample(
    sql="SELECT b.id FROM bid b JOIN auction a ON b.price = a.category",
    plan="""
Project [out:id = `b:id`, `a:id`] key (out:id, a:id) retracting
  InnerJoin on b:price = join:key key (b:id, a:id) retracting
    Scan bid [id, price] key (b:id) retracting
    Project [`a:id`, join:key = CAST(`a:category` AS BIGINT)] key (a:id) retracting
      Scan auction [id, category] key (a:id) retracting
""",
)

Pair = tuple[Expr, Expr]


class JoinKeys:
    """Builds joins; `types` are the certain types of columns, `notes` say which rule was used where, and why."""

    def __init__(
        self, types: dict[str, str], fresh: Callable[[str], str], sql: str, notes: list[str]
    ) -> None:
        self.types, self.fresh, self.sql, self.notes = types, fresh, sql, notes
        self._copies: dict[Expr, Expr] = {}

    def add_note(self, text: str) -> None:
        """Say which rule was used, and why, for EXPLAIN to show."""
        if text not in self.notes:
            self.notes.append(text)

    def record_copy(self, column: str, source: Expr) -> None:
        """Remember that a column holds the values of an expression, so that the two compare whatever their type is."""
        self._copies[Column(column)] = self._copies.get(source, source)
        self._record_source(column, source)

    def _record_source(self, column: str, source: Expr) -> None:
        kind = get_expr_type(source, self.types)
        if kind is not None:
            self.types[column] = kind

    def group_by(self, pairs: Iterable[Pair]) -> tuple[tuple[tuple[str, Expr], ...], tuple[Pair, ...]]:
        """Return group keys for the right sides of the pairs, and the pairs over those keys."""
        keys, over = [], []
        for left, right in pairs:
            name = self.fresh("group:outer")
            self.record_copy(name, right)
            keys.append((name, right))
            over.append((left, Column(name)))
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
            typed = self._unify_types(*pair)
            if typed is None:
                rest.append(_build_comparison(*pair, null_safe))
                continue
            names = []
            for n, expr in enumerate(typed):
                name = expr.column or next((known for known, e in added[n] if e == expr), None)
                if name is None:
                    name = self.fresh("join:key")
                    added[n].append((name, expr))
                    self._record_source(name, expr)
                names.append(name)
            if (names[0], names[1]) not in on:
                on.append((names[0], names[1]))
        left, right = append_columns(left, added[0]), append_columns(right, added[1])
        return Join(left, right, kind, tuple(on), join_conditions(rest), null_safe=null_safe and bool(on))

    def _unify_types(self, a: Expr, b: Expr) -> Pair | None:
        """Return both sides in the type in which they compare without loss, or None if numbers have no such type."""
        one, other = get_expr_type(a, self.types), get_expr_type(b, self.types)
        if (one is None or other is None) and self._copies.get(a, a) == self._copies.get(b, b):
            return a, b
        for side, kind in ((a, one), (b, other)):
            if kind is None:
                raise self._build_error(
                    side, "the type of a join's side is not known", "write CAST(… AS type) around it"
                )
        assert one is not None and other is not None
        common = find_wider_type(one, other)
        if common is not None:
            return _normalize_zero(self._cast(a, one, common), common), _normalize_zero(
                self._cast(b, other, common), common
            )
        if is_number(one) and is_number(other):
            return None
        raise self._build_error(a, f"a join compares {one} with {other}", "CAST one side to the other's type")

    def _cast(self, expr: Expr, kind: str, common: str) -> Expr:
        if kind == common:
            return expr
        return annotate(Cast(expr, common), type=common, position=expr.position)

    def _build_error(self, expr: Expr, message: str, hint: str) -> SqlError:
        line, column = expr.position
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)


def _normalize_zero(expr: Expr, kind: str) -> Expr:
    """Return the key that a side is found by: of floats another one, in which -0.0 is 0.0 as it is in all stored keys.

    The column itself is kept beside it: a row that is looked up has to be the same as one that comes in a change.
    """
    if kind not in ("double", "float"):
        return expr
    return annotate(Arithmetic("+", (expr, Literal("0.0", kind))), type=kind, position=expr.position)


def _build_comparison(a: Expr, b: Expr, null_safe: bool) -> Expr:
    return annotate(Comparison("<=>" if null_safe else "=", a, b), type="boolean", position=a.position)


def append_columns(node: Node, added: Iterable[tuple[str, Expr]]) -> Node:
    """Return the node with computed columns added."""
    extra = tuple(added)
    if not extra:
        return node
    return Project(node, as_columns(node.columns) + extra)
