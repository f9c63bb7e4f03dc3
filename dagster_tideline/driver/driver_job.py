"""The driver: one run that keeps a warm session, looks for what is pending, and commits epoch after epoch for its time."""

import gc
import hashlib
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.loader import EXTERNAL_KINDS, TEXT_KINDS, Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.runs.epoch_events import (
    Event,
    ReportedTags,
    fetch_reported_tags,
    list_read_relations,
)
from dagster_tideline.runs.epoch_run import EpochOptions, run_epoch
from dagster_tideline.runs.event_throttle import EventThrottle, group_models, record_tags
from dagster_tideline.runs.liveness import ACTIVE, is_worker_gone
from dagster_tideline.runs.pending import DRIVER_RETRIES, Pending, find_pending
from dagster_tideline.runs.run_log import forward_run_log
from engine.connectors.polling import SourcePoller
from engine.errors import StorageError
from engine.hummock.back_off import AttemptLog, Attempts

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.session import Session

DRIVER_RUN = "driver"
DRIVE = "drive"
READY_TAG = "tideline/ready"
MODELS_TAG = "tideline/models"
BEAT_TAG = "tideline/beat"
LOOK_SECONDS = 0.05
"""How often a driver at rest looks for what is pending: a probe for the next manifest, and a look at each landing folder."""
STORE_SECONDS = 5.0
"""How soon a driver looks again at a store that has failed it."""
BEAT_SECONDS = 10.0
SILENT_SECONDS = 120.0
"""A driver that has not said for so long that it lives is given up: its process may hang, or its machine be gone."""
LAST_SECONDS = 20.0
"""So long a driver whose time is over, and that has no successor, waits for views that are under way, to tell of them."""
HANDOVER_SECONDS = 45.0
"""So long before a driver's time is over its successor is asked for; it takes over once its Spark is warm."""


class DriverConfig(dg.Config):
    """How long a driver works, how often each asset is told of at most, and how many epochs may be on their way to the store."""

    seconds: float = 3600.0
    event_seconds: float = 30.0
    epochs_in_flight: int = 4


def compute_models_digest(models: Sequence[Model], naming: Naming | None = None) -> str:
    """Return a text that is another one when a model, or the key of its asset, has changed: the driver gets a successor then."""
    lines = [f"{m.name} {m.code_version}\n" for m in models]
    if naming is not None:
        keys = ((m.name, naming.get_key(m.name).to_user_string()) for m in models)
        lines += [f"{name} is {key}\n" for name, key in keys if key != name]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def build_driver_job(
    models: Sequence[Model], external: Collection[str] = (), naming: Naming | None = None
) -> dg.JobDefinition:
    """Return the job of a driver over these models; tables in `written` are told of by the assets that write them."""

    naming = naming or Naming(models)

    @dg.op(name=naming.format_name(DRIVE), out={})
    @naming.bind
    def drive(
        context: dg.OpExecutionContext, config: DriverConfig, hummock: HummockResource, spark: SparkResource
    ) -> Iterator[Event]:
        context.instance.add_run_tags(context.run_id, {WORKER_TAG: get_worker_name()})
        _leave_modules_alone()
        opened = hummock.session(spark.in_process(), config.epochs_in_flight)
        with forward_run_log(context), opened as session, _keep_heartbeat(context):
            driver = Driver(context, session, models, config, external, naming)
            try:
                yield from map(naming.translate_event, driver.run())
            except dg.DagsterExecutionInterruptedError:
                run = context.instance.get_run_by_id(context.run_id)
                if run is None or run.status == DagsterRunStatus.CANCELING:
                    raise
                context.log.info(
                    "the services of this driver are ending; the next driver continues from here"
                )
                session.epochs.abort()  # whoever ends them waits for some seconds only
                yield from map(naming.translate_event, driver.drain())

    @dg.job(
        name=naming.format_name(DRIVER_RUN),
        executor_def=dg.in_process_executor,
        description="Keeps a warm Spark session and commits epoch after epoch; its successor takes over without a gap.",
    )
    def driver() -> None:
        """Drive."""
        drive()

    return driver


@cache
def _leave_modules_alone() -> None:
    """Let searches for garbage pass over what is loaded by now, which stays for as long as a driver's process does."""
    gc.freeze()


