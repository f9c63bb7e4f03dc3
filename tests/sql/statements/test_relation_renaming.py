"""A relation's new name, as the texts of what reads it say it."""

from __future__ import annotations

import pytest

from engine.sql.dialect import Dialect
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.relation_renaming import rename_relations

TEXTS = (
    "CREATE SINK s FROM t WITH (connector = 'file', path = 'x')",
    "CREATE VIEW v AS SELECT t.a FROM t",
    "CREATE MATERIALIZED VIEW v AS SELECT a FROM t AS x",
)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize(
    "name", ["e\u0301", "x\u00b7y", "\u212e", "\u2118x", "a b", "ﬁ", "日本", "select", "T"]
)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_says_any_name(text: str, name: str, dialect: Dialect) -> None:
    renamed = rename_relations(text, dialect, {"t": name})
    parse_statement(renamed, dialect)
    assert name in renamed
