"""What an epoch run did, as Dagster events: data versions are content epochs, inputs are pinned to what was really read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_tideline.dagster_internals import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INITIAL_VERSION,
    INPUT_POINTER,
    INPUT_VERSION,
    NULL_EVENT_POINTER,
)
from dagster_tideline.models.asset_spec import COLUMN_SCHEMA, build_column_schema
from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from engine.connectors.contract.connector import SourceReport
from engine.hummock.epoch import format_epoch
from engine.sql.catalog import Relation

if TYPE_CHECKING:
    from engine.hummock import TableVersion, Version
    from engine.session import SinkReport, ViewReport

Event = dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
"""What a run yields, by the names of the store; events that are only logged are lost if the run fails after them."""
ReportedTags = Mapping[str, Mapping[str, str]]
"""The tags of the newest event by the names of the store, by which Dagster says whether an asset is stale."""
SHOWN_WARNINGS = 20

Metadata = int | float | str | dg.MetadataValue[Any] | dg.TableSchema


def find_content_epoch(table: TableVersion, upto: int | None, known: str | None) -> int:
    """Return the epoch of a table's newest change at or below `upto`; `known` is what was last told, for a truncated log."""
    limit = table.committed_epoch if upto is None else upto
    entries = [entry.epoch for entry in table.list_changes(table.safe_epoch, limit) if entry.rows]
    if entries:
        return max(entries)
    if known is not None and known.isdigit() and int(known) <= max(limit, table.safe_epoch):
        return int(known)
    return min(limit, table.committed_epoch)


