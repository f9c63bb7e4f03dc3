"""`tideline dev kafka` starts a broker that is of this machine alone, and leaves nothing behind."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.commands import main
from engine.connectors.kafka import broker
from engine.errors import EnvironmentNotReady
from engine.jars import FETCH_KAFKA, KAFKA, find_kafka_jars


def test_jars_that_are_missing_are_told_with_what_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_KAFKA_JARS", str(tmp_path))
    with pytest.raises(
        EnvironmentNotReady, match=f"{len(KAFKA)} of the {len(KAFKA)} jars of Kafka .*{FETCH_KAFKA}"
    ):
        find_kafka_jars()


def test_a_port_that_is_taken_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker, "_accepts", lambda port: True)
    monkeypatch.setattr(broker, "find_kafka_jars", lambda: [])
    monkeypatch.setattr("engine.jars.fetch_kafka", lambda: [])
    with pytest.raises(SystemExit) as ended:
        main(["dev", "kafka", "--port", "9092", "--folder", str(tmp_path)])
    assert ended.value.code == 1
    assert "something else listens at 127.0.0.1:9092" in capsys.readouterr().err


@pytest.mark.kafka
def test_a_broker_answers_until_it_is_told_to_end(tmp_path: Path) -> None:
    if importlib.util.find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed: `make kafka` does it")
    command = [sys.executable, "-m", "engine.cli", "dev", "kafka", "--port", "0", "--folder", str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line.startswith("Kafka answers at 127.0.0.1:")
        admin = importlib.import_module("confluent_kafka.admin")
        address = line.split()[3].rstrip(";")
        assert admin.AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0 and child.stdout.read() == "Kafka is stopped\n"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(10)
