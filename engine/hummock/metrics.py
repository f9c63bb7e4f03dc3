"""What a process did with a store, counted, and what the store holds, by level: one typed snapshot.

Counters are those of a process and a store: all handles of one address share them, so `since` an earlier snapshot is
what a piece of work cost. What is read off the version (files, levels, history) is the same in every process.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from engine import tracing
from engine.hummock.version import Commit, SstInfo, TableVersion, Version

DRIVER_BYTES = "driver_bytes."
REQUESTS = ("put_if_absent", "put", "get", "get_range", "list", "delete", "head")


def pack_requests(requests: Mapping[str, int]) -> tuple[int, ...]:
    """Return requests by kind as numbers in the order of `REQUESTS`, without zeros at the end."""
    last = max((at for at, kind in enumerate(REQUESTS, 1) if requests.get(kind)), default=0)
    return tuple(requests.get(kind, 0) for kind in REQUESTS[:last])


def unpack_requests(numbers: Sequence[int]) -> dict[str, int]:
    """Return by kind what `packed` was given.

    >>> unpack_requests(pack_requests({"get": 2, "put": 1}))
    {'put': 1, 'get': 2}
    """
    return {kind: number for kind, number in zip(REQUESTS, numbers, strict=False) if number}


class Counters:
    """Named numbers that only grow; adding is one dictionary update under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = defaultdict(float)
        self._reported: dict[str, int] = defaultdict(int)
        self._reported_bytes: dict[str, int] = defaultdict(int)

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a counter; a field of `Metrics`, or `requests.<kind>`, `errors.<kind>`, `seconds.<kind>`."""
        with self._lock:
            self._values[name] += amount

    def add_driver_bytes(self, what: str, size: int) -> None:
        """Count bytes that have passed through this process for `what`: a kind and mostly a name, such as "source orders"."""
        self.add(DRIVER_BYTES + what, size)

    def count_request(
        self, kind: str, *, seconds: float, sent: int = 0, received: int = 0, failed: bool = False
    ) -> None:
        """Count one request to the object store."""
        with self._lock:
            values = self._values
            values[f"requests.{kind}"] += 1
            values[f"seconds.{kind}"] += seconds
            values["bytes_out"] += sent
            values["bytes_in"] += received
            if failed:
                values[f"errors.{kind}"] += 1
        tracing.count_request(kind, seconds, failed)

    def read_requests(self) -> dict[str, int]:
        """Return the requests that were made so far, by kind."""
        with self._lock:
            return {kind: int(self._values[f"requests.{kind}"]) for kind in REQUESTS}

    def count_unreported(self) -> dict[str, int]:
        """Return by kind the requests that were not reported."""
        with self._lock:
            made = {kind: int(self._values[f"requests.{kind}"]) - self._reported[kind] for kind in REQUESTS}
        return {kind: number for kind, number in made.items() if number}

    def mark_reported(self, requests: Mapping[str, int]) -> None:
        """Mark requests as reported, or as ones that will not be."""
        with self._lock:
            for kind, number in requests.items():
                self._reported[kind] += number

    def count_unreported_bytes(self) -> dict[str, int]:
        """Return, by what they passed for, the bytes that were not reported."""
        with self._lock:
            found = {
                name.removeprefix(DRIVER_BYTES): int(value)
                for name, value in self._values.items()
                if name.startswith(DRIVER_BYTES)
            }
            left = {what: size - self._reported_bytes[what] for what, size in found.items()}
        return {what: size for what, size in left.items() if size}

    def mark_bytes_reported(self, passed: Mapping[str, int]) -> None:
        """Mark bytes as reported."""
        with self._lock:
            for what, size in passed.items():
                self._reported_bytes[what] += size

    def add_requests(self, requests: Mapping[str, int]) -> None:
        """Count requests that another process has made for this one."""
        with self._lock:
            for kind, number in requests.items():
                self._values[f"requests.{kind}"] += number
        tracing.count_requests(requests)

    def count_run(self, seconds: float) -> None:
        """Count a run that had something to do."""
        with self._lock:
            self._values["runs"] += 1
            self._values["run_seconds"] += seconds

    def count_epoch(self, domain: str, seconds: float, *, failed: bool = False) -> None:
        """Count an epoch of a domain that has been committed, or one that has `failed`."""
        with self._lock:
            self._values[f"{'failed_epochs' if failed else 'epochs'}.{domain}"] += 1
            self._values[f"epoch_seconds.{domain}"] += seconds

    def count_fragment(self, table: str, seconds: float, rows: int) -> None:
        """Count an epoch of a fragment: what it took to compute, and the rows of its table that changed."""
        with self._lock:
            self._values[f"fragment_seconds.{table}"] += seconds
            self._values[f"fragment_rows.{table}"] += rows

    def count_commit(self, commit: Commit) -> None:
        """Count a commit that has won, and the bytes that it made visible."""
        with self._lock:
            values = self._values
            values["commits"] += 1
            values["ingested_bytes"] += sum(sst.length for ssts in commit.writes.values() for sst in ssts)
            values["ingested_rows"] += sum(sst.rows for ssts in commit.writes.values() for sst in ssts)
            for compaction in commit.compactions.values():
                before = {sst for run in compaction.base.runs for sst in run}
                made = {sst for run in compaction.runs for sst in run} - before
                values["compactions"] += 1
                values["compacted_bytes"] += sum(sst.length for sst in made)
                values["compacted_rows"] += sum(sst.rows for sst in made)

    def values(self) -> dict[str, float]:
        """Return all counters as they are now."""
        with self._lock:
            return dict(self._values)


_shared: dict[str, Counters] = {}
_shared_lock = threading.Lock()


def get_counters(url: str) -> Counters:
    """Return this process's counters of the store at `url`."""
    with _shared_lock:
        return _shared.setdefault(url.rstrip("/"), Counters())


