"""The body of an epoch run: models, landing files, views; everything that can go on goes on, and failures come last."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_tideline.dagster_internals import INITIAL_VERSION, INPUT_POINTER, NULL_EVENT_POINTER
from dagster_tideline.models.loader import EXTERNAL_KINDS, TEXT_KINDS, Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.check_events import build_check_events, find_planned_checks
from dagster_tideline.runs.epoch_events import (
    Event,
    ReportedTags,
    build_input_tags,
    build_sink_event,
    build_table_event,
    build_view_event,
    format_failures,
    get_reported_version,
    is_reported,
)
from dagster_tideline.runs.epoch_job import GROUP_TAG
from dagster_tideline.runs.gate_events import report_gates
from dagster_tideline.runs.partitioned_assets import (
    build_partition_events,
    build_quarantine_check,
    format_remedy,
)
from dagster_tideline.sync import SyncReport, sync_models
from engine.connectors.contract.connector import SourceReport
from engine.connectors.sources import poll_all
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.quarantine import find_new_failures, read_quarantine
from engine.meta.status.sinks import list_copies
from engine.meta.status.waits import format_gate_remedy
from engine.tracing import carry_attributes

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.session import FlushReport, Session, ViewReport

_LOG = logging.getLogger(__name__)
SINK_SECONDS = 60.0
PATIENCE_SECONDS = 0.1
"""How long a driver waits for a sink: what takes longer goes on, and is reported later."""


@dataclass(frozen=True)
class EpochOptions:
    """What an epoch need not do: `landed` tells what sources have landed already, without `sync` the store keeps its models.

    By `naming` Dagster is asked for checks and partitions. After the `last` epoch of a driver nothing is reported any more.
    """

    landed: Sequence[SourceReport] | None = None
    sync: bool = True
    last: bool = False
    naming: Naming = field(default_factory=Naming)


def run_epoch(
    session: Session,
    models: Sequence[Model],
    selected: Collection[str],
    reported_tags: ReportedTags,
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    options: EpochOptions | None = None,
) -> Iterator[Event]:
    """Take all that is pending for the selected assets and yield one event for each that moved; of cut views one a partition.

    `told` are the tags of the newest events: what Dagster would call stale though it is not is told again.
    A view that failed lately rests until its time comes, but in a run by hand. Checks are told of views that moved or failed, and
    of those that the run was asked for. Raises dg.Failure at the end, naming every table, view and partition that failed.
    """
    log: logging.Logger = context.log
    options = options or EpochOptions()
    synced = sync_models(session, models) if options.sync else SyncReport()
    for name, old in synced.renamed.items():
        log.info(f"renamed {old} to {name}")
    for name in dict.fromkeys((*synced.changed, *synced.created)):
        log.info(f"{'changed' if name in synced.changed else 'created'} {name}")
    errors = {name: error for name, error in synced.errors.items() if name in selected}
    state = _ReportedState(models, reported_tags)
    everything = {model.name for model in models if model.kind not in TEXT_KINDS} <= set(selected)
    stored = session.catalog.relations
    ours = [model for model in models if model.name in selected and model.name in stored]
    tables = [model.name for model in ours if model.kind in EXTERNAL_KINDS]
    views = [model.name for model in ours if model.kind == "materialized view"]
    views += [view for model in ours if model.kind == "sink" for view in model.reads[:1]]
    landed = options.landed
    if landed is None:
        landed = poll_all(session.catalog, session.store, tables, lambda: session.computing)
    landings = {report.table: report for report in landed}
    # Each line of a run's log is kept by the instance: of a driver that commits each second only what is rare goes there.
    log = _LOG if session.epochs.are_driven else log
    _log_landing(landings, errors, log)
    before = session.epochs.store.version
    partitioned = {model.name for model in models if model.is_partitioned and model.name in selected}
    with carry_attributes({"dagster.run_id": context.run.run_id, "dagster.job_name": context.run.job_name}):
        flushed = session.flush(
            None if everything else views,
            eager=not session.epochs.are_driven and GROUP_TAG not in context.run.tags,
            sink_seconds=PATIENCE_SECONDS if session.epochs.are_driven else SINK_SECONDS,
            wait=not session.epochs.are_driven,
        )
    if options.last:
        flushed = session.deliver(flushed, SINK_SECONDS)
    _log_views(flushed, log)
    errors |= {report.view: report.error for report in flushed.failed if report.error is not None}
    poison = find_new_failures(before, session.epochs.store.version)
    errors |= {
        f"{view}, partition {key}": format_remedy(view, key, one) for (view, key), one in poison.items()
    }
    yield from _report_tables(session, tables, landings, state, errors)
    view_events = list(_report_views(session, flushed, set(selected) - partitioned, state, errors))
    yield from view_events
    moved = {event.asset_key.to_user_string() for event in view_events if event.asset_key is not None}
    yield from report_gates(ours, session.epochs.store.version, moved)
    yield from _report_partitioned_views(
        session,
        [one for one in flushed.views if one.view in partitioned],
        reported_tags,
        context,
        options.naming,
        before,
    )
    checked = find_planned_checks(context, options.naming) | _find_checked_views(
        flushed, selected, view_events
    )
    for model in models:
        if model.name in checked:
            yield from build_check_events(model, session.epochs.store.version)
    yield from _report_sinks(session, flushed, selected, state, errors, log)
    if errors:
        raise dg.Failure(format_failures(errors), metadata={name: text for name, text in errors.items()})


class _ReportedState:
    """What Dagster has been told of assets, and how their inputs are told of."""

    def __init__(self, models: Sequence[Model], reported_tags: ReportedTags) -> None:
        self.reported_tags = reported_tags
        self._code = {model.name: model.code_version for model in models}
        self._partitioned = {model.name for model in models if model.is_partitioned}
        self._reads = {
            model.name: model.reads[:1] if model.kind == "sink" else model.reads for model in models
        }
        counted = {model.name for model in models if model.kind not in TEXT_KINDS}
        read = {name for names in self._reads.values() for name in names}
        versions = {name: get_reported_version(reported_tags, name) for name in read}
        # Plain views, and assets of somebody else: an epoch is their version only where they say one.
        self._others = {
            name: version or INITIAL_VERSION
            for name, version in versions.items()
            if (version is None and name not in counted) or (version is not None and not version.isdigit())
        }

    def get_version(self, name: str) -> str | None:
        """Return the data version of an asset's newest event."""
        return get_reported_version(self.reported_tags, name)

    def build_input_tags(self, name: str, version: Version, epoch: int | None) -> dict[str, str]:
        """Return the tags of an asset's inputs at the epoch that it reflects."""
        reads = self._reads.get(name, ())
        tags = build_input_tags(reads, version, epoch, self.reported_tags, self._others)
        # Dagster's own pointer is to a partition's event of before this run.
        return tags | {INPUT_POINTER + one: NULL_EVENT_POINTER for one in reads if one in self._partitioned}

    def is_stale(self, name: str, inputs: Mapping[str, str]) -> bool:
        """Tell whether Dagster would call an asset stale by its newest event, whatever is new."""
        return not is_reported(self.reported_tags.get(name, {}), self._code[name], inputs)


