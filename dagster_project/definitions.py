"""What Dagster loads: the project's models as assets, one sensor, two jobs, two schedules, two resources."""

from __future__ import annotations

import os
from collections.abc import Mapping

import dagster as dg

from dagster_project.asset_builder import build_assets, epoch_models
from dagster_project.driver import build_driver_job
from dagster_project.jobs import compaction_job, epoch_job
from dagster_project.models import load_models
from dagster_project.schedules import compaction_schedule, full_compaction_schedule
from dagster_project.sensors import build_driver_sensor, build_sensor
from dagster_project.settings import assets_folder, driver_seconds, project_home, run_mode, store_url
from engine.errors import TidelineError
from engine.hummock import Hummock
from engine.meta.catalog_store import load
from engine.sql.catalog import Relation
from resources import HummockResource, SparkResource


def stored_relations(url: str) -> Mapping[str, Relation]:
    """Return what the store holds, for column types in the UI; nothing if the store can't be opened now."""
    try:
        with Hummock.open(url, create=False) as store:
            return load(store.refresh()).catalog.relations
    except (TidelineError, OSError):
        return {}


def build_definitions() -> dg.Definitions:
    """Return the definitions of the project that the environment names."""
    os.environ.setdefault("TIDELINE_HOME", str(project_home()))  # landing folders are relative to it
    models = load_models(assets_folder())
    url = store_url()
    resources = {"hummock": HummockResource(url=url), "spark": SparkResource()}
    assets = build_assets(models, stored_relations(url))
    keys = [dg.AssetKey(name) for name in sorted(epoch_models(models))]
    if not keys:
        return dg.Definitions(
            jobs=[compaction_job],
            schedules=[compaction_schedule, full_compaction_schedule],
            resources=resources,
        )
    job = epoch_job(keys)
    driver = build_driver_job(models)
    by_driver = run_mode() == "driver"
    sensor = build_driver_sensor(models, driver, driver_seconds()) if by_driver else build_sensor(models, job)
    return dg.Definitions(
        assets=assets,
        jobs=[job, *([driver] if by_driver else []), compaction_job],
        sensors=[sensor],
        schedules=[compaction_schedule, full_compaction_schedule],
        resources=resources,
        executor=dg.in_process_executor,
    )


defs = build_definitions()