class Driver:
    """Takes what is pending as soon as it is, for `config.seconds`, or until another driver is ready."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        session: "Session",
        models: Sequence[Model],
        config: DriverConfig,
        external: Collection[str],
        naming: Naming,
    ) -> None:
        self.context, self.session, self.models, self.config = context, session, models, config
        self.selected = {model.name for model in models if model.kind not in TEXT_KINDS}
        self.naming = naming
        self._relations = list_read_relations(models)
        self._written = {name for name in self._relations if name in external}
        self.throttle = EventThrottle(
            config.event_seconds,
            {model.name: model.code_version for model in models},
            self._fetch_reported_tags(self._relations),
            group_models(models),
        )
        self._reported_tags = dict(self.throttle.reported_tags)
        """What is reported once all that is on its way is committed."""
        self._compared_at = time.monotonic()
        self._last_state: tuple[Mapping[str, int], ReportedTags] = ({}, {})
        self._attempts = AttemptLog(DRIVER_RETRIES)
        self._checked_at = 0.0
        self._last_error = ""
        self._polling: SourcePoller | None = None
        """Lands what comes next while an epoch is computed, where epochs overlap at all."""
        self._in_flight: deque[tuple[Future[Version] | None, list[Event]]] = deque()
        """What was computed, oldest first: told once it is committed."""

    def run(self) -> Iterator[Event]:
        """Yield the events of the epochs that it commits."""
        _ = self.session.spark  # warm before it takes over
        if self.config.epochs_in_flight == 1:
            yield from self._run_loop()
            return
        tables = {model.name for model in self.models if model.kind in EXTERNAL_KINDS}
        session = self.session
        look = session.epochs.store.refresh
        self._polling = SourcePoller(
            session.store,
            tables,
            look,
            DRIVER_RETRIES,
            lambda: session.computing,
        )
        try:
            yield from self._run_loop()
        finally:
            self._polling.close()

    def _run_loop(self) -> Iterator[Event]:
        self.context.instance.add_run_tags(self.context.run_id, {READY_TAG: f"{time.time():.3f}"})
        end = time.monotonic() + self.config.seconds
        is_known = False  # the first epoch tells what was never told, or not as Dagster asks for it
        while time.monotonic() < end:
            if self._has_successor():
                break
            yield from self._report_committed()
            yield from self.throttle.pop_due(time.monotonic())
            is_known = is_known and self._is_unchanged()
            try:
                session = self.session
                pending = find_pending(
                    session.epochs.store,
                    self.models,
                    session.store,
                    session.epochs.busy,
                    are_polled=self._polling is not None,
                )
                self._last_error = ""
                has_news = session.epochs.has_ended or (self._polling is not None and self._polling.has_news)
                if outdated := bool(pending.models) and self._is_outdated():
                    pending = replace(pending, models=())
                if (
                    not is_known
                    or has_news
                    or (pending and self._attempts.is_due(pending.digest, time.monotonic()))
                ):
                    self._run_epoch(pending, sync=not outdated)
                    is_known = True
                    continue
            except StorageError as error:  # a store without room, or that does not answer, may be well again
                if str(error) != self._last_error:
                    self._last_error = str(error)
                    self.context.log.error(f"{error}; this driver looks again every {STORE_SECONDS:.0f} s")
                time.sleep(STORE_SECONDS)
            if self._polling is None:
                time.sleep(LOOK_SECONDS)
            else:
                self._polling.wait(LOOK_SECONDS)
        else:
            self._run_last_epoch()
        yield from self.drain()

    def drain(self) -> Iterator[Event]:
        """Yield what waits to be told, as the run ends."""
        yield from self._report_committed(0)
        yield from self.throttle.drain(self._fetch_reported_tags(self._relations))

    def _fetch_reported_tags(self, relations: Collection[str]) -> dict[str, Mapping[str, str]]:
        return fetch_reported_tags(self.context.instance, relations, self.naming)

    def _run_last_epoch(self) -> None:
        """Report what is under way as the time is over, slow views and sinks: no other driver is there to do it."""
        session = self.session
        with suppress(StorageError):
            has_sinks = any(model.kind == "sink" for model in self.models)
            if session.epochs.finish(LAST_SECONDS) or has_sinks:
                pending = find_pending(session.epochs.store, self.models, session.store)
                self._run_epoch(pending, sync=not (pending.models and self._is_outdated()), last=True)

    def _is_unchanged(self) -> bool:
        """Tell, looking now and then while nothing is to be told, whether all is as it was last: store, and Dagster's events.

        The driver before this one may have told of an older epoch as it ended, and others may have brought views on.
        """
        now = time.monotonic()
        if self._in_flight or self.throttle.has_waiting or now - self._compared_at < BEAT_SECONDS:
            return True
        tables = self.session.epochs.store.version.tables
        changes = {name: tables[name].last_change for name in self.selected if name in tables}
        state = (changes, self._fetch_reported_tags(self._relations))
        is_known, self._compared_at, self._last_state = state == self._last_state, now, state
        self._reported_tags = dict(state[1])
        return is_known

    def _run_epoch(self, pending: Pending, *, sync: bool = True, last: bool = False) -> None:
        """Take what is pending; what fails is told, and tried again at growing distances."""
        found: list[Event] = []
        if self._written:
            self._reported_tags |= self._fetch_reported_tags(self._written)
        try:
            for event in run_epoch(
                self.session,
                self.models,
                self.selected,
                self._reported_tags,
                self.context,
                EpochOptions(
                    None if self._polling is None else self._polling.take_reports(), sync, last, self.naming
                ),
            ):
                if event.asset_key is not None and event.asset_key.to_user_string() in self._written:
                    continue
                found.append(event)
                if not isinstance(event, dg.AssetCheckEvaluation):
                    record_tags(self._reported_tags, self.throttle.convert_event(event))
        except dg.Failure as failure:
            self.context.log.error(failure.description or "an epoch has failed")
        self._in_flight.append((self.session.epochs.commit_in_flight, found))
        self._attempts.record(pending.digest, time.monotonic())

    def _report_committed(self, most: int | None = None) -> Iterator[Event]:
        """Yield what may be told of what is committed by now; waits where more than `most` epochs are on their way."""
        most = self.config.epochs_in_flight - 1 if most is None else most
        while self._in_flight:
            outcome, events = self._in_flight[0]
            if outcome is not None and not outcome.done() and len(self._in_flight) <= most:
                return
            self._in_flight.popleft()
            error = None if outcome is None else outcome.exception()
            if error is not None:
                self.context.log.warning(f"an epoch was not committed, and is computed again: {error}")
                self._reported_tags = dict(self.throttle.reported_tags)
                continue
            yield from self.throttle.submit(events, time.monotonic())

    def _is_outdated(self) -> bool:
        """Tell whether a driver is being started, or at work, that knows other models: what it makes of them is not undone."""
        active = RunsFilter(job_name=self.context.job_name, statuses=list(ACTIVE))
        newest = next(iter(self.context.instance.get_runs(active, limit=1)), None)
        if newest is None or newest.run_id == self.context.run_id:
            return False
        return newest.tags.get(MODELS_TAG) != compute_models_digest(self.models, self.naming)

    def _has_successor(self) -> bool:
        """Tell, looking once a second, whether a driver that was started later is ready."""
        if time.monotonic() - self._checked_at < 1.0:
            return False
        self._checked_at = time.monotonic()
        instance = self.context.instance
        for run in instance.get_runs(
            RunsFilter(job_name=self.context.job_name, statuses=[DagsterRunStatus.STARTED])
        ):
            if run.run_id == self.context.run_id:
                return False  # newest first: all others are older
            if READY_TAG in run.tags and not is_worker_gone(run.tags.get(WORKER_TAG)):
                self.context.log.info(f"run {run.run_id[:8]} takes over")
                return True
        return False


def find_start_reason(
    instance: dg.DagsterInstance,
    models: Sequence[Model],
    seconds: float,
    now: float,
    naming: Naming | None = None,
) -> tuple[str | None, str]:
    """Return why a driver has to be started, None if none has to, and what is told then.

    Drivers whose process is gone, or that have been silent for too long, are reported as failed.
    """
    living: list[tuple[float, Mapping[str, str]]] = []
    job = DRIVER_RUN if naming is None else naming.format_name(DRIVER_RUN)
    records = instance.get_run_records(RunsFilter(job_name=job, statuses=list(ACTIVE)), limit=10)
    for record in records:
        run, started = record.dagster_run, record.start_time or record.create_timestamp.timestamp()
        beat = float(run.tags.get(BEAT_TAG, 0)) or started
        if is_worker_gone(run.tags.get(WORKER_TAG)):
            instance.report_run_failed(run, "the process of this driver is gone; the next one takes over")
        elif now - beat > SILENT_SECONDS:
            instance.report_run_failed(
                run, f"this driver was silent for {now - beat:.0f} s; the next one takes over"
            )
        else:
            living.append((started, run.tags))
    if not living:
        wait = _explain_wait(instance, job, now)
        return (None, wait) if wait else ("no driver is at work", "")
    started, tags = living[0]  # the newest
    if READY_TAG not in tags:
        return None, "a driver is being started"
    if tags.get(MODELS_TAG) != compute_models_digest(models, naming):
        return "the models have changed", ""
    left = started + seconds - now
    if left < HANDOVER_SECONDS and len(living) == 1:
        return "the driver's time is nearly over", ""
    return None, f"a driver is at work, {left / 60:.0f} minutes are left of its time"


def _explain_wait(instance: dg.DagsterInstance, job: str, now: float) -> str:
    """Return why no driver is started yet: the last ones failed before they were ready, and so may the next; "" if none did."""
    failed = 0
    ended = 0.0
    for record in instance.get_run_records(RunsFilter(job_name=job), limit=20):  # newest first
        run = record.dagster_run
        if run.status != DagsterRunStatus.FAILURE or READY_TAG in run.tags:
            break
        failed += 1
        ended = max(ended, record.end_time or record.update_timestamp.timestamp())
    wait = Attempts(DRIVER_RETRIES, failed, ended).find_wait(now)
    if not wait:
        return ""
    return f"the last {failed} drivers failed before they were ready, see their errors; the next one starts in {wait:.0f} s"


@contextmanager
def _keep_heartbeat(context: dg.OpExecutionContext) -> Iterator[None]:
    """Let the run say every few seconds that its process lives."""
    ended = threading.Event()
    instance, run_id = context.instance, context.run_id

    def send_heartbeats() -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                instance.add_run_tags(run_id, {BEAT_TAG: f"{time.time():.0f}"})
            except Exception as error:  # its database may be busy, or full: a missed beat is no death
                with suppress(Exception):
                    context.log.warning(f"this run could not say that it lives: {error}")

    thread = threading.Thread(target=send_heartbeats, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(BEAT_SECONDS)