def _report_partitioned_views(
    session: Session,
    reports: Sequence[ViewReport],
    reported_tags: ReportedTags,
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    naming: Naming,
    before: Version,
) -> Iterator[Event]:
    """Yield the events of views that are cut: of their partitions, and with them how the check of the quarantine comes out."""
    after = session.epochs.store.version
    failed = {view for view, _ in find_new_failures(before, after)}
    for report in reports:
        found = list(
            build_partition_events(
                session, report, get_reported_version(reported_tags, report.view), context.instance, naming
            )
        )
        yield from found
        is_mended = read_quarantine(before, report.view) and not read_quarantine(after, report.view)
        if found or is_mended or report.view in failed:
            yield build_quarantine_check(report.view, after)


def _find_checked_views(
    flushed: FlushReport, selected: Collection[str], view_events: Sequence[Event]
) -> set[str]:
    """Return the views whose checks are reported without being asked for: those that moved or failed, and all that are shown.

    Dagster takes a check for one that was not evaluated when a later run shows its view without it.
    """
    moved = {report.view for report in flushed.views if not report.skipped} & set(selected)
    return moved | {event.asset_key.to_user_string() for event in view_events if event.asset_key is not None}


def _log_views(flushed: FlushReport, log: logging.Logger) -> None:
    for report in flushed.views:
        if report.waits_for is not None:
            log.info(f"{report.view} waits: {report.waits_for}")
        for key, text in report.quarantined.items():
            log.warning(f"{report.view}, partition {key} {text}")


