"""A project of `dg`: components with prefixes and translations, several in one code location, as `dg list defs` shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.upkeep.maintenance import GROUP

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
code_location_name = "shop"
"""
DEFINITIONS = """
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
TRANSLATED = """
type: dagster_tideline.TidelineModelsComponent
attributes:
  store: {store}/sales
  key_prefix: [shop, sales]
  translation:
    group_name: gold
    owners: ["team:{{{{ model.kind.split(' ')[0] }}}}"]
    tags:
      layer: "{{{{ model.group }}}}"
"""
SUBCLASS = """
import dagster as dg

from dagster_tideline import TidelineModelsComponent, TidelineTranslator


class StockTranslator(TidelineTranslator):
    def get_asset_key(self, model):
        return dg.AssetKey(["stock", f"{model.name}_now"])

    def get_group_name(self, model):
        return "warehouse"


class StockComponent(TidelineModelsComponent):
    def build_translator(self, settings):
        return StockTranslator()
"""
STOCK = """
type: shop.stock.StockComponent
attributes:
  store: {store}/stock
  name: stock
  runs: driver
"""
MODELS = """CREATE TABLE orders (id INT PRIMARY KEY, shop STRING);
CREATE MATERIALIZED VIEW totals AS SELECT shop, count(*) AS n FROM orders GROUP BY shop;
"""


def make_project(folder: Path, components: dict[str, str]) -> None:
    """Write a project of `dg` with components by their folders."""
    package = folder / "shop"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "stock.py").write_text(SUBCLASS)
    (package / "definitions.py").write_text(DEFINITIONS)
    for name, text in components.items():
        (package / "defs" / name).mkdir(parents=True)
        (package / "defs" / name / "defs.yaml").write_text(text.format(store=(folder / "store").as_uri()))
        (package / "defs" / name / "models.sql").write_text(MODELS)


@pytest.mark.long
def test_dg_lists_the_assets_of_two_components_by_their_keys_and_groups(tmp_path: Path) -> None:
    make_project(tmp_path, {"sales": TRANSLATED, "stock": STOCK})
    dg_command = str(Path(sys.executable).parent / "dg")
    done = subprocess.run(
        [dg_command, "list", "defs", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assets = {one["asset_key"]: one for one in found["assets"] if one["group_name"] != GROUP}
    assert {key: one["group_name"] for key, one in assets.items()} == {
        "shop/sales/orders": "gold",
        "shop/sales/totals": "gold",
        "stock/orders_now": "warehouse",
        "stock/totals_now": "warehouse",
    }
    orders, totals = assets["shop/sales/orders"], assets["shop/sales/totals"]
    assert totals["dependency_keys"] == ["shop/sales/orders"]
    assert assets["stock/totals_now"]["dependency_keys"] == ["stock/orders_now"]
    assert (orders["owners"], totals["owners"]) == ([{"team": "table"}], [{"team": "materialized"}])
    assert {"key": "layer", "value": "default"} in orders["tags"]
    assert {one["name"] for one in found["sensors"]} == {"shop_sales_frontier_sensor", "stock_driver_sensor"}
    jobs = {one["name"] for one in found["jobs"]}
    assert {"shop_sales_epoch_run", "shop_sales_compaction", "stock_epoch_run", "stock_driver"} <= jobs
    assert {one["name"] for one in found["resources"]} == {
        f"{name}_{kind}" for name in ("shop_sales", "stock") for kind in ("hummock", "spark")
    }


PLAIN = """
type: dagster_tideline.TidelineModelsComponent
attributes:
  store: {store}/%s
"""


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (PLAIN % "a/" + "  key_prefix: b\n", "two components have the store"),
        (PLAIN % "b", "two components have no name"),
    ],
    ids=["store", "name"],
)
def test_two_components_with_one_store_or_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, message: str
) -> None:
    make_project(tmp_path, {"a": PLAIN % "a", "b": second})
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Exception, match="Error while building definitions") as found:
        dg.load_from_defs_folder(path_within_project=tmp_path)
    causes, error = [], found.value
    while error is not None:
        causes.append(str(error))
        error = error.__cause__
    assert message in "\n".join(causes)
