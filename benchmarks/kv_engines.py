"""The engines of the key-value benchmark behind one small interface, each driven in the fastest way its Python package has.

Every engine gets the same bytes in its own form (Arrow, or lists of `bytes` prepared outside the clock) and makes each
batch durable before the next: fsync where it can (deltalake has no way to ask for one).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash

from engine.hummock import Delete, Hummock, Put

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.binary())])


class Engine(Protocol):
    """What the benchmark asks of an engine; `prepare_*` run outside the clock."""

    name: str

    def prepare_rows(self, rows: pa.Table) -> Any:
        """Return rows in the engine's form."""

    def prepare_keys(self, keys: np.ndarray) -> Any:
        """Return keys in the engine's form."""

    def upsert(self, rows: Any, new: bool) -> None:
        """Write one batch durably; `new`: no key is there yet, and an engine that can may profit from knowing it."""

    def delete(self, keys: Any) -> None:
        """Delete one batch of keys durably."""

    def multi_get(self, keys: Any) -> Any:
        """Return the values of many keys."""

    def values_of(self, answer: Any) -> list[bytes | None]:
        """Return the answer of `multi_get` as a list, for checking."""

    def get(self, key: Any) -> Any:
        """Return one value; `key` is an item of `prepare_keys`."""

    def scan(self) -> tuple[int, int]:
        """Read every row, its value's bytes included; return (rows, sum of the keys)."""

    def compact(self) -> bool:
        """Bring the files into their best form; False where the engine has nothing of the kind."""

    def tidy(self) -> None:
        """Let go of what no reader needs, before the size is taken."""

    def close(self) -> None:
        """Close."""


def touch_batches(batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """Read every byte of Arrow batches, as engines that return Python objects do; return (rows, sum of the keys)."""
    rows = total = 0
    for batch in batches:
        rows += batch.num_rows
        total += int(batch.column("k").to_numpy().sum())
        values = batch.column("v")
        offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)
        low, high = offsets[values.offset], offsets[values.offset + len(values)]
        xxhash.xxh3_64_intdigest(values.buffers()[2].slice(low, high - low))
    return rows, total


class Tideline:
    """This engine, its table ordered by key or distributed by its hash."""

    def __init__(self, folder: Path, *, distributed: bool) -> None:
        self.name = "tideline (by hash)" if distributed else "tideline (by key)"
        self.cache = folder / "cache"
        self._store = Hummock.open((folder / "store").as_uri(), cache_dir=self.cache, retention_seconds=0.0)
        self._table = self._store.create_table("kv", SCHEMA, ["k"], ["k"] if distributed else None)

    def prepare_rows(self, rows: pa.Table) -> pa.Table:
        return rows

    def prepare_keys(self, keys: np.ndarray) -> pa.Table:
        return pa.table({"k": keys})

    def upsert(self, rows: pa.Table, new: bool) -> None:
        self._store.ingest_batch({self._table: Put(rows)})

    def delete(self, keys: pa.Table) -> None:
        self._store.ingest_batch({self._table: Delete(keys)})

    def multi_get(self, keys: pa.Table) -> pa.Table:
        return self._store.multi_get(self._table, keys)

    def values_of(self, answer: pa.Table) -> list[bytes | None]:
        return answer.column("v").to_pylist()

    def get(self, key: int) -> bytes | None:
        row = self._store.get(self._table, {"k": key})
        return None if row is None else row["v"]

    def scan(self) -> tuple[int, int]:
        return touch_batches(self._store.iter(self._table))

    def compact(self) -> bool:
        self._store.compact(self._table)
        return True

    def tidy(self) -> None:
        self._store.gc(grace_seconds=0.0)

    def close(self) -> None:
        self._store.close()


