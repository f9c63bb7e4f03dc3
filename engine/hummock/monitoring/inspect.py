"""A store's metrics, versions, manifests and sorted files as tables that a person can read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from engine.arrow import as_rows
from engine.errors import CorruptObject, StorageError
from engine.hummock.epoch import format_epoch_time
from engine.hummock.manifests.manifest import Manifest, decode_manifest, manifest_path
from engine.hummock.metrics import Metrics
from engine.hummock.monitoring.prices import Spending
from engine.hummock.object_store import ObjectStore
from engine.hummock.rows.row_hash import VNODES
from engine.hummock.sorted_files.range_file import RangeFile
from engine.hummock.version import HASH, OP, SstInfo, Version

SHOWN_ROWS = 20


def describe_metrics(now: Metrics, spent: Spending | None = None) -> RenderableType:
    """Return what a store holds by table and level, what history costs, what the newest commits and this process asked of it."""
    live = sum(table.bytes for table in now.tables.values())
    history = sum(table.history_bytes for table in now.tables.values())
    store = _build_pairs(
        ("manifest", f"{now.manifest:,} of {_format_moment(now.epoch)}"),
        ("tables", f"{len(now.tables):,}"),
        ("live bytes", _format_bytes(live)),
        (
            "retained history",
            f"{_format_bytes(history)} (all files are {_format_ratio(now.space_amplification)} the live ones)",
        ),
        ("sub-levels in L0", f"{sum(table.l0 for table in now.tables.values()):,}"),
    )
    return Group(
        Text("Store", "bold"),
        store,
        Text("\nTables", "bold"),
        _render_tables(now),
        Text("\nRequests of the newest commits", "bold"),
        Text("none yet") if spent is None else _render_spending(spent),
        Text("\nThis process", "bold"),
        _render_process(now),
    )


def _render_tables(now: Metrics) -> RenderableType:
    names = (
        "table",
        "l0:",
        "files by level",
        "rows:",
        "bytes:",
        "history:",
        "log:",
        "committed",
        "readable from",
    )
    tables = _build_grid(*names, "held by")
    for table in sorted(now.tables.values(), key=lambda each: each.name):
        holders = [f"{name} {_format_moment(epoch)}" for name, epoch in {**table.acks, **table.pins}.items()]
        tables.add_row(
            table.name,
            str(table.l0),
            " ".join(f"{level.level}:{level.files}" for level in table.levels if level.files) or "none",
            f"{sum(level.rows - 2 * level.tombstones for level in table.levels):,}",
            _format_bytes(table.bytes),
            f"{_format_bytes(table.history_bytes)} in {table.history_files}",
            str(table.log_entries),
            _format_moment(table.committed_epoch),
            _format_moment(table.safe_epoch),
            ", ".join(holders),
        )
    return tables


def report_spending(spent: Spending) -> dict[str, Any]:
    """Return what the newest commits have cost as a record: its own fields, and prices in US dollars."""
    record = msgspec.to_builtins(spent)
    return {**record, "dollars": spent.dollars, "dollars_a_month": spent.dollars_a_month}


def _render_spending(spent: Spending) -> RenderableType:
    of_each = {kind: number / spent.commits for kind, number in spent.requests.items()}
    month = spent.dollars_a_month
    return _build_pairs(
        ("commits", f"{spent.commits:,} from {_format_time(spent.since)} to {_format_time(spent.until)} UTC"),
        ("requests", _format_by_kind(spent.requests)),
        ("of a commit", ", ".join(f"{kind} {number:.1f}" for kind, number in of_each.items()) or "none"),
        (
            "at S3's prices",
            f"{spent.dollars:.4f} $; a million commits {spent.dollars / spent.commits * 1e6:,.2f} $",
        ),
        ("through the driver", _format_by_size(spent.driver_bytes)),
        ("thirty days like these", "too short a time to say" if month is None else f"{month:,.2f} $"),
    )


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _format_by_kind(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items())) or "none"


def _format_by_size(passed: Mapping[str, int]) -> str:
    """Return what has passed, the most first."""
    most = sorted(passed.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{what} {_format_bytes(size)}" for what, size in most) or "nothing"


def _render_process(now: Metrics) -> RenderableType:
    requests = _format_by_kind(now.requests)
    failed = _format_by_kind(now.errors)
    hit_rate = "" if now.cache_hit_rate is None else f" ({now.cache_hit_rate:.0%})"
    return _build_pairs(
        ("requests", f"{requests}; failed: {failed}"),
        ("bytes", f"{_format_bytes(now.bytes_in)} in, {_format_bytes(now.bytes_out)} out"),
        ("through it", _format_by_size(now.driver_bytes)),
        (
            "cache",
            f"{now.cache_hits:,} hits, {now.cache_misses:,} misses{hit_rate}, {now.cache_evictions:,} evicted",
        ),
        (
            "commits",
            f"{now.commits:,}; {now.rebases:,} rebased, {now.ambiguous:,} answers lost, {now.retries:,} retries",
        ),
        ("compactions", f"{now.compactions:,}, {_format_bytes(now.compacted_bytes)} written"),
        ("write amplification", _format_ratio(now.write_amplification)),
        ("read amplification", f"{_format_ratio(now.read_amplification)} (files searched by a lookup)"),
        ("stalls", f"{now.stalls:,}, {now.stall_seconds:.1f} s"),
    )


def describe_version(version: Version) -> RenderableType:
    """Return a version: its tables with keys, sub-levels and generations, its writers and its garbage."""
    head = _build_pairs(
        ("manifest", f"{version.number:,}"),
        ("epoch", _format_epoch(version.epoch)),
        ("next table id", str(version.next_table_id)),
        ("collector's horizon", f"{version.horizon_ms} ms"),
        ("writers", ", ".join(f"{name}={at}" for name, at in sorted(version.generations.items())) or "none"),
        ("catalog entries", ", ".join(sorted(version.catalog)) or "none"),
        ("garbage", f"{len(version.garbage):,} objects left the version lately"),
    )
    parts: list[RenderableType] = [head]
    for table in sorted(version.tables.values(), key=lambda each: each.name):
        keys = f"primary key ({', '.join(table.primary_key)})"
        if table.distribution_key:
            keys += f", distributed by ({', '.join(table.distribution_key)})"
        parts.append(Text(f"\n{table.name}, id {table.table_id}, {keys}", "bold"))
        parts.append(Text(", ".join(f"{field.name} {field.type}" for field in table.schema)))
        parts.append(
            Text(
                f"committed {_format_epoch(table.committed_epoch)}, readable from {_format_epoch(table.safe_epoch)}"
            )
        )
        grid = _build_grid("part", "epoch", "run:", "file", "rows:", "deletions:", "bytes:", "vnodes")
        for entry in table.log:
            _add_files(grid, "log", entry.epoch, 0, entry.ssts)
        for generation in table.generations:
            for at, run in enumerate(generation.runs, start=1):
                _add_files(grid, "generation", generation.upto, at, run)
        parts.append(grid)
    return Group(*parts)


def describe_manifest(store: ObjectStore, number: int) -> RenderableType:
    """Return what manifest `number` adds; raises StorageError if there is none."""
    path = manifest_path(number)
    data = store.get(path)
    if data is None:
        raise StorageError(f"no {path}: the collector has deleted it, or it was never written")
    return _render_manifest(decode_manifest(data, path), path, len(data))


def _render_manifest(manifest: Manifest, path: str, size: int) -> RenderableType:
    delta = manifest.delta
    head = _build_pairs(
        ("object", f"{path}, {_format_bytes(size)}"),
        ("epoch", _format_epoch(delta.epoch)),
        ("commit", delta.commit_id),
        ("writer", delta.writer or "none"),
        ("creates", ", ".join(f"{spec.name} (id {spec.table_id})" for spec in delta.create) or "none"),
        ("drops", ", ".join(delta.drop) or "none"),
        ("labels", ", ".join(f"{name} {label}" for name, label in delta.labels.items()) or "none"),
        ("truncates", ", ".join(f"{name} to {upto}" for name, upto in delta.truncate.items()) or "none"),
        ("acknowledges", _format_holds(delta.acks)),
        ("pins", _format_holds(delta.pins)),
        ("claims", ", ".join(f"{name}={at}" for name, at in delta.claimed.items()) or "none"),
        ("catalog", ", ".join(delta.catalog) or "none"),
        (
            "checkpoint",
            "none" if manifest.checkpoint is None else f"{len(manifest.checkpoint.tables)} tables",
        ),
    )
    grid = _build_grid("part", "epoch", "run:", "file", "rows:", "deletions:", "bytes:", "vnodes")
    for name, ssts in delta.writes.items():
        _add_files(grid, f"write {name}", delta.labels.get(name, delta.epoch), 0, ssts)
    for name, compaction in delta.compactions.items():
        for at, run in enumerate(compaction.runs, start=1):
            _add_files(grid, f"compaction {name}", compaction.upto, at, run)
    return Group(head, grid) if grid.row_count else head


def describe_sst(store: ObjectStore, version: Version, path: str) -> RenderableType:
    """Return the sorted files of an object: where the version has them, columns, row groups, first rows.

    Raises StorageError if there is no such object.
    """
    info = store.head(path)
    if info is None:
        raise StorageError(f"no object {path}: tideline inspect version lists the files")
    places = [(where, sst) for where, sst in _locate_ssts(version) if sst.path == path]
    whole = SstInfo(path, 0, info.size, 0, 0, 0, 0, 0, 0)
    parts: list[RenderableType] = [Text(f"{path}, {_format_bytes(info.size)}", "bold")]
    if not places:
        parts.append(Text("No table of this version refers to it."))
    offsets: set[int] = set()
    for where, sst in places or [("", whole)]:
        if where:
            parts.append(
                Text(f"{where}: {sst.rows:,} rows from byte {sst.offset:,}, checksum {sst.checksum:016x}")
            )
        if sst.offset not in offsets:
            offsets.add(sst.offset)
            parts.append(_render_sst(store, sst))
    return Group(*parts)


def _render_sst(store: ObjectStore, sst: SstInfo) -> RenderableType:
    try:
        return _render_parquet(store, sst)
    except (OSError, pa.ArrowException) as error:
        raise CorruptObject(
            f"{sst.path} is damaged at byte {sst.offset:,}: {error}; restore it from a copy"
        ) from error


def _render_parquet(store: ObjectStore, sst: SstInfo) -> RenderableType:
    file = pq.ParquetFile(pa.PythonFile(RangeFile(store, sst.path, sst.length, sst.offset), mode="r"))
    groups = _build_grid("row group:", "rows:", "bytes:", "least hash", "greatest hash", "vnodes")
    for at in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(at)
        column = next((c for c in range(group.num_columns) if group.column(c).path_in_schema == HASH), None)
        statistics = None if column is None else group.column(column).statistics
        low, high = (statistics.min, statistics.max) if statistics is not None else (None, None)
        vnodes = "" if low is None or high is None else _format_vnodes(low, high)
        groups.add_row(
            str(at), f"{group.num_rows:,}", _format_bytes(group.total_byte_size), str(low), str(high), vnodes
        )
    schema = file.schema_arrow
    first = next(file.iter_batches(batch_size=SHOWN_ROWS), None)
    rows = _build_grid(*(name if name not in (HASH, OP) else f"{name}:" for name in schema.names))
    for row in [] if first is None else as_rows(first):
        rows.add_row(*("" if value is None else _shorten(value) for value in row.values()))
    columns = Text(", ".join(f"{field.name} {field.type}" for field in schema))
    return Group(
        columns, groups, Text(f"The first {rows.row_count} of {file.metadata.num_rows:,} rows:"), rows
    )


def _locate_ssts(version: Version) -> Iterable[tuple[str, SstInfo]]:
    for table in version.tables.values():
        for entry in table.log:
            for sst in entry.ssts:
                yield f"log of {table.name} at {entry.epoch}", sst
        for generation in table.generations:
            for at, run in enumerate(generation.runs, start=1):
                for sst in run:
                    yield f"generation of {table.name} up to {generation.upto}, run {at}", sst


def _add_files(grid: Grid, part: str, epoch: int, run: int, ssts: Sequence[SstInfo]) -> None:
    for sst in ssts:
        place = sst.path if not sst.offset else f"{sst.path} +{sst.offset}"
        grid.add_row(
            part,
            str(epoch),
            str(run) if run else "",
            place,
            f"{sst.rows:,}",
            f"{sst.tombstones:,}",
            _format_bytes(sst.length),
            _format_vnodes(sst.min_hash, sst.max_hash),
        )


def _build_grid(*columns: str) -> Grid:
    """A grid; a name that ends in a colon is that of a column of numbers."""
    grid = Grid(show_edge=False)
    for name in columns:
        grid.add_column(name.rstrip(":"), justify="right" if name.endswith(":") else "left", overflow="fold")
    return grid


def _build_pairs(*rows: tuple[str, str]) -> Grid:
    grid = Grid(show_edge=False, show_header=False, box=None)
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def _format_holds(holds: dict[str, dict[str, int | None]]) -> str:
    found = [
        f"{table}.{name} {'removed' if epoch is None else epoch}"
        for table, names in holds.items()
        for name, epoch in names.items()
    ]
    return ", ".join(found) or "none"


def _format_vnodes(low: int, high: int) -> str:
    first, last = ((bound >> 56) + VNODES // 2 for bound in (low, high))
    return str(first) if first == last else f"{first}-{last}"


def _format_moment(epoch: int) -> str:
    if epoch == 0:
        return "the beginning"
    return f"{format_epoch_time(epoch)} UTC"


def _format_epoch(epoch: int) -> str:
    return f"{_format_moment(epoch)} ({epoch})"


def _format_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _format_ratio(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} ×"


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
