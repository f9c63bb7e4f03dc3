"""Calls over windows of one SELECT: taken out of its expressions, bound over what stands below, and put above it as columns.

What they read (partitions, orders, arguments) becomes columns of the plan below, so that a call is one over columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import list_call_parts, parse_call, unwrap_call
from engine.sql.bind.aggregates import AggregateBinder
from engine.sql.bind.expressions import ExpressionBinder, bound_column, walk_own_parts
from engine.sql.bind.ordering import OrderItem, parse_order_items
from engine.sql.bind.over_windows.frame_exclusion import ExcludingFrame, Exclusion, FramePart, parse_exclusion
from engine.sql.bind.over_windows.frame_part_merge import FramePartMerger
from engine.sql.bind.over_windows.frames import WHOLE, FrameBinder
from engine.sql.bind.over_windows.session_frames import SessionFrameBinder, SessionGap, is_session
from engine.sql.bind.over_windows.window_calls import WindowCallBinder
from engine.sql.expression.nodes import Arithmetic, Call, Cast, Column, Expr, Literal, annotate
from engine.sql.expression.template import as_columns
from engine.sql.functions import is_aggregate
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.plan import Node, Over, Project
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.window_calls import Frame, SortKey, WindowCall

WINDOW = "window"
"""The mark of a column that stands for a call over a window, in the meta of its node."""


@dataclass
class _ExtractedCall:
    """One call: its column, the call with the parts that it reads as nodes of its own, its window, and then its meaning.

    Of a frame that leaves rows out (`exclude`), `levels` are the columns in which peers are equal, and `kind` is the type of the
    first of them.
    """

    name: str
    node: exp.Window
    call: exp.Expr
    reads: list[exp.Expr]
    partition: list[exp.Expr]
    order: list[OrderItem]
    by: tuple[str, ...] = ()
    sort: tuple[SortKey, ...] = ()
    frame: Frame | None = None
    gap: SessionGap | None = None
    exclude: Exclusion | None = None
    levels: tuple[str, ...] = ()
    kind: str | None = None


@dataclass
class WindowBinder:
    """The calls over windows of one SELECT; `definitions` are those of its WINDOW clause, by name."""

    expressions: ExpressionBinder
    fresh: Callable[[str], str]
    definitions: dict[str, exp.Window] = field(default_factory=dict)
    extracted: dict[exp.Expr, _ExtractedCall] = field(default_factory=dict)
    columns: dict[Expr, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.extracted)

    def define_windows(self, clause: Sequence[exp.Window]) -> None:
        """Take the windows of a WINDOW clause."""
        for window in clause:
            name = normalize_identifier(window.this)
            if name in self.definitions:
                raise self._build_error(
                    window.this, f"two windows are named {name}", "give each a name of its own"
                )
            self.definitions[name] = self._resolve_window(window)

    def extract_calls(self, node: exp.Expr) -> exp.Expr:
        """Return an expression in which a column stands for each call over a window."""
        if not any(isinstance(part, exp.Window) for part in walk_own_parts(node)):
            return node
        node = node.copy()
        outer = [part for part in walk_own_parts(node) if isinstance(part, exp.Window)]
        for window in outer:
            nested = next(
                (w for w in walk_own_parts(window) if isinstance(w, exp.Window) and w is not window), None
            )
            if nested is not None:
                hint = "compute the inner one in a subquery in FROM"
                raise self._build_error(nested, "a window function inside a window function", hint)
            if _is_aggregated(window):
                hint = "compute it in a subquery in FROM, and aggregate that"
                raise self._build_error(window, "a window function inside an aggregate", hint)
        for window in outer:
            column = copy_location(bound_column(self._extract_call(window)), window)
            column.meta[WINDOW] = True
            if window is node:
                return column
            window.replace(column)
        return node

    def _extract_call(self, window: exp.Window) -> str:
        resolved = self._resolve_window(window)
        if resolved not in self.extracted:
            call = resolved.this
            WindowCallBinder(self.expressions).check(call, resolved)
            name = self.fresh(f"window:{unwrap_call(call).key}")
            order = parse_order_items(resolved.args.get("order"), self.expressions.dialect)
            partition = list(resolved.args.get("partition_by") or ())
            self.extracted[resolved] = _ExtractedCall(
                name, resolved, call, _list_reads(call), partition, order
            )
        return self.extracted[resolved].name

    def _resolve_window(self, window: exp.Window) -> exp.Window:
        """Return a window with what the window that it names says."""
        if window.args.get("first") is not None:
            raise self._build_error(window, "KEEP is not offered", "write first_value or last_value")
        alias = window.args.get("alias")
        if alias is None:
            return window
        base = self.definitions.get(normalize_identifier(alias))
        if base is None:
            names = ", ".join(self.definitions)
            hint = f"windows are {names}" if names else "add WINDOW name AS (…) behind FROM"
            raise self._build_error(alias, f"there is no window {normalize_identifier(alias)}", hint)
        found = window.copy()
        found.set("alias", None)
        bare = not any(window.args.get(part) for part in ("partition_by", "order", "spec"))
        for part, word in (("partition_by", "PARTITION BY"), ("order", "ORDER BY"), ("spec", "a frame")):
            theirs = base.args.get(part)
            if theirs and (window.args.get(part) or (part == "spec" and not bare)):
                message = f"window {normalize_identifier(alias)} has {word} already"
                raise self._build_error(alias, message, "write the whole window in the parentheses")
            if theirs:
                found.set(part, [each.copy() for each in theirs] if part == "partition_by" else theirs.copy())
        if window.args.get("partition_by"):
            message = f"PARTITION BY beside the window {normalize_identifier(alias)}"
            raise self._build_error(alias, message, "write the whole window in the parentheses")
        return found

    def _build_error(self, node: exp.Expr, message: str, hint: str) -> Exception:
        return self.expressions.scope.build_error(message, node, hint)

    # ---- what the calls read ---------------------------------------------------------------------------------
    @property
    def parts(self) -> list[exp.Expr]:
        """What all calls read, each an expression over the plan below."""
        return [part for extracted in self.extracted.values() for part in _list_parts(extracted)]

    def bind_parts(self, bound: Sequence[Expr]) -> None:
        """Take the meaning of each of `parts`, and tell the types of the calls' columns."""
        waiting = iter(bound)
        for extracted in self.extracted.values():
            exprs = [next(waiting) for _ in _list_parts(extracted)]
            reads, rest = exprs[: len(extracted.reads)], exprs[len(extracted.reads) :]
            for node, expr in zip(extracted.reads, reads, strict=True):
                column = copy_location(bound_column(self._find_column(expr)), node)
                node.replace(column)
            partition = [
                self._find_column(self._normalize_zero(expr)) for expr in rest[: len(extracted.partition)]
            ]
            extracted.by = tuple(dict.fromkeys(partition))
            self._bind_order(extracted, rest[len(extracted.partition) :])
            calls = WindowCallBinder(self.expressions)
            _, kind = calls.bind(extracted.call, AggregateBinder(self.expressions, (), extracted.sort))
            self.expressions.record_type(extracted.name, kind)

    def _bind_order(self, extracted: _ExtractedCall, order: Sequence[Expr]) -> None:
        kind = get_expr_type(order[0], self.expressions.types) if order else None
        spec = extracted.node.args.get("spec")
        extracted.frame, cast = None, None
        if spec is not None and is_session(spec):
            gap = SessionFrameBinder(self.expressions, self.fresh).parse_gap(spec, len(order), kind)
            if WindowCallBinder(self.expressions).has_frame(extracted.call):
                extracted.frame, extracted.gap = WHOLE, gap
        elif WindowCallBinder(self.expressions).has_frame(extracted.call):
            extracted.frame, cast = FrameBinder(self.expressions).bind(spec, len(order), kind)
            extracted.exclude, extracted.kind = parse_exclusion(spec), kind
        exprs = [annotate(Cast(order[0], cast), type=cast), *order[1:]] if cast is not None else list(order)
        columns = [self._find_column(expr) for expr in exprs]
        extracted.sort = tuple(
            item.to_sort_key(column) for item, column in zip(extracted.order, columns, strict=True)
        )
        if extracted.exclude is not None:
            extracted.levels = tuple(self._find_column(self._normalize_zero(expr)) for expr in order)

    def _normalize_zero(self, expr: Expr) -> Expr:
        """Return what a partition is found by: of floats a value in which -0.0 is 0.0, as it is in all stored keys."""
        kind = get_expr_type(expr, self.expressions.types)
        if kind not in ("double", "float"):
            return expr
        return annotate(Arithmetic("+", (expr, Literal("0.0", kind))), type=kind, position=expr.position)

    def _find_column(self, expr: Expr) -> str:
        """Return the column of the plan below that holds an expression's value."""
        if expr.column is not None and expr.column not in self.expressions.scope.outer_columns:
            return expr.column
        if expr not in self.columns:
            self.columns[expr] = self.fresh("over")
            self.expressions.record_type(self.columns[expr], get_expr_type(expr, self.expressions.types))
        return self.columns[expr]

    # ---- the plan --------------------------------------------------------------------------------------------
    def apply(self, plan: Node) -> Node:
        """Return the plan with a column for each call: one node for all calls of the same partitions."""
        if self.columns:
            items = as_columns(plan.columns)
            plan = Project(plan, items + tuple((name, expr) for expr, name in self.columns.items()))
        plan = self._add_sessions(plan)
        outputs, calls = plan.columns, WindowCallBinder(self.expressions)
        together, whole = _CallsByPartition(self.fresh), dict[str, Expr]()
        for extracted in sorted(self.extracted.values(), key=lambda extracted: extracted.gap is None):
            call = calls.bind(extracted.call, AggregateBinder(self.expressions, plan.key, extracted.sort))[0]
            if extracted.exclude is None:
                together.add(extracted.by, WindowCall(extracted.name, call, extracted.sort, extracted.frame))
            else:
                whole[extracted.name] = self._merge_call(extracted, call, plan.key, together)
        for by, made in together.made:
            plan = Over(plan, by, tuple(made))
        if not whole:
            return plan
        items = as_columns((*outputs, *(extracted.name for extracted in self.extracted.values())))
        return Project(plan, tuple((name, whole.get(name, column)) for name, column in items))

    def _merge_call(
        self, extracted: _ExtractedCall, call: Expr, key: tuple[str, ...], together: _CallsByPartition
    ) -> Expr:
        """Return a call over a frame that leaves rows out as an expression over calls that go `together`."""
        assert extracted.frame is not None and extracted.exclude is not None

        def read_part(call: Call, part: FramePart) -> Column:
            by = (
                tuple(dict.fromkeys((*extracted.by, *extracted.levels))) if part.among_peers else extracted.by
            )
            return together.find_column(by, call, extracted.sort, part.frame)

        def build_unsupported(what: str, hint: str) -> Exception:
            return self.expressions.refuse(what, extracted.node, hint)

        alone = bool(key) and set(key) <= {*extracted.by, *extracted.levels}
        frame = ExcludingFrame(
            extracted.frame, extracted.exclude, extracted.sort, extracted.kind, alone, build_unsupported
        )
        kind = lambda expr: get_expr_type(expr, self.expressions.types)  # noqa: E731
        name = parse_call(extracted.call).name
        return FramePartMerger(
            name, frame.split_parts(read_part), read_part, kind, extracted.sort, key, build_unsupported
        ).merge(call)

    def _add_sessions(self, plan: Node) -> Node:
        """Return the plan with the starts of sessions, which become parts of the partitions of the calls over them."""
        starts: dict[tuple[frozenset[str], str, SessionGap], str] = {}
        for extracted in self.extracted.values():
            if extracted.gap is None:
                continue
            column = extracted.sort[0].column
            known_as = frozenset(extracted.by), column, extracted.gap
            if known_as not in starts:
                sessions = SessionFrameBinder(self.expressions, self.fresh)
                plan, starts[known_as] = sessions.add_session_starts(
                    plan, extracted.by, column, extracted.gap
                )
            extracted.by = (*extracted.by, starts[known_as])
        return plan