class RocksDict:
    """RocksDB by rocksdict in raw mode, big-endian keys, a synced write batch per batch.

    With its own compression, or with that of our files: zstd at level 1.
    """

    def __init__(self, folder: Path, zstd: bool = False) -> None:
        import rocksdict

        self.name = "rocksdict-zstd" if zstd else "rocksdict"
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(2)
        if zstd:
            options.set_compression_type(rocksdict.DBCompressionType.zstd())
            options.set_compression_options(-14, 1, 0, 0)
        self._lib, self._db = rocksdict, rocksdict.Rdict(str(folder / "rocks"), options)
        synced = rocksdict.WriteOptions()
        synced.sync = True
        self._db.set_write_options(synced)

    def prepare_rows(self, rows: pa.Table) -> list[tuple[bytes, bytes]]:
        return list(zip(encode_keys(rows.column("k").to_numpy()), rows.column("v").to_pylist(), strict=True))

    def prepare_keys(self, keys: np.ndarray) -> list[bytes]:
        return encode_keys(keys)

    def upsert(self, rows: list[tuple[bytes, bytes]], new: bool) -> None:
        batch = self._lib.WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in rows:
            put(key, value)
        self._db.write(batch)

    def delete(self, keys: list[bytes]) -> None:
        batch = self._lib.WriteBatch(raw_mode=True)
        remove = batch.delete
        for key in keys:
            remove(key)
        self._db.write(batch)

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        return self._db.get(keys)

    def values_of(self, answer: list[bytes | None]) -> list[bytes | None]:
        return answer

    def get(self, key: bytes) -> bytes | None:
        return self._db.get(key)

    def scan(self) -> tuple[int, int]:
        rows = total = 0
        number = int.from_bytes
        for key, _value in self._db.items():
            rows += 1
            total += number(key)
        return rows, total

    def compact(self) -> bool:
        self._db.compact_range(None, None)
        return True

    def tidy(self) -> None:
        self._db.flush()

    def close(self) -> None:
        self._db.close()


class Lmdb:
    """LMDB, one synced transaction per batch; keys sorted within a batch, which it likes best."""

    name = "lmdb"

    def __init__(self, folder: Path) -> None:
        import lmdb

        self._env = lmdb.open(str(folder / "lmdb"), map_size=8 << 30, sync=True, metasync=True)

    def prepare_rows(self, rows: pa.Table) -> list[tuple[bytes, bytes]]:
        return sorted(
            zip(encode_keys(rows.column("k").to_numpy()), rows.column("v").to_pylist(), strict=True)
        )

    def prepare_keys(self, keys: np.ndarray) -> list[bytes]:
        return encode_keys(keys)

    def upsert(self, rows: list[tuple[bytes, bytes]], new: bool) -> None:
        with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(rows)

    def delete(self, keys: list[bytes]) -> None:
        with self._env.begin(write=True) as transaction:
            for key in keys:
                transaction.delete(key)

    def multi_get(self, keys: list[bytes]) -> dict[bytes, bytes]:
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            self._asked = keys
            return dict(cursor.getmulti(keys))

    def values_of(self, answer: dict[bytes, bytes]) -> list[bytes | None]:
        return [answer.get(key) for key in self._asked]

    def get(self, key: bytes) -> bytes | None:
        with self._env.begin() as transaction:
            return transaction.get(key)

    def scan(self) -> tuple[int, int]:
        rows = total = 0
        number = int.from_bytes
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            for key, _value in cursor:
                rows += 1
                total += number(key)
        return rows, total

    def compact(self) -> bool:
        return False

    def tidy(self) -> None:
        return None

    def close(self) -> None:
        self._env.close()


