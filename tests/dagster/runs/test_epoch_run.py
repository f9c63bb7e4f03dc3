"""Epoch runs through Dagster, in process: what they commit, what they tell, and how they fail."""

from __future__ import annotations

from dagster import AssetKey, DagsterInstance

from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import fetch_reported_tags, get_reported_version
from dagster_tideline.runs.pending import find_pending
from tests.dagster.conftest import TOTALS, Project

FIRST = "id,shop,price\n1,a,10\n2,b,5\n3,a,4\n"


def materialized(instance: DagsterInstance, name: str) -> list[dict[str, str]]:
    records = instance.fetch_materializations(AssetKey(name), limit=100).records
    return [
        dict(record.asset_materialization.tags or {}) for record in records if record.asset_materialization
    ]


def test_one_run_creates_models_takes_files_and_brings_every_view_on(project: Project) -> None:
    project.land("1.csv", FIRST)
    assert project.run().success
    assert project.contents("totals") == [{"shop": "a", "total": 14}, {"shop": "b", "total": 5}]
    assert project.contents("large") == [{"shop": "a", "total": 14}]
    assert {name for name in ("orders", "totals", "large") if materialized(project.instance, name)} == {
        "orders",
        "totals",
        "large",
    }


def test_a_run_tells_only_what_moved(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    assert project.run().success
    assert [len(materialized(project.instance, name)) for name in ("orders", "totals", "large")] == [1, 1, 1]


def test_numbers_are_metadata_that_the_ui_plots(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    project.land("2.csv", "id,shop,price\n2,b,50\nx,y,z\n")
    result = project.run()
    events = {
        e.asset_key.to_user_string(): e for e in result.get_asset_materialization_events() if e.asset_key
    }
    totals = events["totals"].materialization.metadata
    assert (totals["updated"].value, totals["inserted"].value, totals["rows_out"].value) == (1, 0, 1)
    assert {"seconds_total", "lag_seconds", "state_bytes", "rows_in", "driver_bytes"} <= set(totals)
    orders = events["orders"].materialization.metadata
    assert (orders["files"].value, orders["rows_in"].value, orders["dead_rows"].value) == (1, 1, 1)
    assert orders["driver_bytes"].value > 0


def test_provenance_is_pinned_to_the_versions_that_were_read(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    project.land("2.csv", "id,shop,price\n2,b,6\n")  # totals changes, large does not
    project.run()
    tags = fetch_reported_tags(project.instance, ("orders", "totals", "large"), Naming())
    totals = materialized(project.instance, "totals")[0]
    large = materialized(project.instance, "large")[0]
    assert totals["dagster/input_data_version/orders"] == get_reported_version(tags, "orders")
    assert large["dagster/input_data_version/totals"] == get_reported_version(tags, "totals")


def test_a_broken_model_fails_the_run_after_the_others_have_committed(project: Project) -> None:
    project.model("shop/broken.sql", "CREATE MATERIALIZED VIEW broken AS SELECT nothing FROM orders")
    project.land("1.csv", FIRST)
    result = project.run()
    assert not result.success
    assert "nothing" in str(result.all_events)
    assert project.contents("large") == [{"shop": "a", "total": 14}]
    assert len(materialized(project.instance, "large")) == 1


def test_tables_without_news_do_not_look_failed_in_a_run_that_fails(project: Project) -> None:
    project.land("1.csv", FIRST)
    assert project.run().success
    project.model("shop/broken.sql", "CREATE MATERIALIZED VIEW broken AS SELECT nothing FROM orders")
    result = project.run()
    assert not result.success
    assert {"orders", "totals", "large"} == {
        event.asset_key.to_user_string() for event in result.get_asset_materialization_events()
    }


def test_a_view_that_fails_on_a_row_stops_nobody_else(project: Project) -> None:
    project.model(
        "shop/ratio.sql", "CREATE MATERIALIZED VIEW ratio AS SELECT id, 100 / (price - 7) AS r FROM orders"
    )
    project.land("1.csv", FIRST)
    assert project.run().success
    project.land("2.csv", "id,shop,price\n4,c,7\n")
    result = project.run()
    assert not result.success
    assert {"shop": "c", "total": 7} in project.contents("totals")
    assert len(materialized(project.instance, "ratio")) == 1


def test_a_changed_view_is_replaced_with_all_that_read_it(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    project.model("shop/totals.sql", TOTALS.replace("sum(price)", "sum(price * 10)"))
    assert project.run().success
    assert project.contents("large") == [{"shop": "a", "total": 140}, {"shop": "b", "total": 50}]


def test_a_changed_table_is_refused_and_keeps_its_rows(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    project.model("shop/orders.sql", "CREATE TABLE orders (id INT PRIMARY KEY, shop STRING)")
    result = project.run()
    assert not result.success
    assert "DROP TABLE orders CASCADE" in str(result.all_events)
    assert len(project.contents("orders")) == 3


def test_one_asset_can_be_materialized_by_hand(project: Project) -> None:
    project.land("1.csv", FIRST)
    project.run()
    project.land("2.csv", "id,shop,price\n9,z,99\n")
    assert project.run(["orders"]).success
    assert project.run(["totals"]).success
    assert {"shop": "z", "total": 99} in project.contents("totals")
    assert [len(materialized(project.instance, name)) for name in ("orders", "totals", "large")] == [2, 2, 1]


def test_a_sink_is_a_model_of_its_own_that_is_retried_by_itself(project: Project) -> None:
    project.model(
        "shop/export.sql",
        "CREATE SINK export FROM totals WITH (connector = 'file', path = 'out', format = 'jsonl')",
    )
    project.land("1.csv", "id,shop,price\n1,a,10\n")
    done = project.run()
    assert done.success and "export" in {
        e.asset_key.to_user_string() for e in done.get_asset_materialization_events()
    }
    (file,) = (project.home / "out").glob("*.jsonl")
    assert '"total": 10' in file.read_text()
    (project.home / "out").rename(project.home / "kept")
    (project.home / "out").write_text("in the way")
    project.land("2.csv", "id,shop,price\n2,a,5\n")
    failed = project.run()
    moved = {e.asset_key.to_user_string() for e in failed.get_asset_materialization_events()}
    assert not failed.success and {"totals", "large"} <= moved and "export" not in moved
    pending = find_pending(project.session.store, project.models)
    assert pending.sinks == ("export",) and not pending.lagging
    (project.home / "out").unlink()
    (project.home / "kept").rename(project.home / "out")
    assert project.run(["export"]).success
    assert sorted('"update"' in file.read_text() for file in (project.home / "out").glob("*.jsonl")) == [
        False,
        True,
    ]
    assert not find_pending(project.session.store, project.models)


def test_a_source_whose_rows_are_not_kept_is_an_asset_that_runs_poll(project: Project) -> None:
    said = "connector = 'nexmark', max_events = '500'"
    project.model("shop/bid.sql", f"CREATE SOURCE bid (auction BIGINT, price BIGINT) WITH ({said});")
    project.model("shop/bids.sql", "CREATE MATERIALIZED VIEW bids AS SELECT count(*) AS n FROM bid;")
    assert project.run().success
    assert project.contents("bids") == [{"n": 460}]
    assert "changes_kept" in project.read_metadata("bid") and "rows_at_most" not in project.read_metadata(
        "bid"
    )
    project.model("shop/bid.sql", f"CREATE SOURCE bid (auction BIGINT) WITH ({said});")
    assert not project.run().success  # it is not replaced by itself, and its rows go on
    assert project.session.catalog.get("bid").kind == "source"
    assert project.contents("bids") == [{"n": 460}]
