"""Events of a driver: each asset at once, then at distances, nothing lost in the sums."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dagster_tideline.models.loader import Model
from dagster_tideline.runs.event_throttle import EventThrottle, group_models


def event(name: str, version: int, rows: int) -> dg.MaterializeResult[Any]:
    metadata = {"rows_in": rows, "epoch": str(version)}
    return dg.MaterializeResult(asset_key=name, metadata=metadata, data_version=dg.DataVersion(str(version)))


def summarize(events: Any) -> list[tuple[str, int, int, str]]:
    return [
        (
            e.asset_key.to_user_string(),
            e.metadata["rows_in"].value,
            e.metadata["epochs"].value,
            e.metadata["epoch"].value,
        )
        for e in events
    ]


def test_the_first_is_told_at_once_and_the_next_ones_together() -> None:
    throttle = EventThrottle(30.0, {"a": "code"})
    assert summarize(throttle.submit([event("a", 1, 10)], 0.0)) == [("a", 10, 1, "1")]
    assert summarize(throttle.submit([event("a", 2, 5)], 1.0)) == []
    assert summarize(throttle.submit([event("b", 2, 1)], 1.0)) == [("b", 1, 1, "2")]
    assert summarize(throttle.submit([event("a", 3, 7)], 2.0)) == []
    assert summarize(throttle.pop_due(29.0)) == []
    assert summarize(throttle.pop_due(30.0)) == [("a", 12, 2, "3")]
    assert summarize(throttle.pop_due(90.0)) == []


def test_what_waits_is_told_at_the_end() -> None:
    throttle = EventThrottle(30.0, {})
    list(throttle.submit([event("a", 1, 1)], 0.0))
    list(throttle.submit([event("a", 2, 1)], 0.1))
    assert summarize(throttle.pop_due(0.2, all_of_them=True)) == [("a", 1, 1, "2")]


def test_versions_go_on_though_nothing_is_told() -> None:
    throttle = EventThrottle(30.0, {"a": "code"})
    (first,) = throttle.submit([event("a", 1, 1)], 0.0)
    assert isinstance(first, dg.AssetMaterialization)
    assert first.tags == {"dagster/data_version": "1", "dagster/code_version": "code"}
    list(throttle.submit([event("a", 2, 1)], 1.0))
    assert throttle.reported_tags["a"]["dagster/data_version"] == "2"


def test_a_check_that_comes_out_in_another_way_is_told_at_once_and_the_same_outcome_at_distances() -> None:
    throttle = EventThrottle(30.0, {})

    def check(passed: bool, rows: int, description: str | None = None) -> dg.AssetCheckEvaluation:
        key, metadata = dg.AssetKey("a"), {"rows": rows}
        return dg.AssetCheckEvaluation(key, "c", passed, metadata, description=description)

    def rows(events: Any) -> list[Any]:
        return [event.metadata["rows"].value for event in events]

    assert rows(throttle.submit([check(True, 0)], 0.0)) == [0]
    assert rows(throttle.submit([check(True, 0)], 0.1)) == []
    assert rows(throttle.submit([check(False, 3)], 0.2)) == [3]
    assert rows(throttle.submit([check(False, 4)], 0.3)) == []
    assert rows(throttle.pop_due(30.0)) == []
    assert rows(throttle.pop_due(30.3)) == [4]
    assert rows(throttle.pop_due(90.0)) == []
    assert rows(throttle.submit([check(False, 4, "another partition")], 91.0)) == [4]
    assert rows(throttle.submit([check(True, 0)], 91.1)) == [0]
    assert rows(throttle.submit([check(True, 0)], 91.2)) == []
    assert rows(throttle.drain({})) == [0]


def partition(name: str, key: str, version: int, rows: int) -> dg.AssetMaterialization:
    metadata = {"rows_in": rows, "epoch": str(version)}
    return dg.AssetMaterialization(
        name, partition=key, metadata=metadata, tags={"dagster/data_version": str(version)}
    )


def test_versions_go_on_with_partitions_too() -> None:
    throttle = EventThrottle(30.0, {}, {"a": {"dagster/data_version": "1"}})
    list(throttle.submit([partition("a", "x", 2, 1)], 0.0))
    assert throttle.reported_tags["a"]["dagster/data_version"] == "2"


def test_a_partition_in_quarantine_takes_no_materialization_away() -> None:
    throttle = EventThrottle(30.0, {})
    list(throttle.submit([partition("a", "x", 1, 1)], 0.0))
    list(throttle.submit([partition("a", "x", 2, 5)], 1.0))
    assert list(throttle.submit([dg.AssetObservation("a", partition="x")], 2.0)) == []
    (materialized, observed) = throttle.pop_due(30.0)
    assert isinstance(observed, dg.AssetObservation)
    assert summarize([materialized]) == [("a", 5, 1, "2")]


def test_the_end_of_a_run_takes_no_version_back_that_its_successor_has_told() -> None:
    throttle = EventThrottle(30.0, {})
    for name in ("a", "b"):
        list(throttle.submit([event(name, 1, 1)], 0.0))
        list(throttle.submit([event(name, 2, 5)], 1.0))
    found = [
        e
        for e in throttle.drain({"a": {"dagster/data_version": "3"}, "b": {}})
        if isinstance(e, dg.AssetMaterialization)
    ]
    assert summarize(found) == [("a", 5, 1, "2"), ("b", 5, 1, "2")]
    assert [(e.tags or {})["dagster/data_version"] for e in found] == ["3", "2"]


def test_assets_that_read_each_other_are_told_of_together() -> None:
    def model(name: str, *reads: str) -> Model:
        return Model(name, "materialized view", "", f"{name}.sql", reads=reads)

    groups = group_models([model("t"), model("u"), model("v", "t"), model("w", "v"), model("x", "u")])
    assert {groups[a] == groups[b] for a, b in ("tv", "vw", "ux")} == {True} and groups["t"] != groups["u"]
    throttle = EventThrottle(30.0, {}, groups=groups)
    assert len(summarize(throttle.submit([event("t", 1, 1), event("v", 1, 1)], 0.0))) == 2
    assert summarize(throttle.submit([event("t", 2, 1), event("v", 2, 1)], 20.0)) == []
    assert summarize(throttle.submit([event("w", 2, 1)], 21.0)) == []
    assert summarize(throttle.submit([event("u", 2, 1)], 22.0)) == [("u", 1, 1, "2")]
    assert [one[0] for one in summarize(throttle.pop_due(30.0))] == ["t", "v", "w"]


def test_sums_of_seconds_are_rounded() -> None:
    throttle = EventThrottle(30.0, {})
    for at, seconds in enumerate((0.0, 0.187, 0.187, 0.187)):
        result = dg.MaterializeResult(asset_key="a", metadata={"seconds_total": seconds})
        list(throttle.submit([result], float(at)))
    (shown,) = throttle.pop_due(40.0)
    assert isinstance(shown, dg.AssetMaterialization)
    assert str(shown.metadata["seconds_total"].value) == "0.561"


def test_the_end_of_a_run_takes_no_input_back_either() -> None:
    throttle = EventThrottle(30.0, {"a": "code"})
    data, code, read = "dagster/data_version", "dagster/code_version", "dagster/input_data_version/t"
    for version in ("4", "5"):
        result = dg.MaterializeResult(asset_key="a", data_version=dg.DataVersion("3"), tags={read: version})
        list(throttle.submit([result], 0.0))
    newest = {data: "3", code: "code", read: "6", "dagster/input_event_pointer/t": "NULL"}
    (shown,) = throttle.drain({"a": newest})
    assert isinstance(shown, dg.AssetMaterialization) and shown.tags == newest
