"""Texts in quotes that have no type of their own: PostgreSQL reads them as what they stand beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.datetimes.intervals import parse_interval
from engine.sql.dialects.postgres.nested.array_literals import build_spark_array
from engine.sql.dialects.postgres.nested.json_operators import read_document
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.parsing.location import copy_location
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.intervals import has_months, is_span
from engine.sql.typing.types import cast_type
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.typing.wrong_literals import is_text_literal

TypeOf = Callable[[exp.Expr], str | None]
_TWO_SIDED = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
_CAST = ("boolean", "date", "timestamp", "timestamp_ntz")
_PLAIN = {"int": 1 << 31, "bigint": 1 << 63}
_WHOLE = re.compile(r"\s*[+-]?\d{1,38}\s*")
_DECIMAL = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*")


def cast_operands(node: exp.Expr, type_of: TypeOf) -> None:
    """Give the texts among an expression's operands the type of the numbers beside them, in place.

    `n = '5'` -> `n = 5`, `COALESCE(d, '0')` -> `COALESCE(d, CAST('0' AS DOUBLE))`. A text that is no such number
    stays as it is: who checks operands tells it.
    """
    match node:
        case exp.Sub() if type_of(node.this) == "jsonb":
            return  # a key beside it
        case _ if isinstance(node, _TWO_SIDED):
            _unify_types([node.this, node.expression], type_of)
        case exp.ArrayContainsAll() | exp.ArrayContainedBy() | exp.ArrayOverlaps():
            _unify_types([node.this, node.expression], type_of)
        case exp.Between():
            _unify_types([node.this, node.args["low"], node.args["high"]], type_of)
        case exp.In() if not node.args.get("query"):
            _unify_types([node.this, *node.expressions], type_of)
        case exp.Coalesce():
            _unify_types([node.this, *node.expressions], type_of)
        case exp.Greatest() | exp.Least():
            _unify_types([node.this, *node.expressions], type_of)
        case exp.Nullif():
            _unify_types([node.this, node.expression], type_of)
        case exp.Case():
            values = [part.args["true"] for part in node.args["ifs"]]
            _unify_types([*values, node.args.get("default")], type_of)
            if node.this is not None:
                _unify_types([node.this, *(part.this for part in node.args["ifs"])], type_of)
        case exp.Values():
            rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
            for column in zip(*rows, strict=False):
                _unify_types(column, type_of)


def cast_rows(values: exp.Values | exp.Select, kinds: tuple[str, ...]) -> exp.Values | exp.Select:
    """Return VALUES that an INSERT writes into columns of some types, or one SELECT: texts in quotes are cast to these."""
    found = values.copy()
    for row in [found] if isinstance(found, exp.Select) else found.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple | exp.Select) else [row]
        if any(cell.is_star for cell in cells):
            continue
        for cell, kind in zip([cell.unalias() for cell in cells], kinds, strict=False):
            if is_text_literal(cell) and kind.startswith("array<"):
                cell.replace(build_spark_array(cell, kind))
            elif is_text_literal(cell) and kind.startswith("interval"):
                cell.replace(copy_location(_parse_span(cell.name), cell))
            elif is_text_literal(cell) and (is_number(kind) or kind in _CAST):
                cell.replace(copy_location(exp.Cast(this=cell.copy(), to=cast_type(kind)), cell))
    return found


def _parse_span(text: str) -> exp.Expr:
    found = parse_interval(text)
    if has_months(found):
        raise Untranslatable(
            f"the interval '{text}' in a column", "its columns hold days and less: write '30 days'"
        )
    return found


def cast_literal(literal: exp.Literal, kind: str) -> exp.Expr | None:
    """Return a text as the number of a type that it is read as, None if it is none or the type is no number's."""
    text = literal.name.strip()
    found: exp.Expr
    if kind in ("int", "bigint") and _WHOLE.fullmatch(text) and abs(int(text)) < _PLAIN[kind]:
        found = _build_number(text)
    elif kind in INTEGRAL and _WHOLE.fullmatch(text):
        found = exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect="spark"))
    elif kind in ("float", "double"):
        try:
            float(text)
        except ValueError:
            return None
        found = exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect="spark"))
    elif kind.startswith("decimal") and _DECIMAL.fullmatch(text):
        found = _build_number(text)
    else:
        return None
    return copy_location(found, literal)


def _build_number(text: str) -> exp.Expr:
    number = exp.Literal.number(text.lstrip("+-"))
    return exp.Neg(this=number) if text.startswith("-") else number


def _unify_types(parts: Iterable[exp.Expr | None], type_of: TypeOf) -> None:
    """Type the texts among parts that are to have one type by the numbers among them."""
    present = [part for part in parts if part is not None]
    texts = [part for part in present if isinstance(part, exp.Literal) and part.is_string]
    if not texts or len(texts) == len(present):
        return
    kinds = {
        type_of(part) for part in present if not isinstance(part, exp.Null) and not is_text_literal(part)
    }
    if kinds == {"jsonb"}:
        for text in texts:
            text.replace(copy_location(read_document(text, type_of), text))
        return
    if len(kinds) == 1 and (array := next(iter(kinds)) or "").startswith("array<"):
        for text in texts:
            text.replace(build_spark_array(text, array))
        return
    if any(is_span(part) for part in present) or {(kind or "")[:8] for kind in kinds} == {"interval"}:
        for text in texts:
            text.replace(copy_location(parse_interval(text.name), text))
        return
    if not kinds or not all(kind is not None and is_number(kind) for kind in kinds):
        return
    kind = _find_widest({kind for kind in kinds if kind is not None})
    for text in texts:
        found = cast_literal(text, kind)
        if found is not None:
            text.replace(found)


def _find_widest(kinds: set[str]) -> str:
    for wide in ("double", "float"):
        if wide in kinds:
            return wide
    return next((kind for kind in kinds if kind.startswith("decimal")), None) or max(
        kinds, key=INTEGRAL.index
    )
