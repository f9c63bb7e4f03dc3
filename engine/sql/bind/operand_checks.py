"""Type clashes inside operators and known functions, found where the types are certain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlglot.expressions as exp

from engine.sql.bind.scope import Scope
from engine.sql.expression.nodes import Expr
from engine.sql.typing.expression_types import get_expr_type, infer_exact_type, is_number
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.typing.wrong_literals import MOMENTS, describe_wrong, is_text_literal, is_wrong_literal

_NUMERIC = (
    *("sum", "avg", "mean", "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp"),
    *("median", "skewness", "kurtosis", "corr", "covar_pop", "covar_samp"),
)
_NUMERIC_SCALAR = (
    "sqrt",
    "ln",
    "exp",
    "abs",
    "floor",
    "ceil",
    "round",
    "bround",
    "power",
    "sign",
    "log10",
    "cbrt",
)
_OF_TIMES = ("hour", "minute", "second")
_BOOLEAN = ("bool_and", "bool_or", "every", "some", "any", "count_if")
_BITS = ("bit_and", "bit_or", "bit_xor")
_OF_MOMENTS = ("year", "month", "quarter", "hour", "minute", "second", "dayofweek", "dayofyear", "weekofyear")
_NESTED = ("array<", "map<", "struct<")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


class OperandChecker:
    """Checks the operands of one SELECT; raises SqlError at the place of the expression.

    A `lenient` dialect casts texts to what they are compared or computed with.
    """

    def __init__(self, scope: Scope, types: Mapping[str, str], lenient: bool) -> None:
        self.scope, self.types, self.lenient = scope, types, lenient

    def check_aggregate(self, name: str, arguments: Sequence[Expr], node: exp.Expr) -> None:
        """Check an aggregate's arguments."""
        for argument in arguments:
            kind = get_expr_type(argument, self.types)
            if kind is None:
                continue
            expected = None if self.lenient and kind == "string" else self._describe_wanted(name, kind)
            if expected:
                message = f"{name} takes {expected}, not {kind}"
                raise self.scope.build_error(
                    message, node, f"CAST the argument, for example {name}(CAST(x AS …))"
                )

    def _describe_wanted(self, name: str, kind: str) -> str | None:
        if name in _NUMERIC and not is_number(kind) and not kind.startswith("interval"):
            return "numbers"
        if name in _BOOLEAN and kind != "boolean":
            return "conditions"
        if name in _BITS and kind not in INTEGRAL:
            return "whole numbers"
        if name in ("min", "max") and kind.startswith("map<"):
            return "values that have an order"
        return None

    def check(self, tree: exp.Expr, at: exp.Expr) -> None:
        """Check every operator and known function of a bound expression that stands at `at`."""
        for part in tree.walk():
            message = self._find_clash(part)
            if message is not None:
                raise self.scope.build_error(message[0], part if "start" in part.meta else at, message[1])

    def _find_clash(self, part: exp.Expr) -> tuple[str, str] | None:
        match part:
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self._check_arithmetic(part)
            case exp.And() | exp.Or():
                for side in (part.this, part.expression):
                    kind = self._infer_type(side)
                    if kind not in (None, "boolean", "void"):
                        return f"{part.key.upper()} joins conditions, not {kind}", "compare it with a value"
            case exp.Not():
                kind = self._infer_type(part.this)
                if kind not in (None, "boolean", "void"):
                    return f"NOT negates a condition, not {kind}", "compare it with a value"
            case exp.Like() | exp.ILike() | exp.RegexpLike():
                kind = self._infer_type(part.this)
                if kind not in (None, "string", "void", "binary"):
                    return f"a pattern is compared with text, not {kind}", "CAST it to a text"
            case exp.In() if not part.args.get("query"):
                return self._find_first_clash((part.this, each) for each in part.expressions)
            case exp.Between():
                return self._find_first_clash((part.this, part.args[end]) for end in ("low", "high"))
            case exp.Case():
                return self._check_alike(
                    [*(one.args["true"] for one in part.args["ifs"]), part.args.get("default")], "CASE"
                )
            case exp.If():
                return (
                    None
                    if isinstance(part.parent, exp.Case)
                    else self._check_alike([part.args["true"], part.args.get("false")], "IF")
                )
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                return self._check_alike([part.this, *part.expressions], part.key.upper())
        if isinstance(part, _COMPARISONS) and not isinstance(part.expression, exp.Any | exp.All):
            return self._check_comparison(part.this, part.expression)
        return self._check_function(part)

    def _find_first_clash(self, pairs: Iterable[tuple[exp.Expr, exp.Expr]]) -> tuple[str, str] | None:
        return next((clash for pair in pairs if (clash := self._check_comparison(*pair)) is not None), None)

    def _infer_type(self, node: exp.Expr) -> str | None:
        return None if isinstance(node, exp.Null) else infer_exact_type(node, self.types)

    def _check_arithmetic(self, part: exp.Binary) -> tuple[str, str] | None:
        kinds = [self._infer_type(side) for side in (part.this, part.expression)]
        sides = (part.this, part.expression)
        if any(isinstance(side, exp.Interval) for side in sides):
            return next(
                (describe_wrong(side, "timestamp") for side in sides if is_wrong_literal(side, "timestamp")),
                None,
            )
        for kind in kinds:
            if kind == "boolean" or (kind or "").startswith(_NESTED):
                return f"arithmetic with {kind}", "CAST it to a number"
        if "string" in kinds and not self.lenient and not any(is_text_literal(side) for side in sides):
            return f"arithmetic with a text ({kinds[0]} and {kinds[1]})", "CAST it to a number"
        for side, other in ((sides[0], kinds[1]), (sides[1], kinds[0])):
            if other is not None and is_number(other) and is_wrong_literal(side, other):
                return describe_wrong(side, other)
        moments = [kind for kind in kinds if kind in MOMENTS]
        if len(moments) == 2 and not isinstance(part, exp.Sub):
            return (
                f"{moments[0]} and {moments[1]} can only be subtracted",
                "add a number of days or an INTERVAL",
            )
        if moments and isinstance(part, exp.Mul | exp.Div | exp.Mod | exp.IntDiv):
            return f"arithmetic with {moments[0]}", "add a number of days or an INTERVAL"
        other = next((kind for kind in kinds if kind not in MOMENTS), None)
        days = moments == ["date"] and other in ("tinyint", "smallint", "int")
        if moments and other is not None and is_number(other) and not days:
            return f"{moments[0]} plus {other}", "add an INTERVAL, for example INTERVAL '1' DAY"
        return None

    def _check_comparison(self, left: exp.Expr, right: exp.Expr) -> tuple[str, str] | None:
        one, other = self._infer_type(left), self._infer_type(right)
        if one is None or other is None or _is_comparable(one, other):
            return None
        for side, kind in ((left, other), (right, one)):
            if is_text_literal(side):
                return describe_wrong(side, kind) if is_wrong_literal(side, kind) else None
        if self.lenient and "string" in (one, other):
            return None
        return f"a comparison of {one} with {other}", "CAST one side to the other's type"

    def _check_alike(self, values: Sequence[exp.Expr | None], word: str) -> tuple[str, str] | None:
        """Return what is wrong with values of which one is the result, if two of them are of no common type.

        A text in quotes is of the type of the others.
        """
        typed = [
            (value, kind)
            for value in values
            if value is not None and (kind := self._infer_type(value)) is not None
        ]
        for n, (value, kind) in enumerate(typed):
            for other, its in typed[:n]:
                quoted = [one for one in ((value, its), (other, kind)) if is_text_literal(one[0])]
                if quoted:
                    if is_wrong_literal(*quoted[0]):
                        return describe_wrong(*quoted[0])
                elif are_incompatible(its, kind, lenient=self.lenient):
                    return f"{word} gives {its} and {kind}", "CAST one of them to the other's type"
        return None

    def _check_function(self, part: exp.Expr) -> tuple[str, str] | None:
        if not isinstance(part, exp.Func) or isinstance(part, exp.AggFunc):
            return None
        name = part.sql_name().lower() if not isinstance(part, exp.Anonymous) else part.name.lower()
        argument = next(iter(part.iter_expressions()), None)
        kind = self._infer_type(argument) if isinstance(argument, exp.Expr) else None
        if kind is None or (argument is not None and is_text_literal(argument)):
            return None
        if kind == "string" and self.lenient:
            return None
        if name in _NUMERIC_SCALAR and not is_number(kind) and not kind.startswith("interval"):
            return f"{name} takes a number, not {kind}", "CAST the argument to a number"
        of_time = name in _OF_TIMES and kind.startswith("time(")
        if name in _OF_MOMENTS and kind not in (*MOMENTS, "string") and not of_time:
            return f"{name} takes a date or a timestamp, not {kind}", "CAST the argument to a date"
        return None


def _is_comparable(one: str, other: str) -> bool:
    if one == other or (is_number(one) and is_number(other)):
        return True
    if one in MOMENTS and other in MOMENTS:
        return True
    return one.startswith(_NESTED) and other.startswith(_NESTED) and one.split("<")[0] == other.split("<")[0]


def are_incompatible(one: str | None, other: str | None, *, lenient: bool = True) -> bool:
    """Tell whether two types certainly have no type in common.

    In a `lenient` dialect, which is Spark's, a text may be any value but a nested one.
    """
    if one is None or other is None or "void" in (one, other) or _is_comparable(one, other):
        return False
    nested = any(kind.startswith(_NESTED) for kind in (one, other))
    plain = ("boolean", "time(6)", *MOMENTS) if lenient else ("boolean", "time(6)", "string", *MOMENTS)
    return nested or all(is_number(kind) or kind in plain for kind in (one, other))
