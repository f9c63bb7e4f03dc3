"""The component of Dagster's `dg` that takes a dbt project as it is, by its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dagster_tideline.component import TidelineModelsComponent
from dagster_tideline.dbt.project import DbtProject
from dagster_tideline.settings import Settings


class TidelineDbtComponent(TidelineModelsComponent):
    """A dbt project whose models are kept up to date as materialized views, beside models in files, which declare its sources."""

    manifest: str
    """`target/manifest.json` of the dbt project, relative to the folder of `defs.yaml`."""
    project: str | None = None
    """The dbt project's folder, for the files of its seeds; without it the one above the manifest's."""
    sources: Mapping[str, str] = {}
    """The tables that stand for sources: `raw.orders: orders`. Without one it is the one of the source's identifier."""
    select: str | Sequence[str] = ()
    """Which nodes are taken: `tag:nightly`, `path:models/marts`, `+orders`; without it all."""
    exclude: str | Sequence[str] = ()
    """Which are not, tests as well."""

    def build_settings(self, project: Path, place: Path) -> Settings:
        """Return the settings of the models below the folder `place` of a project, and of the dbt project."""
        dbt = DbtProject(
            manifest=(place / self.manifest).resolve(),
            project=None if self.project is None else (place / self.project).resolve(),
            sources=self.sources,
            select=self.select,  # type: ignore[arg-type]
            exclude=self.exclude,  # type: ignore[arg-type]
        )
        return super().build_settings(project, place).replace(dbt=dbt)
