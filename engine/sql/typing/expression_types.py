"""The type of a bound expression where it is certain, else None.

Only what must be known before Spark looks at the plan is found here: whether `/` divides integers, and whether two join keys
are of one type. Everything else is left to Spark's own analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.expression.nodes import Expr
from engine.sql.functions import find_function_name
from engine.sql.typing.intervals import has_months, is_span
from engine.sql.typing.json_types import get_mark, infer_concat_type, infer_json_type
from engine.sql.typing.types import decimal_digits, element_type, field_type, parse_sql_type
from engine.sql.typing.whole_numbers import DIGITS, INTEGRAL

_MOMENTS = ("timestamp", "timestamp_ntz")
MOST_UNSCALED = 18
"""Decimals of so many digits are numbers of 64 bits without their point."""
_LEAST = {str(2**31): "int", str(2**63): "bigint"}
"""The digits of constants that are of a type with their sign alone."""
_BY_NAME = {
    **dict.fromkeys(
        ("year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear", "quarter"), "int"
    ),
    **dict.fromkeys(
        ("hour", "minute", "second", "length", "char_length", "datediff", "size", "ascii"), "int"
    ),
    **dict.fromkeys(("count", "count_if", "unix_micros", "unix_seconds", "xxhash64"), "bigint"),
    **dict.fromkeys(("make_date", "date_add", "date_sub", "last_day", "add_months", "next_day"), "date"),
    **dict.fromkeys(("sqrt", "ln", "log", "log10", "exp", "pow", "power", "stddev", "variance"), "double"),
    **dict.fromkeys(
        ("md5", "sha2", "date_format", "get_json_object", "to_json", "hex", "from_unixtime"), "string"
    ),
    **dict.fromkeys(("bool_and", "bool_or", "every", "some", "any", "array_contains", "contains"), "boolean"),
    **dict.fromkeys(("regr_count", "approx_count_distinct", "bit_count", "crc32"), "bigint"),
    **dict.fromkeys(("locate", "instr", "position", "levenshtein", "cardinality"), "int"),
    **dict.fromkeys(
        ("regexp_extract", "regexp_replace", "lpad", "rpad", "repeat", "reverse", "translate"), "string"
    ),
    **dict.fromkeys(("sha1", "base64", "concat_ws", "array_join", "chr", "char", "overlay"), "string"),
    **dict.fromkeys(
        ("sin", "cos", "tan", "atan", "atan2", "cbrt", "radians", "degrees", "log2", "pi"), "double"
    ),
    **dict.fromkeys(("stddev_pop", "stddev_samp", "var_pop", "var_samp", "corr", "covar_pop"), "double"),
    **dict.fromkeys(
        ("covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy"), "double"
    ),
    "to_char": "string",
    **dict.fromkeys(("unhex", "unbase64", "to_binary"), "binary"),
    "make_time": "time(6)",
    "to_date": "date",
    "unix_timestamp": "bigint",
    "date_trunc": "timestamp",
}
_OF_TEXT = frozenset(
    (
        "upper", "lower", "trim", "ltrim", "rtrim", "substring", "substr", "concat", "replace", "initcap", "left",
        "right", "split_part",
    )
)  # fmt: skip
_OF_ARGUMENTS = frozenset(
    (
        "coalesce", "nullif", "greatest", "least", "min", "max", "ifnull", "nvl", "any_value", "abs", "max_by",
        "min_by", "first", "last", "mode",
    )
)  # fmt: skip


def get_expr_type(expr: Expr, types: Mapping[str, str]) -> str | None:
    """Return the type of a tree: the one that it carries, or that of the column that it is."""
    return expr.type or (types.get(expr.column) if expr.column is not None else None)


def infer_exact_type(node: exp.Expr, types: Mapping[str, str]) -> str | None:
    """Return the Spark type of an expression over bound columns, whose types stand in `types` under their names."""

    def infer_part(part: exp.Expr | None) -> str | None:
        return infer_exact_type(part, types) if part is not None else None

    if (marked := get_mark(node) or infer_json_type(node, infer_part)) is not None:
        return marked
    match node:
        case exp.Bracket() if len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice):
            return element_type(infer_part(node.this) or "")
        case exp.Dot():
            return field_type(infer_part(node.this) or "", node.expression.name)
        case exp.Neg(this=exp.Literal(is_string=False, name=digits)) if digits in _LEAST:
            return _LEAST[digits]
        case exp.Paren() | exp.Neg() | exp.Alias():
            return infer_part(node.this)
        case exp.Interval():
            return None
        case exp.Extract():
            return "decimal(8,6)" if node.name.upper() in ("SECOND", "SECONDS", "SEC", "S") else "int"
        case exp.Column():
            return types.get(node.name)
        case exp.Literal():
            return "string" if node.is_string else _infer_number(node.name)
        case exp.HexString():
            return "binary"
        case exp.Cast():
            return _parse_target(node)
        case exp.Case() | exp.If():
            return find_widest_type([infer_part(part) for part in _list_branches(node)])
        case exp.IntDiv():
            return "bigint"
        case exp.Div():
            return _infer_quotient(node, infer_part(node.this), infer_part(node.expression))
        case exp.Add() | exp.Sub():
            one, other = infer_part(node.this), infer_part(node.expression)
            if one == "jsonb" and isinstance(node, exp.Sub):
                return one
            if isinstance(node, exp.Sub) and one in _MOMENTS and other in (*_MOMENTS, "date"):
                return "interval day to second"
            if "date" in (one, other):
                return _infer_moved_date(node, one, other)
            if one in _MOMENTS and (has_months(node.expression) or _is_span(node.expression, other)):
                return one
            return _infer_decimal(node, (one, other)) or infer_arithmetic_type(one, other)
        case exp.Mul() | exp.Mod():
            kinds = infer_part(node.this), infer_part(node.expression)
            return _infer_decimal(node, kinds) or infer_arithmetic_type(*kinds)
        case exp.DateDiff(args={"unit": exp.Expr()}) | exp.TimestampDiff():
            return "bigint"
        case exp.TimestampAdd():
            moved = infer_part(node.this)
            return "timestamp" if moved == "date" else moved if moved in _MOMENTS else None
        case exp.Array():
            kind = _find_item_type(
                [infer_part(part) for part in node.expressions if not isinstance(part, exp.Null)]
            )
            return None if kind is None else f"array<{kind}>"
        case exp.DPipe():
            return infer_concat_type(node, infer_part(node.this), infer_part(node.expression))
        case exp.Boolean() | exp.Predicate() | exp.Connector() | exp.Not():
            return "boolean"
    return _infer_call(node, types)


def _infer_quotient(node: exp.Div, one: str | None, other: str | None) -> str | None:
    """Return the type of a quotient; PostgreSQL's of whole numbers, before it is translated, is one."""
    kinds = one, other
    if node.args.get("typed") and set(kinds) <= set(INTEGRAL):
        return find_widest_type(list(kinds))
    if None not in kinds and set(kinds) <= {*INTEGRAL, "double", "float"}:
        return "double"
    return _infer_decimal(node, kinds)


