"""Compressed text files land as others do: whole, in bounded memory, and what is damaged or a bomb is told."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES
from engine.hummock import Commit, Version
from engine.hummock.object_store import open_object_store
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]
CODECS = [("gz", "gzip"), ("zst", "zstd")]


def packed(text: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


def rows(lake: Session, table: str = "orders") -> list[dict[str, object]]:
    lake.store.refresh()
    return [row for batch in lake.store.iter(table) for row in batch.to_pylist()]


def ids(lake: Session) -> list[object]:
    return sorted(row["id"] for row in rows(lake))  # type: ignore[type-var]


@pytest.mark.parametrize(("suffix", "codec"), CODECS)
def test_compressed_texts_of_all_formats_land(
    lake: Session, folder: Path, orders: Source, suffix: str, codec: str
) -> None:
    texts = {
        "a.csv": b"id,name\n1,a\n2,b\nx,y\n",
        "b.jsonl": b'{"id": 3}\n',
        "c.json": b'[{"id": 4}, {"id": 5}]',
        "d.ndjson": b'{"id": 6}\n',
    }
    for name, text in texts.items():
        (folder / f"{name}.{suffix}").write_bytes(packed(text, codec))
    for name in (f"{suffix}", f"x.{suffix}", f"e.parquet.{suffix}", f".f.csv.{suffix}", f"g.txt.{suffix}"):
        (folder / name).write_bytes(packed(b"id,name\n99,a\n", codec))
    report = orders().poll()
    assert (report.files, report.rows, report.dead_rows, ids(lake)) == (4, 6, 1, [1, 2, 3, 4, 5, 6])
    (letter,) = rows(lake, DEAD_LETTER)
    assert (letter["file"], letter["line"], letter["raw"]) == (f"a.csv.{suffix}", 4, "x,y")
    assert orders().poll().epoch is None


@pytest.mark.parametrize(("suffix", "codec"), CODECS)
def test_a_file_of_several_compressed_parts_is_read_to_its_end(
    lake: Session, folder: Path, orders: Source, suffix: str, codec: str
) -> None:
    parts = [b"id,name\n1,a\n", b"2,b\n", b"3,c\n"]
    (folder / f"a.csv.{suffix}").write_bytes(b"".join(packed(part, codec) for part in parts))
    orders().poll()
    assert ids(lake) == [1, 2, 3]


@pytest.mark.parametrize("zeros", [1, 511, 1 << 17])
def test_a_gzip_that_is_filled_up_with_zeros_is_read_to_its_end(
    lake: Session, folder: Path, orders: Source, zeros: int
) -> None:
    """As tapes and blocks are."""
    data = packed(b"id,name\n1,a\n", "gzip") + packed(b"", "gzip") + packed(b"2,b\n", "gzip")
    (folder / "a.csv.gz").write_bytes(data + bytes(zeros))
    report = orders().poll()
    assert (report.dead_rows, ids(lake)) == (0, [1, 2])


@pytest.mark.parametrize(
    ("suffix", "codec", "damage"),
    [(*kind, how) for kind in CODECS for how in ("cut", "none of it", "more")] + [("gz", "gzip", "flipped")],
)
def test_a_damaged_file_is_told_once_and_stops_no_other(
    lake: Session, folder: Path, orders: Source, suffix: str, codec: str, damage: str
) -> None:
    data = bytearray(packed(b"id,name\n" + b"".join(b"%d,a\n" % n for n in range(1000)), codec))
    if damage == "cut":
        data = data[:-20]
    elif damage == "flipped":
        data[len(data) // 2] ^= 255
    elif damage == "more":
        data += b"rest"
    else:
        data = bytearray(b"id,name\n1,a\n")
    (folder / f"a.csv.{suffix}").write_bytes(data)
    (folder / "b.csv").write_text("id,name\n5000,b\n")
    report = orders().poll()
    assert (report.files, report.dead_rows) == (2, 1) and 5000 in ids(lake)
    (letter,) = rows(lake, DEAD_LETTER)
    assert (letter["file"], letter["line"]) == (f"a.csv.{suffix}", 0)
    assert orders().poll().epoch is None


@pytest.mark.parametrize(
    ("name", "start"), [("a.csv.zst", b"id,name\n"), ("a.json.zst", b"["), ("a.jsonl.zst", b"")]
)
def test_a_compressed_bomb_is_set_aside_before_it_is_unpacked(
    lake: Session, folder: Path, orders: Source, name: str, start: bytes
) -> None:
    (folder / name).write_bytes(packed(start + b" " * (64 << 20), "zstd"))
    source = orders()
    source.limits = ReadLimits(1 << 20)
    assert source.poll().rows == 0
    (letter,) = rows(lake, DEAD_LETTER)
    assert letter["line"] == 0 and "decompression bomb" in str(letter["reason"])


def test_a_large_compressed_file_is_taken_in_several_commits_and_gone_on_with(
    lake: Session, folder: Path, orders: Source
) -> None:
    text = b"id,name\n" + b"".join(b"%d,row %d\n" % (n, n) for n in range(60_000))
    (folder / "a.csv.gz").write_bytes(gzip.compress(text))
    source = orders()
    source.limits = ReadLimits(1 << 18)
    commit, commits = lake.store.commit, []

    def dies(made: Commit) -> Version:
        if len(commits) == 2:
            raise KeyboardInterrupt
        if "orders" in made.writes:
            commits.append(made)
        return commit(made)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake.store, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            source.poll()
    (record,) = rows(lake, FILES)
    assert 0 < record["position"] < 60_000  # type: ignore[operator]
    source.poll()
    assert ids(lake) == list(range(60_000))
    (record,) = rows(lake, FILES)
    assert (record["rows"], record["position"]) == (60_000, None)


@pytest.mark.s3
@pytest.mark.parametrize(("suffix", "codec"), CODECS)
def test_compressed_objects_of_a_bucket_land(
    lake: Session, monkeypatch: pytest.MonkeyPatch, s3_url: str, suffix: str, codec: str
) -> None:
    monkeypatch.delenv("TIDELINE_HOME", raising=False)
    bucket = open_object_store(f"{s3_url}/in")
    bucket.put(f"a.csv.{suffix}", packed(b"id,name\n1,a\n", codec))
    bucket.put(f"b.json.{suffix}", packed(b'[{"id": 2}]', codec))
    lake.sql(f"CREATE TABLE orders (id INT PRIMARY KEY) WITH (connector = 'landing', path = '{s3_url}/in')")
    assert LandingSource.of_relation(lake.store, lake.catalog.get("orders")).poll().rows == 2
    assert ids(lake) == [1, 2]
