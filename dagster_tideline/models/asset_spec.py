"""One model as an asset: key, inputs, kinds, code version, columns, owners, group, and its SQL to read."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import dagster as dg

from dagster_tideline.dagster_internals import CheckError, is_valid_owner
from dagster_tideline.models.loader import EXTERNAL_KINDS, TEXT_KINDS, Model
from dagster_tideline.naming import Naming
from engine.errors import SqlError
from engine.sql.bind.binder import bind_without_rewrites
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.lineage import trace_lineage
from engine.sql.statements.reader import CreateMaterializedView, CreateView, parse_statement

_LOG = logging.getLogger(__name__)
COLUMN_SCHEMA = "dagster/column_schema"
COLUMN_LINEAGE = "dagster/column_lineage"
RELATION = "tideline/relation"
"""Metadata of an asset whose key does not end with the name of its table or view: that name."""


def build_asset_spec(
    model: Model, relation: Relation | None, catalog: Catalog | None = None, naming: Naming | None = None
) -> dg.AssetSpec:
    """Return the asset of a model; `relation` is what the store holds of it, whose columns have types.

    With the store's `catalog` it tells from which columns of others its columns come.
    """
    naming = naming or Naming([model])
    said, key = naming.translator, naming.get_key(model.name)
    columns = relation.columns if relation is not None else model.columns
    metadata: dict[str, object] = {**said.get_metadata(model), "model": dg.MetadataValue.text(model.path)}
    if key.path[-1] != model.name:
        metadata[RELATION] = dg.MetadataValue.text(model.name)
    schema = build_column_schema(columns, model.column_descriptions)
    if schema is not None:
        metadata[COLUMN_SCHEMA] = schema
    comes_from = build_column_lineage(model, catalog, naming) if catalog is not None else None
    if comes_from is not None:
        metadata[COLUMN_LINEAGE] = comes_from
    owners, others = _split_owners(said.get_owners(model))
    if others:
        metadata["owners"] = dg.MetadataValue.text(", ".join(others))
    spec = dg.AssetSpec(
        key,
        # A sink writes into the table that it names; it reads just its view.
        deps=naming.get_keys(model.reads[:1] if model.kind == "sink" else model.reads),
        description=_format_description(model, said.get_description(model)),
        metadata=metadata,
        # A run that finds nothing new for a view says nothing about it.
        skippable=model.kind not in TEXT_KINDS,
        group_name=normalize_group(said.get_group_name(model)),
        code_version=model.code_version,
        owners=owners,
        kinds=_list_kinds(model),
        tags={**said.get_tags(model), "tideline/kind": model.kind.replace(" ", "_")},
        freshness_policy=said.get_freshness_policy(model),
        automation_condition=said.get_automation_condition(model),
    )
    # Events name an asset by its key, and are compared by its code version.
    return said.get_asset_spec(model, spec).replace_attributes(key=key, code_version=model.code_version)


def build_valid_spec(
    model: Model,
    relation: Relation | None,
    catalog: Catalog,
    naming: Naming,
    checks: Sequence[dg.AssetCheckSpec] = (),
) -> tuple[dg.AssetSpec, Sequence[dg.AssetCheckSpec]]:
    """Return the asset and the checks of a model if Dagster takes them, else an asset that says why not.

    All assets are made by one call, which one that is refused would fail as a whole.
    """
    try:
        spec = build_asset_spec(model, relation, catalog, naming)
        dg.multi_asset(name="trial", specs=[spec], check_specs=checks)(lambda: None)
    except (dg.DagsterError, CheckError) as error:
        reason = str(error).strip().splitlines()[0]
        _LOG.warning(
            "%s: Dagster does not take what is said of the asset %s: %s", model.path, model.name, reason
        )
        refused = replace(model, error=model.error or f"{model.path}: Dagster refuses the asset: {reason}")
        description = _format_description(refused, model.description)
        key = naming.get_key(model.name)
        return dg.AssetSpec(key, description=description, skippable=model.kind not in TEXT_KINDS), ()
    return spec, checks


def build_column_schema(
    columns: Sequence[RelationColumn], descriptions: Mapping[str, str] = MappingProxyType({})
) -> dg.TableSchema | None:
    """Return the visible columns for Dagster's column view, or None if they are not known yet."""
    said = {name.lower(): text for name, text in descriptions.items()}
    visible = [column for column in columns if not column.hidden]
    if not visible:
        return None
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type or "?",
                description=said.get(column.name.lower()) or None,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in visible
        ]
    )


def build_column_lineage(model: Model, catalog: Catalog, naming: Naming) -> dg.TableColumnLineage | None:
    """Return from which columns of tables and views each column of a model comes, None where the store cannot tell yet."""
    relations = catalog.relations
    if model.error is not None or any(name not in relations for name in model.reads):
        return None
    if model.kind == "sink":
        visible = [column.name for column in relations[model.reads[0]].visible_columns]
        return _build_lineage({name: ((model.reads[0], name),) for name in visible}, naming)
    if model.kind not in ("view", "materialized view"):
        return None
    try:
        statement = parse_statement(model.sql, model.dialect)
        assert isinstance(statement, CreateMaterializedView | CreateView)
        bound = bind_without_rewrites(statement.query, catalog, dialect=model.dialect, sql=model.sql)
    except (
        SqlError
    ):  # kept by a whole computation, or of inputs that have changed: the run says what is wrong
        return None
    names = statement.columns or tuple(name for name, _ in bound.columns)
    columns = [(name, internal) for name, (_, internal) in zip(names, bound.columns, strict=False)]
    found = {
        name: tuple((table, _find_column_name(relations[table], column)) for table, column in sources)
        for name, sources in trace_lineage(bound.plan, columns).items()
    }
    return _build_lineage(found, naming)


def _find_column_name(relation: Relation, stored: str) -> str:
    return next((column.name for column in relation.columns if column.storage_name == stored), stored)


def _build_lineage(found: Mapping[str, Sequence[tuple[str, str]]], naming: Naming) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            name: [
                dg.TableColumnDep(asset_key=naming.get_key(table), column_name=column)
                for table, column in sources
            ]
            for name, sources in found.items()
        }
    )


def _list_kinds(model: Model) -> set[str]:
    if model.kind in (*EXTERNAL_KINDS, "sink"):
        return {"tideline"}
    if model.kind == "function":
        return {"function", "tideline"}
    return {"spark", "sql", "tideline", *(("deltalake",) if model.copy else ())}


def _format_description(model: Model, text: str) -> str:
    parts = [text] if text else []
    if model.error is not None:
        parts.append(f"**This model can't be used**\n```\n{model.error}\n```")
    parts.append(f"```sql\n{model.sql}\n```")
    return "\n\n".join(parts)


def _split_owners(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split owners into those that Dagster takes (mail addresses, `team:name`) and others, which are shown as text."""
    good = [name for name in names if is_valid_owner(name)]
    return good, [name for name in names if name not in good]


def normalize_group(name: str) -> str:
    """Return the name of a group as Dagster takes it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name) or "default"