def build_table_event(
    name: str,
    version: Version,
    landed: SourceReport | None,
    known: str | None,
    *,
    always: bool = False,
) -> dg.MaterializeResult[Any] | None:
    """Return the event of a source table, or None if it was not written since the last one."""
    table = version.tables[name]
    epoch = str(find_content_epoch(table, None, known))
    if epoch == known and (landed is None or not landed.files) and not always:
        return None
    pass_through = table.table.options.passes
    metadata: dict[str, Metadata] = {
        "epoch": format_epoch(table.committed_epoch),
        "changes_kept" if pass_through else "rows_at_most": table.row_count,
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
            metadata["warnings"] = dg.MetadataValue.md(_format_list(landed.warnings))
    return dg.MaterializeResult(asset_key=name, metadata=metadata, data_version=dg.DataVersion(epoch))


def build_view_event(
    report: ViewReport,
    relation: Relation,
    version: Version,
    known: str | None,
    tags: Mapping[str, str],
    *,
    always: bool = False,
) -> dg.MaterializeResult[Any] | None:
    """Return the event of a view that was brought on (or whose last event is out of date), else None; `tags` tell its inputs."""
    table = version.tables.get(report.view)
    if table is None or report.error is not None:
        return None
    epoch = str(find_content_epoch(table, None, known))
    if report.skipped and epoch == known and not always:
        return None
    metadata = build_view_metadata(report, table)
    schema = build_column_schema(relation.columns)
    if known is None and schema is not None:
        metadata[COLUMN_SCHEMA] = schema
    return dg.MaterializeResult(
        asset_key=report.view,
        metadata=metadata,
        data_version=dg.DataVersion(epoch),
        tags=tags,
    )


def build_view_metadata(report: ViewReport, table: TableVersion) -> dict[str, Metadata]:
    """Return what an epoch of a view did, in numbers."""
    metadata: dict[str, Metadata] = {
        "epoch": format_epoch(table.committed_epoch if report.epoch is None else report.epoch),
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
        lines = [f"partition {key} {text}" for key, text in report.quarantined.items()]
        metadata["partitions_quarantined"] = len(lines)
        metadata["quarantine"] = dg.MetadataValue.md(_format_list(tuple(lines)))
    if report.skew:
        metadata["skew"] = dg.MetadataValue.md(_format_list(report.skew))
    if report.ways:
        lines = [f"{table}: {way}" for table, way in report.ways.items()]
        metadata["computed_by"] = dg.MetadataValue.md(_format_list(tuple(lines)))
    if report.partition_rows_read:
        metadata["partition_rows_read"] = report.partition_rows_read
        metadata["partition_rows_written"] = report.partition_rows_written
    metadata |= {f"seconds_{stage}": round(seconds, 3) for stage, seconds in report.stages.items()}
    return metadata


def build_sink_event(
    report: SinkReport, tags: Mapping[str, str] | None = None, *, always: bool = False
) -> dg.MaterializeResult[Any] | None:
    """Return the event of a sink that has delivered something, else None; `tags` tell its input."""
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
        metadata["epoch"] = format_epoch(report.epoch)
    version = dg.DataVersion(str(report.epoch)) if report.epoch is not None else None
    return dg.MaterializeResult(
        asset_key=report.sink, metadata=metadata, data_version=version, tags=tags or None
    )


def list_read_relations(models: Sequence[Model]) -> list[str]:
    """Return the names of all that models are or read, be it an asset of somebody else."""
    return sorted({model.name for model in models}.union(*(model.reads for model in models)))


def fetch_reported_tags(
    instance: dg.DagsterInstance, relations: Iterable[str], naming: Naming
) -> dict[str, Mapping[str, str]]:
    """Return the tags of the newest event of each relation that has one, by its name."""
    found: dict[str, Mapping[str, str]] = {}
    for record in instance.get_asset_records(naming.get_keys(relations)):
        entry = record.asset_entry.last_materialization_record
        event = entry.asset_materialization if entry is not None else None
        if event is not None:
            found[naming.find_name(record.asset_entry.asset_key)] = naming.read_tags(event.tags or {})
    return found


def get_reported_version(reported_tags: ReportedTags, name: str) -> str | None:
    """Return the data version that an asset's newest event says."""
    return reported_tags.get(name, {}).get(DATA_VERSION_TAG)


def build_input_tags(
    reads: Sequence[str],
    version: Version,
    epoch: int | None,
    reported_tags: ReportedTags,
    others: Mapping[str, str],
) -> dict[str, str]:
    """Return the tags that pin an asset's provenance to the content of its inputs at the epoch that it reflects.

    `others` say what Dagster holds of inputs without an epoch of their own. Partitions of an input have each an event of their
    own, after which Dagster would look: without a pointer to one it does not.
    """
    tags = {}
    for name in reads:
        table = version.tables.get(name)
        if name in others or table is None:
            tags[INPUT_VERSION + name] = others.get(name, INITIAL_VERSION)
        else:
            tags[INPUT_VERSION + name] = str(
                find_content_epoch(table, epoch, get_reported_version(reported_tags, name))
            )
    return tags


def add_pointers(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags of inputs with a pointer for each: Dagster takes an input without one for a new dependency."""
    names = [tag.removeprefix(INPUT_VERSION) for tag in tags if tag.startswith(INPUT_VERSION)]
    return {**{INPUT_POINTER + name: NULL_EVENT_POINTER for name in names}, **tags}


def is_reported(tags: Mapping[str, str], code_version: str, inputs: Mapping[str, str]) -> bool:
    """Tell whether an asset's newest event names this code version, and these inputs and no others, as Dagster asks for them."""
    known = {tag: value for tag, value in tags.items() if tag.startswith(INPUT_VERSION)}
    expected = {tag: value for tag, value in inputs.items() if tag.startswith(INPUT_VERSION)}
    pointed = all(INPUT_POINTER + tag.removeprefix(INPUT_VERSION) in tags for tag in expected)
    return tags.get(CODE_VERSION_TAG) == code_version and known == expected and pointed


def is_newer(reported: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Tell whether an event with the tags `told` says of an asset, or of an input of it, what came after `own`."""
    if DATA_VERSION_TAG not in reported:
        return False
    tags = [tag for tag in {**reported, **own} if tag == DATA_VERSION_TAG or tag.startswith(INPUT_VERSION)]
    found = [(_parse_version(reported.get(tag)), _parse_version(own.get(tag))) for tag in tags]
    if any(theirs > ours for theirs, ours in found):
        return True
    return reported.get(CODE_VERSION_TAG) != own.get(CODE_VERSION_TAG) and all(a == b for a, b in found)


def _parse_version(version: str | None) -> int:
    return int(version) if version is not None and version.isdigit() else -1


def format_failures(errors: Mapping[str, str]) -> str:
    """Return what failed and why, a paragraph each."""
    return "\n\n".join(f"{name}: {error}" for name, error in errors.items())


def _format_list(lines: tuple[str, ...]) -> str:
    bullets = "\n".join(f"- {line}" for line in lines[:SHOWN_WARNINGS])
    more = len(lines) - SHOWN_WARNINGS
    return bullets + (f"\n- and {more} more" if more > 0 else "")
