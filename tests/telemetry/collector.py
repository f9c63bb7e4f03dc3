"""A collector of OpenTelemetry on loopback, which reads what is sent to it as the protocol has it; or one that never answers."""

from __future__ import annotations

import gzip
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = "127.0.0.1"


@dataclass
class SentSpan:
    """A span as a collector gets it."""

    trace: bytes
    id: bytes
    parent: bytes
    name: str
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Received:
    """What was sent to a collector: spans, and by name of a metric its points, each with its attributes."""

    spans: list[SentSpan] = field(default_factory=list)
    metrics: dict[str, list[tuple[dict[str, Any], float]]] = field(default_factory=lambda: defaultdict(list))
    resources: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def children(self, parent: SentSpan | None) -> list[SentSpan]:
        """Return the spans within one, in the order in which they began."""
        found = [s for s in self.spans if s.parent == (b"" if parent is None else parent.id)]
        return sorted(found, key=lambda span: span.began)

    def tree(self, parent: SentSpan | None = None, depth: int = 0) -> Iterator[str]:
        """Yield the spans as lines, each below the one that it is a part of."""
        for span in self.children(parent):
            told = span.attributes.get("db.collection.name") or span.attributes.get("tideline.domain") or ""
            yield f"{'  ' * depth}{span.name} {told}".rstrip()
            yield from self.tree(span, depth + 1)


def _read_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def _take_traces(received: Received, body: bytes) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        received.resources.append(_read_attributes(resource.resource.attributes))
        for scope in resource.scope_spans:
            for one in scope.spans:
                received.spans.append(
                    SentSpan(
                        one.trace_id,
                        one.span_id,
                        one.parent_span_id,
                        one.name,
                        one.start_time_unix_nano,
                        one.end_time_unix_nano,
                        one.status.code == 2,
                        _read_attributes(one.attributes),
                    )
                )


def _take_metrics(received: Received, body: bytes) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in (*metric.sum.data_points, *metric.gauge.data_points):
                    value = getattr(point, point.WhichOneof("value"))
                    received.metrics[metric.name].append((_read_attributes(point.attributes), value))


@contextmanager
def run_collector() -> Iterator[tuple[str, Received]]:
    """Give the address of a collector, and what it receives."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.headers.append(dict(self.headers.items()))
            (_take_traces if self.path == "/v1/traces" else _take_metrics)(received, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def run_silent_collector() -> Iterator[str]:
    """Give the address of one that takes connections and never answers."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"http://{LOOPBACK}:{server.getsockname()[1]}"


def find_closed_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])
