"""GROUP BY and HAVING of one query: keys, grouping sets, aggregate calls, and expressions over groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import sqlglot.expressions as exp

from engine.sql.bind.aggregates import AggregateBinder
from engine.sql.bind.clock_conditions import ClockConditionBinder
from engine.sql.bind.expressions import ExpressionBinder, bound_column, split_conjuncts, walk_own_parts
from engine.sql.bind.ordering import build_ambiguity_error, strip_number
from engine.sql.bind.over_windows.windows import WINDOW, WindowBinder
from engine.sql.bind.scope import Scope
from engine.sql.bind.subqueries import is_subquery
from engine.sql.expression.nodes import Column, Expr, annotate
from engine.sql.parsing.names import normalize_identifier
from engine.sql.plan import AggCall, Aggregate, Filter, Node
from engine.sql.rewrites.binding.expand_grouping_sets import (
    GroupingSets,
    expand_grouping_sets,
    list_members,
    read_grouping_sets,
)
from engine.sql.rewrites.binding.free_columns import find_free_columns, replace_free_columns
from engine.sql.typing.expression_types import get_expr_type, infer_call_type

Items = list[tuple[str, exp.Expr]]
_OTHER_FORMS = 16
"""Two ways to write one expression differ in their number of parts by less than this factor."""


@dataclass
class Groups:
    """What one GROUP BY computes: the names of its keys and calls by what they compute, and the subqueries over its rows.

    `largest` bounds the parts of an expression that may be a key, however it is written.
    """

    keys: Mapping[Expr, str]
    aggregates: AggregateBinder
    number: str | None = None
    calls: dict[Expr, AggCall] = field(default_factory=dict)
    pending: list[Callable[[Node], Node]] = field(default_factory=list)
    nodes: list[tuple[exp.Expr, str]] = field(default_factory=list)
    largest: int = 0

    def find_key(self, node: exp.Expr) -> str | None:
        """Return the key that a subquery is grouped by: it is bound once, so its column tells nothing."""
        return next((name for key, name in self.nodes if key == node), None)


@dataclass
class GroupBinder:
    """Binds what one SELECT says over groups; `types` are the certain types of internal columns."""

    scope: Scope
    expressions: ExpressionBinder
    types: dict[str, str]
    fresh: Callable[[str], str]

    def bind(
        self,
        plan: Node,
        items: Items,
        select: exp.Select,
        others: list[exp.Expr],
        windows: WindowBinder,
    ) -> tuple[Node, list[tuple[str, Expr]], list[Expr]]:
        """Return the groups of a SELECT over the plan of its FROM, and its items and `others` over them."""
        group, having = select.args.get("group"), select.args.get("having")
        keys: dict[Expr, str] = {}
        named: list[tuple[str, Expr]] = []
        nodes: list[tuple[exp.Expr, str]] = []
        largest = 0

        def add_key(node: exp.Expr) -> str:
            nonlocal largest
            expr = self.expressions.bind_scalar(node, "GROUP BY")
            largest = max(largest, _OTHER_FORMS * _count_nodes(node))
            if expr not in keys:
                name = self.fresh(f"group:{expr.column or len(keys)}")
                keys[expr] = name
                if self.expressions.has_subquery(node):
                    nodes.append((node, name))
                named.append((name, expr))
                self.expressions.record_type(name, get_expr_type(expr, self.types))
            return keys[expr]

        sets = read_grouping_sets(group) if group is not None else None
        key_sets = None
        if sets is not None:
            key_sets = [
                {add_key(node) for part in one for node in self._expand_element(part, items)} for one in sets
            ]
        for node in self._expand_group_by(group, items) if sets is None else ():
            add_key(node)
        groups = Groups(keys, AggregateBinder(self.expressions, plan.key), nodes=nodes, largest=largest)
        if key_sets is not None:
            groups.number = self.fresh("grouping")
            self.types[groups.number] = "bigint"
        windows.bind_parts([self._bind_over_groups(part, groups) for part in windows.parts])
        bound = [(name, self._bind_over_groups(item, groups)) for name, item in items]
        others_bound = [self._bind_over_groups(node, groups) for node in others]
        conditions = []
        if having is not None:
            condition = self.substitute_aliases(having.this, items)
            self._refuse_windows(condition, "HAVING")
            conditions = [self._bind_having(part, groups) for part in split_conjuncts(condition)]
        plan = self.expressions.subqueries.attach(plan)
        plan = self._build_aggregate(plan, named, key_sets, groups)
        for step in groups.pending:
            plan = step(plan)
        for expr in conditions:
            plan = Filter(plan, expr)
        return plan, bound, others_bound

    def _bind_having(self, node: exp.Expr, groups: Groups) -> Expr:
        """Bind a condition of HAVING, which may compare a time of the group with now()."""
        clock = ClockConditionBinder(
            lambda part: self._bind_over_groups(part, groups), self.expressions.refuse, self.types
        )
        bound = clock.bind_condition(node)
        return self._bind_over_groups(node, groups) if bound is None else bound

    def _expand_group_by(self, group: exp.Group | None, items: Items) -> list[exp.Expr]:
        if group is None:
            return []
        if group.args.get("totals"):
            raise self.expressions.refuse("WITH TOTALS", group, "write GROUPING SETS ((…), ())")
        if group.args.get("all"):
            return [item for _, item in items if not self.expressions.has_aggregate(item)]
        return [element for node in group.expressions for element in self._expand_element(node, items)]

    def _expand_element(self, node: exp.Expr, items: Items) -> list[exp.Expr]:
        """Return the expressions that an element of GROUP BY means: those of a list, of an ordinal or of an alias."""
        found = []
        for part in list_members(node):
            resolved = self.resolve_element(part, items)
            self.expressions.check(resolved, "GROUP BY")
            self._refuse_windows(resolved, "GROUP BY")
            if self.expressions.has_aggregate(resolved):
                hint = "group by columns or expressions of them"
                raise self.scope.build_error("GROUP BY of an aggregate", part, hint)
            found.append(resolved)
        return found

    def _refuse_windows(self, node: exp.Expr, clause: str) -> None:
        found = next((part for part in walk_own_parts(node) if part.meta.get(WINDOW)), None)
        if found is not None:
            hint = "compute it in a subquery in FROM first"
            raise self.scope.build_error(f"a window function in {clause}", found, hint)

    def _build_aggregate(
        self, plan: Node, named: list[tuple[str, Expr]], key_sets: list[set[str]] | None, groups: Groups
    ) -> Node:
        calls = tuple(groups.calls.values())
        if key_sets is None or groups.number is None:
            return Aggregate(plan, tuple(named), calls)
        keys = self.expressions.subqueries.keys
        whole = (
            self.expressions.dialect != "spark" or not named
        )  # Spark gives the whole of nothing no row beside keys
        return expand_grouping_sets(plan, named, GroupingSets(key_sets, groups.number, whole), calls, keys)

    def resolve_element(self, node: exp.Expr, items: Items) -> exp.Expr:
        node = strip_number(node)
        if not isinstance(node, exp.Literal) or node.is_string:
            return self._resolve_alias(node, items)
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
            message = f"GROUP BY {node.name}: the SELECT list has {len(items)} columns"
            raise self.scope.build_error(
                message, node, "GROUP BY a column, or the number of one in the SELECT list"
            )
        return items[int(node.name) - 1][1]

    def substitute_aliases(self, condition: exp.Expr, items: Items) -> exp.Expr:
        """Return a condition in which an alias of the SELECT list is what it stands for."""
        return condition.transform(lambda node: self._resolve_alias(node, items))

    def _resolve_alias(self, node: exp.Expr, items: Items) -> exp.Expr:
        """Return what an alias of the SELECT list stands for, unless a source has a column of that name."""
        if not isinstance(node, exp.Column) or node.args.get("table") or node.meta.get("bound"):
            return node
        name = normalize_identifier(node.this)
        if self.scope.find_visible(name, self.scope.sources):
            return node
        matches = [item for alias, item in items if alias == name]
        if any(item != matches[0] for item in matches):
            raise build_ambiguity_error(node, self.scope)
        return matches[0].copy() if matches else node

    def _bind_over_groups(self, node: exp.Expr, groups: Groups) -> Expr:
        """Bind an expression over groups: group keys and aggregate calls become columns of the Aggregate."""

        def rewrite(part: exp.Expr) -> exp.Expr:
            if part.meta.get(WINDOW) or isinstance(part, exp.DataType):
                return part
            if isinstance(part, exp.Grouping | exp.GroupingId):
                return self._build_grouping_bits(part, groups)
            if self.expressions.is_call(part):
                return bound_column(self._add_call(part, groups))
            key = groups.find_key(part)
            if key is not None:
                return bound_column(key)
            if is_subquery(part):
                return self.expressions.subqueries.add_value_column(
                    part,
                    lambda outer: self._bind_over_groups(outer, groups),
                    lambda inner: self._rename_keys(inner, part, groups),
                    groups.pending,
                )
            may_be_key = groups.keys and _count_nodes(part) <= groups.largest
            plain = not self.expressions.has_aggregate(part) and not self.expressions.has_subquery(part)
            if may_be_key and plain:
                expr = self.expressions.bind_scalar(part, "SELECT")
                if expr in groups.keys:
                    return bound_column(groups.keys[expr])
            if isinstance(part, exp.Column):
                name, _ = (part.this.name, ()) if part.meta.get("bound") else self.scope.resolve(part)
                if name in self.scope.outer_columns:
                    return part
                text = part.meta.get("shown", part.sql())
                hint = "add it to GROUP BY, or aggregate it, e.g. max"
                raise self.scope.build_error(f"{text} is neither grouped nor inside an aggregate", part, hint)
            copy = part.copy()
            for key, value in part.args.items():
                if isinstance(value, exp.Expr):
                    copy.set(key, rewrite(value))
                elif isinstance(value, list):
                    copy.set(key, [rewrite(v) if isinstance(v, exp.Expr) else v for v in value])
            return copy

        found = self.expressions.build_tree(rewrite(node))
        return annotate(found, position=self.expressions.locate(node))

    def _rename_keys(self, inner: Node, node: exp.Expr, groups: Groups) -> Node:
        """Return the plan of a subquery over groups: it reads group keys where it says the columns they group."""
        mine = {column for source in self.scope.sources for column in source.plan.columns}
        by = {}
        for column in find_free_columns(inner):
            if column in mine:
                key = groups.keys.get(Column(column))
                if key is None:
                    hint = "add it to GROUP BY"
                    name = column.partition(":")[2] or column
                    raise self.scope.build_error(
                        f"the subquery reads {name}, which is not grouped", node, hint
                    )
                by[column] = Column(key)
        self.expressions.subqueries.equalities.rename(by)
        return replace_free_columns(inner, by)

    def _build_grouping_bits(self, node: exp.Expr, groups: Groups) -> exp.Expr:
        """`grouping(a, b)` -> the bits of a and b in the number of the grouping set, a's the higher."""
        places = list(groups.keys.values())
        requested = []
        for argument in node.expressions:
            key = groups.keys.get(self.expressions.bind_scalar(argument, "GROUPING"))
            if key is None:
                hint = "name an expression of GROUP BY"
                raise self.scope.build_error(f"{argument.sql()} is not grouped", argument, hint)
            requested.append(key)
        if not requested and isinstance(node, exp.Grouping):
            raise self.scope.build_error("GROUPING needs an argument", node, "name an expression of GROUP BY")
        if groups.number is None:
            return exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build("INT", dialect="spark"))
        keys = requested or places
        kind = "BIGINT" if isinstance(node, exp.GroupingId) else "INT"
        total: exp.Expr | None = None
        for n, key in enumerate(keys):
            away = 1 << (len(places) - 1 - places.index(key))
            bit = exp.Mod(
                this=exp.Paren(
                    this=exp.IntDiv(this=bound_column(groups.number), expression=exp.Literal.number(away))
                ),
                expression=exp.Literal.number(2),
            )
            weight = exp.Literal.number(1 << (len(keys) - 1 - n))
            part = exp.Mul(this=exp.Paren(this=bit), expression=weight)
            total = part if total is None else exp.Add(this=total, expression=part)
        return exp.Cast(this=total, to=exp.DataType.build(kind, dialect="spark"))

    def _add_call(self, node: exp.Expr, groups: Groups) -> str:
        """Return the column of an aggregate call; a call that occurs twice is computed once."""
        call, kind = groups.aggregates.bind(node)
        if call.expression not in groups.calls:
            named = msgspec.structs.replace(call, name=self.fresh(f"agg:{call.function}"))
            groups.calls[call.expression] = named
            kinds = [get_expr_type(argument, self.types) for argument in call.arguments]
            self.expressions.record_type(
                named.name, kind if call.whole is not None else infer_call_type(call.function, kinds)
            )
        return groups.calls[call.expression].name


def _count_nodes(node: exp.Expr) -> int:
    return sum(1 for _ in node.walk())
