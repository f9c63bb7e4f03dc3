"""A reader that knows docs/format.md and nothing of the engine reads what the engine wrote."""

from __future__ import annotations

import dataclasses
import io
import struct
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from engine.hummock import Commit, Delete, Hummock, Put
from engine.hummock.rows.column_defaults import with_default
from tests.hummock.conftest import MovableClock
from tests.hummock.dated import DatedObjectStore


class PlainReader:
    """The newest version of a store in a directory, by the documented format alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        newest = max(int(p.name) for p in (folder / "manifest").iterdir() if p.name.isdigit())
        checkpoint = newest - newest % 64
        self.tables: dict[str, dict[str, Any]] = {}
        if checkpoint:
            for table in self.manifest(checkpoint)["checkpoint"]["tables"]:
                self.tables[table["spec"]["name"]] = table
        for number in range(checkpoint + 1, newest + 1):
            manifest = self.manifest(number)
            for delta in [manifest["delta"], *manifest.get("more", [])]:
                self.apply(delta)

    def manifest(self, number: int) -> dict[str, Any]:
        data = (self.folder / f"manifest/{number:020d}").read_bytes()
        magic, length, checksum = struct.unpack("<4sQQ", data[:20])
        assert magic == b"TLM1"
        assert xxhash.xxh3_64_intdigest(data[20:]) == checksum
        return msgspec.msgpack.decode(pa.Codec("zstd").decompress(data[20:], length, asbytes=True))

    def apply(self, delta: dict[str, Any]) -> None:
        for name in delta.get("drop", []):
            del self.tables[name]
        for spec in delta.get("create", []):
            generations = [{"epoch": 0, "runs": []}]
            self.tables[spec["name"]] = {
                "spec": spec,
                "committed_epoch": 0,
                "log": [],
                "generations": generations,
                "acks": {},
                "pins": {},
            }
        for name, spec in delta.get("alter", {}).items():
            self.tables[spec["name"]] = {**self.tables.pop(name), "spec": spec}
        for name, label in delta.get("labels", {}).items():
            table = self.tables[name]
            table["committed_epoch"] = max(table["committed_epoch"], label)
            if name in delta.get("writes", {}):
                entry = {"epoch": table["committed_epoch"], "runs": [delta["writes"][name]]}
                table["log"] = [*table["log"], entry]
        for name, value in delta.get("watermarks", {}).items():
            table = self.tables[name]
            table["watermarks"] = [*table.get("watermarks", []), (table["committed_epoch"], value)]
        for name, made in delta.get("compactions", {}).items():
            kept = [g for g in self.tables[name]["generations"] if g["epoch"] != made["upto"]]
            self.tables[name]["generations"] = [*kept, {"epoch": made["upto"], "runs": made["runs"]}]
        for name, upto in delta.get("truncate", {}).items():
            table = self.tables[name]
            last = max(i for i, g in enumerate(table["generations"]) if i == 0 or g["epoch"] <= upto)
            table["generations"] = table["generations"][last:]
            table["log"] = [e for e in table["log"] if e["epoch"] > table["generations"][0]["epoch"]]

    def epochs(self, name: str) -> list[int]:
        """The epochs of a table that can be read and differ."""
        table = self.tables[name]
        return [table["generations"][0]["epoch"], *(entry["epoch"] for entry in table["log"])]

    def read(self, name: str, epoch: int) -> list[dict[str, Any]]:
        """The rows of a table at an epoch, in the documented order."""
        table = self.tables[name]
        base = [g for g in table["generations"] if g["epoch"] <= epoch][-1]
        entries = [e for e in table["log"] if base["epoch"] < e["epoch"] <= epoch]
        runs = [entry["runs"][0] for entry in reversed(entries)] + base["runs"]
        schema = pa.ipc.read_schema(pa.py_buffer(table["spec"]["schema"]))
        keys = table["spec"]["primary_key"]
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for run in runs:
            for sst in reversed(run):
                for row in self.rows(sst):
                    assert row["_hash"] == hash_of(row, table["spec"]["distribution_key"], schema)
                    row.setdefault("_epoch", int(sst["path"].split("/")[1].split("-")[0]))
                    found.setdefault(tuple(row[k] for k in keys), row)
        rows = sorted(
            (row for row in found.values() if row["_op"] == 0 and not hidden(row, table, epoch)),
            key=lambda row: (row["_hash"], [() if row[k] is None else (row[k],) for k in keys]),
        )
        return [{f.name: row[f.name] if f.name in row else default_of(f) for f in schema} for row in rows]

    def rows(self, sst: dict[str, Any]) -> list[dict[str, Any]]:
        whole = (self.folder / sst["path"]).read_bytes()
        data = whole[sst["offset"] : sst["offset"] + sst["length"]]
        assert xxhash.xxh3_64_intdigest(data) == sst["checksum"]
        rows = pq.read_table(io.BytesIO(data)).to_pylist()
        hashes = [row["_hash"] for row in rows]
        assert hashes == sorted(hashes)
        assert (len(rows), hashes[0], hashes[-1]) == (sst["rows"], sst["min_hash"], sst["max_hash"])
        assert sum(row["_op"] for row in rows) == sst["tombstones"]
        return rows


def hidden(row: dict[str, Any], table: dict[str, Any], epoch: int) -> bool:
    """Whether its time to live or a watermark hides a row at an epoch."""
    options = table["spec"].get("options", {})
    ttl, column = options.get("ttl_seconds"), options.get("watermark_column")
    if ttl is not None and row["_epoch"] <= (epoch >> 16) - 1000 * ttl:
        return True
    marks = [value for since, value in table.get("watermarks", []) if since <= epoch]
    return bool(column and marks and row[column] is not None and row[column] < marks[-1])


def default_of(field: pa.Field) -> Any:
    """What rows have in a column that their file lacks."""
    stored = (field.metadata or {}).get(b"tideline.default")
    return None if stored is None else pa.ipc.open_stream(stored).read_all().column(0)[0].as_py()


def hash_of(row: dict[str, Any], columns: list[str], schema: pa.Schema) -> int:
    """The documented hash of integers and texts."""
    if not columns:
        return 0
    seed = 42
    for name in columns:
        value = row[name]
        if value is None:
            continue
        width = "<q" if pa.types.is_int64(schema.field(name).type) else "<i"
        data = value.encode() if isinstance(value, str) else struct.pack(width, value)
        seed = xxhash.xxh64_intdigest(data, seed)
    return seed - (1 << 64) if seed >> 63 else seed


SCHEMA = pa.schema([("v", pa.string()), ("a", pa.int64()), ("b", pa.int32()), ("c", pa.string())])


def some_rows(step: int) -> pa.Table:
    ids = [None, *range(step % 3, step % 3 + 5)]
    columns = {"v": [f"v{step}"] * 6, "a": ids, "b": [step % 2] * 6, "c": ["é", None, "x", "", "y", "z"]}
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize(("distribution", "commits"), [(["a"], 5), ([], 5), (["a", "b", "c"], 70)], ids=str)
def test_a_reader_by_the_document_reads_every_epoch(
    tmp_path: Path, clock: MovableClock, distribution: list[str], commits: int
) -> None:
    objects = DatedObjectStore(tmp_path / "s", clock)
    store = Hummock.open(
        (tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", object_store=objects, clock=clock
    )
    store.create_table("old", SCHEMA, ["a"])
    for name in ("t", "u"):
        store.create_table(name, SCHEMA, ["a", "b", "c"], distribution)
    keys = some_rows(1).select(["a", "b", "c"])
    for step in range(commits):
        store.ingest_batch({n: [Put(some_rows(step)), Delete(keys.slice(step % 6, 1))] for n in ("t", "u")})
        if step % 30 == 2:
            store.compact_l0("t")
        if step == 40:
            clock.added += 1000
            store.compact("t")
    store.drop_table("old")
    added = with_default(pa.field("n", pa.int32()), pa.scalar(7))
    altered = dataclasses.replace(store.table("u"), name="w", schema=SCHEMA.append(added).remove(0))
    store.commit(Commit(alter={"u": altered}))
    plain = PlainReader(tmp_path / "s")
    assert set(plain.tables) == {"t", "w"}
    for name in ("t", "w"):
        assert plain.epochs(name)[-1] == store.version.tables[name].committed_epoch
        for epoch in plain.epochs(name):
            rows = [row for batch in store.iter(name, epoch=epoch) for row in batch.to_pylist()]
            assert plain.read(name, epoch) == rows


def test_a_reader_by_the_document_hides_what_has_expired_and_what_is_below_the_watermark(
    tmp_path: Path, clock: MovableClock
) -> None:
    objects = DatedObjectStore(tmp_path / "s", clock)
    store = Hummock.open(
        (tmp_path / "s").as_uri(), cache_dir=tmp_path / "c", object_store=objects, clock=clock
    )
    store.create_table("t", SCHEMA, ["a", "b", "c"], ["a"], ttl_seconds=100, watermark_column="a")
    for step in range(6):
        store.ingest_batch({"t": [Put(some_rows(step))]})
        clock.added += 30
        if step == 3:
            store.set_watermark("t", 3)
            store.compact("t")
    plain = PlainReader(tmp_path / "s")
    for epoch in plain.epochs("t"):
        rows = [row for batch in store.iter("t", epoch=epoch) for row in batch.to_pylist()]
        assert plain.read("t", epoch) == rows
    newest = plain.read("t", plain.epochs("t")[-1])
    assert newest
    assert all(row["a"] is None or row["a"] >= 3 for row in newest)