def _list_branches(node: exp.Case | exp.If) -> list[exp.Expr]:
    """Return what a CASE or an IF may give, but for nulls and errors."""
    if isinstance(node, exp.Case):
        found = [*(part.args["true"] for part in node.args["ifs"]), node.args.get("default")]
    else:
        found = [node.args.get("true"), node.args.get("false")]
    fails = [isinstance(part, exp.Anonymous) and part.name.lower() == "raise_error" for part in found]
    sound = [part for part, error in zip(found, fails, strict=True) if not error]
    return [part for part in sound if part is not None and not isinstance(part, exp.Null)]


def _is_span(node: exp.Expr, kind: str | None) -> bool:
    return is_span(node) or (kind or "").startswith("interval")


def infer_arithmetic_type(one: str | None, other: str | None) -> str | None:
    """Return the type of a sum, difference, product or remainder of two types, as Spark gives it."""
    if one in INTEGRAL and other in INTEGRAL:
        return max(one, other, key=INTEGRAL.index)
    if one == "double" and other in (*INTEGRAL, "double", "float"):
        return "double"
    return "double" if other == "double" and one in (*INTEGRAL, "float") else None


def _infer_decimal(node: exp.Binary, kinds: tuple[str | None, str | None]) -> str | None:
    """Return the type of arithmetic with a decimal, by the rules of Spark (those of SQL Server)."""
    if not any(kind is not None and kind.startswith("decimal") for kind in kinds):
        return None
    if any(kind in ("float", "double") for kind in kinds):
        return "double"
    sizes = [
        _measure_operand(part, kind) for part, kind in zip((node.this, node.expression), kinds, strict=True)
    ]
    one, other = sizes
    if one is None or other is None:
        return None
    (p1, s1), (p2, s2) = one, other
    match node:
        case exp.Add() | exp.Sub():
            scale = max(s1, s2)
            return _limit_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case exp.Mul():
            return _limit_decimal(p1 + p2 + 1, s1 + s2)
        case exp.Div():
            scale = max(6, s1 + p2 + 1)
            return _limit_decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return _limit_decimal(min(p1 - s1, p2 - s2) + scale, scale)


