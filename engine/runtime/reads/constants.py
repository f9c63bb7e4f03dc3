"""SELECTs of constants, which need neither a store nor Spark: `SELECT 1`, as tools send it to see whether somebody answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from engine.arrow import repeat_value

INT_BITS, BIGINT_BITS = 31, 63


def evaluate_constants(query: exp.Query, sql: str) -> pa.Table | None:
    """Return the row of a SELECT of nothing but whole numbers, texts, TRUE and FALSE; None for any other query.

    What a backslash in the text `sql` means is left to Spark. Names and types are Spark's: INT, or BIGINT where it is too small;
    columns without a name are called by their text.
    """
    if (
        "\\" in sql
        or not isinstance(query, exp.Select)
        or any(v for k, v in query.args.items() if k != "expressions")
    ):
        return None
    found = [_evaluate_constant(item) for item in query.expressions]
    if not found or any(one is None for one in found):
        return None
    columns = [one for one in found if one is not None]
    return pa.Table.from_arrays([array for _, array in columns], names=[name for name, _ in columns])


def _evaluate_constant(item: exp.Expr) -> tuple[str, pa.Array[Any]] | None:
    value = item.this if isinstance(item, exp.Alias) else item
    alias = item.alias if isinstance(item, exp.Alias) else None
    if isinstance(value, exp.Boolean):
        text, array = str(bool(value.this)).lower(), _build_single(bool(value.this), pa.bool_())
    elif isinstance(value, exp.Literal) and value.is_string:
        text, array = value.this, _build_single(value.this, pa.string())
    elif isinstance(value, exp.Literal) and value.this.isascii() and value.this.isdecimal():
        number = int(value.this)
        if number.bit_length() > BIGINT_BITS:
            return None
        small = number.bit_length() <= INT_BITS
        text, array = value.this, _build_single(number, pa.int32() if small else pa.int64())
    else:
        return None
    return alias or text, array


def _build_single(value: bool | int | str, kind: pa.DataType) -> pa.Array[Any]:
    return repeat_value(
        pa.scalar(value, kind), 1
    )  # pa.array would load pandas, which takes longer than all the rest
