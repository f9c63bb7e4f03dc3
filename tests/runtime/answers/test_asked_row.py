"""How words name a row."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.runtime.answers.asked_row import convert_value, describe_asked, parse_key
from engine.sql.catalog import Relation, RelationColumn


def test_a_key_is_values_in_their_order_or_by_column() -> None:
    columns = (RelationColumn("auction", "bigint"), RelationColumn("who", "string"))
    view = Relation(name="top", kind="materialized view", columns=columns)
    assert parse_key(view, ["7", "NULL"]) == ["7", None]
    assert parse_key(view, ["who=a=b", "auction=NULL"]) == {"who": "a=b", "auction": None}
    assert parse_key(view, ["7", "what=x"]) == ["7", "what=x"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", 2**70),
        ("decimal(6,2)", 10**40),
        ("string", "\ud800"),
        ("bigint", "\ud800"),
        ("date", "99999-01-01"),
        ("double", {"a": 1}),
        ("array<bigint>", [2**70]),
        ("bigint", "x" * 100_000),
    ],
)
def test_what_is_no_value_of_a_column_is_refused_in_a_few_words(kind: str, value: object) -> None:
    column = RelationColumn("k", kind)
    view = Relation(name="v", kind="materialized view", columns=(column,))
    with pytest.raises(SqlError, match="is no value of column k of v") as error:
        convert_value(view, column, value)
    assert len(str(error.value)) < 1000
    assert len(describe_asked({column: value})) < 1000
