"""All models as assets of one op, so that a run starts Spark once, and any subset can be materialized by hand."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from dagster_project.epoch_run import run_epoch
from dagster_project.jobs import GROUP_TAG
from dagster_project.models import Model
from dagster_project.view_spec import spec_of
from engine.sql.catalog import Relation
from resources import HummockResource, SparkResource

OP_NAME = "epoch"
WORKER_TAG = "tideline/worker"


def build_assets(
    models: Sequence[Model], relations: Mapping[str, Relation]
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the assets of the models; `relations` are those that the store holds already."""
    plain = [spec_of(model, relations.get(model.name)) for model in models if model.kind == "view"]
    specs = [spec_of(model, relations.get(model.name)) for model in models if model.kind != "view"]
    if not specs:
        return list(plain)

    @dg.multi_asset(name=OP_NAME, specs=specs, can_subset=True)
    def epoch(
        context: dg.AssetExecutionContext, hummock: HummockResource, spark: SparkResource
    ) -> Iterator[dg.MaterializeResult]:
        context.instance.add_run_tags(context.run_id, {WORKER_TAG: worker_name()})
        selected = {key.to_user_string() for key in context.selected_asset_keys}
        known = last_versions(context.instance, [spec.key for spec in specs])
        with hummock.session(spark) as session:
            by_hand = GROUP_TAG not in context.run.tags
            yield from run_epoch(session, models, selected, known, context.log, eager=by_hand)

    return [epoch, *plain]


def last_versions(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[str, str | None]:
    """Return the data version of each asset's newest event."""
    found: dict[str, str | None] = {}
    for record in instance.get_asset_records(keys):
        entry = record.asset_entry.last_materialization_record
        event = entry.asset_materialization if entry is not None else None
        tags = event.tags if event is not None and event.tags else {}
        found[record.asset_entry.asset_key.to_user_string()] = tags.get("dagster/data_version")
    return found


def worker_name() -> str:
    """Return host and process of this run's worker, by which a dead one is found out."""
    return f"{platform.node()}:{os.getpid()}"
