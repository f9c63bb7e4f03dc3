"""Unions of structs whose fields stand in another order are refused: Spark takes fields by their places."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session


def test_fields_that_would_be_mixed_up_are_refused(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRUCT<a: INT, b: INT>)")
    for other in ("named_struct('b', 1, 'A', 2)", "struct(1 AS c, 2 AS a)"):
        with pytest.raises(SqlError, match="field a of column 2 stands at another place") as error:
            session.sql(
                f"CREATE MATERIALIZED VIEW v AS SELECT id, s FROM t UNION ALL SELECT id, {other} FROM t"
            )
        assert "in one order" in error.value.hint
    query = "SELECT id, s FROM t UNION ALL SELECT id, struct(1 AS a, 2 AS c) FROM t"
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
