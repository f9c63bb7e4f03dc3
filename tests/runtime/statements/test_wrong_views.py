"""A view whose query is wrong is refused, and nothing of it is in the catalog."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.sql.catalog import small_catalog
from tests.sql.test_wrong_queries import WRONG_QUERIES


def test_a_refused_view_leaves_no_trace_in_the_catalog(session: Session) -> None:
    for relation in small_catalog().relations.values():
        if relation.kind == "table":
            columns = ", ".join(
                f"{c.name} {c.type}{' PRIMARY KEY' if c.name == 'id' else ''}" for c in relation.columns
            )
            session.sql(f"CREATE TABLE {relation.name} ({columns})")
    before = session.sql("SHOW ALL")
    for query, *_ in WRONG_QUERIES:
        with pytest.raises(SqlError):
            session.sql(f"CREATE MATERIALIZED VIEW wrong AS\n{query}")
    assert session.sql("SHOW ALL") == before