@dataclass
class _CallsByPartition:
    """Calls over windows by their partitions; those of the same partitions go together, and none is made twice."""

    fresh: Callable[[str], str]
    made: list[tuple[tuple[str, ...], list[WindowCall]]] = field(default_factory=list)
    named: dict[tuple[frozenset[str], Expr, tuple[SortKey, ...], Frame], str] = field(default_factory=dict)

    def add(self, by: tuple[str, ...], call: WindowCall) -> None:
        """Add a call under its own name."""
        for partition, calls in self.made:
            if set(partition) == set(by):
                calls.append(call)
                return
        self.made.append((by, [call]))

    def find_column(
        self, by: tuple[str, ...], call: Call, order: tuple[SortKey, ...], frame: Frame
    ) -> Column:
        """Return the column of a call."""
        key = frozenset(by), call, order, frame
        if key not in self.named:
            self.named[key] = self.fresh(f"window:{call.function}")
            self.add(by, WindowCall(self.named[key], call, order, frame))
        return Column(self.named[key])


def _is_aggregated(node: exp.Expr) -> bool:
    above = node.parent
    while above is not None and not isinstance(above, exp.Query):
        if is_aggregate(above):
            return True
        above = above.parent
    return False


def _list_parts(extracted: _ExtractedCall) -> list[exp.Expr]:
    return [*extracted.reads, *extracted.partition, *(item.node for item in extracted.order)]


def _list_reads(call: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a call that are read of rows: arguments that are no constants, and what FILTER asks."""
    return [
        part
        for part in list_call_parts(call)
        if part.find(exp.Column, exp.Query) or any(map(is_aggregate, part.walk()))
    ]
