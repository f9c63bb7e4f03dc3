"""A cell of a file that is another one than was written, with checksums that say nothing of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pyarrow as pa
import xxhash

from engine.hummock import Hummock
from engine.hummock.sorted_files.sst import encode_sst, read_sst


def plant(store: Hummock, name: str, *, column: str) -> str:
    """Flip a cell of a file and give it valid checksums, as a writer with a fault would; returns the file's path."""
    sst = store.version.tables[name].live_ssts[0]
    rows = read_sst(store.objects, sst)
    place = rows.column_names.index(column)
    values = rows.column(column).to_pylist()
    values[len(values) // 2] = values[len(values) // 2] + 1
    data = encode_sst(
        rows.set_column(place, rows.schema.field(column), pa.array(values, rows.schema.field(column).type))
    )
    path = sst.path.replace(sst.path.rpartition("-")[2].partition(".")[0], "0" * 32)
    store.objects.put(path, memoryview(data))

    planted = msgspec.structs.replace(
        sst, path=path, offset=0, length=len(data), checksum=xxhash.xxh3_64_intdigest(data), sections=()
    )
    version = store._chain._version
    table = version.tables[name]
    log = tuple(replace(e, ssts=tuple(planted if s == sst else s for s in e.ssts)) for e in table.log)
    generations = tuple(
        replace(g, runs=tuple(tuple(planted if s == sst else s for s in run) for run in g.runs))
        for g in table.generations
    )
    store._chain._version = replace(
        version, tables={**version.tables, name: replace(table, log=log, generations=generations)}
    )
    return path
