"""Which name of what comes from outside is meant by which column of a table."""

from __future__ import annotations

import pytest

from engine.sql.column_names import match_columns


@pytest.mark.parametrize(
    ("wanted", "given", "found"),
    [
        (["id"], ["id"], {"id": 0}),
        (["id"], ["ID"], {"id": 0}),
        (["Id"], ["ID", "Id"], {"Id": 1}),
        (["id", "v"], ["V", "x", "x", "ID"], {"id": 3, "v": 0}),
        (["größe"], ["GRÖSSE", "GRÖßE"], {"größe": 1}),
        (["id"], ["identity"], {}),
        ([], ["a", "a"], {}),
    ],
)
def test_the_same_name_is_taken_else_the_one_that_differs_in_case(
    wanted: list[str], given: list[str], found: dict[str, int]
) -> None:
    match = match_columns(wanted, given)
    assert (match.found, match.twice) == (found, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [(["id", "id"], "id twice"), (["ID", "Id"], "id as ID and as Id"), (["id", "ID", "id"], "id twice")],
)
def test_a_name_that_is_meant_twice_is_told(given: list[str], message: str) -> None:
    match = match_columns(["id"], given)
    assert match.found == {}
    assert match.describe_ambiguity() == message
