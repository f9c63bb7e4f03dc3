"""Objects damaged at random: a short run of `python -m tests.hummock.fuzz_objects`, and the damages that once gave wrong rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import CorruptObject, TidelineError
from engine.hummock import Hummock, Put
from engine.hummock.manifests.manifest import manifest_path
from engine.hummock.sorted_files.file_set import SearchValues
from tests.hummock.conftest import SCHEMA, content, rows
from tests.hummock.fuzz_objects import run


@pytest.mark.long
def test_every_answer_from_a_damaged_store_is_right_or_has_a_name(tmp_path: Path) -> None:
    outcome = run(150, 1, tmp_path)
    assert outcome.failures == []
    assert sum(outcome.reports.values()) > 5 and sum(outcome.unharmed.values()) > 5


@pytest.fixture
def large(open_store: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hummock]:
    """A store whose file has 20 row groups, read a few at a time, with nothing cached."""
    monkeypatch.setattr("engine.hummock.sorted_files.file_set.SMALL_BYTES", 0)
    monkeypatch.setattr("engine.hummock.sorted_files.sst.ROW_GROUP_ROWS", 1000)
    store = open_store()
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": [Put(rows({i: str(i) * 9 for i in range(20_000)}))]})
    shutil.rmtree(tmp_path / "cache")
    store.close()
    yield store


def test_no_bit_of_the_footer_makes_a_row_vanish(large: Hummock, tmp_path: Path) -> None:
    (path,) = (tmp_path / "store" / "sst").iterdir()
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(footer, len(whole), 97):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises(CorruptObject, match="damaged"):
            large.get("t", {"id": 7_500})
        large.close()
    path.write_bytes(whole)
    assert large.get("t", {"id": 7_500}) == {"id": 7_500, "v": "7500" * 9}


def test_a_changed_statistic_hides_no_row(large: Hummock, tmp_path: Path) -> None:
    (path,) = (tmp_path / "store" / "sst").iterdir()
    data = bytearray(path.read_bytes())
    bound = pq.ParquetFile(path).metadata.row_group(7).column(1).statistics.max
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.find(bound.to_bytes(8, "little"), footer)
    while at >= 0:
        data[at : at + 8] = (0).to_bytes(8, "little")
        at = data.find(bound.to_bytes(8, "little"), at + 8)
    path.write_bytes(data)
    with pytest.raises(CorruptObject):
        large.get("t", {"id": 7_500})


def test_swapped_manifests_are_noticed(store: Hummock, open_store: Callable, tmp_path: Path) -> None:
    store.create_table("t", SCHEMA, ["id"])
    for step in range(130):
        store.ingest_batch({"t": [Put(rows({step % 7: str(step)}))]})
    early, late = (tmp_path / "store" / manifest_path(number) for number in (64, 128))
    data = early.read_bytes()
    early.write_bytes(late.read_bytes())
    late.write_bytes(data)
    with pytest.raises(CorruptObject, match="swapped"):
        content(open_store())


@pytest.mark.parametrize("length", [1 << 62, 1 << 40, 0, 1], ids=str)
def test_a_manifest_of_a_wrong_length_is_told(
    store: Hummock, open_store: Callable, tmp_path: Path, length: int
) -> None:
    store.create_table("t", SCHEMA, ["id"])
    path = tmp_path / "store" / manifest_path(1)
    data = bytearray(path.read_bytes())
    data[4:12] = length.to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(CorruptObject):
        open_store()


@pytest.mark.parametrize("data", [b"", b"12a", b"\xff\xfe", b"99999"], ids=str)
@pytest.mark.parametrize("name", ["hint", "boundary"])
def test_a_damaged_hint_or_boundary_loses_nothing(
    store: Hummock, open_store: Callable, tmp_path: Path, name: str, data: bytes
) -> None:
    store.create_table("t", SCHEMA, ["id"])
    store.ingest_batch({"t": [Put(rows({1: "a"}))]})
    (tmp_path / "store" / "manifest" / name).write_bytes(data)
    try:
        shown = content(open_store(create=False))
    except TidelineError:
        assert name == "boundary"
    else:
        assert shown == {1: "a"}


def test_a_file_without_checksums_of_its_sections_is_read_as_a_whole(
    large: Hummock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    version = large.version.tables["t"]
    (sst,) = version.live_ssts
    assert len(sst.sections) == 21 and sst.sections[-1][0] == sst.length
    old = msgspec.structs.replace(sst, sections=())
    rows_ = large.reader.files.fetch(old, SearchValues("id", lambda: pa.array([7]).to_numpy())).rows
    assert rows_.num_rows == 20_000
