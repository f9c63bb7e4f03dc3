"""The body of an epoch run: models, landing files, views; everything that can go on goes on, and failures come last."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_tideline.check_events import asked_for, check_events
from dagster_tideline.epoch_events import Event, failure_text, sink_event, table_event, view_event
from dagster_tideline.jobs import GROUP_TAG
from dagster_tideline.models import FED, Model
from dagster_tideline.partitioned import partition_events, quarantine_check, remedy
from dagster_tideline.sync import sync_models
from engine.connectors.contract import SourceReport
from engine.connectors.sources import poll_all
from engine.meta.partitions import failed_between, quarantined
from engine.meta.sinks import copies_of

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.session import FlushReport, Session, ViewReport

_LOG = logging.getLogger(__name__)
SINK_SECONDS = 60.0
PATIENCE_SECONDS = 0.5
"""How long a driver waits for a sink: what takes longer goes on, and is told of later."""


def run_epoch(
    session: Session,
    models: Sequence[Model],
    selected: Collection[str],
    known: Mapping[str, str | None],
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    landed: Sequence[SourceReport] | None = None,
) -> Iterator[Event]:
    """Take all that is pending for the selected assets and yield one event for each that moved; of cut views one a partition.

    `known` are the data versions told last; `landed` tells what sources have landed already, which are polled here without it.
    A view that failed lately rests until its time comes, but in a run by hand. Checks are told of views that moved or failed, and
    of those that the run was asked for. Raises dg.Failure at the end, naming every table, view and partition that failed.
    """
    instance = context.instance
    log: logging.Logger = context.log
    synced = sync_models(session, models)
    for name in dict.fromkeys((*synced.dropped, *synced.created)):
        log.info(f"{'replaced' if name in synced.dropped else 'created'} {name}")
    errors = {name: error for name, error in synced.errors.items() if name in selected}
    everything = {model.name for model in models if model.kind != "view"} <= set(selected)
    stored = session.catalog.relations
    ours = [model for model in models if model.name in selected and model.name in stored]
    tables = [model.name for model in ours if model.kind in FED]
    views = [model.name for model in ours if model.kind == "materialized view"]
    views += [view for model in ours if model.kind == "sink" for view in model.reads[:1]]
    if landed is None:
        landed = poll_all(session.catalog, session.store, tables, lambda: session.computing)
    landings = {report.table: report for report in landed}
    # Each line of a run's log is kept by the instance: of a driver that commits each second only what is rare goes there.
    log = _LOG if session.epochs.are_driven else log
    _tell_landing(landings, errors, log)
    before = session.epochs.store.version
    cut = {model.name for model in models if model.is_partitioned and model.name in selected}
    flushed = session.flush(
        None if everything else views,
        eager=not session.epochs.are_driven and GROUP_TAG not in context.run.tags,
        sink_seconds=PATIENCE_SECONDS if session.epochs.are_driven else SINK_SECONDS,
        wait=not session.epochs.are_driven,
    )
    _tell_views(flushed, log)
    errors |= {report.view: report.error for report in flushed.failed if report.error is not None}
    poison = failed_between(before, session.epochs.store.version)
    errors |= {f"{view}, partition {key}": remedy(view, key, one) for (view, key), one in poison.items()}
    yield from _table_events(session, tables, landings, known, errors)
    shown = list(_view_events(session, models, flushed, set(selected) - cut, known, errors))
    yield from shown
    yield from _cut_events(
        session, [one for one in flushed.views if one.view in cut], known, instance, before
    )
    asked = asked_for(context) | _with_checks(flushed, selected, shown)
    for model in models:
        if model.name in asked:
            yield from check_events(model, session.epochs.store.version)
    yield from _sink_events(session, flushed, selected, errors, log)
    if errors:
        raise dg.Failure(failure_text(errors), metadata={name: text for name, text in errors.items()})


def _cut_events(
    session: Session,
    reports: Sequence[ViewReport],
    known: Mapping[str, str | None],
    instance: dg.DagsterInstance,
    before: Version,
) -> Iterator[Event]:
    """Yield the events of views that are cut: of their partitions, and with them how the check of the quarantine comes out."""
    after = session.epochs.store.version
    failed = {view for view, _ in failed_between(before, after)}
    for report in reports:
        told = list(partition_events(session, report, known.get(report.view), instance))
        yield from told
        is_mended = quarantined(before, report.view) and not quarantined(after, report.view)
        if told or is_mended or report.view in failed:
            yield quarantine_check(report.view, after)


def _with_checks(flushed: FlushReport, selected: Collection[str], shown: Sequence[Event]) -> set[str]:
    """Return the views whose checks are told without being asked for: those that moved or failed, and all that are shown.

    Dagster takes a check for one that was not evaluated when a later run shows its view without it.
    """
    moved = {report.view for report in flushed.views if not report.skipped} & set(selected)
    return moved | {event.asset_key.to_user_string() for event in shown if event.asset_key is not None}


def _tell_views(flushed: FlushReport, log: logging.Logger) -> None:
    for report in flushed.views:
        if report.waits_for is not None:
            log.info(f"{report.view} waits: {report.waits_for}")
        for key, text in report.quarantined.items():
            log.warning(f"{report.view}, partition {key} {text}")


def _tell_landing(landed: Mapping[str, SourceReport], errors: dict[str, str], log: logging.Logger) -> None:
    for name, report in landed.items():
        if report.error is not None:
            errors[name] = report.error
        for warning in report.warnings:
            log.warning(f"{name}: {warning}")
        if report.files:
            log.info(f"{name}: {report.files} files, {report.rows} rows, {report.dead_rows} dead rows")


def _table_events(
    session: Session,
    tables: Sequence[str],
    landed: Mapping[str, SourceReport],
    known: Mapping[str, str | None],
    errors: Mapping[str, str],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield the tables' events; in a failing run also of those without news, which are not to look failed."""
    version = session.store.version
    for name in tables:
        if name not in errors and name in version.tables:
            event = table_event(name, version, landed.get(name), known.get(name), always=bool(errors))
            if event is not None:
                yield event