def find_operand_digits(node: exp.Expr, kind: str | None) -> tuple[int, int] | None:
    """Return precision and scale that an operand beside a decimal has, None if it is no number without exponent."""
    return _measure_operand(node, kind)


def _measure_operand(node: exp.Expr, kind: str | None) -> tuple[int, int] | None:
    """Return precision and scale of an operand beside a decimal; a whole literal takes the digits it has."""
    node = node.unnest()
    inner = node.this if isinstance(node, exp.Neg) else node
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit():
        return len(inner.name.lstrip("0")) or 1, 0
    return _find_digits(kind or "")


def _limit_decimal(precision: int, scale: int) -> str:
    """Return a decimal of at most 38 digits; whole digits are kept before those of the fraction beyond the sixth."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return f"decimal({precision},{scale})"


def _infer_moved_date(node: exp.Binary, one: str | None, other: str | None) -> str | None:
    if "int" in (one, other):
        return "date"
    interval = node.expression if one == "date" else node.this
    if isinstance(interval, exp.Interval) and interval.unit is not None:
        unit = interval.unit.name.upper().rstrip("S")
        return "date" if unit in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR") else "timestamp"
    return None


def infer_average_type(argument: str | None) -> str | None:
    """Return the type of the average of a column."""
    if (digits := decimal_digits(argument)) is not None:
        return _limit_decimal(digits[0] + 4, digits[1] + 4)
    return "double" if argument in (*INTEGRAL, "float", "double") else None


def is_number(kind: str) -> bool:
    """Tell whether a type is one of numbers."""
    return kind in (*INTEGRAL, "float", "double") or kind.startswith("decimal")


def find_widest_type(kinds: list[str | None]) -> str | None:
    """Return the type of branches of several types, or None if it is not certain."""
    found = kinds[0] if kinds else None
    for kind in kinds[1:]:
        if found is None or kind is None:
            return None
        found = find_wider_type(found, kind)
    return found


def infer_sum_type(argument: str | None) -> str | None:
    """Return the type of the sum of a column."""
    if argument in INTEGRAL:
        return "bigint"
    if (digits := decimal_digits(argument)) is not None:
        return f"decimal({min(38, digits[0] + 10)},{digits[1]})"
    return "double" if argument in ("float", "double") else None


def find_wider_type(one: str, other: str) -> str | None:
    """Return the type in which values of two types can be compared without loss, or None."""
    if one == other:
        return one
    if one in INTEGRAL and other in INTEGRAL:
        return max(one, other, key=INTEGRAL.index)
    pair = {one, other}
    if pair <= {"date", "timestamp", "timestamp_ntz"}:
        return "timestamp" if "timestamp" in pair else "timestamp_ntz"
    if pair & {"float", "double"}:
        return (
            "double"
            if _find_digits(one) is not None or _find_digits(other) is not None or pair == {"float", "double"}
            else None
        )
    mine, theirs = _find_digits(one), _find_digits(other)
    if mine is None or theirs is None:
        return None
    scale, whole = max(mine[1], theirs[1]), max(mine[0] - mine[1], theirs[0] - theirs[1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def find_unscaled_digits(kind: str) -> int | None:
    """Return how many digits behind the point a type has of which all values, without the point, are numbers of 64 bits."""
    found = _find_digits(kind)
    if found is None or (kind not in INTEGRAL and found[0] > MOST_UNSCALED):
        return None
    return found[1]


def _find_digits(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a number type without exponent."""
    whole = DIGITS.get(kind)
    return (whole, 0) if whole is not None else decimal_digits(kind)


