"""Which functions a maintained view may call, and which aggregates depend on nothing but the set of their rows.

`spark_functions.txt` is what SHOW FUNCTIONS of Spark 4.2 lists, each with its kind: scalar, aggregate, window or table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import sqlglot.expressions as exp

from engine.jsonb.functions import PREFIX

AGGREGATES = frozenset(
    (
        "count", "sum", "avg", "mean", "min", "max", "bool_and", "bool_or", "every", "some", "any", "count_if",
        "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "corr", "covar_pop",
        "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
        "regr_sxy", "regr_syy", "bit_and", "bit_or", "bit_xor", "median", "skewness", "kurtosis",
        "approx_count_distinct",
    )
)  # fmt: skip
NON_DETERMINISTIC = frozenset(
    (
        "rand", "random", "randn", "randstr", "uniform", "uuid", "gen_random_uuid", "now", "curdate",
        "current_timestamp", "current_date", "current_time", "current_datetime", "localtime", "localtimestamp",
        "sysdate", "getdate", "clock_timestamp", "statement_timestamp", "proctime", "transaction_timestamp",
        "timeofday", "current_user", "user", "session_user", "current_database", "current_catalog", "current_schema",
        "current_path", "version", "monotonically_increasing_id", "spark_partition_id", "input_file_name",
        "input_file_block_start", "input_file_block_length", "shuffle", "aes_encrypt", "try_aes_encrypt",
        "java_method", "reflect", "try_reflect", "nextval",
    )
)  # fmt: skip
AMONG_PEERS = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))
"""Functions over a window that give rows which are equal in its order the same result."""
VALUES_OF_ROWS = frozenset(("first_value", "last_value", "nth_value"))
"""Functions over a window that give the value of one row of the frame."""
WINDOW_FUNCTIONS = AMONG_PEERS | VALUES_OF_ROWS | {"row_number", "ntile", "lag", "lead"}
TIME_WINDOWS = frozenset(("window", "session_window", "window_time"))
"""Functions that are no expressions: they give rows the windows of time that they are in."""
_MORE_AGGREGATES = frozenset(("jsonb_agg", "json_agg", "json_object_agg", "jsonb_object_agg"))
_JSON_AGGREGATES = (
    exp.JSONArrayAgg,
    exp.JSONObjectAgg,
    exp.JSONBObjectAgg,
)  # json_agg and its like, as they are parsed
_SYNTAX = frozenset(
    (
        "cast", "try_cast", "extract", "interval", "case", "exists", "in", "values", "grouping", "any", "all",
        "timestampadd", "timestampdiff",
    )
)  # fmt: skip
_NAME = "spark_name"
_INFIX = (exp.Connector, exp.Binary, exp.Not, exp.Paren)


@cache
def load_spark_functions() -> Mapping[str, str]:
    """Return the kind of each of Spark's built-in functions by its name."""
    lines = files("engine.sql").joinpath("spark_functions.txt").read_text().split("\n")
    return {name: kind for name, kind in (line.split(" ") for line in lines if line)}


def find_function_name(node: exp.Expr) -> str | None:
    """Return the name under which Spark sees a call, or None if the expression is printed as no call."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if not isinstance(node, exp.Func) or isinstance(node, _INFIX):
        return None
    if _NAME not in node.meta:  # printed once: calls may stand a hundred deep
        found = re.match(r"([A-Za-z_]\w*)(\(|$)", node.sql(dialect="spark"))
        node.meta[_NAME] = found[1].lower() if found else None
    name: str | None = node.meta[_NAME]
    return name


def is_non_deterministic(node: exp.Expr) -> bool:
    """Tell whether a call gives another value each time it is evaluated."""
    name = find_function_name(node)
    if name == "unix_timestamp":  # of a value it is a conversion, of nothing the clock
        return not any(isinstance(value, exp.Expr) for value in node.iter_expressions())
    if name == "age":  # of one moment it is counted from today
        return isinstance(node, exp.Anonymous) and len(node.expressions) == 1
    return name in NON_DETERMINISTIC


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a call is an aggregate, maintainable or not."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return load_spark_functions().get(name) == "aggregate" or name in _MORE_AGGREGATES
    return isinstance(node, exp.AggFunc) or is_json_aggregate(node)


def is_json_aggregate(node: exp.Expr) -> bool:
    """Tell whether a call is PostgreSQL's json_agg, json_object_agg or jsonb_object_agg, which Spark has no name for."""
    return isinstance(node, _JSON_AGGREGATES)


def is_table_function(node: exp.Expr) -> bool:
    """Tell whether a call gives several rows for one."""
    if isinstance(node, exp.Explode | exp.Unnest | exp.Lateral | exp.UDTF | exp.ExplodingGenerateSeries):
        return True
    return (
        isinstance(node, exp.Func) and load_spark_functions().get(find_function_name(node) or "") == "table"
    )


def is_window_function(node: exp.Expr) -> bool:
    """Tell whether a call makes sense over a window only."""
    return (
        isinstance(node, exp.Func) and load_spark_functions().get(find_function_name(node) or "") == "window"
    )


def find_unknown_function(node: exp.Expr) -> str | None:
    """Return the name of a call that Spark has no function for, else None."""
    name = find_function_name(node)
    return None if name is None or name in load_spark_functions() or name in _SYNTAX else name


def is_own(name: str) -> bool:
    """Tell whether a function is one that Spark is given by the engine."""
    return name.startswith(PREFIX)


def suggest_functions(name: str) -> str:
    """Return a hint with functions like `name`."""
    near = difflib.get_close_matches(name, load_spark_functions(), 3)
    return f"did you mean {', '.join(near)}?" if near else "the functions are those of Spark SQL"
