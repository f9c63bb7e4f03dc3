"""Every operator that views are promised to have stands in a fixture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.operators.fixture_format import read

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.sql"))
QUERIES = [view.query for path in FIXTURES for view in read(path).views]
OPERATORS = {
    "filter": r"\bWHERE\b",
    "project": r"SELECT id, n \* 2",
    "union all": r"\bUNION ALL\b",
    "values": r"\bVALUES\b",
    "unnest": r"\bUNNEST\(|\bexplode\(",
    "generate_series": r"\bgenerate_series\(",
    "grouping sets": r"\bGROUPING SETS\b",
    "rollup": r"\bROLLUP\b",
    "cube": r"\bCUBE\b",
    **{
        name: rf"\b{name}\("
        for name in [
            "count",
            "sum",
            "avg",
            "min",
            "max",
            "bool_and",
            "bool_or",
            "every",
            "bit_and",
            "bit_or",
            "bit_xor",
            "count_if",
            "stddev_samp",
            "stddev_pop",
            "var_samp",
            "var_pop",
            "skewness",
            "kurtosis",
            "corr",
            "covar_samp",
            "covar_pop",
            "regr_slope",
            "regr_intercept",
            "regr_count",
            "regr_r2",
            "regr_avgx",
            "regr_avgy",
            "regr_sxx",
            "regr_syy",
            "regr_sxy",
            "first_value",
            "last_value",
            "min_by",
            "max_by",
            "string_agg",
            "listagg",
            "array_agg",
            "collect_list",
            "json_agg",
            "json_object_agg",
            "percentile_cont",
            "percentile_disc",
            "median",
            "mode",
            "approx_count_distinct",
            "approx_percentile",
        ]
    },
    "FILTER": r"\) FILTER \(WHERE",
    "DISTINCT inside": r"\w\(DISTINCT ",
    "DISTINCT rows inside": r"count\(DISTINCT \(",
    "ORDER BY inside": r"\w\([^()]* ORDER BY ",
    "aggregate of the whole input": r"^SELECT count\(\*\) AS c[^()]*(, \w+\(\w+\) AS \w+)* FROM \w+$",
    "aggregate of no rows": r"count\(\*\).* WHERE id > 100$",
    "HAVING": r"\bHAVING\b",
    "SELECT DISTINCT": r"^SELECT DISTINCT (?!ON)",
    "inner join": r"\b[lr] JOIN [lr]\b",
    "left join": r"\bLEFT JOIN\b",
    "right join": r"\bRIGHT JOIN\b",
    "full join": r"\bFULL JOIN\b",
    "semi join": r"\bSEMI JOIN\b|\bIN \(SELECT\b|WHERE EXISTS\b",
    "anti join": r"\bANTI JOIN\b|\bNOT EXISTS\b",
    "NOT IN": r"\bNOT IN \(SELECT\b",
    **{
        f"{name} over a window": rf"\b{name}\([^()]*\) OVER \("
        for name in [
            *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"),
            *("first_value", "last_value", "nth_value", "count", "sum", "max"),
        ]
    },
    "frame of rows": r"\bROWS BETWEEN\b",
    "frame of a range": r"\bRANGE BETWEEN\b",
    "qualify": r"\bQUALIFY\b",
    "cross join": r"\bCROSS JOIN\b",
    "natural join": r"\bNATURAL JOIN\b",
    "self join": r"\bl x JOIN l y\b",
    "null-safe join": r"<=>|IS NOT DISTINCT FROM",
    "join by an order": r"JOIN r ON l\.a < r\.b",
    "lateral subquery": r"\bLATERAL \(SELECT\b",
    "scalar subquery": r"\(SELECT max\(b\) FROM r\)",
    "correlated subquery": r"\(SELECT count\(\*\) FROM r WHERE r\.k = l\.k\)",
    "union": r"\bUNION SELECT\b",
    "intersect": r"\bINTERSECT SELECT\b",
    "intersect all": r"\bINTERSECT ALL\b",
    "except": r"\bEXCEPT SELECT\b",
    "except all": r"\bEXCEPT ALL\b",
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_stands_in_a_fixture(operator: str) -> None:
    assert any(re.search(OPERATORS[operator], query, re.IGNORECASE) for query in QUERIES)


def test_every_view_of_a_fixture_says_what_each_epoch_changes() -> None:
    for path in FIXTURES:
        fixture = read(path)
        for view in fixture.views:
            assert len(view.changes) == len(fixture.epochs) + 1, f"{path.stem}: {view.name}"
            assert any(view.changes), f"{path.stem}: {view.name} has never a row"
