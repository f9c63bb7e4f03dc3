"""A view that is cut into partitions is a partitioned asset: runs tell which have changed, and a click computes one again."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster import AssetRecordsFilter
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.runs.asset_builder import build_assets
from dagster_tideline.runs.partitioned_assets import CHECK, build_partitions_def
from tests.dagster.conftest import Project

CUT = (
    "CREATE MATERIALIZED VIEW ratios WITH (partition_by = 'shop') AS "
    "SELECT shop, sum(100 DIV price) AS r, count(*) AS n FROM orders GROUP BY shop;"
)
ABOVE = "CREATE MATERIALIZED VIEW shops AS SELECT count(*) AS n FROM ratios;"
KEY = dg.AssetKey("ratios")


@pytest.fixture
def cut(project: Project) -> Project:
    """The project with a view that is cut by shop, and one on top of it."""
    project.model("shop/ratios.sql", CUT)
    project.model("shop/shops.sql", ABOVE)
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,20\n3,c,50\n")
    assert project.run().success
    return project


def list_partition_events(project: Project) -> list[tuple[str | None, int]]:
    """The partitions that events tell of, oldest first, with the rows that each event says were written of them again."""
    records = project.instance.fetch_materializations(AssetRecordsFilter(asset_key=KEY), limit=100).records
    return [
        (r.partition_key, int(r.asset_materialization.metadata["updated"].value))  # type: ignore[union-attr, arg-type]
        for r in reversed(records)
    ]


def materialize(project: Project, partition: str, key: dg.AssetKey = KEY) -> dg.ExecuteInProcessResult:
    """What the UI does when somebody materializes one partition."""
    definitions = dg.Definitions(
        assets=build_assets(project.models, {}),
        resources={
            "hummock": HummockResource(url=project.session.url),
            "spark": SparkResource(target="local[2]"),
        },
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=project.instance, asset_selection=[key], partition_key=partition, raise_on_error=False
    )


def statuses(project: Project) -> dict[str, AssetPartitionStatus | None]:
    keys = project.instance.get_dynamic_partitions("ratios")
    found = project.instance.get_status_by_partition(KEY, keys, build_partitions_def(KEY))
    return dict(found or {})


def checked(project: Project) -> list[tuple[bool, list[str]]]:
    """What the check of the view's quarantine has found, oldest first: whether it passed, and the partitions it names."""
    check = dg.AssetCheckKey(KEY, CHECK)
    found = project.instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
    events = [record.event.dagster_event.event_specific_data for record in reversed(found)]  # type: ignore[union-attr]
    return [(e.passed, sorted(e.metadata)) for e in events if isinstance(e, dg.AssetCheckEvaluation)]


def test_a_run_tells_of_every_new_partition_and_then_of_those_that_change(cut: Project) -> None:
    assert sorted(cut.instance.get_dynamic_partitions("ratios")) == ["a", "b", "c"]
    assert sorted(list_partition_events(cut)) == [("a", 0), ("b", 0), ("c", 0)]
    cut.land("2.csv", "id,shop,price\n4,b,10\n5,d,10\n")
    assert cut.run().success
    assert sorted(partition for partition, _ in list_partition_events(cut)[3:]) == ["b", "d"]
    assert cut.contents("shops") == [{"n": 4}]
    cut.run()
    assert len(list_partition_events(cut)) == 5


@pytest.mark.long
def test_a_poison_partition_is_told_with_its_error_and_comes_back_when_it_alone_is_materialized(
    cut: Project,
) -> None:
    cut.land("2.csv", "id,shop,price\n4,b,0\n5,c,10\n")
    result = cut.run()
    failure = next(e for e in result.all_events if e.event_type_value == "STEP_FAILURE")
    assert not result.success
    for part in ("ratios, partition b", "DIVIDE_BY_ZERO", "{'id': 4}", "materialize partition b"):
        assert part in (failure.step_failure_data.user_failure_data.description or "")  # type: ignore[union-attr]
    assert cut.contents("shops") == [{"n": 3}] and cut.contents("totals")[1] == {"shop": "b", "total": 20}
    moved = {e.asset_key.to_user_string() for e in result.get_asset_materialization_events() if e.asset_key}
    assert moved == {"orders", "ratios", "totals", "large", "shops"}
    assert checked(cut) == [(True, []), (False, ["b"])]
    assert cut.run().success  # which does not try the partition again
    assert [partition for partition, _ in list_partition_events(cut)[3:]] == ["c"]
    seen = cut.instance.fetch_observations(AssetRecordsFilter(asset_key=KEY), limit=10).records
    ((partition, text),) = [(r.partition_key, r.asset_observation.metadata["quarantined"]) for r in seen]  # type: ignore[union-attr]
    assert partition == "b" and "DIVIDE_BY_ZERO" in str(text.value)

    assert not materialize(cut, "b").success
    cut.land("3.csv", "id,shop,price\n7,c,10\n")
    assert cut.run().success and list_partition_events(cut)[4:] == [("c", 1)]
    assert checked(cut)[3:] == [(False, ["b"])]  # with each event, else it would be taken for not evaluated
    assert statuses(cut)["b"] is AssetPartitionStatus.FAILED
    assert statuses(cut)["a"] is AssetPartitionStatus.MATERIALIZED

    cut.session.sql("DELETE FROM orders WHERE id = 4")
    cut.session.sql("INSERT INTO orders VALUES (6, 'b', 1)")
    assert materialize(cut, "b").success
    assert set(statuses(cut).values()) == {AssetPartitionStatus.MATERIALIZED}
    assert list_partition_events(cut)[5:] == [("b", 1)] and checked(cut)[-1] == (True, [])
    assert cut.contents("ratios") == [
        {"shop": "a", "r": 10, "n": 1},
        {"shop": "b", "r": 105, "n": 2},
        {"shop": "c", "r": 22, "n": 3},
    ]


@pytest.mark.long
def test_a_partition_that_cannot_be_computed_for_what_is_below_it_fails_with_the_reason(
    project: Project,
) -> None:
    project.model(
        "shop/parts.sql", "CREATE MATERIALIZED VIEW parts AS SELECT id, shop, 100 DIV price AS p FROM orders;"
    )
    project.model(
        "shop/sums.sql",
        "CREATE MATERIALIZED VIEW sums WITH (partition_by = 'shop') AS SELECT shop, sum(p) AS s FROM parts GROUP BY shop;",
    )
    project.land("1.csv", "id,shop,price\n1,a,10\n")
    assert project.run().success
    project.session.sql("UPDATE orders SET price = 0")
    sums = dg.AssetKey("sums")
    done = [materialize(project, "a", sums) for _ in range(3)]
    failure = next(event for event in done[-1].all_events if event.event_type_value == "STEP_FAILURE")
    message = str(failure.step_failure_data.user_failure_data)  # type: ignore[union-attr]
    assert "nothing was computed: it waits for parts" in message and "DIVIDE_BY_ZERO" in message
    project.session.sql("UPDATE orders SET price = 20")
    assert project.run().success
    assert materialize(project, "a", sums).success
    assert materialize(project, "a", sums).success  # nothing is to be done, which is no failure
    assert project.contents("sums") == [{"shop": "a", "s": 5}]