def _infer_number(text: str) -> str | None:
    if text.isdigit():
        if len(text.lstrip("0")) > 19:
            return None
        return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else None
    if not text.replace(".", "", 1).isdigit():
        return "double" if "e" in text.lower() else None
    parts = Decimal(text).as_tuple()
    scale = -int(parts.exponent)
    return f"decimal({max(len(parts.digits), scale)},{scale})"


def _parse_target(node: exp.Cast) -> str | None:
    try:
        return parse_sql_type(node.to, "spark")
    except UnsupportedSql:
        return None


def _find_item_type(kinds: list[str | None]) -> str | None:
    """Return the type of an array's items: that of all of them, or the widest whole number."""
    if kinds and all(kind in INTEGRAL for kind in kinds):
        return find_widest_type(kinds)
    return _find_same_type(kinds)


def _find_same_type(kinds: list[str | None]) -> str | None:
    return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None


def _is_empty_array(node: exp.Expr) -> bool:
    return isinstance(node, exp.Array) and not node.expressions


def _infer_call(node: exp.Expr, types: Mapping[str, str]) -> str | None:
    name = find_function_name(node)
    if name is None:
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    arguments = [part for part in node.iter_expressions() if isinstance(part, exp.Expr)]
    empty = [part for part in arguments if isinstance(part, exp.Null) or _is_empty_array(part)]
    kinds = [infer_exact_type(part, types) for part in arguments if part not in empty]
    if name in ("row", "named_struct"):
        return _infer_row(name, arguments, types)
    if name in ("get", "element_at") and kinds:
        return element_type(kinds[0] or "")
    if name == "sequence" and kinds[:1] and kinds[0] in _MOMENTS:
        return f"array<{kinds[0]}>"
    if name in _OF_TEXT:
        return "string" if kinds and kinds[0] == "string" else None
    if name in ("round", "bround") and kinds and kinds[0] in (*INTEGRAL, "float", "double"):
        return kinds[0]
    if name in ("floor", "ceil") and len(kinds) == 1 and kinds[0] in (*INTEGRAL, "double"):
        return "bigint"
    if name in ("coalesce", "greatest", "least", "ifnull", "nvl"):
        return find_widest_type(kinds)
    if name in ("max_by", "min_by", "nullif", "mode"):
        return kinds[0] if kinds else None
    if name in _OF_ARGUMENTS:
        return _find_same_type(kinds)
    if name in ("avg", "mean"):
        return infer_average_type(kinds[0]) if kinds else None
    return infer_sum_type(kinds[0]) if name == "sum" and kinds else None


def _infer_row(name: str, arguments: list[exp.Expr], types: Mapping[str, str]) -> str | None:
    names = [f"f{n}" for n in range(1, len(arguments) + 1)]
    if name == "named_struct":
        names, arguments = [part.name for part in arguments[::2]], arguments[1::2]
    kinds = [infer_exact_type(part, types) for part in arguments]
    if not kinds or None in kinds:
        return None
    return f"struct<{','.join(f'{field}:{kind}' for field, kind in zip(names, kinds, strict=True))}>"


def infer_call_type(function: str, kinds: list[str | None]) -> str | None:
    """Return the type of an aggregate call by those of its arguments."""
    if function in ("avg", "mean") and kinds:
        return infer_average_type(kinds[0])
    if function == "sum" and len(kinds) == 1:
        return infer_sum_type(kinds[0])
    if function in ("min", "max", "any_value", "max_by", "min_by", "mode", "bit_and", "bit_or", "bit_xor"):
        return kinds[0] if kinds else None
    return _BY_NAME.get(function)
