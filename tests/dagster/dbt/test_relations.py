"""Names of relations for the tables of a dbt project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dagster_tideline.dbt.manifest import ManifestError, read_manifest
from dagster_tideline.dbt.relations import RelationNames, build_names
from tests.dagster.dbt.manifests import model, source, write_manifest


def name(folder: Path, *nodes: dict[str, Any], **sources: str) -> RelationNames:
    """Return the names of nodes; `sources` are said with two underscores for the dot."""
    said = {key.replace("__", "."): value for key, value in sources.items()}
    return build_names(read_manifest(write_manifest(folder, *nodes)), said)


def test_a_name_is_the_tables_own_in_lower_case(tmp_path: Path) -> None:
    found = name(tmp_path, model("a", "select 1", alias="Orders_V2"), source("Items", "ITEMS"))
    assert found.names == {"model.shop.a": "orders_v2", "source.shop.raw.Items": "items"}


def test_what_is_said_of_a_source_counts_by_its_name_or_its_table(tmp_path: Path) -> None:
    found = name(tmp_path, model("a", "select 1"), source("orders", "T_ORDERS"), raw__orders="landed")
    assert found.names["source.shop.raw.orders"] == "landed"
    found = name(tmp_path, model("a", "select 1"), source("orders", "T_ORDERS"), raw__t_orders="landed")
    assert found.names["source.shop.raw.orders"] == "landed"


def test_a_model_keeps_a_name_that_a_source_has_too(tmp_path: Path) -> None:
    found = name(tmp_path, model("orders", "select 1"), source("orders", source_name="erp"))
    assert found.names == {"model.shop.orders": "orders", "source.shop.erp.orders": "erp_orders"}


def test_models_of_two_schemas_have_these_before_their_names(tmp_path: Path) -> None:
    one = model("one", "select 1", alias="orders", schema="sales")
    two = model("two", "select 1", alias="orders", schema="stock")
    found = name(tmp_path, one, two)
    assert found.names == {"model.shop.one": "sales_orders", "model.shop.two": "stock_orders"}
    assert found.errors == {}


def test_sources_that_name_one_table_have_one_relation(tmp_path: Path) -> None:
    found = name(tmp_path, model("a", "select 1"), source("orders"), source("orders", source_name="other"))
    assert set(found.names.values()) == {"a", "orders"} and found.errors == {}


def test_a_source_that_names_a_models_table_means_the_model(tmp_path: Path) -> None:
    found = name(tmp_path, model("orders", "select 1"), source("orders", schema="main"))
    table = found.find(("shopdb", "main", "orders"))
    assert table is not None and table.unique_id == "model.shop.orders"


def test_names_that_clash_all_the_same_are_told(tmp_path: Path) -> None:
    one = model("one", "select 1", alias="orders", schema="s")
    two = model("two", "select 1", alias="orders", schema="t")
    found = name(tmp_path, one, two, model("three", "select 1", alias="s_orders", schema="u"))
    assert "the relation s_orders is that of model one" in found.errors["model.shop.three"]
    odd = name(tmp_path, model("a", "select 1", alias="a-b"))
    assert "give it an alias" in odd.errors["model.shop.a"]


def test_a_name_may_leave_the_database_out(tmp_path: Path) -> None:
    found = name(tmp_path, model("a", "select 1"), db__other="plain")
    assert found.find(("MAIN", "A")) is not None
    assert found.find(("elsewhere", "main", "a")) is None and found.find(("a",)) is None
    assert found.find_plain(("db", "other")) == "plain"


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="orders is no source of the manifest"):
        name(tmp_path, model("a", "select 1"), orders="x")
