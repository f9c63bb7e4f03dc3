"""ALTER … RENAME TO and SWAP WITH: relations, their state and their indexes get other names; files and history stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from sqlglot import TokenType

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries
from engine.meta.domains.creation import BACKFILLS, CONSUMING_SNAPSHOT, encode_creation, list_creations
from engine.meta.domains.domain import OPTION as DOMAIN
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.failures import forget_failure
from engine.meta.domains.mutation import rename_control
from engine.meta.domains.quarantine import encode_quarantine, forget_quarantine, read_quarantine
from engine.meta.epochs.time_boundary import rename_boundaries
from engine.meta.status.check_results import rename_check_results
from engine.meta.status.sampled_rows import rename_samples
from engine.runtime.relations import build_name_error, list_readers, locate_name, resolve_relation
from engine.sql.catalog import COMPANIONS, Relation, watermark_name
from engine.sql.checks import OPTION as CHECKS
from engine.sql.checks import list_companions
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.parsing.tokens import find_name_end, tokenize
from engine.sql.statements.ddl.macros import PYTHON
from engine.sql.statements.relation_renaming import NameNotFound, quote_name, rename_relations
from engine.sql.statements.statement_types import Alter

_KINDS = ("TABLE", "VIEW", "INDEX", "FUNCTION", "SOURCE", "SINK", "SUBSCRIPTION")
_READING = ("view", "materialized view", "sink", "subscription")
_NAMING = {"index": ("on",), "sink": ("into",)}
"""The options of a relation that name others, by its kind."""


def rename_relation(
    version: Version, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    """Return the commit that renames a relation, and rewrites the texts of what reads it; raises SqlError for a taken name."""
    if name in stored.catalog.relations:
        hint = f"it is a {stored.catalog.get(name).kind}: choose another name"
        raise build_name_error(f"{name} exists already", name, statement.sql, hint)
    return _build_commit(version, stored, {relation.name: name}, statement)


def swap_relations(
    version: Version, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    """Return the commit by which two relations of one kind exchange their names; what reads one of them still does."""
    other = resolve_relation(stored, relation.kind, name, statement.sql)
    if other.name == relation.name:
        raise build_name_error(f"{name} has its own name", name, statement.sql, "name another")
    return _build_commit(version, stored, {relation.name: other.name, other.name: relation.name}, statement)


def _build_commit(
    version: Version, stored: StoredCatalog, renames: Mapping[str, str], statement: Alter
) -> Commit:
    for old in renames:
        _check_renamable(version, stored, old, statement)
    names: dict[str, str] = {}
    own = [old for old in renames if DOMAIN not in stored.catalog.relations[old].options]
    for old, name in renames.items():
        names |= map_names(stored, stored.catalog.relations[old], name)
    relations = {
        other: changed
        for other, value in stored.catalog.relations.items()
        if (changed := _rename_in_relation(value, names, renames, own, statement)) is not value
    }
    plans = {
        owner: changed
        for owner, plan in stored.plans.items()
        if (changed := rename_tables(plan, names)) is not plan
    }
    altered = {
        before: dataclasses.replace(version.tables[before].table, name=after)
        for before, after in names.items()
        if before in version.tables
    }
    return Commit(
        alter=altered,
        catalog=encode_entries(
            {**dict.fromkeys(relations), **{value.name: value for value in relations.values()}},
            {**dict.fromkeys(plans), **{plan.view: plan for plan in plans.values()}},
        )
        | _rename_entries(version, stored, renames, names),
    )


def _check_renamable(version: Version, stored: StoredCatalog, old: str, statement: Alter) -> None:
    """Raise SqlError for a relation that cannot have another name now."""
    line, column = locate_name(old, statement.sql)
    if PYTHON in stored.catalog.relations[old].options:
        message, hint = (
            f"the body of function {old} defines it by this name",
            "CREATE it by the other name, and DROP this one",
        )
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    connector = stored.catalog.relations[old].options.get("connector")
    if connector is not None and stored.catalog.relations[old].kind == "table":
        hint = "make a table of the new name, and INSERT … SELECT"
        message = f"{old} is fed by its {connector} source under this name"
        raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
    for reader in (old, *list_readers(stored, old)):
        made = list_creations(version).get(find_domain_name(stored, reader))
        if made is not None and reader in made.tables and made.state == CONSUMING_SNAPSHOT:
            message = f"{reader} is still being created"
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint="run FLUSH first")
        if reader in list_replaced_tables(version):
            message = f"{reader} has another query and is not computed by it yet"
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint="run FLUSH first")


def _rename_entries(
    version: Version, stored: StoredCatalog, renames: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, str | None]:
    """Return what is recorded about domains and partitions under other names, without what failed: it is tried again."""
    gone: dict[str, str | None] = {}
    moved: dict[str, str | None] = {}
    for old, name in renames.items():
        domain = find_domain_name(stored, old)
        own = name if domain == old else domain
        for changed in (
            rename_control(version, domain, own, renames),
            _move_creation(version, domain, own, names),
        ):
            gone |= {key: value for key, value in changed.items() if value is None}
            moved |= {key: value for key, value in changed.items() if value is not None}
        for reader in (old, *list_readers(stored, old)):
            gone |= forget_failure(version, find_domain_name(stored, reader))
        if forget_quarantine(version, old):
            gone |= forget_quarantine(version, old)
            moved |= encode_quarantine(name, read_quarantine(version, old))
    gone |= rename_boundaries(version, names) | rename_samples(version, renames)
    return gone | rename_check_results(version, renames) | moved


def _move_creation(
    version: Version, domain: str, own: str, names: Mapping[str, str]
) -> dict[str, str | None]:
    made = list_creations(version).get(domain)
    if made is None:
        return {}
    tables = tuple(names.get(table, table) for table in made.tables)
    return BACKFILLS.remove(domain) | encode_creation(own, msgspec.structs.replace(made, tables=tables))


def map_names(stored: StoredCatalog, relation: Relation, name: str) -> dict[str, str]:
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
    for companion in list_companions(relation.checks):
        own = companion.removesuffix(old) + name
        names |= map_names(stored, stored.catalog.relations[companion], own)
    return names


def _move_to_domain(relation: Relation, renames: Mapping[str, str], own: Collection[str]) -> Relation:
    """Return a companion in the domain of its view, which has the view's name unless it was given one."""
    domain = relation.options.get(DOMAIN)
    if domain is None or domain not in own:
        return relation
    return msgspec.structs.replace(relation, options={**relation.options, DOMAIN: renames[domain]})


