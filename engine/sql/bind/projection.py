"""The SELECT list, DISTINCT, ORDER BY and LIMIT of one query over the plan of its FROM."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import core
from engine.sql.bind.clock_conditions import is_comparison
from engine.sql.bind.expressions import Expressions, bound_column, conjuncts
from engine.sql.bind.generators import expand_generators
from engine.sql.bind.grouping import Grouping
from engine.sql.bind.lateral_aliases import with_lateral_aliases
from engine.sql.bind.ordering import Limits, OrderItem, limits, order_items, output_position, two_outputs
from engine.sql.bind.scope import Scope
from engine.sql.bind.windows import Windows
from engine.sql.dialect import Dialect
from engine.sql.expression.nodes import Column, Expr
from engine.sql.functions import function_name
from engine.sql.parsing.names import identifier
from engine.sql.parsing.output_names import output_name
from engine.sql.parsing.position import copy_place
from engine.sql.plan import Aggregate, Filter, Node, Project, TopN
from engine.sql.typing.expression_types import kind_of
from engine.sql.window_calls import SortKey

Items = list[tuple[str, exp.Expr]]
Columns = tuple[tuple[str, str], ...]


@dataclass
class Projection:
    """Binds what one SELECT computes; `types` are the certain types of internal columns."""

    scope: Scope
    expressions: Expressions
    types: dict[str, str]
    fresh: Callable[[str], str]
    grouped: bool = False

    def bind(self, select: exp.Select, plan: Node) -> tuple[Node, Columns]:
        """Return the plan of the whole SELECT over the plan of its FROM and WHERE, and its columns."""
        windows = Windows(self.expressions, self.fresh)
        windows.define(select.args.get("windows") or ())
        items = [(name, windows.without(item)) for name, item in self._items(select)]
        group, having = select.args.get("group"), select.args.get("having")
        order = order_items(select.args.get("order"), self.expressions.dialect)
        for _, item in items:
            self.expressions.check(item)
        if having is not None:
            for part in conjuncts(having.this):
                self.expressions.check(part, "HAVING", clock=is_comparison(part))
        distinct, rows = select.args.get("distinct"), limits(select, self.expressions.refuse)
        by = self._order_nodes(order, items, windows)
        kept = self._qualify(select, items, windows)
        for part in windows.parts:
            self.expressions.check(part)
        parts = [*(item for _, item in items), *kept, *windows.parts]
        calls = any(self.expressions.has_aggregate(part) for part in parts)
        for note in rows.notes(bool(order)) if distinct is None or not distinct.args.get("on") else ():
            self.expressions.subqueries.keys.note(note)
        self.grouped = group is not None or having is not None or calls
        grouping = Grouping(self.scope, self.expressions, self.types, self.fresh)
        if self.grouped:
            plan, bound, others = grouping.bind(plan, items, select, [*by, *kept], windows)
            plan = windows.over(plan)
        else:
            windows.typed([self.expressions.scalar(part, "OVER") for part in windows.parts])
            plan = windows.over(self.expressions.subqueries.attach(plan))
            bound = [(name, self.expressions.scalar(item, "SELECT")) for name, item in items]
            others = [self.expressions.scalar(node, "ORDER BY") for node in by]
            others += [self.expressions.scalar(node, "QUALIFY") for node in kept]
            plan = self.expressions.subqueries.attach(plan)
        sorted_by = others[: len(by)]
        for condition in others[len(by) :]:
            plan = Filter(plan, condition)
        named = tuple((self.fresh(f"out:{name}"), expr) for name, expr in bound)
        columns = tuple((name, internal) for (name, _), (internal, _) in zip(bound, named, strict=True))
        for internal, expr in named:
            self._note(internal, kind_of(expr, self.types))
        if distinct is not None and distinct.args.get("on") is not None:
            groups = self._distinct_on(distinct.args["on"], items, order, sorted_by)
            by_group = tuple((self.fresh("distinct:on"), group) for group in groups)
            plan, keys = self._sorted(plan, named + by_group, order, sorted_by)
            first = TopN(plan, tuple(name for name, _ in by_group), keys, 1)
            return rows.over(first, keys, self.fresh), columns
        if distinct is not None:
            return self._distinct(Project(plan, named), columns, named, order, sorted_by, rows)
        if not rows:
            return Project(plan, named), columns
        plan, keys = self._sorted(plan, named, order, sorted_by)
        return rows.over(plan, keys, self.fresh), columns

    def _qualify(self, select: exp.Select, items: Items, windows: Windows) -> list[exp.Expr]:
        """Return the conditions of QUALIFY, in which an alias of the SELECT list is what it stands for."""
        qualify = select.args.get("qualify")
        if qualify is None:
            return []
        grouping = Grouping(self.scope, self.expressions, self.types, self.fresh)
        meant = windows.without(grouping.with_aliases(qualify.this, items))
        if not windows:
            hint = "write WHERE, or HAVING for groups"
            raise self.scope.error("QUALIFY without a window function", qualify, hint)
        self.expressions.check(meant)
        return conjuncts(meant)

    def _order_nodes(self, order: list[OrderItem], items: Items, windows: Windows) -> list[exp.Expr]:
        """Return what each item of ORDER BY orders by: an output column's expression, or its own."""
        names = [name for name, _ in items]
        found = []
        for item in order:
            position = output_position(item.node, names, self.scope)
            if position is not None:
                same = [node for name, node in items if name == names[position]]
                if any(node != items[position][1] for node in same) and isinstance(item.node, exp.Column):
                    raise two_outputs(item.node, self.scope)
            node = windows.without(item.node) if position is None else items[position][1]
            self.expressions.check(node)
            found.append(node)
        return found

    def _sorted(
        self,
        plan: Node,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
    ) -> tuple[Node, tuple[SortKey, ...]]:
        """Return the projection with a column for each item of ORDER BY, and those columns as an order."""
        known = {expr: internal for internal, expr in named}
        extra: list[tuple[str, Expr]] = []
        keys = []
        for item, expr in zip(order, sorted_by, strict=True):
            if expr not in known:
                known[expr] = self.fresh("order")
                extra.append((known[expr], expr))
            keys.append(item.key(known[expr]))
        return Project(plan, named + tuple(extra)), tuple(keys)

    def _distinct_on(
        self, on: exp.Expr, items: Items, order: list[OrderItem], sorted_by: list[Expr]
    ) -> list[Expr]:
        """`SELECT DISTINCT ON (k) … ORDER BY k, x` -> k, of each of which the first row by x is kept."""
        if self.grouped:
            hint = "aggregate in a subquery in FROM first"
            raise self.expressions.refuse("DISTINCT ON beside GROUP BY", on, hint)
        grouping = Grouping(self.scope, self.expressions, self.types, self.fresh)
        nodes = [grouping.meaning(node, items) for node in (on.expressions or [on])]
        groups = [self.expressions.scalar(node, "DISTINCT ON") for node in nodes]
        leading = sorted_by[: len(groups)]
        if order and set(leading) != set(groups):
            hint = "let ORDER BY start with the expressions of DISTINCT ON"
            raise self.scope.error("DISTINCT ON does not fit ORDER BY", order[0].node, hint)
        return groups

    def _distinct(
        self,
        plan: Node,
        columns: Columns,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
        rows: Limits,
    ) -> tuple[Node, Columns]:
        keys = tuple((self.fresh(f"distinct:{name}"), Column(internal)) for name, internal in columns)
        for (_, internal), (key, _) in zip(columns, keys, strict=True):
            self._note(key, self.types.get(internal))
        known = {expr: key for (_, expr), (key, _) in zip(named, keys, strict=True)}
        for item, expr in zip(order, sorted_by, strict=True):
            if expr not in known:
                hint = "add it to the SELECT list"
                raise self.scope.error("DISTINCT is ordered by what it does not select", item.node, hint)
        by = tuple(item.key(known[expr]) for item, expr in zip(order, sorted_by, strict=True))
        found = tuple((n, key) for (n, _), (key, _) in zip(columns, keys, strict=True))
        return rows.over(Aggregate(plan, keys, ()), by, self.fresh), found

    def _note(self, column: str, kind: str | None) -> None:
        if kind is not None:
            self.types[column] = kind

    # ---- the SELECT list -------------------------------------------------------------------------------------
    def _items(self, select: exp.Select) -> Items:
        """Return what the SELECT list gives; two items may have one name, which is told where one of them is to be chosen."""
        found: list[tuple[str | None, exp.Expr]] = []
        taken: set[str] = set()
        aliases: set[str] = set()

        def take(name: str, node: exp.Expr, what: exp.Expr) -> None:
            if name.startswith("_"):
                hint = "choose another name with AS"
                raise self.scope.error(f"names that start with _ are the system's own: {name}", node, hint)
            taken.add(name.lower())
            found.append((name, what))

        for item in expand_generators(select, self.expressions, self.fresh, self._note):
            if isinstance(item, exp.Star | exp.Column) and item.is_star:
                for name, internal in self._star(item):
                    column = copy_place(bound_column(internal), item)
                    column.meta["shown"] = name
                    take(name, item, column)
            elif isinstance(item, exp.Alias):
                aliases.add(identifier(item.args["alias"]).lower())
                take(identifier(item.args["alias"]), item, item.this)
            elif isinstance(item, exp.Column):
                take(identifier(item.this), item, item)
            elif isinstance(item, exp.Dot):
                take(item.name.lower(), item, item)
            else:
                found.append((None, item))
        dialect = self.expressions.dialect
        items = [
            (name or _unused(_name(item, n, dialect), taken), item) for n, (name, item) in enumerate(found, 1)
        ]
        if dialect != "spark":
            return items
        return with_lateral_aliases(items, aliases, self.scope, self.expressions.refuse)

    def _star(self, item: exp.Expr) -> list[tuple[str, str]]:
        star = item.find(exp.Star)
        if star is not None and any(value for part, value in star.args.items() if part != "except_"):
            raise self.expressions.refuse("* REPLACE or RENAME", item, "list the columns")
        alias = identifier(item.args["table"]) if isinstance(item, exp.Column) else None
        found = self.scope.star(alias, item)
        for left_out in (star.args.get("except_") or ()) if star is not None else ():
            name = left_out.name.lower()
            if all(shown.lower() != name for shown, _ in found):
                hint = f"* has {', '.join(shown for shown, _ in found)}"
                raise self.scope.error(f"* EXCEPT leaves out {name}, which is not there", left_out, hint)
            found = [(shown, internal) for shown, internal in found if shown.lower() != name]
        return found


def _name(item: exp.Expr, position: int, dialect: Dialect) -> str:
    if dialect != "spark":
        name = output_name(item, dialect) or ""
        return name if name.isidentifier() and not name.startswith("_") else f"column_{position}"
    call = core(item.this) if isinstance(item, exp.Filter | exp.Window | exp.WithinGroup) else item
    name = function_name(call) or ""
    return name if name.isidentifier() and name not in ("cast", "try_cast", "case") else f"column_{position}"


def _unused(base: str, taken: set[str]) -> str:
    tries = itertools.chain((base,), (f"{base}_{n}" for n in itertools.count(2)))
    name = next(candidate for candidate in tries if candidate not in taken)
    taken.add(name)
    return name
