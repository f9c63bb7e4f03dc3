"""ALTER … RENAME TO and SWAP WITH: relations, their state and their indexes get other names; files and history stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from sqlglot import TokenType

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.meta.catalog_store import StoredCatalog, entries
from engine.meta.check_results import renamed as checks_renamed
from engine.meta.creation import BACKFILL_PREFIX, CONSUMING_SNAPSHOT, creations, entry
from engine.meta.crossing import renamed as crossings_renamed
from engine.meta.domain import OPTION as DOMAIN
from engine.meta.domain import domain_of
from engine.meta.mutation import renamed
from engine.meta.partitions import entry as quarantine
from engine.meta.partitions import forgotten, quarantined
from engine.meta.recovery import recovered
from engine.meta.replaced import replaced
from engine.runtime.relations import known, place_of, readers
from engine.sql.catalog import COMPANIONS, Relation, watermark_name
from engine.sql.checks import OPTION as CHECKS
from engine.sql.checks import companions
from engine.sql.incremental.access import index_name
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.parsing.tokens import last_of_name, tokens_of
from engine.sql.plan import Scan
from engine.sql.statements.renamed_text import NameNotFound, with_names, written
from engine.sql.statements.statement_types import Alter

_KINDS = ("TABLE", "VIEW", "INDEX", "FUNCTION", "SOURCE", "SINK")
_READING = ("view", "materialized view", "sink")
_NAMING = {"index": ("on",), "sink": ("into",)}
"""The options of a relation that name others, by its kind."""


def rename(
    version: Version, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    """Return the commit that renames a relation, and rewrites the texts of what reads it; raises SqlError for a taken name."""
    line, column = place_of(name, statement.sql)
    if name in stored.catalog.relations:
        hint = f"it is a {stored.catalog.get(name).kind}: choose another name"
        raise SqlError(f"{name} exists already", sql=statement.sql, line=line, column=column, hint=hint)
    return _renaming(version, stored, {relation.name: name}, statement)


def swap(version: Version, stored: StoredCatalog, relation: Relation, name: str, statement: Alter) -> Commit:
    """Return the commit by which two relations of one kind exchange their names; what reads one of them still does."""
    other = known(stored, relation.kind, name, statement.sql)
    if other.name == relation.name:
        line, column = place_of(name, statement.sql)
        raise SqlError(
            f"{name} has its own name", sql=statement.sql, line=line, column=column, hint="name another"
        )
    return _renaming(version, stored, {relation.name: other.name, other.name: relation.name}, statement)


def _renaming(version: Version, stored: StoredCatalog, wanted: Mapping[str, str], statement: Alter) -> Commit:
    for old in wanted:
        _check(version, stored, old, statement)
    names: dict[str, str] = {}
    own = [old for old in wanted if DOMAIN not in stored.catalog.relations[old].options]
    for old, name in wanted.items():
        names |= _new_names(stored, stored.catalog.relations[old], name)
    relations = {
        other: changed
        for other, value in stored.catalog.relations.items()
        if (changed := _renamed_relation(value, names, wanted, own, statement)) is not value
    }
    plans = {
        owner: changed
        for owner, plan in stored.plans.items()
        if (changed := _renamed(plan, names)) is not plan
    }
    altered = {
        before: dataclasses.replace(version.tables[before].table, name=after)
        for before, after in names.items()
        if before in version.tables
    }
    return Commit(
        alter=altered,
        catalog=entries(
            {**dict.fromkeys(relations), **{value.name: value for value in relations.values()}},
            {**dict.fromkeys(plans), **{plan.view: plan for plan in plans.values()}},
        )
        | _notes(version, stored, wanted, names),
    )


def _check(version: Version, stored: StoredCatalog, old: str, statement: Alter) -> None:
    """Raise SqlError for a relation that cannot have another name now."""
    line, column = place_of(old, statement.sql)
    connector = stored.catalog.relations[old].options.get("connector")
    if connector is not None and stored.catalog.relations[old].kind == "table":
        hint = "make a table of the new name, and INSERT … SELECT"
        message = f"{old} is fed by its {connector} source under this name"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    for reader in (old, *readers(stored, old)):
        made = creations(version).get(domain_of(stored, reader))
        if made is not None and reader in made.tables and made.state == CONSUMING_SNAPSHOT:
            message = f"{reader} is still being created"
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint="run FLUSH first")
        if reader in replaced(version):
            message = f"{reader} has another query and is not computed by it yet"
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint="run FLUSH first")


def _notes(
    version: Version, stored: StoredCatalog, wanted: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, str | None]:
    """Return what is noted about domains and partitions under other names, without what failed: it is tried again."""
    gone: dict[str, str | None] = {}
    moved: dict[str, str | None] = {}
    for old, name in wanted.items():
        domain = domain_of(stored, old)
        own = name if domain == old else domain
        for changed in (
            renamed(version, domain, own, wanted),
            _moved_creation(version, domain, own, names),
        ):
            gone |= {key: value for key, value in changed.items() if value is None}
            moved |= {key: value for key, value in changed.items() if value is not None}
        for reader in (old, *readers(stored, old)):
            gone |= recovered(version, domain_of(stored, reader))
        if forgotten(version, old):
            gone |= forgotten(version, old)
            moved |= quarantine(name, quarantined(version, old))
    return gone | crossings_renamed(version, names) | checks_renamed(version, wanted) | moved


def _moved_creation(
    version: Version, domain: str, own: str, names: Mapping[str, str]
) -> dict[str, str | None]:
    made = creations(version).get(domain)
    if made is None:
        return {}
    tables = tuple(names.get(table, table) for table in made.tables)
    return {BACKFILL_PREFIX + domain: None} | entry(own, msgspec.structs.replace(made, tables=tables))


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
    for companion in companions(relation.checks):
        own = companion.removesuffix(old) + name
        names |= _new_names(stored, stored.catalog.relations[companion], own)
    return names


def _in_domain(relation: Relation, wanted: Mapping[str, str], own: Collection[str]) -> Relation:
    """Return a companion in the domain of its view, which has the view's name unless it was given one."""
    domain = relation.options.get(DOMAIN)
    if domain is None or domain not in own:
        return relation
    return msgspec.structs.replace(relation, options={**relation.options, DOMAIN: wanted[domain]})