def _rename_in_relation(
    relation: Relation,
    names: Mapping[str, str],
    renames: Mapping[str, str],
    own: Collection[str],
    statement: Alter,
) -> Relation:
    inputs = (*relation.depends_on, *relation.through)
    if relation.kind in COMPANIONS and not relation.sql:
        relation = _move_to_domain(relation, renames, own)
    carried = tuple(one.rename_tables(names) for one in relation.carried)
    if carried != relation.carried:
        relation = msgspec.structs.replace(relation, carried=carried)
    if relation.kind == "sink" and relation.options.get("query") == "true":  # its own view reads for it
        text = _rewrite_reader_text(relation, renames, statement)
        relation = relation if text == relation.sql else msgspec.structs.replace(relation, sql=text)
    if relation.name not in names and not set(inputs) & set(names):
        return relation
    if relation.name in renames and relation.checks:
        relation = _rename_in_checks(relation, renames, statement)
    options = relation.options
    for option in _NAMING.get(relation.kind, ()) if relation.sql else ():
        if option in options:
            options = options | {option: names.get(options[option], options[option])}
    text = relation.sql
    if relation.name in renames:
        text = _replace_name(relation, _KINDS, renames[relation.name])
    if relation.kind == "index" and options != relation.options:
        text = _replace_name(msgspec.structs.replace(relation, sql=text), ("ON",), options["on"])
    elif relation.kind in _READING and set(inputs) & set(renames):
        text = _rewrite_reader_text(msgspec.structs.replace(relation, sql=text), renames, statement)
    return msgspec.structs.replace(
        relation,
        name=names.get(relation.name, relation.name),
        depends_on=tuple(names.get(other, other) for other in relation.depends_on),
        through=tuple(names.get(other, other) for other in relation.through),
        checks=tuple(one.rename_views(names) for one in relation.checks),
        options=options,
        sql=text,
    )


def _rename_in_checks(relation: Relation, renames: Mapping[str, str], statement: Alter) -> Relation:
    """Return a view whose checks that are a SELECT name it by its new name."""
    options, text, checks = relation.options, relation.sql, []
    for check in relation.checks:
        rewritten = check.text
        if check.kind == "query":
            rewritten = _rewrite_reader_text(
                msgspec.structs.replace(relation, sql=check.text), renames, statement
            )
            options = options | {CHECKS: options[CHECKS].replace(check.text, rewritten, 1)}
            text = text.replace(check.text.replace("'", "''"), rewritten.replace("'", "''"), 1)
        checks.append(msgspec.structs.replace(check, text=rewritten))
    return msgspec.structs.replace(relation, sql=text, options=options, checks=tuple(checks))


def _rewrite_reader_text(relation: Relation, renames: Mapping[str, str], statement: Alter) -> str:
    """Return the text of what reads relations by their new names; raises SqlError where it has no other way to say them."""
    try:
        return rename_relations(relation.sql, relation.dialect, renames)
    except NameNotFound:
        read = (*relation.depends_on, *relation.through)
        old = next((name for name in renames if name in read), next(iter(renames)))
        hint = "drop it first, and create it again with the new name"
        message = f"{old} is read by {relation.name} in a way that needs its name"
        raise build_name_error(message, old, statement.sql, hint) from None


def _replace_name(relation: Relation, after: Collection[str], name: str) -> str:
    """Return the statement that made a relation with another name after one of some words; comments are left alone."""
    tokens = tokenize(relation.sql, relation.dialect)
    at = 1 + next(n for n, token in enumerate(tokens) if token.text.upper() in after)
    while tokens[at].text.upper() in ("IF", "NOT", "EXISTS"):
        at += 1
    if tokens[at].token_type == TokenType.ON:  # an index that was given no name
        return relation.sql
    end = tokens[find_name_end(tokens, at)].end + 1
    return relation.sql[: tokens[at].start] + quote_name(name, relation.dialect) + relation.sql[end:]


def rename_tables(value: Any, names: Mapping[str, str]) -> Any:
    """Return a plan in which tables have their new names."""
    if isinstance(value, tuple):
        items = tuple(rename_tables(item, names) for item in value)
        return value if all(new is before for new, before in zip(items, value, strict=True)) else items
    if not isinstance(value, msgspec.Struct):
        return value
    changed = {}
    for field in value.__struct_fields__:
        before = getattr(value, field)
        named = field == ("view" if isinstance(value, IncrementalPlan) else "table")
        after = names.get(before, before) if named else rename_tables(before, names)
        if isinstance(value, IncrementalPlan) and field == "indexes":
            after = tuple((names.get(table, table), columns) for table, columns in before)
            after = before if after == before else after
        if after is not before and after != before:
            changed[field] = after
    return msgspec.structs.replace(value, **changed) if changed else value
