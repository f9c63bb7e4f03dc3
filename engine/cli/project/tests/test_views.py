"""The views of assets/, over rows that the tests write."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from dagster_tideline import load_models, sync_models
from tideline import Session

ASSETS = Path(__file__).parents[1] / "assets"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session over a store of its own that holds what the project declares."""
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    with Session((tmp_path / "store").as_uri(), "local[2]") as session:
        report = sync_models(session, load_models(ASSETS))
        assert not report.errors
        yield session


def test_sales_follow_orders_that_come_change_and_go(session: Session) -> None:
    session.sql("INSERT INTO orders VALUES (1, 'north', 10.00), (2, 'south', 5.50), (3, 'south', 1.50)")
    session.flush()
    session.sql("UPDATE orders SET price = 2.50 WHERE id = 3")
    session.sql("DELETE FROM orders WHERE id = 1")
    session.flush()
    sales = session.sql("SELECT * FROM sales_by_shop")
    assert sales is not None
    assert sales.to_pylist() == [{"shop": "south", "orders": 2, "total": Decimal("8.00")}]
