"""The dashboard and the alerts of deploy/monitoring, before a real Prometheus that scrapes real processes."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.own_process import ROOT
from tests.telemetry.collector import LOOPBACK, find_closed_port

pytestmark = pytest.mark.prometheus

MONITORING = ROOT / "deploy" / "monitoring"
SECONDS = 90.0
INTERVAL = "20s"
"""What Grafana makes of four scrapes of the test, for `$__rate_interval`."""


def find_program(name: str) -> str:
    """Return the path of one of Prometheus' programs, or skip with what is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on PATH: install the system's package `prometheus`")
    return found


def list_queries() -> list[tuple[str, str]]:
    """Return the queries of the dashboard with the titles of their panels."""
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the answer of its API."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        ) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return what an expression gives now, numbers that are none left out."""
        text = expression.replace("$__rate_interval", INTERVAL)
        found = self.ask("query", query=text)["result"]
        return [one for one in found if math.isfinite(float(one["value"][1]))]


def wait_for(description: str, happens: Callable[[], Any]) -> Any:
    """Return what comes of a call once it is something; a failing request is nothing yet."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            if found := happens():
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"{description} did not happen within {SECONDS:.0f} s")


@contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a process; at the end its input is closed, then it is stopped."""
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True, **more) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def prometheus(s3_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a process which keeps views up to date, and `tideline metrics` over its store."""
    program, folder = find_program("prometheus"), tmp_path_factory.mktemp("prometheus")
    pytest.importorskip("prometheus_client")
    store, own, ports = (
        "s3://tideline/monitored",
        str(find_closed_port()),
        [str(find_closed_port()) for _ in "ab"],
    )
    told = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": ports[0]}
    places = {"TIDELINE_ALLOWED_PATHS": str(folder), "TIDELINE_HOME": str(folder)}
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "2s", "evaluation_interval": "2s"}
    settings["rule_files"] = [str(MONITORING / "alerts.yml")]
    for target, port in zip(settings["scrape_configs"][0]["static_configs"], reversed(ports), strict=True):
        target["targets"] = [f"{LOOPBACK}:{port}"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    workload = [sys.executable, "-m", "tests.telemetry.workload", store, str(folder / "files")]
    with running(workload, env={**os.environ, **told, **places}, stdout=subprocess.PIPE) as work:
        assert work.stdout is not None and work.stdout.readline() == "ready\n"
        served = [sys.executable, "-m", "engine.cli", "metrics", "--store", store, "--port", ports[1]]
        listens = f"--web.listen-address={LOOPBACK}:{own}"
        files = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with running(served), running([program, *files, listens, "--log.level=error"]):
            found = Prometheus(f"http://{LOOPBACK}:{own}")
            wait_for("a scrape of both", lambda: len(found.query("up == 1")) == 2)
            yield found


def test_the_rules_and_their_tests_pass() -> None:
    promtool = find_program("promtool")
    for arguments in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [promtool, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_query_of_the_dashboard_gives_data(prometheus: Prometheus) -> None:
    queries = list_queries()
    assert len(queries) > 25
    for title, expression in queries:
        wait_for(f"data of {title}: {expression}", lambda expression=expression: prometheus.query(expression))


def test_what_fails_and_what_was_set_aside_is_seen(prometheus: Prometheus) -> None:
    failing = 'tideline_waiting_seconds{kind="failed",domain="ratio"}'
    wait_for("the failure of ratio", lambda: prometheus.query(failing))
    assert [one["value"][1] for one in prometheus.query("max(tideline_rows_set_aside)")] == ["1"]
    wait_for("a failed epoch", lambda: prometheus.query('tideline_failed_epochs_total{domain="ratio"}'))

    def list_alerts() -> set[tuple[str, str]]:
        found = prometheus.ask("alerts")["alerts"]
        return {(one["labels"]["alertname"], one["labels"].get("domain", "")) for one in found}

    wait_for("the alert of ratio", lambda: ("TidelineDomainFails", "ratio") in list_alerts())
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 13 and {rule["health"] for rule in rules} == {"ok"}


def test_the_metrics_of_rules_and_dashboard_are_those_that_there_are(prometheus: Prometheus) -> None:
    known = set(prometheus.ask("label/__name__/values"))
    texts = [expression for _, expression in list_queries()]
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    texts += [rule["expr"] for rule in rules]
    words = {
        word.strip("(){}[],")
        for text in texts
        for word in text.replace("(", " ").replace("{", " ").replace("[", " ").split()
    }
    named = {word.rstrip(")") for word in words if word.startswith("tideline_")}
    assert named and named - known <= {"tideline_store_request_errors_total"}  # nothing has failed
