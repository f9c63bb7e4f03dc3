"""What fails in Spark beyond its own errors is told as ours, with a place."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.mark.parametrize("dialect", ["spark", "risingwave"])
def test_a_scalar_subquery_of_many_rows_is_our_error(session: Session, dialect: str) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    session.dialect = dialect  # type: ignore[assignment]
    with pytest.raises(SqlError, match=r"(?i)more than one row") as refused:
        session.sql("SELECT id, n FROM t WHERE id = (SELECT id FROM t)")
    assert refused.value.line == 1
