"""What Dagster loads: a project's models as assets, one sensor, its jobs, and those of maintenance with their schedules."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_tideline.answers import build_answers_asset, build_answers_job
from dagster_tideline.driver.driver_job import build_driver_job
from dagster_tideline.driver.sensors import build_driver_sensor, build_sensor
from dagster_tideline.gates import build_gate_checks, build_gate_job
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.dry_run import find_refused_models
from dagster_tideline.models.loader import Model
from dagster_tideline.models.translator import TidelineTranslator
from dagster_tideline.naming import RESOURCES, Naming
from dagster_tideline.project_models import load_project_models, read_stored_relations
from dagster_tideline.runs.asset_builder import build_assets, list_epoch_models
from dagster_tideline.runs.epoch_job import EPOCH_RUN, build_epoch_job
from dagster_tideline.settings import Settings
from dagster_tideline.upkeep.backfills import build_backfill_asset
from dagster_tideline.upkeep.backups import (
    build_backup_asset,
    build_backup_job,
    build_backup_schedule,
)
from dagster_tideline.upkeep.delta_tables import build_delta_asset
from dagster_tideline.upkeep.freshness import build_freshness_assets
from dagster_tideline.upkeep.maintenance import build_maintenance_assets
from dagster_tideline.upkeep.sampled_oracle import build_oracle_asset, build_oracle_checks
from dagster_tideline.upkeep.schedules import build_jobs, build_schedules
from engine.errors import EnvironmentNotReady, SqlError
from engine.sql.catalog import Relation

_LOG = logging.getLogger(__name__)
VALIDATING = "DAGSTER_IS_DEFS_VALIDATION_CLI"
"""Dagster sets it in `dg check defs` and `dagster definitions validate`, which fail by what loading raises."""


def build_definitions(
    settings: Settings,
    resources: Mapping[str, dg.ConfigurableResource[Any]] | None = None,
    assets: Sequence[dg.AssetsDefinition] = (),
    said: Mapping[str, str] | None = None,
    translator: TidelineTranslator | None = None,
) -> dg.Definitions:
    """Return the definitions of a project; `resources` are `hummock` and `spark`, by default those of the settings.

    The `translator` says what the assets of models are like; by default their keys are `settings.key_prefix` and their names.
    Definitions of several stores can be merged where their settings have names, or prefixes, of their own.

    `assets` are others of the project: they may read models and, through `TidelineIOManager` as the resource `io_manager`, write
    tables: a model of the same name is then declared by the model, and materialized by that asset. `said` is what the headers of
    models say that do not say it themselves, by key.
    """
    os.environ.setdefault("TIDELINE_HOME", str(settings.home))  # landing folders are relative to it
    resources = build_resources(settings) | dict(resources or {})
    models = load_project_models(settings, said)
    naming = Naming(models, translator or TidelineTranslator(settings.key_prefix), settings.unique_name)
    stored = read_stored_relations(settings.store)
    spark = resources["spark"]
    _report_unusable(models, stored, spark.address if isinstance(spark, SparkResource) else None)
    resources = {naming.format_name(n) if n in RESOURCES else n: one for n, one in resources.items()}
    external = naming.find_names(key for asset in assets for key in asset.keys)
    _check_written_models(models, external)
    built = build_assets(models, stored, external, naming)
    keys = naming.get_keys(sorted(list_epoch_models(models) - external))
    jobs = build_jobs(naming)
    backup = build_backup_job(naming, settings.backup_to, settings.backup_keep)
    by_hand = [build_answers_job(naming), build_gate_job(naming), backup]
    schedules = build_schedules(
        settings.max_lag_seconds,
        jobs,
        naming,
        are_on=not settings.is_of_branch,
        oracle_share=settings.oracle_share,
    )
    upkeep: list[dg.AssetsDefinition | dg.AssetSpec] = [
        build_backfill_asset(naming),
        *build_maintenance_assets(naming),
        build_delta_asset(naming),
        *build_freshness_assets(naming),
        build_answers_asset(naming),
        build_oracle_asset(naming),
    ]
    if settings.backup_to:
        upkeep.append(build_backup_asset(naming))
        schedules = [*schedules, build_backup_schedule(backup, naming, is_on=not settings.is_of_branch)]
    if not keys:
        return dg.Definitions(
            assets=[*assets, *upkeep],
            jobs=[*jobs.values(), *by_hand],
            schedules=schedules,
            resources=resources,
        )
    job = build_epoch_job(keys, naming.format_name(EPOCH_RUN))
    driver = build_driver_job(models, external, naming)
    by_driver = settings.runs == "driver"
    sensor = (
        build_driver_sensor(models, driver, settings, naming)
        if by_driver
        else build_sensor(models, job, settings, naming)
    )
    return dg.Definitions(
        assets=[*built, *assets, *upkeep],
        asset_checks=[*build_oracle_checks(models, naming), *build_gate_checks(models, naming)],
        jobs=[job, *([driver] if by_driver else []), *jobs.values(), *by_hand],
        sensors=[sensor],
        schedules=schedules,
        resources=resources,
        executor=dg.in_process_executor,
    )


def _report_unusable(models: Sequence[Model], stored: Mapping[str, Relation], spark: str | None) -> None:
    """Warn of models that can't be used, which stop no other; raises for them where Dagster only asks whether all is well."""
    errors = {model.name: model.error for model in models if model.error is not None}
    for name, error in errors.items():
        _LOG.warning("%s can't be used:\n%s", name, error)
    if not os.environ.get(VALIDATING):
        return
    try:
        errors |= find_refused_models(models, stored, spark)
    except EnvironmentNotReady as error:
        _LOG.warning("models were read, but not tried: %s", error)
    if errors:
        number = "one model" if len(errors) == 1 else f"{len(errors)} models"
        others = f"{number} of {len(models)} can't be used; a code server loads the others"
        messages = [f"{name} can't be used:\n{error}" for name, error in errors.items()]
        raise dg.DagsterInvalidDefinitionError("\n\n".join((others, *messages)))


def _check_written_models(models: Sequence[Model], external: Collection[str]) -> None:
    """Raise SqlError for a model that another asset is to write, but that computes its own rows."""
    for model in models:
        if model.name in external and (model.kind != "table" or model.options.get("connector")):
            raise SqlError(
                f"{model.name} of {model.path} is also an asset in Python, but has rows of its own",
                hint="give the asset another name, or make the model a CREATE TABLE without a connector",
            )


def build_resources(settings: Settings) -> dict[str, dg.ConfigurableResource[Any]]:
    """Return the store and the Spark that the settings name, under the names by which runs ask for them."""
    return {"hummock": HummockResource(url=settings.store), "spark": SparkResource(target=settings.spark)}
