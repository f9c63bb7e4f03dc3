"""A project of its own: home, models, store and Dagster instance in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from dagster_tideline import Settings, build_definitions
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.loader import Model, load_models
from dagster_tideline.runs.asset_builder import build_assets, list_epoch_models
from dagster_tideline.runs.epoch_job import build_epoch_job
from dagster_tideline.upkeep.schedules import JOBS
from engine.session import Session

SOURCE = "CREATE TABLE orders (id INT PRIMARY KEY, shop STRING, price INT) WITH (connector = 'landing', path = 'landing/orders');"
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT shop, sum(price) AS total FROM orders GROUP BY shop;"
LARGE = "CREATE MATERIALIZED VIEW large AS SELECT shop, total FROM totals WHERE total > 10;"


def failure(result: dg.ExecuteInProcessResult) -> str:
    """Return why the one step of a run that failed did."""
    (event,) = result.get_step_failure_events()
    data = event.step_failure_data.user_failure_data
    return "" if data is None else str(data.description)


@dataclass
class Project:
    """The parts of a project that the tests work on."""

    home: Path
    instance: dg.DagsterInstance
    session: Session

    @property
    def models(self) -> tuple[Model, ...]:
        """The models as they are on disk now."""
        return load_models(self.home / "assets")

    def model(self, name: str, text: str) -> None:
        """Write one model file."""
        path = self.home / "assets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def land(self, name: str, text: str) -> None:
        """Drop one file into the folder of `orders`."""
        folder = self.home / "landing" / "orders"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    def run(self, selection: list[str] | None = None) -> dg.ExecuteInProcessResult:
        """Run an epoch in this process, over all assets or some."""
        assets = build_assets(self.models, {})
        keys = [dg.AssetKey(name) for name in list_epoch_models(self.models)]
        definitions = dg.Definitions(
            assets=assets,
            jobs=[build_epoch_job(keys)],  # type: ignore[list-item]
            resources={
                "hummock": HummockResource(url=self.session.url),
                "spark": SparkResource(target="local[2]"),
            },
        )
        return self.run_of(definitions, selection)

    def run_of(
        self, definitions: dg.Definitions, selection: list[str] | None = None
    ) -> dg.ExecuteInProcessResult:
        """Run an epoch of given definitions in this process."""
        job = definitions.resolve_job_def("epoch_run")
        chosen = None if selection is None else [dg.AssetKey(name) for name in selection]
        return job.execute_in_process(instance=self.instance, asset_selection=chosen, raise_on_error=False)

    def maintain(
        self,
        job: str,
        config: dict[str, object] | None = None,
        of: dg.JobDefinition | None = None,
        spark: str = "local[2]",
    ) -> dg.ExecuteInProcessResult:
        """Run a job of maintenance in this process; `config` is that of its op."""
        found = of or JOBS[job]
        (node,) = found.nodes
        return found.execute_in_process(
            instance=self.instance,
            resources={
                "hummock": HummockResource(url=self.session.url),
                "spark": SparkResource(target=spark),
            },
            run_config={"ops": {node.name: {"config": config}}} if config else None,
            raise_on_error=False,
        )

    def read_metadata(self, asset: str) -> dict[str, Any]:
        """Return the numbers of an asset's newest materialization."""
        event = self.instance.get_latest_materialization_event(dg.AssetKey(asset))
        found = None if event is None else event.asset_materialization
        return {} if found is None else {name: value.value for name, value in found.metadata.items()}

    def contents(self, name: str) -> list[dict[str, object]]:
        """Return a table's visible rows, sorted."""
        self.session.store.refresh()
        found = self.session.sql(f"SELECT * FROM {name}")
        return sorted(found.to_pylist(), key=str) if found is not None else []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[Project]:
    """A project with one landing table, a view on it, and a view on that view."""
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDELINE_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("TIDELINE_STORE", (tmp_path / "store").as_uri())
    with dg.DagsterInstance.ephemeral() as instance, Session((tmp_path / "store").as_uri(), spark) as session:
        made = Project(tmp_path, instance, session)
        made.model("shop/orders.sql", SOURCE)
        made.model("shop/totals.sql", TOTALS)
        made.model("shop/large.sql", LARGE)
        yield made


@pytest.fixture
def definitions(project: Project) -> Callable[[], dg.Definitions]:
    """A function that builds the definitions of the project as it is on disk."""
    return lambda: build_definitions(Settings.of_environment(project.home))
