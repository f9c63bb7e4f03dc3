"""What events tell people: epochs as times beside the numbers that data versions are."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa

from dagster_tideline.driver.sensors import request_run
from dagster_tideline.runs.epoch_events import build_sink_event, build_table_event
from dagster_tideline.runs.pending import Pending
from engine.hummock import Hummock, Put
from engine.hummock.epoch import epoch_at, format_epoch
from engine.session import SinkReport


def test_the_event_of_a_table_names_its_epoch_as_a_time(tmp_path: Path) -> None:
    with Hummock.open(tmp_path.as_uri()) as store:
        table = store.create_table("t", pa.schema([("id", pa.int64())]), primary_key=["id"])
        epoch = store.ingest_batch({table: [Put(pa.table({"id": [1]}))]})
        event = build_table_event("t", store.version, None, None)
    assert event is not None and event.metadata is not None and event.data_version is not None
    assert event.metadata["epoch"] == format_epoch(epoch)
    assert event.data_version.value == str(epoch)


def test_the_event_of_a_sink_names_the_epoch_that_it_has_delivered() -> None:
    epoch = epoch_at(1_795_330_744.767)
    event = build_sink_event(SinkReport("s", "v", "log", epoch=epoch, rows=3))
    assert event is not None and event.metadata is not None
    assert event.metadata["epoch"] == f"2026-11-22 06:59:04.767 UTC ({epoch})"


def test_a_run_is_tagged_with_the_time_of_its_epoch() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        asked = request_run(instance, Pending(epoch_at(1_795_330_744.767), ("v",), digest="d"), 0.0)
    assert isinstance(asked, dg.RunRequest)
    assert asked.tags["tideline/epoch"] == "2026-11-22 06:59:04.767 UTC"