class DeltaLake:
    """delta-rs: append for new keys, MERGE for known ones; no fsync can be asked for."""

    name = "deltalake (no fsync)"

    def __init__(self, folder: Path) -> None:
        import deltalake

        self._lib, self._path = deltalake, str(folder / "delta")
        deltalake.write_deltalake(self._path, SCHEMA.empty_table())

    def prepare_rows(self, rows: pa.Table) -> pa.Table:
        return rows

    def prepare_keys(self, keys: np.ndarray) -> pa.Table:
        return pa.table({"k": keys})

    def upsert(self, rows: pa.Table, new: bool) -> None:
        if new:
            self._lib.write_deltalake(self._path, rows, mode="append")
            return
        merge = self._open_table().merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, keys: pa.Table) -> None:
        merge = self._open_table().merge(keys, "t.k = s.k", source_alias="s", target_alias="t")
        merge.when_matched_delete().execute()

    def multi_get(self, keys: pa.Table) -> pa.Table:
        self._asked = keys
        return self._read_arrow().join(keys, "k", join_type="inner")

    def values_of(self, answer: pa.Table) -> list[bytes | None]:
        found = dict(zip(answer.column("k").to_pylist(), answer.column("v").to_pylist(), strict=True))
        return [found.get(key) for key in self._asked.column("k").to_pylist()]

    def get(self, key: int) -> bytes | None:
        import pyarrow.compute as pc

        return self._open_dataset().to_table(filter=pc.field("k") == key).column("v").to_pylist()[0]

    def scan(self) -> tuple[int, int]:
        return touch_batches(batch.cast(SCHEMA) for batch in self._read_arrow().to_batches())

    def compact(self) -> bool:
        self._open_table().optimize.compact()
        return True

    def tidy(self) -> None:
        self._open_table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def close(self) -> None:
        return None

    def _open_table(self) -> Any:
        return self._lib.DeltaTable(self._path)

    def _open_dataset(self) -> Any:
        return self._open_table().to_pyarrow_dataset()

    def _read_arrow(self) -> pa.Table:
        return self._open_dataset().to_table()


class DuckDb:
    """DuckDB, a table with a primary key, one transaction per batch, read as Arrow."""

    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        import duckdb

        self._path = folder / "duck.db"
        self._db = duckdb.connect(str(self._path))
        self._db.execute("CREATE TABLE kv (k BIGINT PRIMARY KEY, v BLOB)")

    def prepare_rows(self, rows: pa.Table) -> pa.Table:
        return rows

    def prepare_keys(self, keys: np.ndarray) -> pa.Table:
        return pa.table({"k": keys})

    def upsert(self, rows: pa.Table, new: bool) -> None:
        self._db.register("batch", rows)
        self._db.execute(f"INSERT {'' if new else 'OR REPLACE'} INTO kv SELECT k, v FROM batch")

    def delete(self, keys: pa.Table) -> None:
        self._db.register("batch", keys)
        self._db.execute("DELETE FROM kv WHERE k IN (SELECT k FROM batch)")

    def multi_get(self, keys: pa.Table) -> pa.Table:
        self._db.register("wanted", keys)
        self._asked = keys
        return self._db.sql("SELECT k, v FROM wanted LEFT JOIN kv USING (k)").to_arrow_table()

    def values_of(self, answer: pa.Table) -> list[bytes | None]:
        found = dict(zip(answer.column("k").to_pylist(), answer.column("v").to_pylist(), strict=True))
        return [found.get(key) for key in self._asked.column("k").to_pylist()]

    def get(self, key: int) -> bytes | None:
        return self._db.execute("SELECT v FROM kv WHERE k = ?", [key]).fetchall()[0][0]

    def scan(self) -> tuple[int, int]:
        return touch_batches(iter(self._db.sql("SELECT k, v FROM kv").to_arrow_reader(131_072)))

    def compact(self) -> bool:
        return False

    def tidy(self) -> None:
        self._db.execute("CHECKPOINT")

    def close(self) -> None:
        self._db.close()


def encode_keys(keys: np.ndarray) -> list[bytes]:
    """Return keys as 8 bytes each that sort as the numbers do (they are not negative)."""
    data = keys.astype(">i8").tobytes()
    return [data[at : at + 8] for at in range(0, len(data), 8)]


def measure_median_seconds(runs: int, work: Any) -> float:
    """Return the median seconds of `runs` calls."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
