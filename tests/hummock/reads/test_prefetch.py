"""What a compaction elsewhere made of hot files is fetched before it is asked for; of cold files nothing is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.hummock import Hummock, Put
from tests.hummock.conftest import SCHEMA, content, keys, rows


@pytest.fixture
def two(open_store: Callable[..., Hummock], tmp_path: Path, clock) -> tuple[Hummock, Hummock]:
    """A writer, and a reader with a cache of its own."""
    writer = open_store()
    for name in ("hot", "cold"):
        writer.create_table(name, SCHEMA, ["id"], ["id"])
        for step in range(3):
            writer.ingest_batch({name: Put(rows({step: str(step), 10 + step: "x"}))})
    reader = Hummock.open(
        writer.url, cache_dir=tmp_path / "elsewhere", clock=clock, auto_compact="background"
    )
    return writer, reader


def test_only_the_outputs_of_hot_inputs_are_fetched(two: tuple[Hummock, Hummock], tmp_path: Path) -> None:
    writer, reader = two
    assert reader.multi_get("hot", keys(1)).column("v").to_pylist() == ["1"]
    writer.compact("hot")
    writer.compact("cold")
    reader.refresh()
    reader._background.drain()
    fetched = [path.name for path in (tmp_path / "elsewhere").glob("*/*.arrow")]
    (hot,), (cold,) = (reader.version.tables[name].live_ssts for name in ("hot", "cold"))
    assert any(name.startswith(hot.sst_id) for name in fetched)
    assert not any(name.startswith(cold.sst_id) for name in fetched)
    shutil.rmtree(tmp_path / "store" / "sst")
    assert content(reader, "hot") == {0: "0", 1: "1", 2: "2", 10: "x", 11: "x", 12: "x"}


def test_a_refresh_without_a_compaction_fetches_nothing(two: tuple[Hummock, Hummock]) -> None:
    writer, reader = two
    content(reader, "hot")
    writer.ingest_batch({"hot": Put(rows({5: "new"}))})
    before = reader.metrics()
    reader.refresh()
    reader._background.drain()
    assert set(reader.metrics().since(before).requests) == {"get"}