def _renamed_relation(
    relation: Relation,
    names: Mapping[str, str],
    wanted: Mapping[str, str],
    own: Collection[str],
    statement: Alter,
) -> Relation:
    inputs = (*relation.depends_on, *relation.through)
    if relation.kind in COMPANIONS and not relation.sql:
        relation = _in_domain(relation, wanted, own)
    carried = tuple(one.under(names) for one in relation.carried)
    if carried != relation.carried:
        relation = msgspec.structs.replace(relation, carried=carried)
    if relation.name not in names and not set(inputs) & set(names):
        return relation
    if relation.name in wanted and relation.checks:
        relation = _with_own_checks(relation, wanted, statement)
    options = relation.options
    for option in _NAMING.get(relation.kind, ()) if relation.sql else ():
        if option in options:
            options = options | {option: names.get(options[option], options[option])}
    text = relation.sql
    if relation.name in wanted:
        text = _with_name(relation, _KINDS, wanted[relation.name])
    if relation.kind == "index" and options != relation.options:
        text = _with_name(msgspec.structs.replace(relation, sql=text), ("ON",), options["on"])
    elif relation.kind in _READING and set(inputs) & set(wanted):
        text = _reading(msgspec.structs.replace(relation, sql=text), wanted, statement)
    return msgspec.structs.replace(
        relation,
        name=names.get(relation.name, relation.name),
        depends_on=tuple(names.get(other, other) for other in relation.depends_on),
        through=tuple(names.get(other, other) for other in relation.through),
        checks=tuple(one.under(names) for one in relation.checks),
        options=options,
        sql=text,
    )


def _with_own_checks(relation: Relation, wanted: Mapping[str, str], statement: Alter) -> Relation:
    """Return a view whose checks that are a SELECT name it by its new name."""
    options, text, checks = relation.options, relation.sql, []
    for check in relation.checks:
        told = check.text
        if check.kind == "query":
            told = _reading(msgspec.structs.replace(relation, sql=check.text), wanted, statement)
            options = options | {CHECKS: options[CHECKS].replace(check.text, told, 1)}
            text = text.replace(check.text.replace("'", "''"), told.replace("'", "''"), 1)
        checks.append(msgspec.structs.replace(check, text=told))
    return msgspec.structs.replace(relation, sql=text, options=options, checks=tuple(checks))


def _reading(relation: Relation, wanted: Mapping[str, str], statement: Alter) -> str:
    """Return the text of what reads relations by their new names; raises SqlError where it has no other way to say them."""
    try:
        return with_names(relation.sql, relation.dialect, wanted)
    except NameNotFound:
        old = next(name for name in wanted if name in (*relation.depends_on, *relation.through))
        line, column = place_of(old, statement.sql)
        hint = "drop it first, and create it again with the new name"
        message = f"{old} is read by {relation.name} in a way that needs its name"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint) from None


def _with_name(relation: Relation, after: Collection[str], name: str) -> str:
    """Return the statement that made a relation with another name after one of some words; comments are left alone."""
    tokens = tokens_of(relation.sql, relation.dialect)
    at = 1 + next(n for n, token in enumerate(tokens) if token.text.upper() in after)
    while tokens[at].text.upper() in ("IF", "NOT", "EXISTS"):
        at += 1
    if tokens[at].token_type == TokenType.ON:  # an index that was given no name
        return relation.sql
    end = tokens[last_of_name(tokens, at)].end + 1
    return relation.sql[: tokens[at].start] + written(name, relation.dialect) + relation.sql[end:]


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
