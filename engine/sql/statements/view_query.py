"""The query of a plain view: whoever reads the view looks at it several times, and its text is parsed once."""

from __future__ import annotations

from functools import lru_cache

import sqlglot.expressions as exp

from engine.sql.catalog import Relation
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import CreateView

KEPT_VIEWS = 64


def parse_view_query(relation: Relation) -> exp.Query:
    """Return the query of a plain view, for reading alone: who changes it takes a copy."""
    return _parse_query(relation.sql, relation.dialect)


@lru_cache(maxsize=KEPT_VIEWS)
def _parse_query(sql: str, dialect: Dialect) -> exp.Query:
    statement = parse_statement(sql, dialect)
    assert isinstance(statement, CreateView)
    return statement.query
