"""ALTER … RENAME TO: a relation, its state and its indexes get names after the new one; files and history stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import sqlglot
from sqlglot import TokenType

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.meta.catalog_store import StoredCatalog, entries
from engine.meta.creation import BACKFILL_PREFIX, CONSUMING_SNAPSHOT, creations, entry
from engine.meta.crossing import renamed as crossings_renamed
from engine.meta.domain import domain_of
from engine.meta.mutation import renamed
from engine.meta.partitions import entry as quarantine
from engine.meta.partitions import forgotten, quarantined
from engine.meta.recovery import recovered
from engine.runtime.relations import place_of, readers
from engine.sql.catalog import Relation, watermark_name
from engine.sql.dialect import Dialect
from engine.sql.incremental.access import index_name
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.plan import Scan
from engine.sql.statements.statement_types import Alter


def rename(
    version: Version, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    """Return the commit that renames a relation; raises SqlError for a taken name, and if anything reads it by its name."""
    old = relation.name
    line, column = place_of(name, statement.sql)
    if name in stored.catalog.relations:
        hint = f"it is a {stored.catalog.get(name).kind}: choose another name"
        raise SqlError(f"{name} exists already", sql=statement.sql, line=line, column=column, hint=hint)
    found = readers(stored, old)
    line, column = place_of(old, statement.sql)
    if found:
        hint = "drop those first, and create them again with the new name"
        message = f"{old} is read by {', '.join(found)}, whose text names it"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    if "connector" in relation.options:
        hint = "make a table of the new name, and INSERT … SELECT"
        message = f"{old} is fed by its {relation.options['connector']} source under this name"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    domain = domain_of(stored, old)
    made = creations(version).get(domain)
    if made is not None and old in made.tables and made.state == CONSUMING_SNAPSHOT:
        message = f"{old} is still being created"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint="run FLUSH first")
    names = _new_names(stored, relation, name)
    relations: dict[str, Relation | None] = {}
    plans: dict[str, IncrementalPlan | None] = {}
    for other, value in stored.catalog.relations.items():
        changed = _renamed_relation(value, names, old, name)
        if changed is not value:
            relations |= {other: None, changed.name: changed}
    for owner, plan in stored.plans.items():
        new = _renamed(plan, names)
        if new is not plan:
            plans |= {owner: None, new.view: new}
    for gone in [key for key, value in relations.items() if value is None and key not in names]:
        del relations[gone]
    for gone in [key for key, value in plans.items() if value is None and key not in names]:
        del plans[gone]
    altered = {
        before: dataclasses.replace(version.tables[before].table, name=after)
        for before, after in names.items()
        if before in version.tables
    }
    moved = renamed(version, domain, name if domain == old else domain, old, name)
    if made is not None:
        tables = tuple(names.get(table, table) for table in made.tables)
        moved |= {BACKFILL_PREFIX + domain: None} if domain == old else {}
        moved |= entry(name if domain == old else domain, msgspec.structs.replace(made, tables=tables))
    moved |= crossings_renamed(version, names)
    if forgotten(version, old):
        moved |= forgotten(version, old) | quarantine(name, quarantined(version, old))
    return Commit(alter=altered, catalog=entries(relations, plans) | recovered(version, old) | moved)


def _new_names(stored: StoredCatalog, relation: Relation, name: str) -> dict[str, str]:
    """Return every table or relation that gets another name."""
    old = relation.name
    names = {old: name}
    if relation.watermark is not None:
        names[watermark_name(old)] = watermark_name(name)
    plan = stored.plans.get(old)
    for fragment in plan.fragments if plan is not None else ():
        if fragment.table.startswith(f"_state_{old}_"):
            names[fragment.table] = f"_state_{name}_" + fragment.table.removeprefix(f"_state_{old}_")
    for other, index in stored.catalog.relations.items():
        if index.kind == "index" and not index.sql and index.depends_on == (old,):
            names[other] = index_name(name, stored.plans[other].fragments[-1].distribution_key)
    return names


def _renamed_relation(relation: Relation, names: Mapping[str, str], old: str, name: str) -> Relation:
    mine = names.get(relation.name, relation.name)
    depends_on = tuple(names.get(other, other) for other in relation.depends_on)
    options = dict(relation.options)
    if relation.kind == "index" and relation.sql:
        options = {key: names.get(value, value) for key, value in options.items()}
    text = relation.sql
    if relation.name == old or options.get("on") != relation.options.get("on"):
        text = _with_name(relation, old, name)
    changed = msgspec.structs.replace(relation, name=mine, depends_on=depends_on, options=options, sql=text)
    return relation if changed == relation else changed


def _with_name(relation: Relation, old: str, name: str) -> str:
    """Return the statement that made a relation with another name in its head; comments and texts are left alone."""
    kinds = ("TABLE", "VIEW", "INDEX", "FUNCTION", "SOURCE", "SINK")
    tokens = sqlglot.tokenize(relation.sql, read=relation.dialect)
    kind = next(n for n, token in enumerate(tokens) if token.text.upper() in kinds)
    for token in tokens[kind + 1 :]:
        if token.text.lower() == old.lower():
            return (
                relation.sql[: token.start] + _written(name, relation.dialect) + relation.sql[token.end + 1 :]
            )
    return relation.sql


def _written(name: str, dialect: Dialect) -> str:
    """Return a name as a statement has to say it: in quotes unless it is one plain word in lower case, and no keyword."""
    tokens = sqlglot.tokenize(name, read=dialect) if name.isidentifier() else []
    if [token.token_type for token in tokens] == [TokenType.VAR] and name == name.lower():
        return name
    mark = "`" if dialect == "spark" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a plan in which tables have their new names."""
    if isinstance(value, tuple):
        items = tuple(_renamed(item, names) for item in value)
        return value if all(new is before for new, before in zip(items, value, strict=True)) else items
    if not isinstance(value, msgspec.Struct):
        return value
    changed = {}
    for field in value.__struct_fields__:
        before = getattr(value, field)
        named = (isinstance(value, Scan | Fragment) and field == "table") or (
            isinstance(value, IncrementalPlan) and field == "view"
        )
        after = names.get(before, before) if named else _renamed(before, names)
        if isinstance(value, IncrementalPlan) and field == "indexes":
            after = tuple((names.get(table, table), columns) for table, columns in before)
            after = before if after == before else after
        if after is not before and after != before:
            changed[field] = after
    return msgspec.structs.replace(value, **changed) if changed else value
