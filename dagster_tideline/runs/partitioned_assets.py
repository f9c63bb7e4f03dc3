"""Views that are cut into partitions, as partitioned assets: epoch runs tell which have changed, a click computes one again."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.asset_spec import build_valid_spec
from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import (
    Event,
    build_view_metadata,
    fetch_reported_tags,
    format_failures,
    get_reported_version,
)
from engine.meta.domains.quarantine import QuarantinedPartition, read_quarantine
from engine.sql.catalog import Catalog, Relation

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.session import Session, ViewReport

MOST_EVENTS = 64
"""So many partitions of a view are told of in one epoch, those that Dagster has not seen yet before others."""
DATA_VERSION = "dagster/data_version"
CHECK = "no_partition_in_quarantine"
_FORBIDDEN_IN_KEY = ("...", *"\a\b\f\n\r\t\v\0")


def build_partitions_def(asset: dg.AssetKey) -> dg.DynamicPartitionsDefinition:
    """Return the set of a view's partitions as Dagster knows it: it grows as rows of new partitions come in."""
    return dg.DynamicPartitionsDefinition(name=asset.to_user_string())


def build_partitioned_asset(
    model: Model, relation: Relation | None, catalog: Catalog, naming: Naming
) -> dg.AssetsDefinition:
    """Return the asset of a view that is cut; materializing some of its partitions computes just those again from the inputs."""
    spec, _ = build_valid_spec(model, relation, catalog, naming)
    own = spec.key
    spec = spec.replace_attributes(partitions_def=build_partitions_def(own), skippable=False)

    @dg.multi_asset(
        name=naming.format_name(f"partitions_of_{model.name}"),
        specs=[spec],
        check_specs=[
            dg.AssetCheckSpec(
                CHECK, asset=own, description="Every partition is computed; those that fail are named."
            )
        ],
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    @naming.bind
    def materialize(
        context: dg.AssetExecutionContext, hummock: HummockResource, spark: SparkResource
    ) -> Iterator[Event | dg.AssetCheckResult]:
        known = get_reported_version(fetch_reported_tags(context.instance, [model.name], naming), model.name)
        with hummock.session(spark) as session:
            report = session.materialize(model.name, context.partition_keys)[model.name]
            for event in build_partition_events(session, report, known, context.instance, naming):
                if event.partition not in context.partition_keys:
                    yield naming.translate_event(event)
            behind = {
                key: report.quarantined[key] for key in context.partition_keys if key in report.quarantined
            }
            halted = report.waits_for if report.skipped else None
            if report.error is not None or halted is not None or behind:
                failures = behind or {model.name: report.error or f"nothing was computed: it {halted}"}
                yield dg.AssetCheckResult(
                    passed=False, check_name=CHECK, asset_key=own, metadata=dict(failures)
                )
                raise dg.Failure(format_failures(failures), metadata=dict(failures))
            yield dg.MaterializeResult(
                asset_key=own,
                metadata=build_view_metadata(report, session.store.version.tables[model.name]),
                data_version=dg.DataVersion(str(report.epoch)),
                check_results=[
                    dg.AssetCheckResult(
                        passed=not report.quarantined, check_name=CHECK, metadata=dict(report.quarantined)
                    )
                ],
            )

    return materialize


def build_partition_events(
    session: "Session",
    report: "ViewReport",
    known: str | None,
    instance: dg.DagsterInstance,
    naming: Naming,
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield an event for each partition of a view that has changed, and the error of each that an epoch has left behind.

    `known` is the data version reported last: changes by whatever has run since then are reported as well.
    """
    view = report.view
    if report.error is not None or report.epoch is None:
        return
    asset = naming.get_key(view)
    partitions = build_partitions_def(asset).name or ""
    there = set(instance.get_dynamic_partitions(partitions))
    reported = instance.get_materialized_partitions(asset)
    after = int(known) if reported and known is not None and known.isdigit() else None
    changed = [] if after is not None and report.epoch <= after else session.changed_partitions(view, after)
    changed = [key for key in changed if key not in report.quarantined and _is_valid_key(key)]
    changed.sort(key=lambda key: (key in reported, key))
    behind = [key for key in report.quarantined if _is_valid_key(key)]
    new = [key for key in (*changed, *behind) if key not in there]
    if new:
        instance.add_dynamic_partitions(partitions, new)
    if not report.skipped:
        for key in behind:
            yield dg.AssetObservation(view, partition=key, metadata={"quarantined": report.quarantined[key]})
    metadata = build_view_metadata(report, session.epochs.store.version.tables[view])
    for key in _sample_partitions(changed, reported):
        yield dg.AssetMaterialization(
            view, partition=key, metadata=metadata, tags={DATA_VERSION: str(report.epoch)}
        )


def build_quarantine_check(view: str, version: "Version") -> dg.AssetCheckEvaluation:
    """Return the check of a view's quarantine, told with each event of the view: else Dagster takes it for not evaluated."""
    remedies = {key: format_remedy(view, key, one) for key, one in read_quarantine(version, view).items()}
    return dg.AssetCheckEvaluation(
        dg.AssetKey(view),
        CHECK,
        passed=not remedies,
        metadata=remedies,
        description=format_failures(remedies) or None,
    )


def format_remedy(view: str, key: str, one: QuarantinedPartition) -> str:
    """Return what is the matter with a partition in quarantine, and what to do; in one line, as Dagster's page shows it."""
    reason = "; ".join(line.strip() for line in one.text.splitlines())
    rows = "It has no rows yet" if one.epoch is None else "Its rows are those of its epoch"
    return (
        f"{reason}. {rows}, all other partitions of {view} go on. Mend or delete the row that it names, then materialize "
        f"partition {key}; the partition is also tried again by itself when what it reads changes."
    )


def _sample_partitions(changed: Iterable[str], reported: set[str]) -> Iterator[str]:
    """Yield the partitions to tell of: all that Dagster has never heard of, and others up to MOST_EVENTS."""
    for number, key in enumerate(changed):
        if key not in reported or number < MOST_EVENTS:
            yield key


def _is_valid_key(key: str) -> bool:
    """Whether Dagster takes a partition's name; others are kept up to date as well, but have no status there."""
    return bool(key) and not any(part in key for part in _FORBIDDEN_IN_KEY)
