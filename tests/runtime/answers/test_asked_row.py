"""How words name a row."""

from __future__ import annotations

from engine.runtime.answers.asked_row import parse_key
from engine.sql.catalog import Relation, RelationColumn


def test_a_key_is_values_in_their_order_or_by_column() -> None:
    columns = (RelationColumn("auction", "bigint"), RelationColumn("who", "string"))
    view = Relation(name="top", kind="materialized view", columns=columns)
    assert parse_key(view, ["7", "NULL"]) == ["7", None]
    assert parse_key(view, ["who=a=b", "auction=NULL"]) == {"who": "a=b", "auction": None}
    assert parse_key(view, ["7", "what=x"]) == ["7", "what=x"]
