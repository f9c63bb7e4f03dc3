"""ALTER and COMMENT ON: what a relation is called, its columns, options and comments; one commit each."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.manifests.alter import apply_alter
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.rows.column_defaults import with_default
from engine.hummock.transact import commit_with_retry
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.domains.domain import find_domain_name, list_domains
from engine.meta.domains.mutation import (
    PARALLELISM,
    RATE_LIMIT,
    encode_control,
    enqueue_mutation,
    read_control,
    require_same_queue,
)
from engine.meta.domains.placement import RETENTION, find_misplaced_tables
from engine.runtime.epoch.mutation_run import ASK, request_mutation
from engine.runtime.reads.spark_read import run_spark_sql
from engine.runtime.relations import list_readers, locate_name, resolve_relation
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.alter.checks import change_checks
from engine.runtime.statements.alter.column import alter_column
from engine.runtime.statements.alter.column_users import list_column_users
from engine.runtime.statements.alter.delta_copy import rename_copy_column
from engine.runtime.statements.alter.fed_columns import refuse_unfed
from engine.runtime.statements.alter.rename import rename_relation, swap_relations
from engine.runtime.statements.create.schema import check_schema
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.checks import OPTION as CHECKS
from engine.sql.expression.spark_sql import quote
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan, build_index_fragment
from engine.sql.statements.ddl.create_text import render_create_table
from engine.sql.statements.ddl.defaults import compute_local_default
from engine.sql.statements.dml.literal_rows import NotLiteral
from engine.sql.statements.options.view_options import CHANGEABLE, check_option, merge_options
from engine.sql.statements.statement_types import (
    AddColumn,
    Alter,
    AlterColumn,
    Comment,
    DropColumn,
    NoMeaning,
    RenameColumn,
    RenameTo,
    SetOptions,
    Steer,
    SwapWith,
)
from engine.sql.typing.text_lengths import fit_texts, validate_length
from engine.sql.typing.types import to_arrow

Relations = dict[str, Relation | None]
Plans = dict[str, IncrementalPlan | None]


def run_alter(statement: Alter, context: StatementContext) -> str:
    """Run ALTER; returns the notice that there is to give, else "".

    Raises SqlError with the place, and with the names of what reads the relation where that stands in the way.
    """
    if not isinstance(statement.action, SetOptions):
        return _run_alter(statement, context)
    # its domain may take a mutation, or be asked for one, at this moment
    return commit_with_retry(context.store, partial(_run_alter, statement, context), ASK)


def _run_alter(statement: Alter, context: StatementContext) -> str:
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    relation = resolve_relation(stored, statement.kind, statement.name, statement.sql)
    match statement.action:
        case NoMeaning(why):
            return why
        case AlterColumn(name):
            found = _find_column(relation, name, statement.sql)
            computed = partial(_compute_default, spark=context.spark, sql=statement.sql)
            commit = alter_column(store, stored, relation, found, statement, computed)
        case RenameTo(name):
            check_schema(stored.catalog, name, statement.sql)
            commit = rename_relation(version, stored, relation, name, statement)
        case SwapWith(name):
            commit = swap_relations(version, stored, relation, name, statement)
        case RenameColumn(old, new):
            commit = _rename_column(version, stored, relation, old, new, statement)
        case AddColumn(column, if_not_exists):
            if if_not_exists and column.name.lower() in _list_names(relation):
                return ""
            commit = _add_column(stored, relation, column, statement, context)
        case DropColumn(name, if_exists):
            if if_exists and name.lower() not in _list_names(relation):
                return ""
            commit = _drop_column(store, stored, relation, name, statement)
        case SetOptions(options) if CHECKS in options:
            commit = change_checks(version, stored, relation, options, statement, context)
        case SetOptions(options):
            commit = _set_options(version, stored, relation, options, statement, store.clock())
        case Steer(mutation):
            request_mutation(store, relation.name, mutation, None, store.clock())
            return ""
    precondition = commit.precondition or require_same_catalog(version)
    store.commit(dataclasses.replace(commit, precondition=precondition))
    return ""


def set_option(view: str, option: str, value: int | None, context: StatementContext) -> None:
    """Set an option of a view that is a number, None for its default."""
    text = "default" if value is None else str(value)
    sql = f"ALTER MATERIALIZED VIEW {view} SET {option} = {text}"
    run_alter(Alter("materialized view", view, SetOptions({option: text}), False, sql), context)


def execute_comment(statement: Comment, context: StatementContext) -> None:
    """Run COMMENT ON."""
    store = context.store
    version = store.refresh()
    stored = load_catalog(version)
    relation = resolve_relation(stored, statement.kind, statement.name, statement.sql)
    if statement.column is None:
        changed = msgspec.structs.replace(relation, comment=statement.text)
    else:
        column = _find_column(relation, statement.column, statement.sql)
        changed = _replace_column(relation, column, msgspec.structs.replace(column, comment=statement.text))
    store.commit(
        Commit(
            catalog=encode_entries({relation.name: changed}, {}), precondition=require_same_catalog(version)
        )
    )


def _rename_column(
    version: Version, stored: StoredCatalog, relation: Relation, old: str, new: str, statement: Alter
) -> Commit:
    if relation.kind not in ("table", "view", "materialized view"):
        raise _build_error(f"a {relation.kind} has no columns to rename", relation.name, statement.sql, "")
    column = _find_column(relation, old, statement.sql)
    if new.lower() in _list_names(relation):
        raise _build_error(
            f"{relation.name} has a column {new} already", new, statement.sql, "choose another name"
        )
    _refuse_readers(stored, relation, f"RENAME COLUMN {old}", statement)
    if relation.checks:
        hint = "drop the view, and create it again with the new name"
        raise _build_error(
            f"RENAME COLUMN {old}: checks of {relation.name} name its columns", old, statement.sql, hint
        )
    _refuse_connector(relation, statement)
    renamed = msgspec.structs.replace(column, name=new, stored=column.storage_name)
    if relation.kind == "view":
        columns = tuple(RelationColumn(new, "") if c.name == old else c for c in relation.columns)
        changed = msgspec.structs.replace(relation, columns=columns, renamed=True)
    else:
        changed = _replace_column(relation, column, renamed)
        texts = (_rename_in_relation(c, old, new) for c in changed.columns)
        changed = _rewrite_statement(msgspec.structs.replace(changed, columns=tuple(texts)))
    relations: Relations = {relation.name: changed}
    for name, other in stored.catalog.relations.items():  # shared and named indexes show the columns too
        if other.kind == "index" and relation.name in (*other.depends_on, other.options.get("on")):
            columns = tuple(_rename_index_column(c, renamed) for c in other.columns)
            relations[name] = msgspec.structs.replace(other, columns=columns)
    copy = rename_copy_column(version, stored, relation, column, renamed, statement)
    return dataclasses.replace(copy, catalog=encode_entries(relations, {}) | dict(copy.catalog))


def _rename_index_column(column: RelationColumn, renamed: RelationColumn) -> RelationColumn:
    return renamed if column.storage_name == renamed.storage_name else column


def _rename_in_relation(column: RelationColumn, old: str, new: str) -> RelationColumn:
    if column.generated is None:
        return column
    return msgspec.structs.replace(column, generated=column.generated.replace(quote(old), quote(new)))


def _add_column(
    stored: StoredCatalog,
    relation: Relation,
    column: RelationColumn,
    statement: Alter,
    context: StatementContext,
) -> Commit:
    store = context.store
    if column.name.lower() in _list_names(relation):
        message = f"{relation.name} has a column {column.name} already"
        raise _build_error(message, column.name, statement.sql, "choose another name")
    refuse_unfed(
        stored,
        msgspec.structs.replace(relation, columns=(*relation.columns, column)),
        column,
        lambda message, hint: _build_error(message, column.name, statement.sql, hint),
    )
    table = store.version.tables[relation.name]
    value = _compute_default(column, context.spark, statement.sql)
    if column.length is not None and value.is_valid:
        found = fit_texts(pa.array([value.as_py()], pa.string()), column)
        if len(found.long):
            message = f"the DEFAULT does not fit: {validate_length(value.as_py(), column)}"
            raise _build_error(message, column.name, statement.sql, "write a shorter text")
        value = found.fitted[0]
    if not column.nullable and not value.is_valid and _has_rows(store, table):
        hint = "give it a DEFAULT, or take NOT NULL out"
        message = f"column {column.name} would be null in the rows that {relation.name} has"
        raise _build_error(message, column.name, statement.sql, hint)
    used_names = {*table.schema.names, *table.table.options.dropped}
    n = 1
    while (source := column.storage_name if n == 1 else f"{column.storage_name}__{n}") in used_names:
        n += 1
    if source != column.storage_name:
        _refuse_connector(relation, statement)
        column = msgspec.structs.replace(column, stored=source)
    field = pa.field(source, to_arrow(column.type))
    field = with_default(field, value) if value.is_valid else field
    visible = [c for c in relation.columns if not c.hidden]
    hidden = [c for c in relation.columns if c.hidden]
    changed = msgspec.structs.replace(relation, columns=(*visible, column, *hidden))
    return _alter_with_indexes(store, stored, _rewrite_statement(changed), add=[field])


def _has_rows(store: Hummock, table: TableVersion) -> bool:
    key = list(table.primary_key)
    return table.row_count > 0 and any(part.num_rows for part in store.iter(table.name, columns=key))


def _compute_default(column: RelationColumn, spark: Callable[[], SparkSession], sql: str) -> pa.Scalar[Any]:
    kind = to_arrow(column.type)
    if column.default is None:
        return pa.scalar(None, kind)
    try:
        return pa.scalar(compute_local_default(column, datetime.datetime.now(datetime.UTC)), kind)
    except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError):
        text = f"SELECT CAST({column.default} AS {column.type}) AS v"
        return run_spark_sql(spark(), text, sql).column("v").cast(kind)[0]


def _drop_column(
    store: Hummock, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    if relation.kind != "table":
        hint = "DROP it, and CREATE it without the column"
        raise _build_error(f"columns of a {relation.kind} are those of its query", name, statement.sql, hint)
    column = _find_column(relation, name, statement.sql)
    for columns, message in (
        (relation.primary_key, f"{name} is part of the primary key of {relation.name}"),
        (relation.version_columns, f"rows of {relation.name} are ordered by their version in {name}"),
        ((relation.watermark.column,) if relation.watermark else (), f"{name} carries the watermark"),
    ):
        if column.storage_name in columns:
            raise _build_error(message, name, statement.sql, "make a new table and INSERT … SELECT")
    if len([c for c in relation.columns if not c.hidden]) == 1:
        raise _build_error(
            f"{name} is the only column of {relation.name}", name, statement.sql, "DROP the table"
        )
    used = list_column_users(stored, relation, column)
    if used:
        hint = "drop those first"
        raise _build_error(
            f"column {name} of {relation.name} is read by {', '.join(used)}", name, statement.sql, hint
        )
    remaining = tuple(c for c in relation.columns if c.name != name)
    changed = msgspec.structs.replace(relation, columns=remaining)
    return _alter_with_indexes(store, stored, _rewrite_statement(changed), drop=[column.storage_name])


def _alter_with_indexes(
    store: Hummock,
    stored: StoredCatalog,
    relation: Relation,
    *,
    add: Sequence[pa.Field[Any]] = (),
    drop: Sequence[str] = (),
) -> Commit:
    """Return the commit that gives a table and its indexes other columns."""
    tables = store.version.tables
    changed = {relation.name: apply_alter(tables[relation.name].table, add, drop)}
    relations: Relations = {relation.name: relation}
    plans: Plans = {}
    catalog = Catalog({**stored.catalog.relations, relation.name: relation})
    for name, other in stored.catalog.relations.items():
        if other.kind != "index" or other.sql or other.depends_on != (relation.name,):
            continue
        by = next(
            columns
            for columns in _list_index_columns(stored, relation.name)
            if index_name(relation.name, columns) == name
        )
        fragment = build_index_fragment(relation.name, by, catalog)
        plans[name] = IncrementalPlan(name, (fragment,))
        relations[name] = msgspec.structs.replace(other, columns=relation.columns)
        if name in tables:
            changed[name] = apply_alter(tables[name].table, add, drop)
    return Commit(alter=changed, catalog=encode_entries(relations, plans))


def _list_index_columns(stored: StoredCatalog, table: str) -> list[tuple[str, ...]]:
    """Return the columns by which a table is indexed."""
    found = []
    for name, plan in stored.plans.items():
        relation = stored.catalog.relations[name]
        if relation.kind == "index" and relation.depends_on == (table,):
            found.append(plan.fragments[-1].distribution_key)
    return found


def _set_options(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    options: dict[str, str],
    statement: Alter,
    now: float,
) -> Commit:
    """Return the commit that notes new options; what a running domain has to take up is queued in it as mutations."""
    if relation.kind != "materialized view":
        hint = "options of a materialized view can be changed"
        raise _build_error(f"{relation.name} is a {relation.kind}", relation.name, statement.sql, hint)
    for name, value in options.items():
        found = re.search(rf"\b{re.escape(name)}\b", statement.sql, re.IGNORECASE)
        start = found.start() if found else 0
        check_option(name, value, start, statement.sql)
        if name not in CHANGEABLE:
            hint = f"DROP the view and CREATE it with the option; {', '.join(CHANGEABLE)} can be changed"
            raise _build_error(f"option {name} is fixed when the view is created", name, statement.sql, hint)
    merged = merge_options(relation.options, options, statement.sql)
    changed = msgspec.structs.replace(relation, options=merged)
    domain = find_domain_name(stored, relation.name)
    before = read_control(version, domain)
    control = before
    if RATE_LIMIT in options:
        control = enqueue_mutation(control, "throttle", relation, _parse_number(options[RATE_LIMIT]), now)
    if PARALLELISM in options:
        control = enqueue_mutation(control, "update", relation, _parse_number(options[PARALLELISM]), now)
    catalog = Catalog({**stored.catalog.relations, relation.name: changed})
    after = StoredCatalog(catalog, stored.plans)
    tables = (
        find_misplaced_tables(version, after, list_domains(stored)[domain], before)
        if RETENTION in options
        else {}
    )
    same = require_all(require_same_catalog(version), require_same_queue(version, domain))
    entries = encode_entries({relation.name: changed}, {}) | (
        encode_control(domain, control) if control != before else {}
    )
    return Commit(catalog=entries, alter=tables, precondition=same)


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _list_names(relation: Relation) -> set[str]:
    return {column.name.lower() for column in relation.columns}


def _find_column(relation: Relation, name: str, sql: str) -> RelationColumn:
    for column in relation.columns:
        if column.name == name and not column.hidden:
            return column
    known = ", ".join(column.name for column in relation.columns if not column.hidden)
    raise _build_error(f"{relation.name} has no column {name}", name, sql, f"its columns are {known}")


def _replace_column(relation: Relation, old: RelationColumn, new: RelationColumn) -> Relation:
    columns = tuple(new if column.name == old.name else column for column in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def _rewrite_statement(relation: Relation) -> Relation:
    """Return a table with the statement that would make it as it is now; views keep theirs."""
    if relation.kind != "table":
        return relation
    return msgspec.structs.replace(relation, sql=render_create_table(relation), dialect="spark")


def _refuse_readers(stored: StoredCatalog, relation: Relation, what: str, statement: Alter) -> None:
    found = list_readers(stored, relation.name)
    if found:
        message = f"{what}: {relation.name} is read by {', '.join(found)}, whose text names it"
        raise _build_error(
            message, relation.name, statement.sql, "drop those first, and create them again with the new name"
        )


def _refuse_connector(relation: Relation, statement: Alter) -> None:
    if "connector" in relation.options:
        message = f"the columns of {relation.name} are named by its {relation.options['connector']} source"
        raise _build_error(
            message, relation.name, statement.sql, "rename the column in a view over the table"
        )


def _build_error(message: str, name: str, sql: str, hint: str) -> SqlError:
    line, column = locate_name(name, sql)
    return SqlError(message, sql=sql, line=line, column=column, hint=hint)
