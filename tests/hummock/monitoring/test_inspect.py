"""What a person sees of a store: metrics by table, versions, manifests, sorted files."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest

from engine.cli import main
from engine.errors import CorruptObject, StorageError
from engine.hummock import Commit, Hummock, Put, Table
from engine.hummock.monitoring import prometheus
from engine.hummock.monitoring.inspect import describe_sst
from tests.hummock.conftest import rows


@pytest.fixture
def filled(store: Hummock, table: Table) -> Hummock:
    for step in range(3):
        store.ingest_batch({table: [Put(rows({step: "a", 9: "b"}))]})
    store.compact(table)
    store.ingest_batch({table: [Put(rows({7: "c"}))]})
    store.commit(Commit(pins={"t": {"reader": store.version.epoch}}, claim="w"))
    return store


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code
    return capsys.readouterr().out


def test_status_of_an_idle_store_shows_levels_and_history(
    filled: Hummock, capsys: pytest.CaptureFixture[str]
) -> None:
    filled.counters.add_driver_bytes("source orders", 3)
    filled.pin("t", seconds=60)  # the next commit tells it
    text = shown(capsys, "status", "--storage", "--store", filled.url)
    assert "0:1 1:1" in text
    assert re.search(r"through the driver .*source orders 3 B", text)
    assert "retained history" in text
    assert "reader" in text
    found = json.loads(shown(capsys, "status", "--storage", "--format", "json", "--store", filled.url))
    assert [level["rows"] for level in found["tables"]["t"]["levels"]] == [1, 4]


def test_inspect_prints_version_manifest_and_file(
    filled: Hummock, capsys: pytest.CaptureFixture[str]
) -> None:
    path = filled.version.tables["t"].log[-1].ssts[0].path
    version = shown(capsys, "inspect", "version", "--store", filled.url)
    assert "w=1" in version
    assert path in version
    assert path in shown(capsys, "inspect", "manifest", str(filled.version.number - 1), "--store", filled.url)
    file = shown(capsys, "inspect", "sst", path, "--store", filled.url)
    assert "log of t" in file
    assert "row group" in file


def test_inspecting_what_is_not_there_says_so(filled: Hummock, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "manifest", "999", "--store", filled.url])
    assert "no manifest/00000000000000000999" in capsys.readouterr().err
    with pytest.raises(StorageError, match="inspect version lists"):
        describe_sst(filled.objects, filled.version, "sst/none.parquet")


def test_prometheus_gets_counters_and_levels_on_loopback(filled: Hummock) -> None:
    pytest.importorskip("prometheus_client")
    filled.counters.add_driver_bytes("source a b", 7)
    text = prometheus.render_metrics(filled.metrics)
    assert 'tideline_store_driver_bytes_total{kind="source",name="a b"} 7.0' in text
    assert 'tideline_store_files{level="1",table="t"} 1.0' in text
    assert 'tideline_store_requests_total{kind="put_if_absent"}' in text


def test_prometheus_serves_over_http(filled: Hummock) -> None:
    pytest.importorskip("prometheus_client")
    with socket.socket() as free:
        free.bind((prometheus.LOOPBACK, 0))
        port = free.getsockname()[1]
    stop = prometheus.serve(filled.metrics, port)
    try:
        with urllib.request.urlopen(f"http://{prometheus.LOOPBACK}:{port}/metrics") as answer:
            assert b"tideline_store_commits_total" in answer.read()
    finally:
        stop()


def test_a_damaged_file_is_told(store: Hummock, table: Table, tmp_path: Path) -> None:
    store.ingest_batch({table: [Put(rows({1: "a"}))]})
    (path,) = (tmp_path / "store" / "sst").iterdir()
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(CorruptObject, match="damaged"):
        describe_sst(store.objects, store.version, f"sst/{path.name}")
