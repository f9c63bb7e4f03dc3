"""What an epoch run did, as Dagster events: data versions are content epochs, inputs are pinned to what was really read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_tideline.view_spec import COLUMN_SCHEMA, column_schema
from engine.connectors.contract import SourceReport
from engine.hummock.epoch import epoch_text
from engine.sql.catalog import Relation

if TYPE_CHECKING:
    from engine.hummock import TableVersion, Version
    from engine.session import SinkReport, ViewReport

Event = dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
"""What a run yields; events that are only logged are lost if the run fails after them."""
INPUT_VERSION = "dagster/input_data_version/"
SHOWN_WARNINGS = 20

Metadata = int | float | str | dg.MetadataValue[Any] | dg.TableSchema


def content_epoch(table: TableVersion, upto: int | None, known: str | None) -> int:
    """Return the epoch of a table's newest change at or below `upto`; `known` is what was last told, for a truncated log."""
    limit = table.committed_epoch if upto is None else upto
    entries = [entry.epoch for entry in table.changes(table.safe_epoch, limit) if entry.rows]
    if entries:
        return max(entries)
    return int(known) if known is not None and known.isdigit() else min(limit, table.committed_epoch)


def table_event(
    name: str,
    version: Version,
    landed: SourceReport | None,
    known: str | None,
    *,
    always: bool = False,
) -> dg.MaterializeResult[Any] | None:
    """Return the event of a source table, or None if it was not written since the last one."""
    table = version.tables[name]
    epoch = str(content_epoch(table, None, known))
    if epoch == known and (landed is None or not landed.files) and not always:
        return None
    passes = table.table.options.passes
    metadata: dict[str, Metadata] = {
        "epoch": epoch_text(table.committed_epoch),
        "changes_kept" if passes else "rows_at_most": table.row_count,
        "state_bytes": table.size_bytes,
    }
    if landed is not None:
        metadata |= {
            "files": landed.files,
            "rows_in": landed.rows,
            "dead_rows": landed.dead_rows,
            "seconds_total": round(landed.seconds, 3),
            "driver_bytes": landed.driver_bytes,
        }
        if landed.warnings:
            metadata["warnings"] = dg.MetadataValue.md(_list(landed.warnings))
    return dg.MaterializeResult(asset_key=name, metadata=metadata, data_version=dg.DataVersion(epoch))


def view_event(
    report: ViewReport,
    relation: Relation,
    version: Version,
    known: Mapping[str, str | None],
    reads: tuple[str, ...],
    *,
    always: bool = False,
) -> dg.MaterializeResult[Any] | None:
    """Return the event of a view that was brought on (or whose last event is out of date), else None."""
    table = version.tables.get(report.view)
    if table is None or report.error is not None:
        return None
    before = known.get(report.view)
    epoch = str(content_epoch(table, None, before))
    if report.skipped and epoch == before and not always:
        return None
    metadata = view_metadata(report, table)
    schema = column_schema(relation.columns)
    if before is None and schema is not None:
        metadata[COLUMN_SCHEMA] = schema
    return dg.MaterializeResult(
        asset_key=report.view,
        metadata=metadata,
        data_version=dg.DataVersion(epoch),
        tags=input_tags(reads, version, report.epoch, known),
    )


def view_metadata(report: ViewReport, table: TableVersion) -> dict[str, Metadata]:
    """Return what an epoch of a view did, in numbers."""
    metadata: dict[str, Metadata] = {
        "epoch": epoch_text(table.committed_epoch if report.epoch is None else report.epoch),
        "rows_at_most": table.row_count,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "inserted": report.inserted,
        "updated": report.updated,
        "deleted": report.deleted,
        "seconds_total": round(report.seconds, 3),
        "state_bytes": report.state_bytes,
        "driver_bytes": report.driver_bytes,
        "lag_seconds": round(report.lag_seconds, 3),
        "rule": report.rule,
    }
    if report.quarantined:
        told = [f"partition {key} {text}" for key, text in report.quarantined.items()]
        metadata["partitions_quarantined"] = len(told)
        metadata["quarantine"] = dg.MetadataValue.md(_list(tuple(told)))
    if report.skew:
        metadata["skew"] = dg.MetadataValue.md(_list(report.skew))
    if report.partition_rows_read:
        metadata["partition_rows_read"] = report.partition_rows_read
        metadata["partition_rows_written"] = report.partition_rows_written
    metadata |= {f"seconds_{stage}": round(seconds, 3) for stage, seconds in report.stages.items()}
    return metadata


def sink_event(report: SinkReport, *, always: bool = False) -> dg.MaterializeResult[Any] | None:
    """Return the event of a sink that has delivered something, else None."""
    if report.error is not None or not (report.rows or always):
        return None
    metadata: dict[str, Metadata] = {
        "rows_out": report.rows,
        "lag_rows": report.lag_rows,
        "lag_seconds": round(report.lag_seconds, 3),
        "seconds_total": round(report.seconds, 3),
        "driver_bytes": report.driver_bytes,
    }
    if report.files:
        metadata |= {"files": report.files, "bytes": report.bytes}
    if report.epoch is not None:
        metadata["epoch"] = epoch_text(report.epoch)
    version = dg.DataVersion(str(report.epoch)) if report.epoch is not None else None
    return dg.MaterializeResult(asset_key=report.sink, metadata=metadata, data_version=version)


def last_versions(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[str, str | None]:
    """Return the data version of each asset's newest event."""
    found: dict[str, str | None] = {}
    for record in instance.get_asset_records(keys):
        entry = record.asset_entry.last_materialization_record
        event = entry.asset_materialization if entry is not None else None
        tags = event.tags if event is not None and event.tags else {}
        found[record.asset_entry.asset_key.to_user_string()] = tags.get("dagster/data_version")
    return found


def input_tags(
    reads: tuple[str, ...], version: Version, epoch: int | None, known: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the tags that pin a view's provenance to the content of its inputs at the epoch that it reflects."""
    tags = {}
    for name in reads:
        table = version.tables.get(name)
        if table is not None:
            tags[INPUT_VERSION + name] = str(content_epoch(table, epoch, known.get(name)))
    return tags


def failure_text(errors: Mapping[str, str]) -> str:
    """Return what failed and why, a paragraph each."""
    return "\n\n".join(f"{name}: {error}" for name, error in errors.items())


def _list(lines: tuple[str, ...]) -> str:
    shown = "\n".join(f"- {line}" for line in lines[:SHOWN_WARNINGS])
    more = len(lines) - SHOWN_WARNINGS
    return shown + (f"\n- and {more} more" if more > 0 else "")
