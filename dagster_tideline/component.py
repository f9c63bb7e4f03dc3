"""The component of Dagster's `dg`: a folder of models in `defs/`, kept up to date by Tideline."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import dagster as dg

from dagster_tideline.definitions import build_definitions
from dagster_tideline.settings import Settings


class TidelineModelsComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL files, and Python files with `@materialized_view`, whose tables, views and sinks are kept up to date."""

    models: str = "."
    """The folder of the models, relative to that of `defs.yaml`."""
    store: str | None = None
    """`file:///path` or `s3://bucket/prefix`; without it TIDELINE_STORE, else `.tideline/store` of the project."""
    spark: str = ""
    """`local[2]`, `spark://…`, `sc://…`; without it SPARK_REMOTE, else local[*]."""
    runs: Literal["tick", "driver"] | None = None
    """`tick`: a run takes what is pending and ends. `driver`: one run stays. Without it TIDELINE_RUNS, else `tick`."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets, the sensor, the jobs and the schedules of the models."""
        settings = Settings.of_environment(Path(context.project_root))
        told = {"store": self.store, "runs": self.runs, "spark": self.spark or settings.spark}
        changed = {name: value for name, value in told.items() if value is not None}
        folder = (context.path / self.models).resolve()
        return build_definitions(settings.model_copy(update={**changed, "assets": folder}))
