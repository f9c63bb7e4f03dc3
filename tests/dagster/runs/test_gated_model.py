"""A changed model whose gate holds it up: the view goes on, its events say so, and an approval lets the change take over."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pytest

from dagster_tideline.gates import build_gate_job
from dagster_tideline.naming import Naming
from tests.dagster.conftest import TOTALS, Project

GATED = "-- gate: rows_changed <= 10%\n" + TOTALS.replace("sum(price)", "sum(price + 1)")


def find_metadata(project: Project) -> dict[str, object]:
    event = project.instance.get_latest_materialization_event(dg.AssetKey("totals"))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def read_gate(project: Project) -> dg.AssetCheckEvaluation | None:
    """Return how the check of the gate came out the last time."""
    key = dg.AssetCheckKey(dg.AssetKey("totals"), "gate")
    found = project.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
    event = found[key].event if key in found else None
    return (
        None
        if event is None or event.dagster_event is None
        else event.dagster_event.asset_check_evaluation_data
    )


def read_totals(project: Project) -> list[dict[str, object]]:
    found = project.session.sql("SELECT shop, total FROM totals ORDER BY shop")
    assert found is not None
    return found.to_pylist()


@pytest.mark.long
def test_events_say_that_a_gate_holds_up_a_changed_model(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,5\n")
    assert project.run().success
    assert "gate" not in find_metadata(project) and read_gate(project) is None
    project.model("shop/totals.sql", GATED)
    for number in (2, 3):
        project.land(f"{number}.csv", f"id,shop,price\n{number + 1},b,5\n")
        assert project.run().success
        assert "rows_changed <= 10%, and it is 2 of 2 rows, 100 %" in str(find_metadata(project)["gate"])
    gate = read_gate(project)
    assert gate is not None and not gate.passed and gate.severity == dg.AssetCheckSeverity.WARN
    assert "APPROVE lets it take over" in str(gate.description)
    assert read_totals(project) == [{"shop": "a", "total": 10}, {"shop": "b", "total": 15}]
    asked = definitions().get_implicit_global_asset_job_def()
    key = dg.AssetCheckKey(dg.AssetKey("totals"), "gate")
    job = asked.get_subset(asset_selection=set(), asset_check_selection={key})
    assert job.execute_in_process(instance=project.instance).success
    shown = read_gate(project)
    assert shown is not None and shown.metadata["updated"].value == 2 and "rows" in shown.metadata
    job = build_gate_job(Naming())
    config: dict[str, object] = {"view": "totals", "decision": "approve"}
    assert project.maintain("change_gate", config, job).success
    assert not project.maintain("change_gate", config, job).success  # none is held up any more
    assert project.run().success
    assert read_totals(project) == [{"shop": "a", "total": 11}, {"shop": "b", "total": 18}]
    assert "gate" not in find_metadata(project)
    over = read_gate(project)
    assert over is not None and over.passed and over.metadata["change"].value == "none waits"
