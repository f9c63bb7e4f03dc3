"""UNPIVOT of Spark is bound as what it means; elsewhere it is refused under its own name. Its rows: tests/sql/test_edges_in_views.py."""

from __future__ import annotations

import pytest

from engine.errors import SqlError, UnsupportedSql
from tests.sql.test_plans import bound_plan


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM bid UNPIVOT (v FOR name IN (price, auction AS a))", "id note name v"),
        ("SELECT u.id, u.v FROM bid AS b UNPIVOT (v FOR name IN (price)) AS u", "id v"),
        ("SELECT bid.v FROM bid UNPIVOT INCLUDE NULLS (v FOR name IN (PRICE, auction))", "v"),
        (
            "SELECT * FROM (SELECT id, price AS p, auction AS a FROM bid) UNPIVOT ((v, w) FOR n IN ((p, a), (a, p) AS x))",
            "id n v w",
        ),
        (
            "SELECT a.item, u.v FROM auction a JOIN bid UNPIVOT (v FOR n IN (price)) AS u ON u.auction = a.id",
            "item v",
        ),
    ],
)
def test_it_gives_the_other_columns_the_name_and_the_values(query: str, columns: str) -> None:
    shown = bound_plan(query, "spark").rsplit("\ncolumns ", 1)[1]
    assert [part.split(" = ")[0] for part in shown.split(", ")] == columns.split()


def test_what_is_refused_is_told_by_its_name() -> None:
    with pytest.raises(UnsupportedSql, match=r"^UNPIVOT is not supported") as caught:
        bound_plan("SELECT * FROM bid UNPIVOT (v FOR name IN (price))", "postgres")
    assert "UNION ALL" in caught.value.hint
    with pytest.raises(UnsupportedSql, match=r"^PIVOT is not supported"):
        bound_plan("SELECT * FROM bid PIVOT (sum(price) FOR auction IN (1, 2))", "spark")
    with pytest.raises(SqlError, match="no column nowhere"):
        bound_plan("SELECT * FROM bid UNPIVOT (v FOR name IN (nowhere))", "spark")