def _log_landing(landed: Mapping[str, SourceReport], errors: dict[str, str], log: logging.Logger) -> None:
    for name, report in landed.items():
        if report.error is not None:
            errors[name] = report.error
        for warning in report.warnings:
            log.warning(f"{name}: {warning}")
        if report.files:
            log.info(f"{name}: {report.files} files, {report.rows} rows, {report.dead_rows} dead rows")


def _report_tables(
    session: Session,
    tables: Sequence[str],
    landed: Mapping[str, SourceReport],
    state: _ReportedState,
    errors: Mapping[str, str],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield the tables' events; in a failing run also of those without news, which are not to look failed."""
    version = session.store.version
    for name in tables:
        if name not in errors and name in version.tables:
            always = bool(errors) or state.is_stale(name, {})
            event = build_table_event(name, version, landed.get(name), state.get_version(name), always=always)
            if event is not None:
                yield event


def _report_views(
    session: Session,
    flushed: FlushReport,
    selected: Collection[str],
    state: _ReportedState,
    errors: Mapping[str, str],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield the views' events; in a failing run also of those that had nothing to do, which are not to look failed."""
    version = session.epochs.store.version
    relations = session.catalog.relations
    waiting = set(session.lagging()) if errors else set()
    held = {view: one.held for view, one in list_successions(version).items() if one.held}
    for report in flushed.views:
        name = report.view
        if (
            name in selected
            and name in relations
            and not (name in errors or (name in waiting and report.skipped))
        ):
            inputs = state.build_input_tags(name, version, report.epoch)
            event = build_view_event(
                report,
                relations[name],
                version,
                state.get_version(name),
                inputs,
                always=bool(errors) or state.is_stale(name, inputs),
            )
            if event is not None and session.spark_ui is not None:
                ui_link = dg.MetadataValue.url(session.spark_ui)
                event = event._replace(metadata={**(event.metadata or {}), "spark_ui": ui_link})
            if event is not None:
                gate = {"gate": f"{held[name]}; {format_gate_remedy(name)}"} if name in held else {}
                metrics = _collect_delta_metrics(session, flushed, name)
                yield event._replace(metadata={**(event.metadata or {}), **metrics, **gate})


def _collect_delta_metrics(session: Session, flushed: FlushReport, view: str) -> dict[str, int]:
    """Return what the Delta table of a view was brought, in numbers; nothing of a view without one."""
    own = {sink.name for sink in list_copies(session.stored, view)}
    for report in flushed.sinks:
        if report.sink in own:
            return {"delta_rows_out": report.rows, "delta_lag_rows": report.lag_rows}
    return {}


def _report_sinks(
    session: Session,
    flushed: FlushReport,
    selected: Collection[str],
    state: _ReportedState,
    errors: dict[str, str],
    log: logging.Logger,
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield an event for each sink that has come on; those that fail go to the errors, or to the log.

    The sink of a view's own Delta table is no asset: it fails with its view's, whose event tells its numbers.
    """
    own = {sink.name for view in selected for sink in list_copies(session.stored, view)}
    for report in flushed.sinks:
        if report.error is not None and (report.sink in selected or report.sink in own):
            errors[report.sink] = report.error
        elif report.error is not None:
            log.warning(f"sink {report.sink}: {report.error}")
    version = session.store.version
    for report in flushed.sinks:
        if report.sink in selected:
            inputs = state.build_input_tags(report.sink, version, report.epoch)
            always = report.epoch is not None and state.is_stale(report.sink, inputs)
            event = build_sink_event(report, inputs, always=bool(errors) or always)
            if event is not None:
                yield event
