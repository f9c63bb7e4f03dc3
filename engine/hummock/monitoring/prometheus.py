"""The metrics of a store in Prometheus' text format; needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from engine.errors import EnvironmentNotReady
from engine.hummock.metrics import Metrics
from engine.hummock.monitoring.families import Collector, StoreCollector

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

LOOPBACK = "127.0.0.1"


class PrometheusCollector:
    """Gives a registry of prometheus_client the families of a collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for family in self._collector.read_families():
            labels = list(family.labels)
            made = (
                CounterMetricFamily(family.name, family.help, labels=labels)
                if family.kind == "counter"
                else GaugeMetricFamily(family.name, family.help, labels=labels)
            )
            for values, number in family.samples:
                made.add_metric(list(values), number)
            yield made


def build_registry(*collectors: Collector) -> CollectorRegistry:
    """Return a registry with the metrics that collectors give; raises EnvironmentNotReady without prometheus_client."""
    try:
        from prometheus_client.registry import CollectorRegistry
    except ImportError as error:
        raise EnvironmentNotReady(
            "prometheus_client is not installed: install Tideline with its extra, tideline[prometheus]"
        ) from error
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(PrometheusCollector(collector))
    return registry


def serve(read: Callable[[], Metrics], port: int, *more: Collector) -> Callable[[], None]:
    """Serve the metrics at http://127.0.0.1:`port`/metrics from a thread; returns the function that stops it."""
    return serve_collectors(LOOPBACK, port, StoreCollector(read), *more)


def serve_collectors(address: str, port: int, *collectors: Collector) -> Callable[[], None]:
    """Serve the metrics of collectors at http://`address`:`port`/metrics; returns the function that stops it."""
    registry = build_registry(*collectors)
    from prometheus_client import start_http_server

    server, thread = start_http_server(port, addr=address, registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def render_metrics(read: Callable[[], Metrics], *more: Collector) -> str:
    """Return the metrics in Prometheus' text format."""
    registry = build_registry(StoreCollector(read), *more)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()
