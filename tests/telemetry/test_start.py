"""What a process tells, to whom, and what that may hold up: nothing."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from engine.telemetry import start
from tests.crash.program.steps import Program
from tests.own_process import ROOT, SECONDS
from tests.telemetry.collector import LOOPBACK, find_closed_port, run_collector, run_silent_collector

EPOCH = """
import sys, tempfile
from pathlib import Path
from engine.telemetry.start import start_telemetry
from tests.crash.program.steps import Program

program = Program(1, Path(tempfile.mkdtemp()), steps=0)
program.objects.plan.rate = 0.0
start_telemetry(program.store)
program._write()
program._commit_view("v", "SELECT g, count(*) AS n FROM a GROUP BY g", {})
program._commit_view("w", "SELECT g, sum(x) AS s FROM a GROUP BY g", {})
program.flusher.run().raise_for_errors()
program.failing = {"w"}
while not program.flusher.run().failed:
    program._write()
print(sorted({name.partition(".")[0] for name in sys.modules} & {"opentelemetry", "prometheus_client"}))
"""


def run_epochs(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run epochs in a process without variables OTEL_… but for those given; it ends by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EPOCH],
        env=kept | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A process that has told nobody of anything yet, without variables OTEL_…"""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(start, "_started", None)
    made = Program(1, tmp_path, steps=0)
    made.objects.plan.rate = 0.0
    return made


def test_without_being_asked_nothing_is_imported_or_said() -> None:
    done = run_epochs({"OTEL_SERVICE_NAME": "shop"})
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_collector_gets_the_spans_of_epochs_and_the_metrics_that_prometheus_has() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    with run_collector() as (address, received):
        told = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        done = run_epochs(told)
    assert "opentelemetry" in done.stdout and done.stderr == ""
    lines = list(received.tree())
    assert lines[0] == "flush" and "  domain v" in lines and "    epoch v" in lines, lines
    assert "      fragment v" in lines and "      commit" in lines
    flush = received.children(None)[0]
    assert flush.attributes["db.system.name"] == "tideline" and not flush.failed
    assert flush.attributes["tideline.run_requests.put_if_absent"] >= 1
    fragments = [span for span in received.spans if span.name == "fragment"]
    assert {span.attributes["tideline.view"] for span in fragments} == {"v", "w"}
    assert sum(span.attributes.get("tideline.rows.inserted", 0) for span in fragments) > 0
    resource = received.resources[0]
    assert resource["service.name"] == "tideline" and resource["deployment.environment.name"] == "test"
    assert {"service.version", "service.instance.id", "process.pid"} <= resource.keys()
    assert received.headers[0]["authorization"] == "Bearer secret"
    # what has failed is told by its type and view: no text, which may hold values
    told_spans = [span.attributes for span in received.spans]
    failed = [span for span in received.spans if span.failed]
    assert {"domain", "epoch", "fragment"} == {span.name for span in failed}
    assert {span.attributes["error.type"] for span in failed} == {"EpochFailed"}
    assert {span.attributes["tideline.view"] for span in failed if span.name == "fragment"} == {"w"}
    assert not any(text in str((resource, told_spans)) for text in ("secret", "is made to fail"))
    metrics = received.metrics
    assert metrics["tideline_runs"][-1][0] == {"store": "memory://store"}
    assert metrics["tideline_runs"][-1][1] >= 2
    assert {labels["domain"] for labels, _ in metrics["tideline_epochs"]} == {"v", "w"}
    assert {labels["domain"] for labels, _ in metrics["tideline_failed_epochs"]} == {"w"}
    assert {labels["view"] for labels, _ in metrics["tideline_view_lag_seconds"]} == {"v", "w"}
    assert "tideline_store_requests" in metrics and "tideline_waiting_domains" in metrics


@pytest.mark.long
def test_collectors_that_are_away_or_never_answer_hold_up_neither_an_epoch_nor_the_end() -> None:
    """To wait for an answer would outlast the test: the exporters' own deadline is a day."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    with run_silent_collector() as address:
        done = run_epochs(
            {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{address}/v1/traces",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://{LOOPBACK}:{find_closed_port()}/v1/metrics",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "86400",
                "OTEL_BSP_SCHEDULE_DELAY": "1",
                "OTEL_METRIC_EXPORT_INTERVAL": "50",
            }
        )
    assert "opentelemetry" in done.stdout


def test_without_the_package_one_sentence_says_so(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.delitem(sys.modules, "engine.telemetry.exporters", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with caplog.at_level(logging.WARNING):
        start.start_telemetry(program.store)
        start.start_telemetry(program.store)
    assert [record.getMessage() for record in caplog.records] == [start.MISSING]


def test_a_wrong_variable_is_told_and_holds_up_nothing(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with caplog.at_level(logging.WARNING):
        start.start_telemetry(program.store)
    (record,) = caplog.records
    assert 'OTEL_TRACES_EXPORTER is "zipkin": write one of otlp, console, none' in record.getMessage()


def test_a_process_serves_its_own_metrics_to_prometheus(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("prometheus_client")
    port = find_closed_port()
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
    start.start_telemetry(program.store)
    program._write()
    program._commit_view("v", "SELECT g, count(*) AS n FROM a GROUP BY g", {})
    program.flusher.run().raise_for_errors()
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics") as answer:
        text = answer.read().decode()
    assert re.search(r'^tideline_runs_total\{store="memory://store"\} 1\.0$', text, re.MULTILINE)
    assert re.search(r'^tideline_epochs_total\{domain="v",store="[^"]+"\} 1\.0$', text, re.MULTILINE)
    # another process finds the port taken
    monkeypatch.setattr(start, "_started", None)
    with caplog.at_level(logging.WARNING):
        start.start_telemetry(program.store)
    (record,) = caplog.records
    assert f"metrics are not served: {LOOPBACK}:{port} cannot be listened at" in record.getMessage()
