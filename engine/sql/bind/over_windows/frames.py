"""Frames of windows: which rows around a row a call reads, checked, and with offsets that Spark takes exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlglot.expressions as exp
from sqlglot.errors import ParseError

from engine.sql.bind.expressions import ExpressionBinder, walk_own_parts
from engine.sql.expression import nodes as tree
from engine.sql.expression.nodes import Cast, Expr, annotate
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.intervals import has_months
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.window_calls import Frame, FrameEnd

WHOLE = Frame("rows", FrameEnd("preceding"), FrameEnd("following"))
UP_TO_PEERS = Frame("range", FrameEnd("preceding"), FrameEnd("current row"))
_MOST_ROWS = (1 << 31) - 1
EMPTY = Frame(
    "rows",
    FrameEnd("following", tree.Literal(str(_MOST_ROWS - 1))),
    FrameEnd("following", tree.Literal(str(_MOST_ROWS))),
)
"""A frame behind the end of any partition."""
Side = Literal["preceding", "following"]
_MOMENTS = ("date", "timestamp", "timestamp_ntz")


@dataclass
class FrameBinder:
    """Binds the frames of one SELECT's windows."""

    expressions: ExpressionBinder

    def bind(self, spec: exp.WindowSpec | None, order: int, kind: str | None) -> tuple[Frame, str | None]:
        """Return a frame, and the type that the order's one column is cast to for its offsets (None: it stays).

        `order` is the number of expressions in ORDER BY, `kind` the type of the first. Raises SqlError or UnsupportedSql.
        """
        if spec is None:
            return (UP_TO_PEERS if order else WHOLE), None
        start = self._parse_side(spec, "start", "PRECEDING")
        end = self._parse_side(spec, "end", "FOLLOWING") if spec.args.get("end") else "CURRENT ROW"
        self._check_order(spec, start, end)
        unit = str(spec.args.get("kind") or "RANGE").lower()
        by_value = unit == "range" and {start, end} & {"PRECEDING", "FOLLOWING"}
        if by_value and order != 1:
            raise self._build_error(
                spec, f"RANGE with an offset over {order} expressions", "ORDER BY just one"
            )
        if unit == "groups" and not order:
            raise self._build_error(
                spec, "GROUPS without ORDER BY", "add ORDER BY: groups are rows equal in it"
            )
        cast = None
        if by_value:
            cast, (before, after) = self._bind_value_offsets(spec, (start, end), kind)
        else:
            before, after = (
                self._parse_row_offset(spec, "start", start),
                self._parse_row_offset(spec, "end", end),
            )
        ends = _build_end(start, "preceding", before), _build_end(end, "following", after)
        frame = Frame(unit, *ends)  # type: ignore[arg-type]  # the parser knows these three units only
        if self._is_reversed(spec, frame):
            return EMPTY, None
        return (frame if order or unit == "rows" else WHOLE), cast

    def _build_error(self, node: exp.Expr, message: str, hint: str) -> Exception:
        return self.expressions.scope.build_error(message, node, hint)

    def _parse_side(self, spec: exp.WindowSpec, part: str, default: str) -> str:
        """Return UNBOUNDED, CURRENT ROW, or PRECEDING or FOLLOWING for an offset."""
        value, side = spec.args.get(part), str(spec.args.get(f"{part}_side") or default).upper()
        if value == "CURRENT ROW":
            return "CURRENT ROW"
        if value != "UNBOUNDED":
            return side
        if side == ("FOLLOWING" if part == "start" else "PRECEDING"):
            word = f"UNBOUNDED {side}"
            where = "starts" if part == "start" else "ends"
            raise self._build_error(spec, f"a frame that {where} at {word}", "write the ends in their order")
        return "UNBOUNDED"

    def _check_order(self, spec: exp.WindowSpec, start: str, end: str) -> None:
        wrong = (start == "FOLLOWING" and end in ("CURRENT ROW", "PRECEDING")) or (
            start == "CURRENT ROW" and end == "PRECEDING"
        )
        if wrong:
            raise self._build_error(
                spec, "a frame that ends before it starts", "write the ends in their order"
            )

    def _is_reversed(self, spec: exp.WindowSpec, frame: Frame) -> bool:
        """Tell whether a frame ends before it starts: it has no rows in PostgreSQL, and is none to Spark."""
        ends = [locate_end(end) for end in (frame.start, frame.end)]
        reversed_ = ends[0] is not None and ends[1] is not None and ends[0] > ends[1]
        if reversed_ and self.expressions.dialect == "spark":
            raise self._build_error(
                spec, "a frame that ends before it starts", "write the ends in their order"
            )
        return reversed_

    # ---- offsets ---------------------------------------------------------------------------------------------
    def _parse_row_offset(self, spec: exp.WindowSpec, part: str, side: str) -> Expr | None:
        if side not in ("PRECEDING", "FOLLOWING"):
            return None
        node = spec.args[part].unnest()
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            if int(node.name) > _MOST_ROWS:
                raise self._build_error(
                    node, f"an offset of {node.name} rows", f"write up to {_MOST_ROWS}, or UNBOUNDED"
                )
            return tree.Literal(node.name)
        raise self._build_offset_error(node, "a whole number that is not negative")

    def _bind_value_offsets(
        self, spec: exp.WindowSpec, sides: tuple[str, str], kind: str | None
    ) -> tuple[str | None, list[Expr | None]]:
        nodes = [
            spec.args[part].unnest() if side in ("PRECEDING", "FOLLOWING") else None
            for part, side in zip(("start", "end"), sides, strict=True)
        ]
        offsets = [node for node in nodes if node is not None]
        if kind in _MOMENTS:
            days = kind == "date" and all(_is_number(node) for node in offsets)
            if days:
                return None, [None if node is None else self._parse_days(node) for node in nodes]
            spans = [None if node is None else self._parse_span(node, kind) for node in nodes]
            if len({span.type for span in spans if span is not None}) > 1:
                hint = "write both offsets in months, or both in days and less"
                raise self._build_error(spec, "offsets of months and of days in one frame", hint)
            return ("timestamp_ntz" if kind == "date" else None), spans
        if kind is None or not is_number(kind):
            what = "a value whose type is not known" if kind is None else kind
            hint = (
                "write CAST(… AS type) around it"
                if kind is None
                else "order by a number, a date or a timestamp"
            )
            raise self._build_error(spec, f"RANGE with an offset over {what}", hint)
        for node in offsets:
            if not _is_number(node):
                raise self._build_offset_error(node, "a number that is not negative")
        cast = self._widen_type(spec, kind, [node.name for node in offsets])
        return cast, [
            None if node is None else annotate(Cast(tree.Literal(node.name), cast), type=cast)
            for node in nodes
        ]

    def _widen_type(self, spec: exp.WindowSpec, kind: str, offsets: list[str]) -> str:
        """Return a type in which a value of the order plus an offset has all its digits."""
        if kind in ("float", "double"):
            return "double"
        if any("e" in text.lower() for text in offsets):
            raise self._build_error(spec, "an offset with an exponent", "write all digits")
        fraction = max(len(text.partition(".")[2]) for text in offsets)
        whole = max(len(text.partition(".")[0]) for text in offsets)
        precision, scale = (20, 0) if kind in INTEGRAL else decimal_digits(kind) or (38, 0)
        fraction = max(fraction, scale)
        if max(precision - scale, whole) + fraction > 38:
            hint = "CAST the order to a type of fewer digits"
            raise self._build_error(spec, f"an offset whose sum with {kind} has more than 38 digits", hint)
        return f"decimal(38,{fraction})"

    def _parse_days(self, node: exp.Expr) -> Expr:
        if node.name.isdigit() and int(node.name) <= _MOST_ROWS:
            return tree.Literal(node.name)
        raise self._build_offset_error(node, "a whole number of days, or an INTERVAL")

    def _parse_span(self, node: exp.Expr, kind: str) -> Expr:
        if isinstance(node, exp.Literal) and node.is_string and self.expressions.dialect != "spark":
            node = self._parse_interval(node)
        cast = isinstance(node, exp.Cast) and node.to.is_type("INTERVAL")
        constant = not any(isinstance(part, exp.Column) for part in walk_own_parts(node))
        negative = any(
            part.is_string and part.name.strip().startswith("-") for part in node.find_all(exp.Literal)
        )
        if not (cast or isinstance(node, exp.Interval)) or not constant or negative or node.find(exp.Neg):
            raise self._build_offset_error(
                node, f"an INTERVAL beside {kind}, a constant that is not negative"
            )
        to = "interval year to month" if has_months(node) else "interval day to second"
        return annotate(Cast(self.expressions.bind_scalar(node, "a window's frame"), to), type=to)

    def _parse_interval(self, text: exp.Literal) -> exp.Interval:
        try:
            return exp.to_interval(text.name)
        except (ParseError, AssertionError) as error:
            raise self._build_offset_error(text, "one INTERVAL of months, or of days and less") from error

    def _build_offset_error(self, node: exp.Expr, remedy: str) -> Exception:
        return self._build_error(node, f"{node.sql()[:60]} as an offset of a frame", f"write {remedy}")


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _build_end(side: str, unbounded: Side, offset: Expr | None) -> FrameEnd:
    if side == "CURRENT ROW":
        return FrameEnd("current row")
    return FrameEnd(
        unbounded if offset is None else "preceding" if side == "PRECEDING" else "following", offset
    )


def locate_end(end: FrameEnd) -> float | None:
    """Return where an end lies beside the current row, None if that is not certain."""
    if end.side == "current row":
        return 0
    sign = -1 if end.side == "preceding" else 1
    if end.offset is None:
        return sign * float("inf")
    value = end.offset.value if isinstance(end.offset, Cast) else end.offset
    return sign * float(value.text) if isinstance(value, tree.Literal) else None
