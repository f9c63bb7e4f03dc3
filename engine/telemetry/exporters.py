"""Spans and metrics by OpenTelemetry's SDK; the only module that imports it. The SDK reads its variables itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import StatusCode

from engine.hummock.monitoring.families import Collector, Family
from engine.telemetry.settings import TelemetrySettings
from engine.tracing import Attributes, Span, install_tracer, make_current, name_error

SCOPE = "tideline"
SNAPSHOT_SECONDS = 0.1
"""All instruments of one export are read from one snapshot, which is no older."""


def start_exporters(settings: TelemetrySettings, collector: Collector) -> list[Callable[[], None]]:
    """Begin to export what settings ask for; return what ends it."""
    resource, closers = build_resource(), list[Callable[[], None]]()
    if settings.traces != "none":
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # else the program around has one already
            provider = own = TracerProvider(resource=resource, shutdown_on_exit=False)
            own.add_span_processor(BatchSpanProcessor(_build_span_exporter(settings.traces)))
            closers.append(own.shutdown)
        install_tracer(OtelTracer(provider.get_tracer(SCOPE, _read_version())))
    if settings.metrics not in ("none", "prometheus"):
        reader = PeriodicExportingMetricReader(_build_metric_exporter(settings.metrics))
        meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        observe_collector(meters.get_meter(SCOPE, _read_version()), collector)
        closers.append(meters.shutdown)
    return closers


def build_resource() -> Resource:
    """Return who tells: service tideline, its version and process, but as OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say."""
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    attributes: dict[str, Any] = {"service.version": _read_version(), "process.pid": os.getpid()}
    return Resource.create(attributes if named else {"service.name": SCOPE, **attributes})


def _read_version() -> str:
    try:
        return version("tideline")
    except PackageNotFoundError:
        return "unknown"


def _build_span_exporter(name: str) -> SpanExporter:
    if name == "console":
        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _build_metric_exporter(name: str) -> MetricExporter:
    if name == "console":
        return ConsoleMetricExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


class OtelSpan:
    """A span of OpenTelemetry, which counts the requests that were made for it until it ends."""

    is_recording = True

    def __init__(self, span: trace.Span) -> None:
        self.span = span
        self._requests: dict[str, int] = {}
        self._request_seconds = 0.0
        self._lock = threading.Lock()
        self._token: Token[otel_context.Context] | None = None

    def set_attributes(self, attributes: Attributes) -> None:
        """Note what it did."""
        self.span.set_attributes({**attributes})

    def mark_failed(self, error_type: str) -> None:
        """Note that it failed; the type of the error alone is told."""
        self.span.set_attribute("error.type", error_type)
        self.span.set_status(StatusCode.ERROR, error_type)

    def count_requests(self, requests: Mapping[str, int], seconds: float = 0.0) -> None:
        """Count requests to the object store that were made for it, by kind."""
        with self._lock:
            for kind, number in requests.items():
                self._requests[kind] = self._requests.get(kind, 0) + number
            self._request_seconds += seconds

    def __enter__(self) -> Span:
        self._current = make_current(self)
        self._current.__enter__()
        self._token = otel_context.attach(trace.set_span_in_context(self.span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        if self._token is not None:
            otel_context.detach(self._token)
        self._current.__exit__(None, None, None)
        if error is not None:
            self.mark_failed(name_error(error))
        for name, number in self._requests.items():
            self.span.set_attribute(f"tideline.requests.{name}", number)
        if self._request_seconds:
            self.span.set_attribute("tideline.request_seconds", self._request_seconds)
        self.span.end()


class OtelTracer:
    """Makes spans of OpenTelemetry."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, name: str, attributes: Attributes, parent: Span | None, seconds_ago: float) -> Span:
        """Return a span that has begun some seconds ago, a part of `parent`, else of what the program around has begun."""
        around = trace.set_span_in_context(parent.span) if isinstance(parent, OtelSpan) else None
        began = time.time_ns() - int(seconds_ago * 1e9)
        return OtelSpan(self._tracer.start_span(name, around, attributes={**attributes}, start_time=began))


def observe_collector(meter: Meter, collector: Collector) -> None:
    """Make an instrument of each family of a collector, which is read when metrics are exported."""
    snapshot = _Snapshot(collector)
    for family in collector.read_families():

        def observe(_: CallbackOptions, name: str = family.name) -> Iterator[Observation]:
            found = snapshot.read().get(name)
            yield from () if found is None else _list_observations(found)

        create = (
            meter.create_observable_counter if family.kind == "counter" else meter.create_observable_gauge
        )
        create(family.name, [observe], description=family.help)


def _list_observations(family: Family) -> Sequence[Observation]:
    return [
        Observation(number, dict(zip(family.labels, values, strict=True)))
        for values, number in family.samples
    ]


class _Snapshot:
    """The families of a collector as they were a moment ago."""

    def __init__(self, collector: Collector) -> None:
        self._collector, self._lock = collector, threading.Lock()
        self._taken = float("-inf")
        self._families: dict[str, Family] = {}

    def read(self) -> dict[str, Family]:
        """Return the families by name."""
        with self._lock:
            if time.monotonic() - self._taken > SNAPSHOT_SECONDS:
                self._families = {family.name: family for family in self._collector.read_families()}
                self._taken = time.monotonic()
            return self._families
