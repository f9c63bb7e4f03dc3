"""Names of a pipeline: datasets of its own, tables of the store, and paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipelines.elements import Dataset, DatasetKind
from engine.pipelines.names import DatasetNames, KnownTable, split_name
from engine.pipelines.spec import PipelineError

HOME = ("cat", "db")


def dataset(name: str, kind: DatasetKind = "materialized view") -> Dataset:
    """Return a dataset of a name."""
    return Dataset(split_name(name), kind, "a.py:1", HOME)


def test_names_have_parts_in_quotes() -> None:
    assert split_name("a.`b.c`.`d``e`") == ("a", "b.c", "d`e")


def test_a_name_means_the_dataset_in_its_database(tmp_path: Path) -> None:
    own, other, view = dataset("Orders"), dataset("sales.orders"), dataset("v", "temporary view")
    names = DatasetNames([own, other, view], {}, (), tmp_path)
    for text, wanted in (
        ("orders", own),
        ("DB.orders", own),
        ("cat.db.orders", own),
        ("sales.orders", other),
    ):
        assert names.find_dataset(split_name(text), HOME) is wanted
    assert names.find_dataset(("v",), HOME) is view and names.find_dataset(("db", "v"), HOME) is None
    assert names.find_dataset(("orders",), ("cat", "sales")) is other
    assert names.find_dataset(("raw", "orders"), HOME) is None
    assert [names.find_relation(one) for one in (own, other, view)] == ["db_orders", "sales_orders", "v"]


def test_a_second_dataset_of_a_name_is_refused(tmp_path: Path) -> None:
    first, second = dataset("a"), dataset("db.A")
    names = DatasetNames([first, second, dataset("b-c")], {}, (), tmp_path)
    assert names.find_relation(first) == "a"
    with pytest.raises(PipelineError, match="defined twice"):
        names.find_relation(second)


def test_tables_are_called_by_what_is_said_and_else_by_their_last_part(tmp_path: Path) -> None:
    known = [KnownTable("landed", ("id",))]
    names = DatasetNames([dataset("items")], {"RAW.orders": "landed"}, known, tmp_path)
    assert names.find_table(("raw", "orders"), HOME) is known[0]
    assert names.find_table(("cat", "raw", "orders"), HOME) is known[0]
    assert names.find_table(("raw", "Customers"), HOME).name == "customers"
    assert names.find_table(("raw", "items"), HOME).name == "raw_items"


def test_a_dataset_may_be_replaced_by_a_table(tmp_path: Path) -> None:
    bronze = dataset("bronze")
    names = DatasetNames([bronze], {"db.bronze": "landed"}, (), tmp_path)
    assert names.find_replacement(bronze) == "landed" and names.find_replacement(dataset("x")) is None


def test_paths_are_those_that_are_said_or_that_a_delta_table_follows(tmp_path: Path) -> None:
    known = [
        KnownTable("a"),
        KnownTable("d", connector="delta", path=str(tmp_path / "x")),
        KnownTable("l", connector="landing", path="/l"),
    ]
    names = DatasetNames([], {"./data/a": "a", "s3a://b/c/": "c"}, known, tmp_path)
    assert names.find_path("csv", str(tmp_path / "data" / "a")) is known[0]
    assert names.find_path("parquet", f"file://{tmp_path}/data/a").name == "a"
    assert names.find_path("parquet", "s3://b/c").name == "c"
    assert names.find_path("delta", str(tmp_path / "x")) is known[1]
    for form, path in (("csv", "/l"), ("parquet", str(tmp_path / "x"))):
        with pytest.raises(PipelineError, match="no table stands for them"):
            names.find_path(form, path)
