"""All models as assets of one op, so that a run starts Spark once, and any subset can be materialized by hand."""

import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import dagster as dg

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.asset_spec import build_valid_spec
from dagster_tideline.models.loader import TEXT_KINDS, Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.check_events import build_check_specs
from dagster_tideline.runs.epoch_events import Event, fetch_reported_tags, list_read_relations
from dagster_tideline.runs.epoch_run import EpochOptions, run_epoch
from dagster_tideline.runs.follow_up import run_follow_ups
from dagster_tideline.runs.partitioned_assets import build_partitioned_asset
from dagster_tideline.runs.run_log import forward_run_log
from engine.sql.catalog import Catalog, Relation

OP_NAME = "epoch"
WORKER_TAG = "tideline/worker"


def build_assets(
    models: Sequence[Model],
    relations: Mapping[str, Relation],
    external: Collection[str] = (),
    naming: Naming | None = None,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the assets of the models; `relations` are those that the store holds already.

    Tables in `written` are declared by models, but are assets of somebody else, who writes their rows.
    """
    naming, catalog = naming or Naming(models), Catalog(relations)
    plain = [
        build_valid_spec(model, relations.get(model.name), catalog, naming)[0]
        for model in models
        if model.kind in TEXT_KINDS
    ]
    ours = list_epoch_models(models) - set(external)
    own = [model for model in models if model.name in ours]
    validated = [
        build_valid_spec(
            model, relations.get(model.name), catalog, naming, build_check_specs([model], naming)
        )
        for model in own
    ]
    specs, checks = [spec for spec, _ in validated], [check for _, found in validated for check in found]
    partitioned = [
        build_partitioned_asset(model, relations.get(model.name), catalog, naming)
        for model in models
        if model.is_partitioned
    ]
    if not specs:
        return [*plain, *partitioned]

    @dg.multi_asset(name=naming.format_name(OP_NAME), specs=specs, check_specs=checks, can_subset=True)
    @naming.bind
    def epoch(
        context: dg.AssetExecutionContext, hummock: HummockResource, spark: SparkResource
    ) -> Iterator[Event]:
        context.instance.add_run_tags(context.run_id, {WORKER_TAG: get_worker_name()})
        selected = naming.find_names(context.selected_asset_keys)
        if selected >= ours:  # an epoch of everything, also of what are assets of their own
            selected |= {model.name for model in models if model.kind not in TEXT_KINDS}
        reported_tags = fetch_reported_tags(context.instance, list_read_relations(models), naming)
        with forward_run_log(context), hummock.session(spark) as session:
            epochs = chain(
                run_epoch(session, models, selected, reported_tags, context, EpochOptions(naming=naming)),
                run_follow_ups(context, session, models, selected, naming),
            )
            for event in epochs:
                if event.asset_key is None or event.asset_key.to_user_string() not in external:
                    yield naming.translate_event(event)

    return [epoch, *plain, *partitioned]


def list_epoch_models(models: Sequence[Model]) -> set[str]:
    """Return the names of the models whose assets an epoch run materializes; views that are cut are told of by partition."""
    return {model.name for model in models if model.kind not in TEXT_KINDS and not model.is_partitioned}


def get_worker_name() -> str:
    """Return host and process of this run's worker, by which a dead one is found out."""
    return f"{platform.node()}:{os.getpid()}"
