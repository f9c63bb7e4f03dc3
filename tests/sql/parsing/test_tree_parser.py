"""What no tree may hold: the type UUID, which would be a text in any spelling."""

from __future__ import annotations

import pytest

from engine.errors import UnsupportedSql
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import parse_statement

DIALECTS: tuple[Dialect, ...] = ("spark", "postgres", "risingwave")
TEXTS = (
    "CREATE TABLE t (id INT PRIMARY KEY,\n  u UUID)",
    "CREATE TABLE t (id INT PRIMARY KEY, u UUID DEFAULT uuid())",
    "CREATE TABLE uuid (uuid UUID PRIMARY KEY, v INT)",
    "SELECT CAST('x' AS UUID) AS u",
    "SELECT uuid() AS uuid, CAST(uuid AS UUID) AS u FROM t",
    "CREATE MATERIALIZED VIEW v AS SELECT CAST(a AS UUID) AS u FROM t",
    "CREATE SINK s AS SELECT CAST(a AS UUID) AS u FROM t",
    "INSERT INTO t SELECT CAST(a AS UUID) FROM r",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_uuid_is_refused_with_its_place(text: str, dialect: Dialect) -> None:
    with pytest.raises(UnsupportedSql, match="the type UUID") as caught:
        parse_statement(text, dialect)
    error = caught.value
    assert error.line is not None and error.column is not None and "lower(u)" in (error.hint or "")
    assert text.split("\n")[error.line - 1][error.column - 1 :].startswith("UUID")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_name_and_a_call_are_no_type(dialect: Dialect) -> None:
    parse_statement("CREATE TABLE uuid (uuid TEXT PRIMARY KEY)", dialect)
    parse_statement("SELECT uuid() AS uuid", dialect)