@dataclass(frozen=True)
class LevelMetrics:
    """The files of one level of a table: 0 holds the sub-levels that no compaction has taken in, the runs below
    are numbered from the newest, 1.
    """

    level: int
    sub_levels: int
    files: int
    rows: int
    tombstones: int
    bytes: int


@dataclass(frozen=True)
class TableMetrics:
    """One table in a version: live files by level, and the history that older epochs and the change log need."""

    name: str
    committed_epoch: int
    safe_epoch: int
    levels: tuple[LevelMetrics, ...]
    log_entries: int
    generations: int
    history_files: int
    history_bytes: int
    acks: Mapping[str, int]
    pins: Mapping[str, int]

    @property
    def files(self) -> int:
        """Files that a read of the newest epoch may touch."""
        return sum(level.files for level in self.levels)

    @property
    def bytes(self) -> int:
        """Bytes of those files."""
        return sum(level.bytes for level in self.levels)

    @property
    def l0(self) -> int:
        """Sub-levels in L0."""
        return self.levels[0].sub_levels


@dataclass(frozen=True)
class Metrics:
    """A snapshot: counters of this process (cumulative, or a difference by `since`) and the store's shape.

    `requests`, `errors` and `seconds` are by kind of request; files of a local directory that are mapped into memory
    are no requests. `driver_bytes` are rows and answers of tasks that have passed through the process, by what they passed for,
    such as "epoch sales_by_bar" or "query". `ingested` is what commits made visible, `compacted` what compactions wrote.
    `rebases` are lost races, `retries` requests that were sent again, `stalls` waits of writers. `epochs`, `failed_epochs` and
    `epoch_seconds` are by domain, `fragment_seconds` and `fragment_rows` by the table of a fragment; `runs` had something to do.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    driver_bytes: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    failed_epochs: Mapping[str, int] = field(default_factory=dict)
    epoch_seconds: Mapping[str, float] = field(default_factory=dict)
    fragment_seconds: Mapping[str, float] = field(default_factory=dict)
    fragment_rows: Mapping[str, int] = field(default_factory=dict)
    runs: int = 0
    run_seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_evictions: int = 0
    lookups: int = 0
    files_searched: int = 0
    commits: int = 0
    rebases: int = 0
    retries: int = 0
    ambiguous: int = 0
    ingested_rows: int = 0
    ingested_bytes: int = 0
    compactions: int = 0
    compacted_rows: int = 0
    compacted_bytes: int = 0
    stalls: int = 0
    stall_seconds: float = 0.0
    manifest: int = 0
    epoch: int = 0
    tables: Mapping[str, TableMetrics] = field(default_factory=dict)

    @property
    def write_amplification(self) -> float | None:
        """Bytes written as sorted files for each byte that was ingested; None before the first."""
        return (
            (self.ingested_bytes + self.compacted_bytes) / self.ingested_bytes
            if self.ingested_bytes
            else None
        )

    @property
    def read_amplification(self) -> float | None:
        """Sorted files searched by a lookup, on average; None before the first."""
        return self.files_searched / self.lookups if self.lookups else None

    @property
    def space_amplification(self) -> float | None:
        """Bytes of all files that the version refers to for each byte of live ones; None while there are none."""
        live = sum(table.bytes for table in self.tables.values())
        history = sum(table.history_bytes for table in self.tables.values())
        return (live + history) / live if live else None

    @property
    def cache_hit_rate(self) -> float | None:
        """The share of file look-ups that the caches answered; None before the first."""
        lookups = self.cache_hits + self.cache_misses
        return self.cache_hits / lookups if lookups else None

    def since(self, earlier: Metrics) -> Metrics:
        """Return the counters' growth since `earlier`; the store's shape stays that of this snapshot."""
        changed: dict[str, Any] = {}
        for name in COUNTED:
            changed[name] = getattr(self, name) - getattr(earlier, name)
        for name in BY_KIND:
            before = getattr(earlier, name)
            grown = {kind: n - before.get(kind, 0) for kind, n in getattr(self, name).items()}
            changed[name] = {kind: n for kind, n in grown.items() if n}
        shape = {name: getattr(self, name) for name in ("manifest", "epoch", "tables")}
        return Metrics(**changed, **shape)


BY_KIND = (
    "requests",
    "errors",
    "seconds",
    "driver_bytes",
    "epochs",
    "failed_epochs",
    "epoch_seconds",
    "fragment_seconds",
    "fragment_rows",
)
COUNTED = tuple(
    each.name for each in fields(Metrics) if each.name not in (*BY_KIND, "manifest", "epoch", "tables")
)


def build_metrics(counters: Counters, version: Version) -> Metrics:
    """Return the snapshot of a process's counters and of the version that it knows."""
    values = counters.values()
    kinds: dict[str, Any] = {name: {} for name in BY_KIND}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        group, dot, kind = name.partition(".")
        if dot:
            kinds[group][kind] = value if group.endswith("seconds") else int(value)
        else:
            plain[name] = value if name.endswith("seconds") else int(value)
    return Metrics(
        **kinds,
        **plain,
        manifest=version.number,
        epoch=version.epoch,
        tables={name: measure_table(table) for name, table in version.tables.items()},
    )


