"""Which functions a maintained view may call, and which aggregates depend on nothing but the set of their rows."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files

import sqlglot.expressions as exp

AGGREGATES = frozenset(
    (
        "count", "sum", "avg", "mean", "min", "max", "bool_and", "bool_or", "every", "some", "any", "count_if",
        "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "corr", "covar_pop", "covar_samp",
        "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
        "bit_and", "bit_or", "bit_xor", "median", "skewness", "kurtosis", "approx_count_distinct",
    )
)  # fmt: skip
NON_DETERMINISTIC = frozenset(
    (
        "rand", "random", "randn", "uuid", "now", "current_timestamp", "current_date", "current_time", "localtimestamp",
        "curdate", "current_user", "user", "session_user", "current_database", "current_catalog", "current_schema",
        "monotonically_increasing_id", "spark_partition_id", "input_file_name", "shuffle", "randstr", "uniform",
        "unix_timestamp", "version", "sysdate", "getdate",
    )
)  # fmt: skip
_NON_DETERMINISTIC_NODES = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
)


@cache
def spark_functions() -> frozenset[str]:
    """Return the names of Spark's built-in functions."""
    return frozenset(files("engine.sql").joinpath("spark_functions.txt").read_text().split())


def is_non_deterministic(node: exp.Expression) -> bool:
    """Tell whether a call gives another value each time it is evaluated."""
    if isinstance(node, _NON_DETERMINISTIC_NODES):
        return True
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name in NON_DETERMINISTIC


def is_aggregate(node: exp.Expression) -> bool:
    """Tell whether a call is an aggregate."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    return isinstance(node, exp.AggFunc)


def function_name(call: exp.Expression) -> str:
    """Return the Spark name of a call."""
    return call.sql(dialect="spark").split("(")[0].strip().lower()


def unknown_function(node: exp.Expression) -> str | None:
    """Return a hint if the call is none of Spark's built-in functions, else None."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() in spark_functions():
        return None
    near = difflib.get_close_matches(node.name.lower(), spark_functions(), 3)
    return f"did you mean {', '.join(near)}?" if near else "the functions are those of Spark SQL"
