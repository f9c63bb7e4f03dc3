"""What a store must hold, told from its manifests alone: the judge of tests in which requests fail and processes die.

Every write carries a token, a row with key -1 in each of its tables. The ledger reads each new manifest straight from the
object store, finds the tokens in the sorted files with plain pyarrow, and so knows which writes were committed, in which
order and in which epoch. From that it keeps a dictionary of versions, without any of the engine's merging or lookups.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from engine.hummock.manifests.delta import Delta
from engine.hummock.manifests.manifest import Manifest, decode_manifest, manifest_path
from engine.hummock.object_store import ObjectStore
from engine.hummock.version import SstInfo, Version

TOKEN_KEY = -1
Rows = dict[int, str]


@dataclass
class Write:
    """One write: per table its puts and deletions, and what became of it."""

    token: str
    puts: dict[str, Rows]
    deletes: dict[str, frozenset[int]]
    writer: str | None = None
    generation: int | None = None
    acknowledged: int | None = None
    left_out: set[str] | None = None
    """Of an epoch that was handed over: tables that were dropped meanwhile."""
    tables: set[str] = field(default_factory=set)
    refused: str | None = None
    seen: list[int] = field(default_factory=list)


class Ledger:
    """The writes that were tried, and the tables' contents at each epoch as the manifests tell it."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.number = 0
        self.writes: dict[str, Write] = {}
        self.past: dict[str, list[tuple[int, Rows]]] = {}
        self.generations: dict[str, int] = {}
        self.claims = {"acknowledged": 0, "uncertain": 0, "seen": 0}
        self._next = 0

    def write(self, puts: dict[str, Rows], deletes: dict[str, frozenset[int]], **how: object) -> Write:
        """Register a write that is about to be tried."""
        self._next += 1
        token = f"w{self._next}"
        tried = Write(token, {t: {**rows, TOKEN_KEY: token} for t, rows in puts.items()}, deletes, **how)  # type: ignore[arg-type]
        self.writes[token] = tried
        return tried

    def follow(self) -> None:
        """Take in the manifests that are new, and hold them against what the writers were told."""
        while (data := self._objects.get(manifest_path(self.number + 1))) is not None:
            self.number += 1
            for delta in deltas_of(decode_manifest(data, manifest_path(self.number))):
                self._apply(delta)

    def _apply(self, delta: Delta) -> None:
        for name in delta.drop:
            del self.past[name]
        for spec in delta.create:
            self.past[spec.name] = [(0, {})]
        for name, generation in delta.claimed.items():
            assert generation == self.generations.get(name, 0) + 1
            self.generations[name] = generation
            self.claims["seen"] += 1
        tokens = {name: self._token(name, ssts) for name, ssts in delta.writes.items()}
        for token in set(tokens.values()):
            self._committed(self.writes[token], delta, {n for n, t in tokens.items() if t == token})
        for name, label in delta.labels.items():
            history = self.past[name]
            assert label > history[-1][0] or name not in tokens, f"epoch {label} of {name} is written twice"
            if name in tokens:
                write = self.writes[tokens[name]]
                rows = {**history[-1][1], **write.puts[name]}
                history.append(
                    (label, {k: v for k, v in rows.items() if k not in write.deletes.get(name, ())})
                )

    def _committed(self, write: Write, delta: Delta, tables: set[str]) -> None:
        write.seen.append(delta.epoch)
        assert len(write.seen) == 1, f"{write.token} is committed twice, in the epochs {write.seen}"
        write.tables = tables
        whole = tables == set(write.puts) or write.left_out is not None
        assert whole, f"{write.token} is committed in part: {tables} of {set(write.puts)}"
        assert write.refused is None, f"{write.token} was refused ({write.refused}) and is committed"
        if write.generation is not None:
            newest = self.generations.get(write.writer or "", 0)
            assert write.generation == newest, f"{write.token} of a fenced generation is committed"

    def _token(self, table: str, ssts: tuple[SstInfo, ...]) -> str:
        for sst in ssts:
            data = self._objects.get(sst.path)
            assert data is not None, f"{sst.path} of {table} is committed and not there"
            rows = pq.read_table(io.BytesIO(data[sst.offset : sst.offset + sst.length]))
            for row in rows.to_pylist():
                if row["id"] == TOKEN_KEY:
                    return row["v"]
        raise AssertionError(f"a sub-level of {table} without a token")

    def settle(self) -> None:
        """Check that what was acknowledged is there, once, in the epoch that the writer was told."""
        self.follow()
        for write in self.writes.values():
            if write.acknowledged is not None and write.left_out != set(write.puts):
                assert write.tables == set(write.puts) - (write.left_out or set())
                assert write.seen == [write.acknowledged], (
                    f"{write.token} was acknowledged in {write.acknowledged} and is committed in {write.seen}"
                )
        least, most = self.claims["acknowledged"], self.claims["acknowledged"] + self.claims["uncertain"]
        assert least <= self.claims["seen"] <= most, f"claims: {self.claims}"

    def at(self, table: str, epoch: int) -> Rows:
        """The content of a table at an epoch."""
        return next(rows for label, rows in reversed(self.past[table]) if label <= epoch)

    def everything_referenced_is_there(self, version: Version) -> None:
        """No object that a table of the version refers to was deleted."""
        stored = {info.path for info in self._objects.list("")}
        for table in version.tables.values():
            missing = table.list_objects() - stored
            assert not missing, f"{table.name} refers to {sorted(missing)}, which are deleted"


def deltas_of(manifest: Manifest) -> tuple[Delta, ...]:
    """The commits of a manifest, in their order."""
    return getattr(manifest, "deltas", None) or (manifest.delta,)


def difference(old: Rows, new: Rows) -> dict[int, tuple[str, str | None, str | None]]:
    """The change log from one content to another: id -> (operation, new, old)."""
    found = {}
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            operation = "insert" if key not in old else "delete" if key not in new else "update"
            found[key] = (operation, new.get(key), old.get(key))
    return found