def measure_table(table: TableVersion) -> TableMetrics:
    """Return the files of a table by level, and its history."""
    l0 = table.l0
    levels = [_measure_level(0, len(l0), [sst for entry in l0 for sst in entry.ssts])]
    for at, run in enumerate(table.generations[-1].runs, start=1):
        levels.append(_measure_level(at, 1, list(run)))
    live = set(table.live_ssts) if l0 or levels[1:] else set()
    retained = {sst for entry in table.log for sst in entry.ssts}
    retained |= {sst for generation in table.generations for run in generation.runs for sst in run}
    history = retained - live
    return TableMetrics(
        name=table.name,
        committed_epoch=table.committed_epoch,
        safe_epoch=table.safe_epoch,
        levels=tuple(levels),
        log_entries=len(table.log),
        generations=len(table.generations),
        history_files=len(history),
        history_bytes=sum(sst.length for sst in history),
        acks=dict(table.acks),
        pins=dict(table.pins),
    )


def _measure_level(number: int, sub_levels: int, files: list[SstInfo]) -> LevelMetrics:
    return LevelMetrics(
        level=number,
        sub_levels=sub_levels,
        files=len(files),
        rows=sum(sst.rows for sst in files),
        tombstones=sum(sst.tombstones for sst in files),
        bytes=sum(sst.length for sst in files),
    )
