"""A changed model whose gate holds it up: the view goes on, its events say so, and an approval lets the change take over."""

from __future__ import annotations

import dagster as dg
import pytest

from tests.dagster.conftest import TOTALS, Project

GATED = "-- gate: rows_changed <= 10%\n" + TOTALS.replace("sum(price)", "sum(price + 1)")


def find_metadata(project: Project) -> dict[str, object]:
    event = project.instance.get_latest_materialization_event(dg.AssetKey("totals"))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def read_totals(project: Project) -> list[dict[str, object]]:
    found = project.session.sql("SELECT shop, total FROM totals ORDER BY shop")
    assert found is not None
    return found.to_pylist()


@pytest.mark.long
def test_events_say_that_a_gate_holds_up_a_changed_model(project: Project) -> None:
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,5\n")
    assert project.run().success
    assert "gate" not in find_metadata(project)
    project.model("shop/totals.sql", GATED)
    for number in (2, 3):
        project.land(f"{number}.csv", f"id,shop,price\n{number + 1},b,5\n")
        assert project.run().success
        assert "rows_changed <= 10%, and it is 2 of 2 rows, 100 %" in str(find_metadata(project)["gate"])
    assert read_totals(project) == [{"shop": "a", "total": 10}, {"shop": "b", "total": 15}]
    project.session.approve("totals")
    assert project.run().success
    assert read_totals(project) == [{"shop": "a", "total": 11}, {"shop": "b", "total": 18}]
    assert "gate" not in find_metadata(project)
