"""One model as an asset: key, inputs, kinds, code version, columns, owners, group, and its SQL to read."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from dagster_tideline.models import Model
from engine.sql.catalog import Column, Relation

COLUMN_SCHEMA = "dagster/column_schema"


def spec_of(model: Model, relation: Relation | None) -> dg.AssetSpec:
    """Return the asset of a model; `relation` is what the store holds of it, whose columns have types."""
    columns = relation.columns if relation is not None else model.columns
    metadata: dict[str, object] = {"model": dg.MetadataValue.text(model.path)}
    schema = column_schema(columns)
    if schema is not None:
        metadata[COLUMN_SCHEMA] = schema
    owners, others = _owners(model.owners)
    if others:
        metadata["owners"] = dg.MetadataValue.text(", ".join(others))
    return dg.AssetSpec(
        model.name,
        # A sink writes into the table that it names; it reads just its view.
        deps=list(model.reads[:1] if model.kind == "sink" else model.reads),
        description=_description(model),
        metadata=metadata,
        # A run that finds nothing new for a view says nothing about it.
        skippable=model.kind != "view",
        group_name=_group(model.group),
        code_version=model.code_version,
        owners=owners,
        kinds={"tideline"} if model.kind in ("table", "sink") else {"spark", "sql", "tideline"},
        tags={"tideline/kind": model.kind.replace(" ", "_")},
    )


def column_schema(columns: Sequence[Column]) -> dg.TableSchema | None:
    """Return the visible columns for Dagster's column view, or None if they are not known yet."""
    shown = [column for column in columns if not column.hidden]
    if not shown:
        return None
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type or "?",
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in shown
        ]
    )


def _description(model: Model) -> str:
    parts = [model.description] if model.description else []
    if model.error is not None:
        parts.append(f"**This model can't be used**\n```\n{model.error}\n```")
    parts.append(f"```sql\n{model.sql}\n```")
    return "\n\n".join(parts)


def _owners(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split owners into those that Dagster takes (mail addresses, `team:name`) and others, which are shown as text."""
    good = [
        name
        for name in names
        if "@" in name or (name.startswith("team:") and name[5:].replace("_", "").isalnum())
    ]
    return good, [name for name in names if name not in good]


def _group(name: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "default"
