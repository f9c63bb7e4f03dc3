"""Begins to tell what a process does, if variables OTEL_… ask for it; what goes wrong with that stops nothing.

Without such a variable nothing of it is imported. At the process's end what was not sent yet gets two seconds.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

from engine import tracing
from engine.hummock import Hummock
from engine.hummock.monitoring.families import Collector, Family, StoreCollector
from engine.runtime.domains.view_metrics import ViewCollector
from engine.telemetry.settings import VARIABLES, BadTelemetrySetting, TelemetrySettings, read_settings

_LOG = logging.getLogger(__name__)
CLOSE_SECONDS = 2.0
MISSING = (
    "nothing is told to OpenTelemetry, as the variables OTEL_… ask for: its packages are not installed; "
    "install Tideline with its extra, tideline[otel], or unset them"
)


class Telemetry:
    """What tells of a process: the stores that it works on, and what ends the exporters."""

    def __init__(self) -> None:
        self._stores: dict[str, Hummock] = {}
        self._lock = threading.Lock()
        self._closers: list[Callable[[], None]] = []
        self._pid = os.getpid()
        self._ending, self._ended = threading.Event(), threading.Event()

    def add_store(self, store: Hummock) -> None:
        """Tell the metrics of a store from now on; a later one of the same address takes its place."""
        with self._lock:
            self._stores[store.url] = store

    def read_families(self) -> Iterator[Family]:
        """Yield the metrics of all stores, each with the store's address as one more label; no request is made for them."""
        with self._lock:
            stores = dict(self._stores)
        found: dict[str, Family] = {}
        for url, store in stores.items():
            for collector in _list_collectors(store):
                for family in collector.read_families():
                    labels = (*family.labels, "store")
                    told = found.setdefault(
                        family.name, Family(family.kind, family.name, family.help, labels)
                    )
                    told.samples += [((*values, url), number) for values, number in family.samples]
        yield from found.values()

    def start(self, settings: TelemetrySettings) -> None:
        """Begin to export."""
        if settings.metrics == "prometheus":
            self._serve(settings)
        if settings.needs_package:
            try:
                from engine.telemetry.exporters import start_exporters
            except ImportError:
                _LOG.warning("%s", MISSING)
                return
            self._closers += start_exporters(settings, self)
        if self._closers:
            # a thread cannot be started any more when the process ends
            threading.Thread(target=self._close_exporters, name="telemetry-end", daemon=True).start()
            atexit.register(self.close)
            import multiprocessing.util

            multiprocessing.util.Finalize(None, self.close, exitpriority=1)  # ends without atexit

    def close(self) -> None:
        """Send what was not sent yet, within CLOSE_SECONDS: a collector that does not answer holds up nobody."""
        if os.getpid() == self._pid and not self._ending.is_set():
            self._ending.set()
            self._ended.wait(CLOSE_SECONDS)

    def _serve(self, settings: TelemetrySettings) -> None:
        from engine.errors import EnvironmentNotReady
        from engine.hummock.monitoring import prometheus

        try:
            prometheus.serve_collectors(settings.host, settings.port, self)
        except EnvironmentNotReady as missing:
            _LOG.warning("metrics are not served: %s", missing)
        except OSError as error:
            _LOG.warning(
                "metrics are not served: %s:%d cannot be listened at (%s); set OTEL_EXPORTER_PROMETHEUS_PORT for each process",
                settings.host,
                settings.port,
                error.strerror or error,
            )

    def _close_exporters(self) -> None:
        self._ending.wait()
        tracing.install_tracer(None)
        try:
            for close in self._closers:
                close()
        finally:
            self._ended.set()


def _list_collectors(store: Hummock) -> tuple[Collector, ...]:
    return StoreCollector(store.metrics), ViewCollector(lambda: store.version, time.time)


_started: Telemetry | None = None
_lock = threading.Lock()


def start_telemetry(store: Hummock) -> None:
    """Tell of a store what the variables OTEL_… ask for; the first call of a process reads them. Never raises."""
    global _started
    given = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    if _started is None and not given:
        return
    with _lock:
        first = _started is None
        telemetry = _started = _started or Telemetry()
        telemetry.add_store(store)
        if first:
            try:
                telemetry.start(read_settings(given))
            except BadTelemetrySetting as wrong:
                _LOG.warning("nothing is told to OpenTelemetry: %s", wrong)
            except Exception as failure:  # an exporter's own: what it is told of goes on
                _LOG.warning("nothing is told to OpenTelemetry: %s", type(failure).__name__)
