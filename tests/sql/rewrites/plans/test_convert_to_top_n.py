"""A condition on a row number means the same whichever side the number stands on, and becomes the same first rows."""

from __future__ import annotations

import pytest

from tests.sql.test_plans import bound_plan

QUERY = "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY auction ORDER BY price) AS n FROM bid) q WHERE {}"


@pytest.mark.parametrize(
    ("number_first", "number_last", "rows"),
    [
        ("n < 3", "3 > n", "TopN 2 of each"),
        ("n <= 3", "3 >= n", "TopN 3 of each"),
        ("n = 3", "3 = n", "TopN 1 after 2 of each"),
        ("n > 1 AND n < 4", "1 < n AND 4 > n", "TopN 2 after 1 of each"),
        ("n >= 2 AND n <= 4", "2 <= n AND 4 >= n", "TopN 3 after 1 of each"),
        ("n BETWEEN 2 AND 4", "2 <= n AND 4 >= n", "TopN 3 after 1 of each"),
        ("n < 1", "1 > n", "TopN 0 of each"),
    ],
)
def test_a_number_on_either_side_asks_for_the_same_rows(
    number_first: str, number_last: str, rows: str
) -> None:
    plans = [bound_plan(QUERY.format(condition), "spark") for condition in (number_first, number_last)]
    assert plans[0] == plans[1]
    assert rows in plans[0]
