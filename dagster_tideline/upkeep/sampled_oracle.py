"""The sampled oracle as a job and as a check of each view: rows computed anew from what a view reads, held against its own."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from dagster_tideline.upkeep.job_lock import hold_job_lock
from dagster_tideline.upkeep.maintenance import GROUP, build_one_op_job, render_table
from engine.cli.upkeep.oracle import get_reports_folder
from engine.hummock.epoch import format_epoch
from engine.runtime.oracle.sampling import SHARE, SampleReport

if TYPE_CHECKING:
    from engine.session import Session

SAMPLED_ORACLE = "sampled_oracle"
CHECK = "sampled_rows"
EVERY_SECONDS = 600
"""How often the schedule asks for samples."""
CLICK_SECONDS = 30.0
"""How long rows are compared where somebody asks for the check of a view."""
_WHAT = "Rows computed anew from what the view reads equal those that are stored."


class OracleConfig(dg.Config):
    """How long rows are compared in a run, and which share of the time they take over many runs at most."""

    seconds: float = Field(default=SHARE * EVERY_SECONDS, gt=0)
    share: float = Field(default=SHARE, gt=0, le=1)


def sample_rows(
    context: dg.OpExecutionContext,
    config: OracleConfig,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Compare some rows of the views with what their queries give; those of a view that differ fail its check, not the run."""
    started = time.perf_counter()
    with hold_job_lock(context), hummock.session(spark) as session:
        found = _take_samples(session, (), config.seconds, config.share)
    for one in found:
        if one.differ:
            context.log.error(f"rows of {one.view} differ from its query's: {'; '.join(one.examples)}")
        if one.rows and naming.is_known(one.view):
            yield build_check_event(one, naming)
    sampled = [one for one in found if one.rows or one.passed]
    numbers: dict[str, Metadata] = {
        "views": len(found),
        "views_sampled": len(sampled),
        "views_that_differ": sum(one.differ > 0 for one in found),
        "rows_compared": sum(one.rows for one in found),
        "rows_that_differ": sum(len(one.differences) for one in found),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if found:
        rows = [
            (one.view, one.rows, one.differ, f"{one.progress:.0%}", one.reason or "; ".join(one.examples))
            for one in found
        ]
        numbers["samples"] = render_table(("view", "rows compared", "differ", "pass", "note"), rows)
    yield dg.AssetMaterialization(naming.build_upkeep_key(SAMPLED_ORACLE), metadata=numbers)


def check_views(
    context: dg.AssetCheckExecutionContext, hummock: HummockResource, spark: SparkResource, naming: Naming
) -> Iterator[dg.AssetCheckResult]:
    """Compare rows of the views whose checks are asked for; one of which none can be compared fails as a warning."""
    views = sorted(naming.find_names(key.asset_key for key in context.selected_asset_check_keys))
    with hummock.session(spark) as session:
        found = _take_samples(session, views, CLICK_SECONDS, None)
    for one in found:
        event = build_check_event(one, naming)
        yield dg.AssetCheckResult(
            asset_key=event.asset_key,
            check_name=CHECK,
            passed=event.passed,
            severity=event.severity,
            metadata=event.metadata,
            description=event.description,
        )


def _take_samples(
    session: "Session", views: Sequence[str], seconds: float, share: float | None
) -> list[SampleReport]:
    return session.sample_rows(views, seconds, share, get_reports_folder())


def build_check_event(report: SampleReport, naming: Naming) -> dg.AssetCheckEvaluation:
    """Return how the samples of a view have come out; where none could be taken that is a warning."""
    metadata: dict[str, Metadata] = {
        "rows_compared": report.rows,
        "rows_that_differ": report.differ,
        "percent_of_the_pass": round(100 * report.progress, 1),
        "seconds": report.seconds,
    }
    if report.epoch is not None:
        metadata["epoch"] = format_epoch(report.epoch)
    if report.examples:
        metadata["examples"] = dg.MetadataValue.md("\n".join(f"- {text}" for text in report.examples))
    if report.report is not None:
        metadata["report"] = dg.MetadataValue.path(str(report.report))
    known = report.epoch is not None
    return dg.AssetCheckEvaluation(
        naming.get_key(report.view),
        CHECK,
        passed=known and not report.differ,
        severity=dg.AssetCheckSeverity.ERROR if report.differ else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description=_describe_remedy(report) if report.differ else report.reason or None,
    )


def _describe_remedy(report: SampleReport) -> str:
    return (
        f"{report.view}: {report.differ} rows differ from what its query gives: {'; '.join(report.examples)}. "
        f"ALTER MATERIALIZED VIEW {report.view} RESYNC writes the difference"
    )


def build_oracle_job(naming: Naming) -> dg.JobDefinition:
    """Return the job."""
    description = "Compares some rows of the views with what their queries give, within a share of the time."
    return build_one_op_job(SAMPLED_ORACLE, sample_rows, description, naming, retry=None)


def build_oracle_asset(naming: Naming) -> dg.AssetSpec:
    """Return the asset whose events say how many rows were compared, and what differed."""
    return dg.AssetSpec(
        naming.build_upkeep_key(SAMPLED_ORACLE),
        group_name=GROUP,
        kinds={"tideline"},
        description="Rows of views that were computed anew as a batch, and how many differ.",
    )


def build_oracle_checks(models: Sequence[Model], naming: Naming) -> list[dg.AssetChecksDefinition]:
    """Return the check of each view, which can be asked for by itself; none where no model is a view."""
    specs = [
        dg.AssetCheckSpec(CHECK, asset=naming.get_key(model.name), description=_WHAT)
        for model in models
        if model.kind == "materialized view" and model.error is None
    ]
    if not specs:
        return []
    make = dg.multi_asset_check(name=naming.format_name(CHECK), specs=specs, can_subset=True)
    return [make(naming.bind(check_views, naming=naming))]