def _view_events(
    session: Session,
    models: Sequence[Model],
    flushed: FlushReport,
    selected: Collection[str],
    known: Mapping[str, str | None],
    errors: Mapping[str, str],
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield the views' events; in a failing run also of those that had nothing to do, which are not to look failed."""
    version = session.epochs.store.version
    relations = session.catalog.relations
    reads = {model.name: model.reads for model in models}
    waiting = set(session.lagging()) if errors else set()
    for report in flushed.views:
        name = report.view
        if (
            name in selected
            and name in relations
            and not (name in errors or (name in waiting and report.skipped))
        ):
            event = view_event(
                report,
                relations[name],
                version,
                known,
                _tables_read(name, reads, models),
                always=bool(errors),
            )
            if event is not None and session.spark_ui is not None:
                shown = dg.MetadataValue.url(session.spark_ui)
                event = event._replace(metadata={**(event.metadata or {}), "spark_ui": shown})
            if event is not None:
                yield event._replace(metadata={**(event.metadata or {}), **_of_copy(session, flushed, name)})


def _of_copy(session: Session, flushed: FlushReport, view: str) -> dict[str, int]:
    """Return what the Delta table of a view was brought, in numbers; nothing of a view without one."""
    own = {sink.name for sink in copies_of(session.stored, view)}
    for report in flushed.sinks:
        if report.sink in own:
            return {"delta_rows_out": report.rows, "delta_lag_rows": report.lag_rows}
    return {}


def _sink_events(
    session: Session,
    flushed: FlushReport,
    selected: Collection[str],
    errors: dict[str, str],
    log: logging.Logger,
) -> Iterator[dg.MaterializeResult[Any]]:
    """Yield an event for each sink that has delivered something; those that fail go to the errors, or to the log.

    The sink of a view's own Delta table is no asset: it fails with its view's, whose event tells its numbers.
    """
    own = {sink.name for view in selected for sink in copies_of(session.stored, view)}
    for report in flushed.sinks:
        if report.error is not None and (report.sink in selected or report.sink in own):
            errors[report.sink] = report.error
        elif report.error is not None:
            log.warning(f"sink {report.sink}: {report.error}")
    for report in flushed.sinks:
        event = sink_event(report, always=bool(errors)) if report.sink in selected else None
        if event is not None:
            yield event


def _tables_read(name: str, reads: Mapping[str, tuple[str, ...]], models: Sequence[Model]) -> tuple[str, ...]:
    """Return the assets that an asset depends on and that have an epoch; plain views have none."""
    plain = {model.name for model in models if model.kind == "view"}
    return tuple(upstream for upstream in reads.get(name, ()) if upstream not in plain)
