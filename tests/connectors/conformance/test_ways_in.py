"""Ways into tables crossed with features of tables: each cell is right, or refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.conformance.ways_in import BY_TASKS, FEATURES, WAYS, Cell, Way, cells

PLAIN = [way for way in WAYS if not way.spark]


def _told(found: Sequence[Cell]) -> str:
    refused = [f"  {cell.feature} is refused: {cell.refused}" for cell in found if cell.refused]
    wrong = [f"  {cell.feature} is wrong: {cell.wrong}" for cell in found if cell.wrong]
    counts = f"{found[0].way}: {len(found)} cells, {len(refused)} refused by name, {len(wrong)} wrong"
    return "\n".join([counts, *refused, *wrong])


def _check(found: Sequence[Cell]) -> None:
    print(_told(found))
    assert not [cell for cell in found if cell.wrong], _told(found)
    assert all(any(word in cell.refused for word in _named(cell)) for cell in found if cell.refused)


def _named(cell: Cell) -> tuple[str, ...]:
    """Return the words one of which says what cannot be: the table, a clause of it, or one of its columns."""
    return cell.feature, "ON CONFLICT", "WITH TTL", "APPEND ONLY", "PRIMARY KEY", "column"


@pytest.mark.parametrize("way", PLAIN, ids=lambda way: way.name)
def test_each_feature_by_ways_that_need_no_spark(way: Way, tmp_path: Path) -> None:
    def none() -> SparkSession:
        raise AssertionError("Spark was started")

    features = [feature for feature in FEATURES if feature.name != "generated"]
    with Session((tmp_path / "store").as_uri(), none, dialect="postgres") as session:
        _check(list(cells(session, way, features, tmp_path, views=False)))


@pytest.mark.conformance
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_feature_by_each_way(
    way: Way, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in BY_TASKS.items():
        if way.name.endswith("by tasks"):
            monkeypatch.setenv(name, value)
    with Session((tmp_path / "store").as_uri(), spark, dialect="postgres") as session:
        _check(list(cells(session, way, FEATURES, tmp_path, views=True)))
