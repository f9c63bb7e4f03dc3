"""What columns are called that were given no name."""

from __future__ import annotations

import pytest

from engine.sql.parsing.output_names import assign_output_names, find_output_name
from engine.sql.parsing.tree_parser import parse_tree


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("t.a", "a"),
        ("a::bigint", "a"),
        ("(a)[1]", "a"),
        ("count(*)", "count"),
        ("sum(a) FILTER (WHERE a > 1)", "sum"),
        ("max(a) OVER (ORDER BY b)", "max"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY a)", "percentile_disc"),
        ("array_agg(a ORDER BY b)", "array_agg"),
        ("string_agg(a, ',')", "string_agg"),
        ("coalesce(a, 1)", "coalesce"),
        ("CASE WHEN a > 1 THEN 1 END", "case"),
        ("extract(year FROM a)", "extract"),
        ("(SELECT max(b) FROM u)", "max"),
        ("(SELECT b + 1 AS c FROM u)", "c"),
        ("EXISTS (SELECT 1)", "exists"),
        ("my_function(a)", "my_function"),
        ("a + 1", None),
        ("NOT a", None),
        ("1", None),
    ],
)
def test_the_name_is_that_of_the_column_or_of_the_call(item: str, name: str | None) -> None:
    assert find_output_name(parse_tree(f"SELECT {item} FROM t", "postgres").selects[0], "postgres") == name


def test_only_what_others_can_name_is_named() -> None:
    text = """WITH w AS (SELECT upper(a), b FROM t) SELECT count(*), upper FROM
        (SELECT max(b), max(c), a::int FROM w WHERE a IN (SELECT min(a) FROM t) UNION ALL SELECT 1, 2, 3) q"""
    named = assign_output_names(parse_tree(text, "postgres"), "postgres").sql("postgres")
    assert named == (
        'WITH w AS (SELECT UPPER(a) AS "upper", b FROM t) SELECT COUNT(*), upper FROM (SELECT MAX(b) AS "max", MAX(c), '
        'CAST(a AS INT) AS "a" FROM w WHERE a IN (SELECT MIN(a) FROM t) UNION ALL SELECT 1, 2, 3) AS q'
    )
