"""Values that tasks compute on Arrow, of rows and of groups of rows, to the bits that Spark would give.

What cannot be computed exactly on the values at hand (an overflow) raises Inexact in the task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from engine.arrow import as_values, intersect_masks, make_nulls, repeat_value, to_mask, to_positions
from engine.operators.arrow.decimals import DECIMAL_FUNCTIONS, FAILING, compute_decimals
from engine.operators.arrow.whole_numbers import WIDTHS
from engine.spark_internals import derive_arrow_type

MARK = "TIDELINE_INEXACT"
_KINDS = (
    *WIDTHS,
    BooleanType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    StringType(),
    DoubleType(),
)
ARROW_TYPES: dict[DataType, pa.DataType] = {kind: derive_arrow_type(kind) for kind in _KINDS}
_FEW_ROWS = 10_000
"""Of so many rows all branches are computed sooner than rows are parted."""
_LARGEST = float(2**63 - 2**12)
_MAY_FAIL = FAILING | {
    *("add_checked", "subtract_checked", "multiply_checked", "negate_checked", "divide", "make_date")
}
"""Functions that are computed of no row but those that ask for their value."""


def find_arrow_type(kind: DataType) -> pa.DataType | None:
    """Return the Arrow type of a type of which values are computed here, None for another one."""
    return derive_arrow_type(kind) if isinstance(kind, DecimalType) else ARROW_TYPES.get(kind)


class Inexact(ArithmeticError):
    """The values at hand cannot be computed here as Spark does; MARK in its text tells the driver."""

    def __init__(self, why: object) -> None:
        super().__init__(f"{MARK}: {why}")


@dataclass(frozen=True)
class Kernel:
    """A function of arrays that a module has under a name of its own, and what it takes behind them."""

    apply: Callable[..., pa.Array[Any]]
    options: tuple[Any, ...] = ()
    may_fail: bool = False


Memo: TypeAlias = "dict[int, pa.Array[Any] | None]"
"""Of the rows of a batch the values that are used more than once, by the ids of their objects; None before they are asked for."""


@dataclass(frozen=True)
class Value:
    """A typed expression: a column by name, a constant, or a function of other values: its `kernel`, one of `_OWN` or pyarrow's.

    "bind" is its second argument over the rows with its first as a further column of that name.
    The arguments of "if" are any number of tests, each before its value, and the value where none holds: a task's body goes
    to it pickled, which ends at some hundred levels.
    """

    kind: DataType
    function: str
    arguments: tuple[Value, ...] = ()
    name: str = ""
    constant: int | float | bool | str | Decimal | None = None
    kernel: Kernel | None = None

    def evaluate(self, batch: pa.RecordBatch, memo: Memo | None = None) -> pa.Array[Any]:
        """Return the value of each row of a batch; raises Inexact. What `memo` names is computed once, and kept there."""
        if self.function == "column":
            return batch.column(self.name)
        if memo is None or id(self) not in memo:
            return self._compute(batch, memo)
        found = memo[id(self)]
        if found is None:
            found = memo[id(self)] = self._compute(batch, memo)
        return found

    def _compute(self, batch: pa.RecordBatch, memo: Memo | None) -> pa.Array[Any]:
        if self.function == "constant":
            return repeat_value(self._scalar, batch.num_rows)
        if self.function == "bind":
            given, body = self.arguments
            wider = batch.append_column(self.name, given.evaluate(batch, memo))
            return body.evaluate(wider, _forget_results(memo))
        if self.function == "if" and any(argument.may_fail for argument in self.arguments[1:]):
            return _choose_branch(self.arguments, batch, memo)
        if self.function in _SETTLED and any(argument.may_fail for argument in self.arguments[1:]):
            return _combine_parts(self.function, self.arguments, batch, memo)
        operands = [argument.evaluate(batch, memo) for argument in self.arguments]
        try:
            if self.kernel is not None:
                return self.kernel.apply(*operands, *self.kernel.options)
            if self.function == "cast":
                rounds = isinstance(self.kind, DoubleType)  # to the nearest even one, as Java does
                return operands[0].cast(self._arrow_type, safe=not rounds)
            if self.function in DECIMAL_FUNCTIONS:
                return compute_decimals(self.function, self.kind, operands)
            function = _OWN.get(self.function) or getattr(pc, self.function)
            return function(*operands)
        except Inexact:
            raise
        except (
            pa.ArrowException,
            ArithmeticError,
            UnicodeError,
        ) as error:  # an overflow, a type that Arrow has no kernel for, or a text of bytes that are no letters
            raise Inexact(error) from error

    @cached_property
    def _arrow_type(self) -> pa.DataType | None:
        return find_arrow_type(self.kind)

    @cached_property
    def _scalar(self) -> pa.Scalar[Any]:
        return pa.scalar(self.constant, self._arrow_type)

    @cached_property
    def may_fail(self) -> bool:
        """Whether there are rows of which it has no value."""
        fails = self.function in _MAY_FAIL or (self.kernel is not None and self.kernel.may_fail)
        return fails or any(argument.may_fail for argument in self.arguments)


def _forget_results(memo: Memo | None) -> Memo | None:
    """Return what is to be computed once of other rows."""
    return None if memo is None else dict.fromkeys(memo)


def _choose_branch(arguments: tuple[Value, ...], batch: pa.RecordBatch, memo: Memo | None) -> pa.Array[Any]:
    """Return the value of the branch of each row, computed of the rows of its branch alone where others have no value for it."""
    if batch.num_rows <= _FEW_ROWS:
        with contextlib.suppress(Inexact):
            return _find_first_true(*(argument.evaluate(batch, memo) for argument in arguments))
    *branches, default = arguments
    parts, places, left = [], [], np.arange(batch.num_rows)
    for test, value in zip(branches[::2], branches[1::2], strict=True):
        chosen = to_mask(test.evaluate(batch, memo))
        if chosen.any():
            parts.append(value.evaluate(batch.filter(pa.array(chosen)), _forget_results(memo)))
            places.append(left[chosen])
            batch, left, memo = batch.filter(pa.array(~chosen)), left[~chosen], _forget_results(memo)
        if not len(left):
            break
    if len(left) or not parts:
        parts.append(default.evaluate(batch, memo))
        places.append(left)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places)), pa.int64()))


def _combine_parts(
    function: str, arguments: tuple[Value, ...], batch: pa.RecordBatch, memo: Memo | None
) -> pa.Array[Any]:
    """Return AND, OR or coalesce of some values, each computed of the rows alone that those before it have not settled."""
    combine: Callable[..., pa.Array[Any]] = _OWN.get(function, pc.coalesce)
    if batch.num_rows <= _FEW_ROWS:
        with contextlib.suppress(Inexact):
            return combine(*(argument.evaluate(batch, memo) for argument in arguments))
    found = arguments[0].evaluate(batch, memo)
    for argument in arguments[1:]:
        settled = to_mask(_SETTLED[function](found))
        if settled.all():
            break
        rest = argument.evaluate(batch.filter(pa.array(~settled)), _forget_results(memo))
        found = combine(found, rest.take(to_positions(np.cumsum(~settled) - 1, absent=settled)))
    return found


def _find_first_true(*arrays: pa.Array[Any]) -> pa.Array[Any]:
    *branches, found = arrays
    for test, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        holds = pc.fill_null(test, False) if test.null_count else test
        found = pc.if_else(holds, value, found)
    return found


def _compare_null_safe(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array(
        to_mask(pc.equal(left, right)) | intersect_masks(left.is_null(), right.is_null()), pa.bool_()
    )


def find_members(values: pa.Array[Any], members: tuple[Any, ...], kind: pa.DataType) -> pa.Array[Any]:
    """Return whether values are among others: null of null, and of all that are not if one of the others is null."""
    among = pa.array([member for member in members if member is not None], kind)
    found = pc.is_in(values, value_set=among)
    unknown = pc.invert(found) if None in members else values.is_null()
    answered: pa.Array[Any] = pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
    return answered


def fail_any_row(messages: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return the values of no rows: Spark fails with the message of a row."""
    if len(messages):
        raise Inexact(next(iter(as_values(messages))))
    return make_nulls(0, kind)


