"""Every function that tasks compute on Arrow, found by asking the compiler, over the edge values of the types that it takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from engine.operators.arrow.compiler import Compiler
from engine.operators.arrow.expressions import Value
from engine.operators.arrow.folds import GroupBy
from engine.operators.arrow.over_windows import ArrowCall, compile_call
from engine.operators.lookups.scan import derive_spark_schema
from engine.sql.expression.nodes import (
    NULL,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expr,
    In,
    Interval,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Not,
    Or,
    Unary,
    Word,
)
from engine.sql.functions import AMONG_PEERS, NON_DETERMINISTIC, WINDOW_FUNCTIONS, load_spark_functions
from engine.sql.window_calls import Frame, FrameEnd, SortKey, WindowCall

_DAY = 86_400_000_000
_YEAR_1, _YEAR_10000 = -719_162, 2_932_897
_DAYS = (0, -1, _YEAR_1, _YEAR_1 - 1, _YEAR_10000 - 1, _YEAR_10000, 19_782, -141_428, 11_248_738)
_MOMENTS = (
    *(0, -1, _YEAR_1 * _DAY, _YEAR_1 * _DAY - 1, _YEAR_10000 * _DAY - 1, _YEAR_10000 * _DAY),
    *(19_783 * _DAY - 1, 1_730_611_800_000_000, 1_710_055_800_000_000, 11_248_738 * _DAY, -12_219_292_800_000_000),
)  # fmt: skip
_FLOATS = (0.0, -0.0, 1.5, -1.0, float("inf"), float("-inf"), float("nan"))


_TEXTS = ("-12", "0001-01-01 23:59:59.25", "b%a_\\\nc", "\tİß  ")


def _ends(bits: int) -> tuple[int, int]:
    return -(1 << bits - 1), (1 << bits - 1) - 1


_CORNERS = ((1, 0), (5, 2), (10, 2), (9, 9), (18, 6), (38, 0), (38, 18), (38, 38))
"""Precisions and scales of decimals."""


def _decimals(precision: int, scale: int) -> tuple[Decimal, ...]:
    """Return the ends of a type, zero, its least unit, and numbers about a tie of rounding."""
    most, half = 10**precision - 1, 5 * 10 ** max(0, scale - 1)
    units = (most, -most, 0, 1, -half, half - 1 if half > 5 else 7, most // 3)
    with localcontext(Context(prec=100)):
        return tuple(Decimal(unit).scaleb(-scale) for unit in units)


EDGES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "tinyint": (pa.int8(), (*_ends(8), 0, 1, -1, 7)),
    "smallint": (pa.int16(), (*_ends(16), 0, 1, -1, 7)),
    "int": (pa.int32(), (*_ends(32), 0, 1, -1, 7, 9999, 10_000, 29, 1582)),
    "bigint": (pa.int64(), (*_ends(64), 0, 1, -1, 7, 1 << 31, (1 << 53) + 1, -(1 << 62), (1 << 62) + 513)),
    "boolean": (pa.bool_(), (True, False)),
    "date": (pa.date32(), (*_ends(32), *_DAYS)),
    "timestamp": (pa.timestamp("us", "UTC"), (*_ends(64), *_MOMENTS)),
    "timestamp_ntz": (pa.timestamp("us"), (*_ends(64), *_MOMENTS)),
    "string": (pa.string(), ("", "a", "A", "ü", "\U0001f600", "\uffff", "a\x00", " a", "2024-02-29", *_TEXTS)),
    "double": (pa.float64(), (*_FLOATS, 5e-324, 1.7976931348623157e308, 1e16, 0.1, 0.0625, 1.0005)),
    "float": (pa.float32(), (*_FLOATS, 1e-45, 3.4e38)),
    "binary": (pa.binary(), (b"", b"\x00", b"\xff", b"a")),
    **{f"decimal({p},{s})": (pa.decimal128(p, s), _decimals(p, s)) for p, s in _CORNERS},
}  # fmt: skip
"""By Spark's name of a type: Arrow's, and its edge values, times as numbers; null is another one of each."""
MOST = 1 + max(len(values) for _, values in EDGES.values())
ROWS = MOST * MOST
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_WORDS = (Literal("0"), Literal("3"), Literal("63"), Literal("MONTH", "string"))
_PATTERNS = (
    "a%",
    "%a",
    "%a%",
    "a",
    "",
    "%",
    "_",
    "__%",
    "%\\%%",
    "a\\_%",
    "%0_-%",
    "[a]%",
    "%.",
    "ü",
    "_a",
    "%\n_",
    "%%",
)
_UNITS = (
    *("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"),
    *("MONTH", "QUARTER", "YEAR", "DD", "MM", "MON", "YY", "YYYY"),
)
_CONSTANT_TEXTS = {
    "date": ("2024-02-29", "0001-01-01", "9999-12-31", "2023-02-29"),
    "timestamp": ("2024-02-29", "2024-02-29 01:02:03", "1969-12-31 23:59:59.9", "1582-10-10T00:00:00.123456"),
    "timestamp_ntz": ("2024-02-29 01:02:03.5", "0001-01-01 00:00:00"),
    "int": ("12", "-12", "2147483648"),
    "double": ("1.5", "-0", "0.1", "123456789012345678901234567890"),
    "boolean": ("true", "false"),
}
_NUMBERS: tuple[Expr, ...] = (
    *(
        Literal("0"),
        Literal("100"),
        Literal("7", "bigint"),
        Literal("12", "smallint"),
        Literal("7", "tinyint"),
    ),
    *(
        Literal("1.5"),
        Literal("0.00"),
        Unary("-", Literal("3")),
        Unary("-", Literal("0.7")),
        Literal("9223372036854775808"),
    ),
)
"""Constants, which have beside decimals the digits that are written."""
_OPERATORS = ("+", "-", "*", "/", "%", "DIV", "||", "&", "|", "^", "<<", ">>", ">>>")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@cache
def rows() -> pa.Table:
    """Return a row for each pair of edge values: columns `a:TYPE` and `b:TYPE`, and in `c:TYPE` others; `id` numbers them."""
    columns: dict[str, pa.Array[Any]] = {"id": pa.array(range(ROWS), pa.int64())}
    columns["g"] = pa.array([n % 7 for n in range(ROWS)], pa.int32())
    for name, (kind, values) in EDGES.items():
        each = array((None, *values), kind)
        places = {"a": np.arange(ROWS) // MOST, "b": np.arange(ROWS) % MOST}
        places["c"] = places["a"] * 5 + places["b"] * 3
        for column, place in places.items():
            columns[f"{column}:{name}"] = each.take(pa.array(place % len(each)))
        if name in _WHOLE:
            columns[f"small:{name}"] = pa.array([n * 37 % 23 - 11 for n in range(ROWS)], kind)
    return pa.table(columns)


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return values as an array; dates and times are given as numbers."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def compiler() -> Compiler:
    """Return the compiler over the columns of `rows`."""
    return Compiler(StructType(derive_spark_schema(rows().schema).fields), lambda: True)


@dataclass(frozen=True)
class Kernel:
    """An expression that Arrow computes: `name` says by which function, or word, it was found."""

    name: str
    expr: Expr
    value: Value


def kernels() -> list[Kernel]:
    """Return every expression of one step, over each type, that Arrow computes."""
    known, found = compiler(), []
    for name, expr in _expressions():
        value = known.compile_value(expr)
        if value is not None:
            found.append(Kernel(name, expr, value))
    return found


def one_of_each(found: Sequence[Kernel]) -> list[Kernel]:
    """Return one kernel for each name and type of its first column, so that each function meets each type."""
    firsts = {(each.name, next(iter(each.expr.columns), "")): each for each in reversed(found)}
    return list(firsts.values())


def _expressions() -> Iterator[tuple[str, Expr]]:
    of = {side: {kind: Column(f"{side}:{kind}") for kind in EDGES} for side in "abc"}
    a, b, c = of["a"], of["b"], of["c"]
    pairs = [
        (one, other)
        for one in EDGES
        for other in EDGES
        if one == other or {one, other} <= {*_WHOLE, "double"}
    ]
    decimals = [kind for kind in EDGES if kind.startswith("decimal")]
    mixed = [
        (one, other)
        for one in EDGES
        for other in EDGES
        if one != other and {one, other} & {*decimals} and {one, other} <= {*decimals, *_WHOLE, "double"}
    ]
    for kind in EDGES:
        yield "column", a[kind]
        yield "is null", IsNull(a[kind])
        yield "not", Not(a[kind])
        yield "case", Case(((a["boolean"], b[kind]), (b["boolean"], c[kind])))
        yield "case of", Case(((a[kind], b[kind]),), c[kind], a["boolean"])
        for sign in ("-", "+", "~"):
            yield f"unary {sign}", Unary(sign, a[kind])
        for to, attempt in itertools.product(EDGES, (False, True)):
            yield f"cast to {to}", Cast(a[kind], to, attempt)
    for one, other in (*pairs, *mixed):
        for operator in _OPERATORS:
            yield operator, Arithmetic(operator, (a[one], b[other]))
        for operator in _COMPARISONS:
            yield operator, Comparison(operator, a[one], b[other])
    yield from _predicates(a, b, c)
    yield from _calls_with_words(a, b, c)
    for one, other in mixed:
        yield "case", Case(((a["boolean"], a[one]),), b[other])
        for name in ("coalesce", "greatest", "least", "nullif"):
            yield name, Call(name, (a[one], b[other]))
    for kind, word in itertools.product(decimals, _NUMBERS):
        for operator in _OPERATORS:
            yield f"{operator} constant", Arithmetic(operator, (a[kind], word))
            yield f"constant {operator}", Arithmetic(operator, (word, a[kind]))
        yield from (
            (f"{operator} constant", Comparison(operator, a[kind], word)) for operator in _COMPARISONS
        )
        yield "coalesce constant", Call("coalesce", (a[kind], word))
    yield "and", And((a["boolean"], b["boolean"], c["boolean"]))
    yield "or", Or((a["boolean"], b["boolean"], c["boolean"]))
    named = [
        name
        for name, kind in load_spark_functions().items()
        if kind == "scalar" and name not in NON_DETERMINISTIC
    ]
    for name in (*named, "if", "coalesce"):
        for kind in EDGES:
            yield name, Call(name, (a[kind],))
            yield name, Call(name, (a[kind], b[kind], c[kind]))
            yield name, Call(name, (a["boolean"], b[kind], c[kind]))
            yield from ((name, Call(name, (a[kind], word))) for word in _WORDS)
            yield from ((name, Call(name, (word, a[kind]))) for word in _WORDS)
        for one, other in pairs:
            yield name, Call(name, (a[one], b[other]))


def _constants(kind: str) -> list[Expr]:
    """Return some edge values of a type as constants."""
    values = [value for value in EDGES[kind][1] if kind in _WHOLE or kind in ("string", "boolean")]
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return [Cast(Literal(text, "string"), kind) for text in ("2024-02-29", "0001-01-01", "9999-12-31")]
    if kind == "double":
        return [Literal("0.0", "double"), Literal("1.5", "double")]
    if kind in ("string", "boolean"):
        return [Literal(str(value).upper() if kind == "boolean" else value, kind) for value in values]
    return [Literal(str(value), kind if kind != "int" else "number") for value in values if value >= 0]


def _predicates(*of: dict[str, Expr]) -> Iterator[tuple[str, Expr]]:
    a, b, c = of
    for kind in EDGES:
        yield "in", In(a[kind], (b[kind], c[kind]))
        yield "in with null", In(a[kind], (b[kind], NULL))
        yield "between", Between(a[kind], b[kind], c[kind])
        yield "is true", IsTruth(a[kind])
        yield "is false", IsTruth(a[kind], False)
        yield "= null", Comparison("=", a[kind], NULL)
        yield "<=> null", Comparison("<=>", NULL, a[kind])
        yield "nullif", Call("nullif", (a[kind], Literal("0")))
        yield "coalesce null", Call("coalesce", (NULL, a[kind]))
        constants = tuple(_constants(kind)[:7])
        if constants:
            yield "in constants", In(a[kind], constants)
            yield "in constants and null", In(a[kind], (*constants[:2], NULL))
            yield "not in constants", Not(In(a[kind], constants))
        for constant, operator in itertools.product(constants[:3], _COMPARISONS):
            yield f"{operator} constant", Comparison(operator, a[kind], constant)
    for one, other in itertools.permutations(("date", "timestamp", "timestamp_ntz", "string"), 2):
        for operator in ("=", "<", "<=>"):
            yield f"{operator} of times", Comparison(operator, a[one], b[other])
    for pattern in _PATTERNS:
        yield "like", Like(a["string"], Literal(pattern, "string"))
        yield "not like", Not(Like(a["string"], Literal(pattern, "string")))


def _calls_with_words(*of: dict[str, Expr]) -> Iterator[tuple[str, Expr]]:
    a, b, c = of
    times = ("date", "timestamp", "timestamp_ntz")
    for kind in times:
        for unit in _UNITS:
            for name in (unit, f"{unit}S"):
                for amount in (Literal("1"), Literal("-40", "string"), Unary("-", Literal("1000000"))):
                    yield f"+ {unit}", Arithmetic("+", (a[kind], Interval(amount, name)))
                    yield f"- {unit}", Arithmetic("-", (a[kind], Interval(amount, name)))
            word = Literal(unit.lower(), "string")
            yield f"date_trunc {unit}", Call("date_trunc", (word, a[kind]))
            yield f"trunc {unit}", Call("trunc", (a[kind], word))
        for text in ("1 day 2 hours", "-3 days", "2 years 1 month", "1 week"):
            yield "+ text", Arithmetic("+", (a[kind], Interval(Literal(text, "string"))))
        for part in (
            "YEAR",
            "QUARTER",
            "MONTH",
            "WEEK",
            "DAY",
            "DOW",
            "DOY",
            "DOW_ISO",
            "YEAROFWEEK",
            "HOUR",
            "MINUTE",
        ):
            yield f"extract {part}", Call("extract", (Word(part), a[kind]))
            yield f"date_part {part}", Call("date_part", (Literal(part.lower(), "string"), a[kind]))
        for other in _WHOLE:
            for name in ("date_add", "date_sub", "add_months"):
                yield name, Call(name, (a[kind], b[other]))
                yield name, Call(name, (a[kind], Column(f"small:{other}")))
            yield "days +", Arithmetic("+", (a[kind], b[other]))
            yield "days -", Arithmetic("-", (a[kind], Column(f"small:{other}")))
    text = a["string"]
    for name in ("substring", "left", "right", "lpad", "rpad", "repeat", "split_part"):
        for count in (
            Column("small:int"),
            b["tinyint"],
            b["int"],
            Literal("0"),
            Literal("2"),
            Unary("-", Literal("2")),
        ):
            yield name, Call(name, (text, count))
            yield name, Call(name, (text, Column("small:smallint"), count))
            yield name, Call(name, (text, Literal("2"), count))
            yield name, Call(name, (text, count, b["string"]))
            yield name, Call(name, (text, count, Literal("xy", "string")))
            yield name, Call(name, (text, b["string"], count))
            yield name, Call(name, (text, Literal("a", "string"), count))
    for old, new in itertools.product(("a", "", "-0", "ü"), ("", "xyz")):
        words = (Literal(old, "string"), Literal(new, "string"))
        yield "replace", Call("replace", (text, *words))
        for name in ("replace", "startswith", "endswith", "contains", "instr"):
            yield name, Call(name, (text, words[0]))
        yield "concat_ws", Call("concat_ws", (words[1], text, b["string"], c["string"]))
    for kind in EDGES:
        yield "|| of types", Arithmetic("||", (text, a[kind], b[kind]))
        yield "concat of types", Call("concat", (a[kind], b["string"]))
    for bits in ("0", "224", "256", "384", "512", "1"):
        yield "sha2", Call("sha2", (text, Literal(bits)))
    for kind, form in itertools.product(
        times, ("yyyy-MM-dd", "yyyyMM", "dd.MM.yyyy HH:mm:ss", "HH_mm", "yyyy/MM,dd")
    ):
        yield "date_format", Call("date_format", (a[kind], Literal(form, "string")))
    for side, characters in itertools.product(("BOTH", "LEADING", "TRAILING"), (" ", "a ", "2-")):
        yield "trim", Call("trim", (Word(side), Literal(characters, "string"), text))
    for kind, words in _CONSTANT_TEXTS.items():
        yield from ((f"constant {kind}", Cast(Literal(word, "string"), kind)) for word in words)


# ---- folds of groups ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FoldKernel:
    """An aggregate of the rows with one number `g` that Arrow computes."""

    expr: Call
    body: GroupBy


def fold_kernels() -> list[FoldKernel]:
    """Return every aggregate, over each type, that Arrow computes."""
    known, found = compiler(), []
    for name in (name for name, kind in load_spark_functions().items() if kind == "aggregate"):
        columns = [f"a:{kind}" for kind in EDGES] + [f"small:{kind}" for kind in _WHOLE]
        for arguments in [(), *((Column(column),) for column in columns)]:
            expr = Call(name, arguments)
            grouped = known.compile_groups([("g", Column("g"))], [("r", expr)])
            if grouped is not None:
                found.append(FoldKernel(expr, grouped[0]))
    return found


# ---- calls over windows ------------------------------------------------------------------------------------------
_CURRENT = FrameEnd("current row")
_FRAMES = (
    Frame("rows", FrameEnd("preceding"), FrameEnd("following")),
    Frame("range", FrameEnd("preceding"), _CURRENT),
    Frame("rows", FrameEnd("preceding", Literal("1")), FrameEnd("following", Literal("2"))),
)


def window_calls(whole: bool) -> list[tuple[WindowCall, ArrowCall]]:
    """Return calls over windows that Arrow computes: of each function over each type, and of orders by each type.

    With `whole` it is each function over each type, in each frame.
    """
    known, found = compiler(), []
    names = [
        *WINDOW_FUNCTIONS,
        *(name for name, kind in load_spark_functions().items() if kind == "aggregate"),
    ]
    orders = [SortKey(f"b:{kind}", False, True) for kind in EDGES]
    orders += [SortKey(f"b:{kind}", True, False) for kind in EDGES] if whole else []
    made = itertools.count()

    def add(expr: Call, order: tuple[SortKey, ...], frame: Frame | None) -> None:
        call = WindowCall(f"w{next(made)}", expr, order, frame)
        arrow = compile_call(call, ("id",), known)
        if arrow is not None:
            found.append((call, arrow))

    for order in orders:
        for name in ("row_number", "rank", "dense_rank"):
            add(Call(name), (order,), None)
        add(Call("lag", (Column("id"),)), (order,), None)
    by = (SortKey("small:int"),)
    columns = [f"a:{kind}" for kind in EDGES] + [f"small:{kind}" for kind in _WHOLE]
    for name in names:
        places = name in AMONG_PEERS or name == "row_number"  # which take no argument
        for arguments in [(), *((Column(column),) for column in columns if not places)]:
            frames = (None,) if places or name in ("lag", "lead") else _FRAMES if whole else _FRAMES[2:]
            for frame in frames:
                add(Call(name, arguments), by, frame)
    return found
