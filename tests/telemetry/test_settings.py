"""What the variables OTEL_… ask for."""

from __future__ import annotations

import pytest

from engine.telemetry.settings import BadTelemetrySetting, TelemetrySettings, read_settings


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, TelemetrySettings()),
        ({"OTEL_SERVICE_NAME": "shop"}, TelemetrySettings()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, TelemetrySettings("otlp", "otlp")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/t"}, TelemetrySettings("otlp", "none")),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"},
            TelemetrySettings("otlp"),
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, TelemetrySettings()),
        ({"OTEL_TRACES_EXPORTER": "console"}, TelemetrySettings("console")),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "9500"},
            TelemetrySettings("none", "prometheus", port=9500),
        ),
    ],
)
def test_nothing_is_told_unless_a_variable_asks_for_it(
    environment: dict[str, str], expected: TelemetrySettings
) -> None:
    assert read_settings(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            'OTEL_TRACES_EXPORTER is "zipkin": write one of otlp, console, none',
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            'OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": write http/protobuf',
        ),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "no"},
            'OTEL_EXPORTER_PROMETHEUS_PORT is "no": write a port',
        ),
    ],
)
def test_what_there_is_not_is_told(environment: dict[str, str], message: str) -> None:
    with pytest.raises(BadTelemetrySetting, match=message):
        read_settings(environment)


def test_only_exporters_of_opentelemetry_need_its_package() -> None:
    assert not TelemetrySettings("none", "prometheus").needs_package
    assert TelemetrySettings("none", "otlp").needs_package
