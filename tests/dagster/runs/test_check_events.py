"""Checks of views in Dagster: declared with the asset, told by runs, and what one that fails does to the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg

from dagster_tideline.models.asset_spec import COLUMN_LINEAGE
from dagster_tideline.models.loader import load_models
from dagster_tideline.runs.asset_builder import build_assets
from dagster_tideline.runs.pending import find_pending
from tests.dagster.conftest import TOTALS, Project

CHECKED = "-- check: total < 100\n-- check few (warn): n < 2\n" + TOTALS.replace(
    "AS total", "AS total, count(*) AS n"
)
FIRST = "id,shop,price\n1,a,10\n2,b,5\n"
FEW, MOST = dg.AssetCheckKey(dg.AssetKey("totals"), "few"), dg.AssetCheckKey(dg.AssetKey("totals"), "check_1")


def outcomes(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


def test_checks_are_declared_with_their_view(tmp_path: Path) -> None:
    (tmp_path / "totals.sql").write_text(CHECKED)
    found = [
        spec
        for one in build_assets(load_models(tmp_path), {})
        if isinstance(one, dg.AssetsDefinition)
        for spec in one.check_specs
    ]
    assert [(spec.key, spec.description, spec.blocking) for spec in found] == [
        (MOST, "total < 100", False),
        (FEW, "n < 2", False),
    ]


def test_a_run_tells_how_checks_came_out_and_one_that_fails_names_the_check(project: Project) -> None:
    project.model("shop/totals.sql", CHECKED)
    project.land("1.csv", FIRST)
    result = project.run()
    assert result.success and {name: one.passed for name, one in outcomes(result).items()} == {
        "check_1": True,
        "few": True,
    }

    project.land("2.csv", "id,shop,price\n3,a,4\n")
    result = project.run()
    few = outcomes(result)["few"]
    assert result.success and not few.passed and few.severity == dg.AssetCheckSeverity.WARN
    assert few.metadata["rows"].value == 1 and "shop = 'a'" in str(few.metadata["sample"].value)

    project.land("3.csv", "id,shop,price\n4,b,900\n5,c,1\n")
    result = project.run()
    most = outcomes(result)["check_1"]
    assert not result.success and not most.passed and most.severity == dg.AssetCheckSeverity.ERROR
    assert "check check_1 of totals (total < 100) fails" in str(result.all_events)
    assert {"shop": "c", "total": 1, "n": 1} not in project.contents("totals")
    assert project.run(["orders"]).success, "what reads nothing of it goes on"

    project.land("4.csv", "id,shop,price\n4,b,9\n")
    result = project.run()
    assert result.success and outcomes(result)["check_1"].passed and not outcomes(result)["few"].passed
    assert outcomes(project.run()) == {}, "a run without news tells nothing"


def test_a_run_that_shows_a_view_without_news_since_another_fails_shows_its_checks_too(
    project: Project,
) -> None:
    project.model("shop/totals.sql", CHECKED)
    project.model("shop/wrong.sql", "CREATE MATERIALIZED VIEW wrong AS SELECT nothing FROM orders")
    project.land("1.csv", FIRST)
    for _ in range(2):
        result = project.run()
        shown = {one.asset_key for one in result.get_asset_materialization_events()}
        assert not result.success and dg.AssetKey("totals") in shown
        assert set(outcomes(result)) == {"check_1", "few"}


def test_a_run_that_was_asked_for_checks_tells_them_without_news(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.model("shop/totals.sql", CHECKED)
    project.land("1.csv", FIRST)
    assert project.run().success
    job = definitions().resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=project.instance, asset_selection=[dg.AssetKey("totals")], raise_on_error=False
    )
    assert result.success and set(outcomes(result)) == {"check_1", "few"}


def test_columns_say_which_columns_they_come_from_once_the_store_knows_them(
    project: Project, definitions: Callable[[], dg.Definitions]
) -> None:
    project.model("shop/plain.sql", "CREATE VIEW plain AS SELECT id, shop, price * 2 AS twice FROM orders")
    project.model(
        "shop/ranked.sql",
        "CREATE MATERIALIZED VIEW ranked AS SELECT p.shop AS place, p.twice + t.total AS both, count(*) OVER (PARTITION BY p.id) AS n "
        "FROM plain p JOIN totals t ON p.shop = t.shop",
    )
    project.land("1.csv", FIRST)
    assert project.run().success
    specs = {spec.key.to_user_string(): spec for spec in definitions().resolve_all_asset_specs()}

    def collect_lineage(name: str) -> dict[str, list[tuple[str, str]]]:
        found = specs[name].metadata[COLUMN_LINEAGE].deps_by_column
        return {k: [(d.asset_key.to_user_string(), d.column_name) for d in deps] for k, deps in found.items()}

    assert collect_lineage("totals") == {"shop": [("orders", "shop")], "total": [("orders", "price")]}
    assert collect_lineage("plain")["twice"] == [("orders", "price")]
    assert collect_lineage("ranked")["place"] == [("orders", "shop")]
    assert collect_lineage("ranked")["both"] == [("orders", "price"), ("totals", "total")]
    assert COLUMN_LINEAGE not in specs["orders"].metadata


def test_a_model_of_which_only_the_checks_change_keeps_its_rows(project: Project) -> None:
    project.model("shop/totals.sql", CHECKED)
    project.land("1.csv", FIRST)
    assert project.run().success
    rebuilt = project.session.store.refresh().tables["totals"].committed_epoch
    text = CHECKED.replace("total < 100", "total < 9").replace("-- check few (warn): n < 2\n", "")
    project.model("shop/totals.sql", text)
    assert find_pending(project.session.store, project.models).models == ("totals",)
    result = project.run()
    assert not result.success and "check check_1 of totals (total < 9) fails" in str(result.all_events)
    assert project.session.store.refresh().tables["totals"].committed_epoch == rebuilt
    project.model("shop/totals.sql", TOTALS.replace("AS total", "AS total, count(*) AS n"))
    assert project.run().success and find_pending(project.session.store, project.models).models == ()
    assert not [name for name in project.session.catalog.relations if name.startswith("_check")]
