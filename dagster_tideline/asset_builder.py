"""All models as assets of one op, so that a run starts Spark once, and any subset can be materialized by hand."""

import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import dagster as dg

from dagster_tideline.check_events import check_specs
from dagster_tideline.epoch_events import Event, asset_keys, last_told
from dagster_tideline.epoch_run import run_epoch
from dagster_tideline.hummock_resource import HummockResource
from dagster_tideline.meanwhile import taken_meanwhile
from dagster_tideline.models import Model
from dagster_tideline.partitioned import partitioned_asset
from dagster_tideline.spark_resource import SparkResource
from dagster_tideline.under_way import under_way
from dagster_tideline.view_spec import spec_of, taken_by_dagster
from engine.sql.catalog import Catalog, Relation

OP_NAME = "epoch"
WORKER_TAG = "tideline/worker"


def build_assets(
    models: Sequence[Model], relations: Mapping[str, Relation], written: Collection[str] = ()
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the assets of the models; `relations` are those that the store holds already.

    Tables in `written` are declared by models, but are assets of somebody else, who writes their rows.
    """
    catalog = Catalog(relations)
    plain = [
        taken_by_dagster(model, spec_of(model, relations.get(model.name), catalog))[0]
        for model in models
        if model.kind == "view"
    ]
    ours = epoch_models(models) - set(written)
    own = [model for model in models if model.name in ours]
    told = [
        taken_by_dagster(model, spec_of(model, relations.get(model.name), catalog), check_specs([model]))
        for model in own
    ]
    specs, checks = [spec for spec, _ in told], [check for _, found in told for check in found]
    cut = [
        partitioned_asset(model, relations.get(model.name), catalog)
        for model in models
        if model.is_partitioned
    ]
    if not specs:
        return [*plain, *cut]

    @dg.multi_asset(name=OP_NAME, specs=specs, check_specs=checks, can_subset=True)
    def epoch(
        context: dg.AssetExecutionContext, hummock: HummockResource, spark: SparkResource
    ) -> Iterator[Event]:
        context.instance.add_run_tags(context.run_id, {WORKER_TAG: worker_name()})
        selected = {key.to_user_string() for key in context.selected_asset_keys}
        if selected >= ours:  # an epoch of everything, also of what are assets of their own
            selected |= {model.name for model in models if model.kind != "view"}
        told = last_told(context.instance, asset_keys(models))
        with under_way(context), hummock.session(spark) as session:
            epochs = chain(
                run_epoch(session, models, selected, told, context),
                taken_meanwhile(context, session, models, selected),
            )
            for event in epochs:
                if event.asset_key is None or event.asset_key.to_user_string() not in written:
                    yield event

    return [epoch, *plain, *cut]


def epoch_models(models: Sequence[Model]) -> set[str]:
    """Return the names of the models whose assets an epoch run materializes; views that are cut are told of by partition."""
    return {model.name for model in models if model.kind != "view" and not model.is_partitioned}


def worker_name() -> str:
    """Return host and process of this run's worker, by which a dead one is found out."""
    return f"{platform.node()}:{os.getpid()}"
