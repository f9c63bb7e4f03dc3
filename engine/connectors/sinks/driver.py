"""Brings sinks on, each in a thread of its own; no view waits for one, and none for another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from pyspark.sql import SparkSession

from engine.connectors.sinks.delivery import Delivery
from engine.hummock import Hummock, Version
from engine.hummock.object_store import ObjectStore, open_object_store
from engine.log_store.fan_out import Channel, FanOut
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.sinks import compute_progress, find_sink_source, list_sinks
from engine.runtime.epoch.report import SinkReport
from engine.runtime.spark.session import connect

MOST_THREADS = 16
WAIT_SECONDS = 5.0
CLOSE_SECONDS = 10.0


class SinkDriver:
    """Delivers what is due for the sinks of a store.

    A run waits for its deliveries at most `wait_seconds`; one that takes longer goes on beside the following runs, which do not
    wait for it again until it has caught up. `spark` gives the session that sinks of Delta tables write by.
    """

    def __init__(
        self,
        store: Hummock,
        spark: Callable[[], SparkSession] = connect,
        *,
        open_target: Callable[[str], ObjectStore] = open_object_store,
        clock: Callable[[], float] | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.store, self.wait_seconds = store, wait_seconds
        self._open_target, self._clock = open_target, clock or store.clock
        self._spark = spark
        self._deliveries: dict[str, Delivery] = {}
        self._running: dict[str, Future[None]] = {}
        self._retired: list[Future[None]] = []
        self._slow: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None

    def run(
        self,
        sources: Collection[str] | None = None,
        version: Version | None = None,
        *,
        eager: bool = True,
        wait_seconds: float | None = None,
    ) -> tuple[SinkReport, ...]:
        """Start what is due at `version` (None: the newest) for the sinks of `sources` (None: all), and tell how far each is.

        Without `eager` a sink that failed is left alone until its time to be tried again has come.
        """
        version = version or self.store.refresh()
        sinks = [
            r for r in list_sinks(load_catalog(version)) if sources is None or find_sink_source(r) in sources
        ]
        gone = set(self._deliveries) - {relation.name for relation in list_sinks(load_catalog(version))}
        for name in gone:
            self._retire(name)
        due = []
        for relation in sinks:
            delivery = self._deliveries.get(relation.name)
            if delivery is None or delivery.relation != relation:
                self._retire(relation.name)
                delivery = Delivery(self.store, relation, self._open_target, self._clock, self._spark)
                self._deliveries[relation.name] = delivery
            delivery.forget_resolved_failure(version)
            if not self._is_running(relation.name):
                if delivery.error is None:
                    self._slow.discard(relation.name)
                delivery.record_idle()
                if delivery.is_due(compute_progress(version, relation), eager):
                    due.append(delivery)
        _share_logs(version, due)
        for delivery in due:
            self._running[delivery.relation.name] = self._get_threads().submit(delivery.run)
        names = {relation.name for relation in sinks} - self._slow
        started = [running for name, running in self._running.items() if name in names]
        wait(started, self.wait_seconds if wait_seconds is None else wait_seconds)
        for relation in sinks:
            if self._is_running(relation.name):
                self._slow.add(relation.name)
            else:
                self._slow.discard(relation.name)
        now = self.store.version
        return tuple(self._report(relation.name, now) for relation in sinks)

    def collect_errors(self) -> dict[str, str]:
        """Return the last error of each sink that fails."""
        for delivery in self._deliveries.values():
            delivery.forget_resolved_failure(self.store.version)
        return {name: d.error for name, d in self._deliveries.items() if d.error is not None}

    def wait(self, timeout: float | None = None) -> None:
        """Wait until no delivery is under way."""
        wait([*self._running.values(), *self._retired], timeout)

    def close(self) -> None:
        """Ask the deliveries to end after the range that they are at; what they did not acknowledge is delivered again."""
        for name in list(self._deliveries):
            self._retire(name)
        self.wait(CLOSE_SECONDS)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _retire(self, name: str) -> None:
        """Let go of a sink that was dropped, or is another one by now; a delivery that is under way ends by itself."""
        delivery, running = self._deliveries.pop(name, None), self._running.pop(name, None)
        self._slow.discard(name)
        if delivery is not None:
            delivery.stop()
            if running is None:
                delivery.close()
            else:
                running.add_done_callback(lambda _: delivery.close())
        if running is not None:
            self._retired = [*(other for other in self._retired if not other.done()), running]

    def _get_threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="sink")
        return self._pool

    def _is_running(self, name: str) -> bool:
        running = self._running.get(name)
        return running is not None and not running.done()

    def _report(self, name: str, version: Version) -> SinkReport:
        return self._deliveries[name].report(version, self._is_running(name))


def _share_logs(version: Version, due: Sequence[Delivery]) -> None:
    """Let sinks that read the same log do so once, each through a log store of its own."""
    alike: dict[object, list[Delivery]] = {}
    for delivery in due:
        if delivery.fan_out_key is not None:
            alike.setdefault(delivery.fan_out_key, []).append(delivery)
    for deliveries in alike.values():
        table = find_computed_table(version, find_sink_source(deliveries[0].relation))
        if len(deliveries) < 2 or table is None:
            continue
        channels: dict[str, Channel] = {}
        for readers in zip(*(delivery.readers for delivery in deliveries), strict=True):
            fan_out = FanOut(table, readers)
            channels |= fan_out.channels
            threading.Thread(target=fan_out.run, name=f"fan-out-{table.name}", daemon=True).start()
        for delivery in deliveries:
            delivery.share_channels(channels)
