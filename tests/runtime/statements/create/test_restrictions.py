"""backfill_order: taken where it can be followed, refused with the place where not."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows

VIEW = "CREATE MATERIALIZED VIEW v WITH (backfill_order = {}) AS SELECT a.x, count(*) AS n FROM a JOIN b ON a.x = b.x GROUP BY a.x"


@pytest.fixture
def two(session: Session) -> Session:
    session.sql("SET dialect = risingwave")
    for name in ("a", "b", "other"):
        session.sql(f"CREATE TABLE {name} (x INT)")
        session.sql(f"INSERT INTO {name} VALUES (1), (1)")
    return session


def test_an_order_that_can_be_followed_is_taken(two: Session) -> None:
    two.sql(VIEW.format("FIXED(a -> b)"))
    two.sql("FLUSH")
    assert rows(two, "SELECT * FROM v") == [(1, 4)]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("FIXED(a -> other)", "names other, which the view does not read"),
        ("FIXED(other -> a)", "names other, which the view does not read"),
        ("FIXED(a -> b, b -> a)", "has b before itself"),
        ("FIXED(a)", "cannot read 'a'"),
        ("sometimes", "cannot be 'sometimes'"),
    ],
)
def test_one_that_cannot_is_refused(two: Session, order: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as error:
        two.sql(VIEW.format(order))
    assert (error.value.line or 0) >= 1 and error.value.hint
