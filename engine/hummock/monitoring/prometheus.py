"""The metrics of a store in Prometheus' text format; needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from engine.errors import EnvironmentNotReady
from engine.hummock.metrics import COUNTED, Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

METRIC_PREFIX = "tideline_store"
LOOPBACK = "127.0.0.1"

_BY_KIND_NAMES = {"requests": "requests", "errors": "request_errors", "seconds": "request_seconds"}
_OF_REQUESTS = tuple(_BY_KIND_NAMES)
_HELP = {
    "requests": "Requests to the object store",
    "errors": "Requests to the object store that failed or whose answer was lost",
    "seconds": "Seconds spent in requests to the object store",
    "bytes_in": "Bytes received from the object store",
    "bytes_out": "Bytes sent to the object store",
    "cache_hits": "Sorted files found open or in the cache of the machine",
    "cache_misses": "Sorted files that had to be fetched",
    "cache_evictions": "Files evicted from the cache of the machine",
    "driver_bytes": "Bytes of rows and of tasks' answers that passed through this process, by what they passed for",
    "lookups": "Lookups by key",
    "files_searched": "Sorted files searched by lookups",
    "commits": "Manifests created by this process",
    "rebases": "Commits that lost a race and were rebased",
    "retries": "Requests that were sent again",
    "ambiguous": "Creations whose answer was lost and that were read back",
    "ingested_rows": "Rows committed",
    "ingested_bytes": "Bytes of sorted files committed by writers",
    "compactions": "Compactions committed",
    "compacted_rows": "Rows written by compactions",
    "compacted_bytes": "Bytes written by compactions",
    "stalls": "Times that a writer had to wait",
    "stall_seconds": "Seconds that writers have waited",
}


class Collector(Protocol):
    """Anything that yields metrics at a scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        ...


class StoreCollector:
    """Collects a store's metrics at each scrape; register it with a registry of prometheus_client."""

    def __init__(self, read: Callable[[], Metrics]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield counters of the process and gauges of the store's tables."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._read()
        for name in _OF_REQUESTS:
            counter = CounterMetricFamily(
                f"{METRIC_PREFIX}_{_BY_KIND_NAMES[name]}", _HELP[name], labels=["kind"]
            )
            for kind, value in sorted(getattr(now, name).items()):
                counter.add_metric([kind], value)
            yield counter
        passed = CounterMetricFamily(
            f"{METRIC_PREFIX}_driver_bytes", _HELP["driver_bytes"], labels=["kind", "name"]
        )
        for what, amount in sorted(now.driver_bytes.items()):
            kind, _, of = what.partition(" ")
            passed.add_metric([kind, of], amount)
        yield passed
        for name in COUNTED:
            yield CounterMetricFamily(
                f"{METRIC_PREFIX}_{name}", _HELP.get(name, name.replace("_", " ")), value=getattr(now, name)
            )
        yield GaugeMetricFamily(
            f"{METRIC_PREFIX}_manifest", "Number of the newest manifest known", value=now.manifest
        )
        files = GaugeMetricFamily(f"{METRIC_PREFIX}_files", "Live files", labels=["table", "level"])
        size = GaugeMetricFamily(f"{METRIC_PREFIX}_bytes", "Bytes of live files", labels=["table", "level"])
        sub_levels = GaugeMetricFamily(f"{METRIC_PREFIX}_l0", "Sub-levels in L0", labels=["table"])
        history = GaugeMetricFamily(
            f"{METRIC_PREFIX}_history_bytes", "Bytes kept for older epochs", labels=["table"]
        )
        for table in now.tables.values():
            for level in table.levels:
                files.add_metric([table.name, str(level.level)], level.files)
                size.add_metric([table.name, str(level.level)], level.bytes)
            sub_levels.add_metric([table.name], table.l0)
            history.add_metric([table.name], table.history_bytes)
        yield from (files, size, sub_levels, history)


def build_registry(read: Callable[[], Metrics], *more: Collector) -> CollectorRegistry:
    """Return a registry with the metrics that `read` and `more` give; raises EnvironmentNotReady without prometheus_client."""
    try:
        from prometheus_client.registry import CollectorRegistry
    except ImportError as error:
        raise EnvironmentNotReady(
            "prometheus_client is not installed: install Tideline with its extra, tideline[prometheus]"
        ) from error
    registry = CollectorRegistry()
    for collector in (StoreCollector(read), *more):
        registry.register(collector)
    return registry


def serve(read: Callable[[], Metrics], port: int, *more: Collector) -> Callable[[], None]:
    """Serve the metrics at http://127.0.0.1:`port`/metrics from a thread; returns the function that stops it."""
    registry = build_registry(read, *more)
    from prometheus_client import start_http_server

    server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def render_metrics(read: Callable[[], Metrics], *more: Collector) -> str:
    """Return the metrics in Prometheus' text format."""
    registry = build_registry(read, *more)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()