def _make_extreme(pick: Callable[..., pa.Array[Any]]) -> Callable[..., pa.Array[Any]]:
    def apply(*arrays: pa.Array[Any]) -> pa.Array[Any]:
        kind = arrays[0].type
        if not pa.types.is_timestamp(kind):
            return pick(*arrays)
        return pick(*(array.cast(pa.int64()) for array in arrays)).cast(kind)

    return apply


def _divide(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    """Return a quotient of floating point; of a division by zero Spark has an error of its own."""
    if (to_mask(pc.equal(right, pa.scalar(0.0))) & to_mask(left.is_valid())).any():
        raise Inexact("a division by zero")
    return pc.divide(left, right)


def _build_date(year: pa.Array[Any], month: pa.Array[Any], day: pa.Array[Any]) -> pa.Array[Any]:
    """Return dates by year, month and day of the proleptic Gregorian calendar."""
    known = to_mask(year.is_valid()) & to_mask(month.is_valid()) & to_mask(day.is_valid())
    years, months, days = (_read_numbers(part) for part in (year, month, day))
    if (known & ((years < 1) | (years > _LAST_YEAR) | (months < 1) | (months > 12))).any():
        raise Inexact("a month or a year that there is not")
    begins = np.where(known, (years - 1970) * 12 + months - 1, 0).astype("datetime64[M]")
    found = begins.astype("datetime64[D]") + np.where(known, days - 1, 0)
    if (found.astype("datetime64[M]") != begins).any():
        raise Inexact("a day that its month does not have")
    return pa.array(found.astype(np.int64).astype(np.int32), pa.int32(), mask=~known).cast(pa.date32())


def _read_numbers(array: pa.Array[Any]) -> np.ndarray:
    numbers: np.ndarray = array.cast(pa.int64()).fill_null(1).to_numpy(zero_copy_only=False)
    return numbers


def _make_day_part(part: str) -> Callable[..., pa.Array[Any]]:
    """Return what gives a part of dates, of all years that the type has: Arrow's own functions end at 32767."""

    def apply(array: pa.Array[Any]) -> pa.Array[Any]:
        days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        match part:
            case "day":
                found = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
            case "month":
                found = months.astype(np.int64) % 12 + 1
            case "quarter":
                found = months.astype(np.int64) % 12 // 3 + 1
            case _:
                found = months.astype(np.int64) // 12 + 1970
        return pa.array(found.astype(np.int32), pa.int32(), mask=~to_mask(array.is_valid()))

    return apply


def _make_clock_part(micros: int, units: int) -> Callable[..., pa.Array[Any]]:
    """Return what gives a part of times in UTC, that has so many microseconds and comes so often in the next larger one."""

    def apply(array: pa.Array[Any]) -> pa.Array[Any]:
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        found = numbers // micros % units
        return pa.array(found.astype(np.int32), pa.int32(), mask=~to_mask(array.is_valid()))

    return apply


_LAST_YEAR = 9999
_OWN: dict[str, Callable[..., pa.Array[Any]]] = {
    "and": lambda *given: reduce(pc.and_kleene, given),
    "or": lambda *given: reduce(pc.or_kleene, given),
    "if": _find_first_true,
    "greatest": _make_extreme(pc.max_element_wise),
    "least": _make_extreme(pc.min_element_wise),
    "same": _compare_null_safe,
    "divide": _divide,
    "make_date": _build_date,
    "concat": lambda *given: pc.binary_join_element_wise(*given, ""),
    **{part: _make_day_part(part) for part in ("year", "quarter", "month", "day")},
    "hour": _make_clock_part(3_600_000_000, 24),
    "minute": _make_clock_part(60_000_000, 60),
}
"""Functions that are not pyarrow's of the same name."""
_SETTLED: dict[str, Callable[[pa.Array[Any]], pa.Array[Any]]] = {
    "and": pc.invert,
    "or": lambda found: found,
    "coalesce": pc.is_valid,
}
"""Functions that Spark computes from the left until one argument settles the value, and which values do."""
