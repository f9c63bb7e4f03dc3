"""The component of Dagster's `dg`: a folder of models in `defs/`, kept up to date by Tideline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import dagster as dg

from dagster_tideline.definitions import build_definitions
from dagster_tideline.models.header import build_header_lines
from dagster_tideline.settings import Settings


class TidelineModelsComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL files, and Python files with `@materialized_view`, whose tables, views and sinks are kept up to date."""

    models: str = "."
    """The folder of the models, relative to that of `defs.yaml`."""
    store: str | None = None
    """`file:///path` or `s3://bucket/prefix`; without it TIDELINE_STORE, else `.tideline/store` of the project."""
    spark: str = ""
    """`local[2]`, `spark://…`, `k8s://…`, `sc://…`; without it SPARK_REMOTE, else local[*]."""
    runs: Literal["tick", "driver"] | None = None
    """`tick`: a run takes what is pending and ends. `driver`: one run stays. Without it TIDELINE_RUNS, else `tick`."""
    group: str | None = None
    """What the headers of models say that do not say it themselves; so are all below."""
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = {}
    freshness: str | None = None
    """`10 min warn 5 min`."""
    automation: str | None = None
    """`eager`, `on_cron('0 6 * * *')` or `none`."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets, the sensor, the jobs and the schedules of the models."""
        return self.build_project_defs(Path(context.project_root), context.path)

    def build_project_defs(self, project: Path, place: Path) -> dg.Definitions:
        """Return the definitions of the models below the folder `place` of a project."""
        settings = Settings.of_environment(project)
        told = {"store": self.store, "runs": self.runs, "spark": self.spark or settings.spark}
        changed = {name: value for name, value in told.items() if value is not None}
        folder = (place / self.models).resolve()
        texts = {"group": self.group, "freshness": self.freshness, "automation": self.automation}
        said = build_header_lines(self.owners, self.tags, texts)
        return build_definitions(settings.replace(**changed, assets=folder), said=said)
