"""The index of a view stands in the view's domain, so that another view of the domain may be joined by it."""

from __future__ import annotations

from pathlib import Path

from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.domain import find_domain_name
from tests.crash.views_in_memory import ViewsInMemory


def test_views_of_one_domain_may_be_joined_by_columns_that_are_no_key(tmp_path: Path) -> None:
    views = ViewsInMemory(tmp_path)
    views.table("a", "id", "g", "x")
    views.table("b", "id", "y")
    views.view("counted", "SELECT g, count(*) AS n FROM a GROUP BY g", domain="red")
    views.put("a", id=1, g=7, x=1)
    views.put("b", id=5, y=1)
    views.flusher.run().raise_for_errors()
    views.view("joined", "SELECT b.id, c.g FROM b JOIN counted AS c ON b.y = c.n", domain="red")
    assert find_domain_name(load_catalog(views.store.refresh()), "_index_counted__n") == "red"
    views.flusher.run().raise_for_errors()
    assert views.rows("joined") == [{"id": 5, "g": 7}]
    views.put("a", id=2, g=7, x=1)
    views.put("b", id=6, y=2)
    views.flusher.run().raise_for_errors()
    assert views.rows("joined") == [{"id": 6, "g": 7}]
