"""Queries that grow when they are written out are refused at once, with what to do."""

from __future__ import annotations

import pytest

from engine.errors import UnsupportedSql
from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


def _bound(sql: str, dialect: str = "postgres") -> BoundQuery:
    statement = parse_statement(sql, dialect)
    assert isinstance(statement, Select)
    return bind(statement.query, small_catalog(), dialect=dialect, sql=sql)


def _full_joins(count: int) -> str:
    return "SELECT count(*) FROM bid " + " ".join(f"FULL JOIN bid b{n} USING (id)" for n in range(count))


def test_some_full_joins_are_joined() -> None:
    assert _bound(_full_joins(4)).columns


def test_a_hundred_full_joins_are_refused_at_their_place() -> None:
    with pytest.raises(UnsupportedSql, match="each one doubles what is joined before it") as raised:
        _bound(_full_joins(98))
    assert raised.value.line == 1 and raised.value.column > len(_full_joins(4))
    assert "materialized view of the first joins" in raised.value.hint


@pytest.mark.long
def test_with_items_that_read_each_other_twice_are_refused_where_they_grow_too_many() -> None:
    items = ["x0 AS (SELECT id FROM bid)"]
    items += [f"x{n} AS (SELECT a.id FROM x{n - 1} a JOIN x{n - 1} b USING (id))" for n in range(1, 30)]
    with pytest.raises(UnsupportedSql, match="more than 3000 with its WITH items"):
        _bound(f"WITH {', '.join(items)} SELECT id FROM x29")


def test_calls_that_are_written_out_twice_each_are_refused_when_they_stand_deep_in_each_other() -> None:
    deep = "price"
    for _ in range(40):
        deep = f"trunc({deep})"
    with pytest.raises(UnsupportedSql, match="comes to more than 10000 parts"):
        _bound(f"SELECT id, {deep} AS x FROM bid")
    assert _bound("SELECT id, trunc(trunc(trunc(price))) AS x FROM bid").columns


@pytest.mark.parametrize("nested", ["CASE WHEN price > 1 THEN {} ELSE 0 END", "abs({})", "({})", "({} + 1)"])
def test_a_hundred_levels_are_bound(nested: str) -> None:
    deep = "price"
    for _ in range(100):
        deep = nested.format(deep)
    assert _bound(f"SELECT id, {deep} AS x FROM bid").columns
