"""The SELECT list, DISTINCT, ORDER BY and LIMIT of one query over the plan of its FROM."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Set
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import unwrap_call
from engine.sql.bind.clock_conditions import is_comparison
from engine.sql.bind.expressions import ExpressionBinder, bound_column, split_conjuncts
from engine.sql.bind.generators import expand_generators
from engine.sql.bind.grouping import GroupBinder
from engine.sql.bind.lateral_aliases import expand_lateral_aliases, expand_order_aliases
from engine.sql.bind.ordering import (
    OrderItem,
    RowLimits,
    build_ambiguity_error,
    find_output_position,
    parse_limits,
    parse_order_items,
)
from engine.sql.bind.over_windows.windows import WindowBinder
from engine.sql.bind.scope import Scope
from engine.sql.catalog import explain_reserved
from engine.sql.dialect import Dialect
from engine.sql.expression.nodes import Column, Expr
from engine.sql.functions import find_function_name
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.output_names import find_output_name
from engine.sql.plan import Aggregate, Filter, Node, Project, TopN
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.window_calls import SortKey

Items = list[tuple[str, exp.Expr]]
Columns = tuple[tuple[str, str], ...]


@dataclass
class ProjectionBinder:
    """Binds what one SELECT computes; `types` are the certain types of internal columns."""

    scope: Scope
    expressions: ExpressionBinder
    types: dict[str, str]
    fresh: Callable[[str], str]
    grouped: bool = False

    def bind(self, select: exp.Select, plan: Node) -> tuple[Node, Columns]:
        """Return the plan of the whole SELECT over the plan of its FROM and WHERE, and its columns."""
        windows = WindowBinder(self.expressions, self.fresh)
        windows.define_windows(select.args.get("windows") or ())
        items = [(name, windows.extract_calls(item)) for name, item in self._expand_items(select)]
        group, having = select.args.get("group"), select.args.get("having")
        order = parse_order_items(select.args.get("order"), self.expressions.dialect)
        for _, item in items:
            self.expressions.check(item)
        if having is not None:
            for part in split_conjuncts(having.this):
                self.expressions.check(part, "HAVING", clock=is_comparison(part))
        distinct, rows = select.args.get("distinct"), parse_limits(select, self.expressions.refuse)
        by = self._resolve_order_nodes(order, items, _list_aliases(select), windows)
        conditions = self._bind_qualify(select, items, windows)
        for part in windows.parts:
            self.expressions.check(part)
        parts = [*(item for _, item in items), *conditions, *windows.parts]
        calls = any(self.expressions.has_aggregate(part) for part in parts)
        for note in rows.describe(bool(order)) if distinct is None or not distinct.args.get("on") else ():
            self.expressions.subqueries.keys.add_note(note)
        self.grouped = group is not None or having is not None or calls
        grouping = GroupBinder(self.scope, self.expressions, self.types, self.fresh)
        if self.grouped:
            plan, bound, others = grouping.bind(plan, items, select, [*by, *conditions], windows)
            plan = windows.apply(plan)
        else:
            windows.bind_parts([self.expressions.bind_scalar(part, "OVER") for part in windows.parts])
            plan = windows.apply(self.expressions.subqueries.attach(plan))
            bound = [(name, self.expressions.bind_scalar(item, "SELECT")) for name, item in items]
            others = [self.expressions.bind_scalar(node, "ORDER BY") for node in by]
            others += [self.expressions.bind_scalar(node, "QUALIFY") for node in conditions]
            plan = self.expressions.subqueries.attach(plan)
        sorted_by = others[: len(by)]
        for condition in others[len(by) :]:
            plan = Filter(plan, condition)
        named = tuple((self.fresh(f"out:{name}"), expr) for name, expr in bound)
        columns = tuple((name, internal) for (name, _), (internal, _) in zip(bound, named, strict=True))
        for internal, expr in named:
            self.expressions.record_type(internal, get_expr_type(expr, self.types))
        if distinct is not None and distinct.args.get("on") is not None:
            groups = self._bind_distinct_on(distinct.args["on"], items, order, sorted_by)
            by_group = tuple((self.fresh("distinct:on"), group) for group in groups)
            plan, keys = self._add_order_columns(plan, named + by_group, order, sorted_by)
            first = TopN(plan, tuple(name for name, _ in by_group), keys, 1)
            return rows.apply(first, keys, self.fresh), columns
        if distinct is not None:
            return self._apply_distinct(Project(plan, named), columns, named, order, sorted_by, rows)
        if not rows:
            return Project(plan, named), columns
        plan, keys = self._add_order_columns(plan, named, order, sorted_by)
        return rows.apply(plan, keys, self.fresh), columns

    def _bind_qualify(self, select: exp.Select, items: Items, windows: WindowBinder) -> list[exp.Expr]:
        """Return the conditions of QUALIFY, in which an alias of the SELECT list is what it stands for."""
        qualify = select.args.get("qualify")
        if qualify is None:
            return []
        grouping = GroupBinder(self.scope, self.expressions, self.types, self.fresh)
        condition = windows.extract_calls(grouping.substitute_aliases(qualify.this, items))
        if not windows:
            hint = "write WHERE, or HAVING for groups"
            raise self.scope.build_error("QUALIFY without a window function", qualify, hint)
        self.expressions.check(condition)
        return split_conjuncts(condition)

    def _resolve_order_nodes(
        self, order: list[OrderItem], items: Items, aliases: Set[str], windows: WindowBinder
    ) -> list[exp.Expr]:
        """Return what each item of ORDER BY orders by: an output column's expression, or its own."""
        names = [name for name, _ in items]
        found = []
        for item in order:
            position = find_output_position(item.node, names, self.scope)
            if position is not None:
                same = [node for name, node in items if name == names[position]]
                if any(node != items[position][1] for node in same) and isinstance(item.node, exp.Column):
                    raise build_ambiguity_error(item.node, self.scope)
            if position is not None:
                node = items[position][1]
            else:
                node = windows.extract_calls(self._expand_order_aliases(item.node, items, aliases))
            self.expressions.check(node)
            found.append(node)
        return found

    def _expand_order_aliases(self, node: exp.Expr, items: Items, aliases: Set[str]) -> exp.Expr:
        """Return an expression of ORDER BY in which a name is first that of an output column, where it is so in Spark."""
        if self.expressions.dialect != "spark":
            return node

        def has_own_names(part: exp.Expr) -> bool:
            return isinstance(part, exp.Query | exp.Window) or self.expressions.is_call(part)

        return expand_order_aliases(node, items, aliases, self.scope, has_own_names)

    def _add_order_columns(
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
            keys.append(item.to_sort_key(known[expr]))
        return Project(plan, named + tuple(extra)), tuple(keys)

    def _bind_distinct_on(
        self, on: exp.Expr, items: Items, order: list[OrderItem], sorted_by: list[Expr]
    ) -> list[Expr]:
        """`SELECT DISTINCT ON (k) … ORDER BY k, x` -> k, of each of which the first row by x is kept."""
        if self.grouped:
            hint = "aggregate in a subquery in FROM first"
            raise self.expressions.refuse("DISTINCT ON beside GROUP BY", on, hint)
        grouping = GroupBinder(self.scope, self.expressions, self.types, self.fresh)
        nodes = [grouping.resolve_element(node, items) for node in (on.expressions or [on])]
        groups = [self.expressions.bind_scalar(node, "DISTINCT ON") for node in nodes]
        leading = sorted_by[: len(groups)]
        if order and set(leading) != set(groups):
            hint = "let ORDER BY start with the expressions of DISTINCT ON"
            raise self.scope.build_error("DISTINCT ON does not fit ORDER BY", order[0].node, hint)
        return groups

    def _apply_distinct(
        self,
        plan: Node,
        columns: Columns,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
        rows: RowLimits,
    ) -> tuple[Node, Columns]:
        keys = tuple((self.fresh(f"distinct:{name}"), Column(internal)) for name, internal in columns)
        for (_, internal), (key, _) in zip(columns, keys, strict=True):
            self.expressions.record_type(key, self.types.get(internal))
        known = {expr: key for (_, expr), (key, _) in zip(named, keys, strict=True)}
        for item, expr in zip(order, sorted_by, strict=True):
            if expr not in known:
                hint = "add it to the SELECT list"
                raise self.scope.build_error(
                    "DISTINCT is ordered by what it does not select", item.node, hint
                )
        by = tuple(item.to_sort_key(known[expr]) for item, expr in zip(order, sorted_by, strict=True))
        found = tuple((n, key) for (n, _), (key, _) in zip(columns, keys, strict=True))
        return rows.apply(Aggregate(plan, keys, ()), by, self.fresh), found

    # ---- the SELECT list -------------------------------------------------------------------------------------
    def _expand_items(self, select: exp.Select) -> Items:
        """Return what the SELECT list gives; two items may have one name, which is an error where one of them is to be chosen."""
        found: list[tuple[str | None, exp.Expr]] = []
        used_names: set[str] = set()
        aliases: set[str] = set()

        def add_item(name: str, node: exp.Expr, what: exp.Expr) -> None:
            own = explain_reserved(name, "column")
            if own:
                raise self.scope.build_error(own, node, "choose another name with AS")
            used_names.add(name.lower())
            found.append((name, what))

        for item in expand_generators(select, self.expressions, self.fresh, self.expressions.record_type):
            if isinstance(item, exp.Star | exp.Column) and item.is_star:
                for name, internal in self._expand_star(item):
                    column = copy_location(bound_column(internal), item)
                    column.meta["shown"] = name
                    add_item(name, item, column)
            elif isinstance(item, exp.Alias):
                aliases.add(normalize_identifier(item.args["alias"]).lower())
                add_item(normalize_identifier(item.args["alias"]), item, item.this)
            elif isinstance(item, exp.Column):
                add_item(normalize_identifier(item.this), item, item)
            elif isinstance(item, exp.Dot):
                add_item(item.name.lower(), item, item)
            else:
                found.append((None, item))
        dialect = self.expressions.dialect
        items = [
            (name or _make_unused_name(_choose_name(item, n, dialect), used_names), item)
            for n, (name, item) in enumerate(found, 1)
        ]
        if dialect != "spark":
            return items
        return expand_lateral_aliases(items, aliases, self.scope, self.expressions.refuse)

    def _expand_star(self, item: exp.Expr) -> list[tuple[str, str]]:
        star = item.find(exp.Star)
        if star is not None and any(value for part, value in star.args.items() if part != "except_"):
            raise self.expressions.refuse("* REPLACE or RENAME", item, "list the columns")
        alias = normalize_identifier(item.args["table"]) if isinstance(item, exp.Column) else None
        found = self.scope.expand_star(alias, item)
        for left_out in (star.args.get("except_") or ()) if star is not None else ():
            name = left_out.name.lower()
            if all(visible.lower() != name for visible, _ in found):
                hint = f"* has {', '.join(visible for visible, _ in found)}"
                raise self.scope.build_error(
                    f"* EXCEPT leaves out {name}, which is not there", left_out, hint
                )
            found = [(visible, internal) for visible, internal in found if visible.lower() != name]
        return found


def _list_aliases(select: exp.Select) -> set[str]:
    """Return the names that the items of a SELECT list are given by AS."""
    return {
        normalize_identifier(item.args["alias"]).lower()
        for item in select.expressions
        if isinstance(item, exp.Alias)
    }


def _choose_name(item: exp.Expr, position: int, dialect: Dialect) -> str:
    if dialect != "spark":
        name = find_output_name(item, dialect) or ""
        return name if name.isidentifier() and not name.startswith("_") else f"column_{position}"
    call = unwrap_call(item.this) if isinstance(item, exp.Filter | exp.Window | exp.WithinGroup) else item
    name = find_function_name(call) or ""
    return name if name.isidentifier() and name not in ("cast", "try_cast", "case") else f"column_{position}"


def _make_unused_name(base: str, used_names: set[str]) -> str:
    tries = itertools.chain((base,), (f"{base}_{n}" for n in itertools.count(2)))
    name = next(candidate for candidate in tries if candidate not in used_names)
    used_names.add(name)
    return name
