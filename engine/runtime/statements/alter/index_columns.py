"""Indexes of a table or view that gets other columns: they hold all of its columns, so they get and lose them with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from engine.hummock import Commit, Version
from engine.hummock.manifests.alter import apply_alter
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.fragments import IncrementalPlan, build_index_fragment


def alter_with_indexes(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    *,
    add: Sequence[pa.Field[Any]] = (),
    drop: Sequence[str] = (),
) -> Commit:
    """Return the commit that gives a table and its indexes other columns."""
    part = alter_indexes(version, stored, relation, add=add, drop=drop)
    table = apply_alter(version.tables[relation.name].table, add, drop)
    entries = encode_entries({relation.name: relation}, {})
    return Commit(alter={relation.name: table, **part.alter}, catalog=entries | dict(part.catalog))


def alter_indexes(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    *,
    add: Sequence[pa.Field[Any]] = (),
    drop: Sequence[str] = (),
) -> Commit:
    """Return the part of a commit that gives the indexes of a relation the columns that it has then."""
    altered, relations, plans = {}, {}, {}
    catalog = Catalog({**stored.catalog.relations, relation.name: relation})
    for name in list_indexes(stored, relation.name):
        by = stored.plans[name].fragments[-1].distribution_key
        plans[name] = IncrementalPlan(name, (build_index_fragment(relation.name, by, catalog),))
        relations[name] = msgspec.structs.replace(stored.catalog.get(name), columns=relation.columns)
        if name in version.tables:
            altered[name] = apply_alter(version.tables[name].table, add, drop)
    return Commit(alter=altered, catalog=encode_entries(relations, plans))


def list_indexes(stored: StoredCatalog, table: str) -> list[str]:
    """Return the system's indexes of a table or view, which those by name stand on."""
    relations = stored.catalog.relations.items()
    return [
        name for name, one in relations if one.kind == "index" and not one.sql and one.depends_on == (table,)
    ]
