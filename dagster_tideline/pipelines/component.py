"""The component of Dagster's `dg` that takes a project of Spark Declarative Pipelines as it is, by its spec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dagster_tideline.component import TidelineModelsComponent
from dagster_tideline.pipelines.project import PipelineProject
from dagster_tideline.settings import Settings


class TidelinePipelineComponent(TidelineModelsComponent):
    """A pipeline whose datasets are kept up to date as views, beside models in files, which declare the tables that it reads."""

    spec: str
    """`spark-pipeline.yml` of the pipeline, or its folder, relative to the folder of `defs.yaml`."""
    tables: Mapping[str, str] = {}
    """The tables that stand for others, for files, or for its datasets: `raw.orders: orders`, `/data/items: items`."""
    leave_out: tuple[str, ...] = ()
    """Columns that datasets are kept without, such as the time of a run: `silver_orders.processed_at`."""

    def build_settings(self, project: Path, place: Path) -> Settings:
        """Return the settings of the models below the folder `place` of a project, and of the pipeline."""
        pipeline = PipelineProject(
            spec=(place / self.spec).resolve(), tables=self.tables, leave_out=self.leave_out
        )
        return super().build_settings(project, place).replace(pipeline=pipeline)
