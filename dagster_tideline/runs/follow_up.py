"""What comes in while a run that the sensor asked for is at work: the run takes it too, as long as the daemon does not look.

Dagster's daemon evaluates sensors every five seconds. A run is done sooner; what lands then would wait for the next look, and for
the start of another process.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Event, fetch_reported_tags, list_read_relations
from dagster_tideline.runs.epoch_job import GROUP_TAG
from dagster_tideline.runs.epoch_run import EpochOptions, run_epoch
from dagster_tideline.runs.event_throttle import EventThrottle, group_models
from dagster_tideline.runs.pending import RETRIES, find_pending
from engine.hummock.back_off import AttemptLog

if TYPE_CHECKING:
    from engine.session import Session

DAEMON_SECONDS = 5.0
"""The daemon looks this long after it has asked for a run, at the soonest."""
END_SECONDS = 0.5
"""What a run takes to end, about."""
LOOK_SECONDS = 0.1


def run_follow_ups(
    context: dg.AssetExecutionContext,
    session: Session,
    models: Sequence[Model],
    selected: Collection[str],
    naming: Naming,
) -> Iterator[Event]:
    """Take what comes in until the sensor looks again, epoch after epoch; yield the events of all of them, an asset's once.

    A run by hand takes nothing: it was asked for what there was. Raises dg.Failure as the epoch that fails.
    """
    record = context.instance.get_run_record_by_id(context.run_id)
    if record is None or GROUP_TAG not in record.dagster_run.tags:
        return
    until = record.create_timestamp.timestamp() + DAEMON_SECONDS - END_SECONDS
    versions = {model.name: model.code_version for model in models}
    throttle: EventThrottle | None = None
    attempts = AttemptLog(RETRIES)
    failed: dg.Failure | None = None
    while failed is None and time.time() < until:
        pending = find_pending(session.store, models)
        if not pending or not attempts.is_due(pending.digest, time.time()):
            time.sleep(LOOK_SECONDS)
            continue
        attempts.record(pending.digest, time.time())
        if throttle is None:
            reported_tags = fetch_reported_tags(context.instance, list_read_relations(models), naming)
            throttle = EventThrottle(float("inf"), versions, reported_tags, group_models(models))
        found: list[Event] = []
        try:
            options = EpochOptions(naming=naming)
            for event in run_epoch(session, models, selected, throttle.reported_tags, context, options):
                found.append(event)
        except dg.Failure as failure:
            failed = failure
        yield from throttle.submit(found, 0.0)
    if throttle is not None:
        yield from throttle.drain(fetch_reported_tags(context.instance, sorted(selected), naming))
    if failed is not None:
        raise failed
