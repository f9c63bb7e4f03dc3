"""Metrics as families of samples: what Prometheus scrapes and what OpenTelemetry exports are both made of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.hummock.metrics import COUNTED, Metrics, TableMetrics

METRIC_PREFIX = "tideline_store"

_BY_KIND_NAMES = {"requests": "requests", "errors": "request_errors", "seconds": "request_seconds"}
_BY_DOMAIN = ("epochs", "failed_epochs", "epoch_seconds")
_BY_TABLE = ("fragment_seconds", "fragment_rows")
_OF_RUNS = ("runs", "run_seconds")
_HELP = {
    "requests": "Requests to the object store",
    "errors": "Requests to the object store that failed or whose answer was lost",
    "seconds": "Seconds spent in requests to the object store",
    "bytes_in": "Bytes received from the object store",
    "bytes_out": "Bytes sent to the object store",
    "cache_hits": "Sorted files found open or in the cache of the machine",
    "cache_misses": "Sorted files that had to be fetched",
    "cache_evictions": "Files evicted from the cache of the machine",
    "driver_bytes": "Bytes of rows and of tasks' answers that passed through this process, by what they passed for",
    "lookups": "Lookups by key",
    "files_searched": "Sorted files searched by lookups",
    "commits": "Manifests created by this process",
    "rebases": "Commits that lost a race and were rebased",
    "retries": "Requests that were sent again",
    "ambiguous": "Creations whose answer was lost and that were read back",
    "ingested_rows": "Rows committed",
    "ingested_bytes": "Bytes of sorted files committed by writers",
    "compactions": "Compactions committed",
    "compacted_rows": "Rows written by compactions",
    "compacted_bytes": "Bytes written by compactions",
    "stalls": "Times that a writer had to wait",
    "stall_seconds": "Seconds that writers have waited",
    "epochs": "Epochs that domains have committed",
    "failed_epochs": "Epochs of domains that have failed",
    "epoch_seconds": "Seconds that the epochs of domains have taken",
    "fragment_seconds": "Seconds in which the changes of fragments' tables were computed",
    "fragment_rows": "Rows of fragments' tables that have changed",
    "runs": "Runs that had something to do",
    "run_seconds": "Seconds that runs have taken",
}


@dataclass
class Family:
    """A metric: a counter's name is without the `_total` that Prometheus shows it with. Samples are by their labels' values."""

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def add(self, value: float, *labels: str) -> None:
        """Add a sample."""
        self.samples.append((labels, value))


class Collector(Protocol):
    """Anything that yields metrics at a scrape."""

    def read_families(self) -> Iterator[Family]:
        """Yield the metrics as they are now."""
        ...


class StoreCollector:
    """Collects a store's metrics at each scrape."""

    def __init__(self, read: Callable[[], Metrics]) -> None:
        self._read = read

    def read_families(self) -> Iterator[Family]:
        """Yield counters of the process and gauges of the store's tables."""
        now = self._read()
        for name, shown in _BY_KIND_NAMES.items():
            yield _build_counter(f"{METRIC_PREFIX}_{shown}", name, "kind", getattr(now, name))
        passed = Family("counter", f"{METRIC_PREFIX}_driver_bytes", _HELP["driver_bytes"], ("kind", "name"))
        for what, amount in sorted(now.driver_bytes.items()):
            kind, _, of = what.partition(" ")
            passed.add(amount, kind, of)
        yield passed
        for name in _BY_DOMAIN:
            yield _build_counter(f"tideline_{name}", name, "domain", getattr(now, name))
        for name in _BY_TABLE:
            yield _build_counter(f"tideline_{name}", name, "table", getattr(now, name))
        for name in COUNTED:
            prefix = "tideline" if name in _OF_RUNS else METRIC_PREFIX
            counter = Family("counter", f"{prefix}_{name}", _HELP.get(name, name.replace("_", " ")))
            counter.add(getattr(now, name))
            yield counter
        manifest = Family("gauge", f"{METRIC_PREFIX}_manifest", "Number of the newest manifest known")
        manifest.add(now.manifest)
        yield manifest
        yield from _build_table_gauges(now.tables)


def _build_counter(name: str, field_name: str, label: str, values: Mapping[str, float]) -> Family:
    counter = Family("counter", name, _HELP[field_name], (label,))
    for key, value in sorted(values.items()):
        counter.add(value, key)
    return counter


def _build_table_gauges(tables: Mapping[str, TableMetrics]) -> Iterator[Family]:
    by_level, by_table = ("table", "level"), ("table",)
    files = Family("gauge", f"{METRIC_PREFIX}_files", "Live files", by_level)
    rows = Family(
        "gauge", f"{METRIC_PREFIX}_rows", "Rows of live files, those that newer ones hide too", by_level
    )
    size = Family("gauge", f"{METRIC_PREFIX}_bytes", "Bytes of live files", by_level)
    sub_levels = Family("gauge", f"{METRIC_PREFIX}_l0", "Sub-levels in L0", by_table)
    runs = Family("gauge", f"{METRIC_PREFIX}_live_runs", "Runs that a read has to merge", by_table)
    history = Family("gauge", f"{METRIC_PREFIX}_history_bytes", "Bytes kept for older epochs", by_table)
    for table in tables.values():
        for level in table.levels:
            files.add(level.files, table.name, str(level.level))
            rows.add(level.rows, table.name, str(level.level))
            size.add(level.bytes, table.name, str(level.level))
        sub_levels.add(table.l0, table.name)
        runs.add(table.l0 + len(table.levels) - 1, table.name)
        history.add(table.history_bytes, table.name)
    yield from (files, rows, size, sub_levels, runs, history)
