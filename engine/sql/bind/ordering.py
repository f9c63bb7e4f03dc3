"""ORDER BY, LIMIT and OFFSET of a query: which output columns order it, and how many rows are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.bind.scope import Scope
from engine.sql.dialect import Dialect
from engine.sql.expression.nodes import FALSE, Call, Column, Expr, Literal
from engine.sql.expression.template import as_columns, combine_conditions, fill_template
from engine.sql.parsing.names import normalize_identifier
from engine.sql.plan import Filter, Node, Over, Project, TopN
from engine.sql.window_calls import SortKey, WindowCall

if TYPE_CHECKING:
    from engine.sql.bind.expressions import Refuse


MOST_ROWS = (1 << 63) - 1


@dataclass(frozen=True)
class OrderItem:
    """One item of ORDER BY: what is ordered by, and how."""

    node: exp.Expr
    descending: bool
    nulls_first: bool

    def to_sort_key(self, column: str) -> SortKey:
        """Return the item as the order of an internal column."""
        return SortKey(column, self.descending, self.nulls_first)


def parse_order_items(order: exp.Order | None, dialect: Dialect) -> list[OrderItem]:
    """Return the items of ORDER BY; nulls stand first where the dialect has them if nothing is said."""
    found = []
    for item in order.expressions if order is not None else ():
        ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
        descending = bool(ordered.args.get("desc"))
        first = ordered.args.get("nulls_first")
        if first is None:
            first = descending if dialect != "spark" else not descending
        found.append(OrderItem(strip_number(ordered.this), descending, bool(first)))
    return found


def strip_number(node: exp.Expr) -> exp.Expr:
    """Return the number that stands in brackets, which mean nothing around one; other nodes as they are."""
    inner = node.unnest()
    return inner if isinstance(inner, exp.Literal) and not inner.is_string else node


@dataclass(frozen=True)
class RowLimits:
    """How many rows a query keeps, and how many it skips before them."""

    limit: int | None
    offset: int
    ties: bool = False

    def __bool__(self) -> bool:
        return self.limit is not None or self.offset > 0

    def describe(self, ordered: bool) -> tuple[str, ...]:
        """Say what becomes of ORDER BY and LIMIT."""
        if not self:
            return ("ORDER BY: left out, a view has no order",) if ordered else ()
        by = "" if ordered else ": without ORDER BY the key decides which"
        return (f"LIMIT: the first rows are computed again when their input changes{by}",)

    def apply(self, plan: Node, keys: tuple[SortKey, ...], fresh: Callable[[str], str]) -> Node:
        """Return the first rows of the plan, or the plan if all rows are kept."""
        if not self.ties or self.limit is None:
            return TopN(plan, (), keys, self.limit, self.offset) if self else plan
        rank, number = fresh("ties:rank"), fresh("ties:number")
        calls = [WindowCall(rank, Call("rank"), keys)]
        condition: Expr = fill_template(
            ":rank <= :last", rank=Column(rank), last=Literal(str(self.offset + self.limit))
        )
        if self.limit == 0:
            condition = FALSE
        if self.offset:
            calls.append(WindowCall(number, Call("row_number"), keys))
            skipped = Literal(str(self.offset))
            condition = combine_conditions(
                condition, fill_template(":number > :skipped", number=Column(number), skipped=skipped)
            )
        items = as_columns(plan.columns)
        return Project(Filter(Over(plan, (), tuple(calls)), condition), items)


def parse_limits(query: exp.Expr, refuse: Refuse) -> RowLimits:
    """Return LIMIT, FETCH FIRST and OFFSET of a query; raises UnsupportedSql for what is no plain number."""
    node, offset = query.args.get("limit"), query.args.get("offset")
    count = None
    options = node.args.get("limit_options") if node is not None else None
    if options is not None and options.args.get("percent"):
        raise refuse("LIMIT … PERCENT", node, "write LIMIT n")
    ties = options is not None and bool(options.args.get("with_ties"))
    if ties and not query.args.get("order"):
        raise refuse("WITH TIES without ORDER BY", node, "add ORDER BY: ties are rows that are equal in it")
    if isinstance(node, exp.Fetch):
        count = _parse_row_count(node.args.get("count") or exp.Literal.number(1), node, refuse)
    elif node is not None:
        if node.args.get("expressions"):
            raise refuse("LIMIT … BY", node, "write a LATERAL subquery with LIMIT")
        if not isinstance(node.expression, exp.Null) and node.expression.name.upper() != "ALL":
            count = _parse_row_count(node.expression, node, refuse)
    return RowLimits(
        count, _parse_row_count(offset.expression, offset, refuse) if offset is not None else 0, ties
    )


def _parse_row_count(value: exp.Expr, node: exp.Expr, refuse: Refuse) -> int:
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        if int(value.name) > MOST_ROWS:
            raise refuse(f"{value.name} as a number of rows", node, f"write one up to {MOST_ROWS}")
        return int(value.name)
    raise refuse(f"{value.sql()} as a number of rows", node, "write a whole number")


def build_ambiguity_error(node: exp.Expr, scope: Scope) -> SqlError:
    """Return the error for a name that two columns of a SELECT list have, and that does not say which of them it means."""
    hint = "write its number, or give one of the columns another name with AS"
    return scope.build_error(
        f"two columns of the SELECT list are named {normalize_identifier(node.this)}", node, hint
    )


def find_output_position(node: exp.Expr, names: Sequence[str], scope: Scope) -> int | None:
    """Return the output column, counted from 0, that an item of ORDER BY means by name or number, else None."""
    if isinstance(node, exp.Literal) and not node.is_string:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(names):
            message = f"ORDER BY {node.name}: the SELECT list has {len(names)} columns"
            raise scope.build_error(
                message, node, "ORDER BY a column, or the number of one in the SELECT list"
            )
        return int(node.name) - 1
    if isinstance(node, exp.Column) and not node.args.get("table"):
        name = normalize_identifier(node.this)
        return names.index(name) if name in names else None
    return None
