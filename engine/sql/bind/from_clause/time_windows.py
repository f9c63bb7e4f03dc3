"""Spark's `window(…)` and `session_window(…)` of one SELECT: a column of structs that the rows of its FROM get.

`SELECT window.start, count(*) FROM t GROUP BY window(ts, '10 minutes')` groups by a struct of start and end; a window that slides
gives a row as many rows as it has windows. Sessions are made of the rows that are equal in all other keys of GROUP BY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.bind.expressions import ExpressionBinder, bound_column, walk_own_parts
from engine.sql.bind.over_windows.windows import WindowBinder
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.expression.nodes import Expr
from engine.sql.expression.template import as_columns
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.plan import Filter, Node, Project, Unnest
from engine.sql.rewrites.queries.fixed_windows import (
    MOST_WINDOWS,
    build_interval,
    compute_last_start,
    compute_starts,
)
from engine.sql.rewrites.queries.session_windows import build_session_bounds, build_session_marks
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.typing.intervals import parse_calendar_interval
from engine.sql.typing.types import field_type

_CALLS = ("window", "session_window")
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_TIMES = ("date", "timestamp", "timestamp_ntz")
_BEFORE_END = "(_p0).end - INTERVAL '0 00:00:00.000001' DAY TO SECOND"
_FORMS = {
    "window": "write window(time, '10 minutes' [, '5 minutes' [, '0 minutes']])",
    "session_window": "write session_window(time, '5 minutes') in GROUP BY",
}


@dataclass(frozen=True)
class _WindowBounds:
    """The columns of the bounds of the windows."""

    start: str
    end: str

    @property
    def columns(self) -> list[exp.Expr]:
        return [bound_column(self.start), bound_column(self.end)]

    @property
    def struct(self) -> exp.Expr:
        names = (exp.Literal.string(name) for name in ("start", "end"))
        parts = [part for pair in zip(names, self.columns, strict=True) for part in pair]
        return exp.Anonymous(this="named_struct", expressions=parts)


@dataclass
class TimeWindowBinder:
    """Binds the windows of one SELECT in its scope."""

    expressions: ExpressionBinder
    fresh: Callable[[str], str]

    def bind(self, select: exp.Select, plan: Node) -> tuple[exp.Select, Node]:
        """Return the SELECT in which columns stand for windows, and the plan with them; both as they are if it has none."""
        if self.expressions.dialect != "spark" or not self._find_calls(select):
            return select, plan
        select = select.copy()
        self._replace_window_times(select)
        calls = self._find_calls(select)
        if not calls:
            return select, plan
        other = next((call for call in calls if call != calls[0]), None)
        if other is not None:
            hint = "make one in a subquery in FROM: each row of the one would be in each window of the other"
            raise self.expressions.refuse("a second window of time", other, hint)
        name = calls[0].name.lower()
        bounds_of = self._bind_fixed if name == "window" else self._bind_session
        window, plan = bounds_of(calls[0], select, plan)
        self._replace_call(select, calls[0], window)
        return select, plan

    def _find_calls(self, select: exp.Select) -> list[exp.Anonymous]:
        clauses = [
            *select.expressions,
            *(select.args.get(part) for part in ("group", "having", "order", "qualify")),
        ]
        parts = (part for clause in clauses if clause is not None for part in walk_own_parts(clause))
        names = (*_CALLS, "window_time")
        return [part for part in parts if isinstance(part, exp.Anonymous) and part.name.lower() in names]

    def _replace_window_times(self, select: exp.Select) -> None:
        """`window_time(w)` -> `w.end - INTERVAL '1' MICROSECOND`"""
        for call in self._find_calls(select):
            if call.name.lower() == "window_time" and len(call.expressions) == 1:
                call.replace(copy_location(exp.Paren(this=fill_tree(_BEFORE_END, call.expressions[0])), call))

    # ---- windows of a fixed length ---------------------------------------------------------------------------
    def _bind_fixed(self, call: exp.Anonymous, select: exp.Select, plan: Node) -> tuple[_WindowBounds, Node]:
        time, *lengths = call.expressions
        if not 1 <= len(lengths) <= 3:
            raise self._build_error(call, f"window has {len(call.expressions)} arguments", _FORMS["window"])
        size, slide, offset = self._parse_lengths(call, lengths)
        time, kind = self._resolve_time(time)
        if slide == size:
            start = compute_last_start(time, size, offset)
            end = exp.Add(this=start.copy(), expression=build_interval(size))
            known = self.expressions.bind_scalar(fill_tree("_p0 IS NOT NULL", time), "GROUP BY")
            return self._add_bounds(start, end, kind, Filter(self.expressions.subqueries.attach(plan), known))
        array = self.expressions.bind_scalar(compute_starts(time, slide, size, offset), "GROUP BY")
        item, ordinal = self.fresh("unnest:item"), self.fresh("unnest:ordinal")
        self.expressions.record_type(item, kind)
        self.expressions.record_type(ordinal, "int")
        plan = Unnest(self.expressions.subqueries.attach(plan), array, item, ordinal)
        end = exp.Add(this=bound_column(item), expression=build_interval(size))
        return self._add_bounds(bound_column(item), end, kind, plan)

    def _parse_lengths(self, call: exp.Anonymous, lengths: list[exp.Expr]) -> tuple[int, int, int]:
        size = self._parse_micros("length", lengths[0])
        slide = self._parse_micros("slide", lengths[1]) if len(lengths) > 1 else size
        offset = self._parse_micros("start", lengths[2], positive=False) if len(lengths) > 2 else 0
        if slide > size:
            hint = "write the length first, then the slide"
            raise self._build_error(lengths[1], "the slide of a window is longer than the window", hint)
        if size > MOST_WINDOWS * slide:
            message = f"a row would be in {-(-size // slide):,} windows"
            raise self._build_error(
                lengths[1], message, f"take a longer slide: {MOST_WINDOWS:,} are the most"
            )
        if abs(offset) >= slide:
            raise self._build_error(
                lengths[2], "the start of a window is not within its slide", "take a shorter one"
            )
        return size, slide, offset

    def _parse_micros(self, what: str, node: exp.Expr, positive: bool = True) -> int:
        """Return a length in microseconds: Spark takes texts, and whole numbers of microseconds."""
        literal = node.this if isinstance(node, exp.Neg) else node
        text = literal.name if isinstance(literal, exp.Literal) else ""
        if isinstance(literal, exp.Literal) and not literal.is_string and text.isdigit():
            found = -int(text) if isinstance(node, exp.Neg) else int(text)
        else:
            span = (
                parse_calendar_interval(text.strip().lower().removeprefix("interval"))
                if node is literal
                else None
            )
            if span is None or not text or text.strip().lstrip("+-").isdigit():
                raise self._build_error(
                    node, f"the {what} of a window is no interval", "write a text, as '10 minutes'"
                )
            if span[0]:
                hint = "group by date_trunc('MONTH', …) instead"
                raise self._build_error(
                    node, f"the {what} of a window has months, which have no fixed length", hint
                )
            found = round(span[1].total_seconds() * 1_000_000)
        if positive and found <= 0:
            raise self._build_error(
                node, f"the {what} of a window is not positive", "write it as '10 minutes'"
            )
        return found

    def _resolve_time(self, node: exp.Expr) -> tuple[exp.Expr, str | None]:
        """Return the time that a window is of, a column's value or the last moment of a window, and the type of its bounds."""
        kind = get_expr_type(self.expressions.bind_scalar(node, "GROUP BY"), self.expressions.types)
        if kind is not None and kind.startswith("struct<start:"):
            return exp.Paren(this=fill_tree(_BEFORE_END, node)), field_type(kind, "end")
        if kind is not None and kind not in _TIMES:
            raise self._build_error(node, f"a window of {kind}", "CAST it to TIMESTAMP")
        return node, "timestamp" if kind == "date" else kind

    # ---- sessions --------------------------------------------------------------------------------------------
    def _bind_session(
        self, call: exp.Anonymous, select: exp.Select, plan: Node
    ) -> tuple[_WindowBounds, Node]:
        group = select.args.get("group")
        if len(call.expressions) != 2:
            message = f"session_window has {len(call.expressions)} arguments"
            raise self._build_error(call, message, _FORMS["session_window"])
        if group is None or group.find(*_SETS) is not None or group.args.get("all"):
            hint = "group by it, or write FROM SESSION(t, time, INTERVAL '5 minutes')"
            raise self.expressions.refuse("session_window outside a plain GROUP BY", call, hint)
        gap = build_interval(self._parse_micros("gap", call.expressions[1]))
        time, kind = self._resolve_time(call.expressions[0])
        keys = [key for part in group.expressions for key in self._expand_keys(part, select) if key != call]
        known = self.expressions.bind_scalar(fill_tree("_p0 IS NOT NULL", time), "GROUP BY")
        plan = Filter(self.expressions.subqueries.attach(plan), known)
        made, plan = self._bind_over(list(build_session_marks(keys, time, gap)), plan)
        named = tuple(
            (self.fresh(f"session:{name}"), expr) for name, expr in zip(("begins", "ends"), made, strict=True)
        )
        plan = self._append_columns(plan, named)
        begins, ends = (bound_column(column) for column, _ in named)
        (start, last), plan = self._bind_over(list(build_session_bounds(keys, time, begins, ends)), plan)
        pair = tuple(
            (self.fresh(f"session:{name}"), expr) for name, expr in (("start", start), ("last", last))
        )
        plan = self._append_columns(plan, pair)
        end = exp.Add(this=bound_column(pair[1][0]), expression=gap)
        return self._add_bounds(bound_column(pair[0][0]), end, kind, plan)

    def _expand_keys(self, part: exp.Expr, select: exp.Select) -> list[exp.Expr]:
        """Return the expressions that an element of GROUP BY means."""
        found = list[exp.Expr]()
        for node in part.expressions if isinstance(part, exp.Tuple) else [part.unnest()]:
            if (
                isinstance(node, exp.Literal)
                and node.name.isdigit()
                and int(node.name) <= len(select.expressions)
            ):
                node = select.expressions[int(node.name) - 1].unalias()
            elif isinstance(node, exp.Column) and not node.args.get("table"):
                name = normalize_identifier(node.this)
                items = {
                    item.alias.lower(): item.this
                    for item in select.expressions
                    if isinstance(item, exp.Alias)
                }
                visible = self.expressions.scope.find_visible(name, self.expressions.scope.sources)
                node = node if visible else items.get(name.lower(), node)
            found.append(node)
        return found

    def _bind_over(self, nodes: list[exp.Expr], plan: Node) -> tuple[list[Expr], Node]:
        """Return expressions over calls over windows, bound, and the plan that has those calls."""
        windows = WindowBinder(self.expressions, self.fresh)
        nodes = [windows.extract_calls(node) for node in nodes]
        windows.bind_parts([self.expressions.bind_scalar(part, "GROUP BY") for part in windows.parts])
        plan = windows.apply(plan)
        return [self.expressions.bind_scalar(node, "GROUP BY") for node in nodes], plan

    # ---- columns ---------------------------------------------------------------------------------------------
    def _add_bounds(
        self, start: exp.Expr, end: exp.Expr, kind: str | None, plan: Node
    ) -> tuple[_WindowBounds, Node]:
        """Return the plan with the bounds of the windows as columns."""
        bound = [self.expressions.bind_scalar(node, "GROUP BY") for node in (start, end)]
        window = _WindowBounds(self.fresh("time:start"), self.fresh("time:end"))
        plan = self._append_columns(plan, tuple(zip((window.start, window.end), bound, strict=True)))
        self.expressions.record_type(window.start, kind)
        self.expressions.record_type(window.end, kind)
        return window, plan

    def _append_columns(self, plan: Node, added: tuple[tuple[str, Expr], ...]) -> Node:
        for column, expr in added:
            self.expressions.record_type(column, get_expr_type(expr, self.expressions.types))
        return Project(plan, (*as_columns(plan.columns), *added))

    def _replace_call(self, select: exp.Select, call: exp.Anonymous, window: _WindowBounds) -> None:
        """Put the columns for the call and for the name of its result, which the SELECT's own clauses know.

        Groups are made by both bounds, as no rows are grouped by a struct.
        """
        call, group = call.copy(), select.args.get("group")
        for part in list(group.expressions) if group is not None else ():
            keys = self._expand_keys(part, select)
            if call in keys or any(self._resolve_part(key, call, window) is not None for key in keys):
                new = [
                    w
                    for key in keys
                    for w in (window.columns if self._is_window(key, call) else [key.copy()])
                ]
                part.replace(exp.Tuple(expressions=new))
        clauses = [select.args.get(part) for part in ("group", "having", "order", "qualify")]
        for clause in [*select.expressions, *(clause for clause in clauses if clause is not None)]:
            for part in list(walk_own_parts(clause)):
                found = self._resolve_part(part, call, window)
                if found is None:
                    continue
                alias = part.name if isinstance(part, exp.Column) else call.name.lower()
                copy_location(found, part)
                part.replace(exp.alias_(found, alias) if part.parent is select else found)

    def _is_window(self, key: exp.Expr, call: exp.Anonymous) -> bool:
        """Tell whether a key of GROUP BY is the window."""
        return key == call or (
            isinstance(key, exp.Column) and self._split_name(key, call) == [call.name.lower()]
        )

    def _resolve_part(self, part: exp.Expr, call: exp.Anonymous, window: _WindowBounds) -> exp.Expr | None:
        """Return what a call, `window`, `window.start` or `window.end` means, None for anything else."""
        if part == call:
            return window.struct
        match self._split_name(part, call) if isinstance(part, exp.Column) else []:
            case [_]:
                return window.struct
            case [_, "start"]:
                return bound_column(window.start)
            case [_, "end"]:
                return bound_column(window.end)
        return None

    def _split_name(self, part: exp.Column, call: exp.Anonymous) -> list[str]:
        """Return the names of a column whose first is that of the call's result, none for a column of FROM."""
        name, scope = call.name.lower(), self.expressions.scope
        parts = [piece.name.lower() for piece in part.parts]
        is_column = scope.find_visible(name, scope.sources) or (
            len(parts) > 1 and any(s.alias == name for s in scope.sources)
        )
        return [] if part.meta.get("bound") or parts[0] != name or is_column else parts

    def _build_error(self, node: exp.Expr, message: str, hint: str) -> SqlError:
        return self.expressions.scope.build_error(message, node, hint)
