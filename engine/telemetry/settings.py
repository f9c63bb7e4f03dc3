"""Which traces and metrics the standard variables of OpenTelemetry ask for; nothing where none of them is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
VARIABLES = (
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "OTEL_EXPORTER_PROMETHEUS_HOST",
    "OTEL_EXPORTER_PROMETHEUS_PORT",
)
"""Those that are read here; the SDK reads the others."""
DEFAULT_PROTOCOL = "http/protobuf"
DEFAULT_PORT = 9464
DEFAULT_HOST = "127.0.0.1"

Signal = Literal["TRACES", "METRICS"]
KNOWN: Mapping[Signal, tuple[str, ...]] = {
    "TRACES": ("otlp", "console", "none"),
    "METRICS": ("otlp", "console", "prometheus", "none"),
}


class BadTelemetrySetting(Exception):
    """A variable asks for what there is not; the message says what to write."""


@dataclass(frozen=True)
class TelemetrySettings:
    """By which exporter traces and metrics leave; `none` where nobody asks. The address is that at which Prometheus scrapes."""

    traces: str = "none"
    metrics: str = "none"
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    @property
    def needs_package(self) -> bool:
        """Whether OpenTelemetry's own packages are needed: what Prometheus scrapes is served without them."""
        return self.traces != "none" or self.metrics not in ("none", "prometheus")


def read_settings(environment: Mapping[str, str]) -> TelemetrySettings:
    """Return what the variables ask for; raises BadTelemetrySetting for what there is not."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetrySettings()
    traces, metrics = _read_exporter("TRACES", environment), _read_exporter("METRICS", environment)
    host = environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "").strip() or DEFAULT_HOST
    return TelemetrySettings(traces, metrics, host, _read_port(environment))


def _read_exporter(signal: Signal, environment: Mapping[str, str]) -> str:
    """Return the exporter of a signal: the one that is named, OTLP where only its address is, else none."""
    named = environment.get(f"OTEL_{signal}_EXPORTER", "").strip()
    own_endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "").strip()
    exporter = named or ("otlp" if own_endpoint or environment.get(ENDPOINT, "").strip() else "none")
    if exporter not in KNOWN[signal]:
        raise BadTelemetrySetting(
            f'OTEL_{signal}_EXPORTER is "{exporter}": write one of {", ".join(KNOWN[signal])}'
        )
    if exporter == "otlp":
        own = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
        name = own if environment.get(own, "").strip() else PROTOCOL
        protocol = environment.get(name, "").strip() or DEFAULT_PROTOCOL
        if protocol != DEFAULT_PROTOCOL:
            raise BadTelemetrySetting(
                f'{name} is "{protocol}": write {DEFAULT_PROTOCOL}, and the address of the collector\'s HTTP port, mostly 4318'
            )
    return exporter


def _read_port(environment: Mapping[str, str]) -> int:
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "").strip()
    if text and not (text.isdecimal() and int(text) < 65536):
        raise BadTelemetrySetting(f'OTEL_EXPORTER_PROMETHEUS_PORT is "{text}": write a port, 1 to 65535')
    return int(text) if text else DEFAULT_PORT
