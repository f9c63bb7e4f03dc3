"""ALTER and COMMENT ON: what a relation is called, its columns, options and comments; one commit each."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.altering import altered
from engine.hummock.column_defaults import with_default
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, entries, load
from engine.meta.domain import domain_of, domains
from engine.meta.mutation import PARALLELISM, RATE_LIMIT, asking, control_of, entry, same_queue
from engine.meta.placement import RETENTION, misplaced
from engine.runtime.epoch.mutation_run import ASK_ATTEMPTS, ask
from engine.runtime.reads.spark_read import answer
from engine.runtime.relations import known, place_of, readers
from engine.runtime.statements.alter_checks import changed_checks
from engine.runtime.statements.alter_column import altered_column
from engine.runtime.statements.column_users import users_of
from engine.runtime.statements.create_schema import check_schema
from engine.runtime.statements.rename import rename, swap
from engine.runtime.statements.renamed_copy import renamed_copy
from engine.sql.catalog import Catalog, Column, Relation
from engine.sql.checks import OPTION as CHECKS
from engine.sql.expression.spark_sql import quote
from engine.sql.incremental.access import index_name
from engine.sql.incremental.fragments import IncrementalPlan, index_fragment
from engine.sql.statements.create_text import create_text
from engine.sql.statements.defaults import local_default
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
from engine.sql.statements.values import NotLiteral
from engine.sql.statements.view_options import CHANGEABLE, changed_options, check_option
from engine.sql.typing.text_lengths import fitted, too_long
from engine.sql.typing.types import to_arrow

Relations = dict[str, Relation | None]
Plans = dict[str, IncrementalPlan | None]


def alter(store: Hummock, spark: Callable[[], SparkSession], statement: Alter) -> str:
    """Run ALTER; returns the notice that there is to give, else "".

    Raises SqlError with the place, and with the names of what reads the relation where that stands in the way.
    """
    for _ in range(ASK_ATTEMPTS if isinstance(statement.action, SetOptions) else 0):
        with suppress(Conflict):  # its domain has taken a mutation, or was asked for one, at this moment
            return _alter(store, spark, statement)
    return _alter(store, spark, statement)


def _alter(store: Hummock, spark: Callable[[], SparkSession], statement: Alter) -> str:
    version = store.refresh()
    stored = load(version)
    if statement.if_exists and statement.name not in stored.catalog.relations:
        return ""
    relation = known(stored, statement.kind, statement.name, statement.sql)
    match statement.action:
        case NoMeaning(why):
            return why
        case AlterColumn(name):
            found = _column(relation, name, statement.sql)
            computed = partial(_default, spark=spark, sql=statement.sql)
            commit = altered_column(store, stored, relation, found, statement, computed)
        case RenameTo(name):
            check_schema(stored.catalog, name, statement.sql)
            commit = rename(version, stored, relation, name, statement)
        case SwapWith(name):
            commit = swap(version, stored, relation, name, statement)
        case RenameColumn(old, new):
            commit = _rename_column(version, stored, relation, old, new, statement)
        case AddColumn(column, if_not_exists):
            if if_not_exists and column.name.lower() in _names(relation):
                return ""
            commit = _add_column(store, stored, spark, relation, column, statement)
        case DropColumn(name, if_exists):
            if if_exists and name.lower() not in _names(relation):
                return ""
            commit = _drop_column(store, stored, relation, name, statement)
        case SetOptions(options) if CHECKS in options:
            commit = changed_checks(version, stored, spark, relation, statement, options)
        case SetOptions(options):
            commit = _set_options(version, stored, relation, options, statement, store.clock())
        case Steer(mutation):
            ask(store, relation.name, mutation, None, store.clock())
            return ""
    precondition = commit.precondition or catalog_unchanged(version)
    store.commit(dataclasses.replace(commit, precondition=precondition))
    return ""


def set_option(
    store: Hummock, spark: Callable[[], SparkSession], view: str, option: str, value: int | None
) -> None:
    """Set an option of a view that is a number, None for its default."""
    text = "default" if value is None else str(value)
    sql = f"ALTER MATERIALIZED VIEW {view} SET {option} = {text}"
    alter(store, spark, Alter("materialized view", view, SetOptions({option: text}), False, sql))


def comment(store: Hummock, statement: Comment) -> None:
    """Run COMMENT ON."""
    version = store.refresh()
    stored = load(version)
    relation = known(stored, statement.kind, statement.name, statement.sql)
    if statement.column is None:
        changed = msgspec.structs.replace(relation, comment=statement.text)
    else:
        column = _column(relation, statement.column, statement.sql)
        changed = _with_column(relation, column, msgspec.structs.replace(column, comment=statement.text))
    store.commit(
        Commit(catalog=entries({relation.name: changed}, {}), precondition=catalog_unchanged(version))
    )


def _rename_column(
    version: Version, stored: StoredCatalog, relation: Relation, old: str, new: str, statement: Alter
) -> Commit:
    if relation.kind not in ("table", "view", "materialized view"):
        raise _error(f"a {relation.kind} has no columns to rename", relation.name, statement.sql, "")
    column = _column(relation, old, statement.sql)
    if new.lower() in _names(relation):
        raise _error(f"{relation.name} has a column {new} already", new, statement.sql, "choose another name")
    _refuse_readers(stored, relation, f"RENAME COLUMN {old}", statement)
    if relation.checks:
        hint = "drop the view, and create it again with the new name"
        raise _error(
            f"RENAME COLUMN {old}: checks of {relation.name} name its columns", old, statement.sql, hint
        )
    _refuse_connector(relation, statement)
    renamed = msgspec.structs.replace(column, name=new, stored=column.source)
    if relation.kind == "view":
        columns = tuple(Column(new, "") if c.name == old else c for c in relation.columns)
        changed = msgspec.structs.replace(relation, columns=columns, renamed=True)
    else:
        changed = _with_column(relation, column, renamed)
        texts = (_with_name(c, old, new) for c in changed.columns)
        changed = _rewritten(msgspec.structs.replace(changed, columns=tuple(texts)))
    relations: Relations = {relation.name: changed}
    for name, other in stored.catalog.relations.items():  # shared and named indexes show the columns too
        if other.kind == "index" and relation.name in (*other.depends_on, other.options.get("on")):
            columns = tuple(_renamed_in_index(c, renamed) for c in other.columns)
            relations[name] = msgspec.structs.replace(other, columns=columns)
    copy = renamed_copy(version, stored, relation, column, renamed, statement)
    return dataclasses.replace(copy, catalog=entries(relations, {}) | dict(copy.catalog))


def _renamed_in_index(column: Column, renamed: Column) -> Column:
    return renamed if column.source == renamed.source else column


def _with_name(column: Column, old: str, new: str) -> Column:
    if column.generated is None:
        return column
    return msgspec.structs.replace(column, generated=column.generated.replace(quote(old), quote(new)))


def _add_column(
    store: Hummock,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    relation: Relation,
    column: Column,
    statement: Alter,
) -> Commit:
    if column.name.lower() in _names(relation):
        message = f"{relation.name} has a column {column.name} already"
        raise _error(message, column.name, statement.sql, "choose another name")
    table = store.version.tables[relation.name]
    value = _default(column, spark, statement.sql)
    if column.length is not None and value.is_valid:
        found = fitted(pa.array([value.as_py()], pa.string()), column)
        if len(found.long):
            message = f"the DEFAULT does not fit: {too_long(value.as_py(), column)}"
            raise _error(message, column.name, statement.sql, "write a shorter text")
        value = found.kept[0]
    if not column.nullable and not value.is_valid and _has_rows(store, table):
        hint = "give it a DEFAULT, or take NOT NULL out"
        message = f"column {column.name} would be null in the rows that {relation.name} has"
        raise _error(message, column.name, statement.sql, hint)
    taken = {*table.schema.names, *table.table.options.dropped}
    n = 1
    while (source := column.source if n == 1 else f"{column.source}__{n}") in taken:
        n += 1
    if source != column.source:
        _refuse_connector(relation, statement)
        column = msgspec.structs.replace(column, stored=source)
    field = pa.field(source, to_arrow(column.type))
    field = with_default(field, value) if value.is_valid else field
    visible = [c for c in relation.columns if not c.hidden]
    hidden = [c for c in relation.columns if c.hidden]
    changed = msgspec.structs.replace(relation, columns=(*visible, column, *hidden))
    return _with_indexes(store, stored, _rewritten(changed), add=[field])


def _has_rows(store: Hummock, table: TableVersion) -> bool:
    key = list(table.primary_key)
    return table.row_count > 0 and any(part.num_rows for part in store.iter(table.name, columns=key))


def _default(column: Column, spark: Callable[[], SparkSession], sql: str) -> pa.Scalar[Any]:
    kind = to_arrow(column.type)
    if column.default is None:
        return pa.scalar(None, kind)
    try:
        return pa.scalar(local_default(column, datetime.datetime.now(datetime.UTC)), kind)
    except (NotLiteral, pa.ArrowInvalid, pa.ArrowTypeError):
        text = f"SELECT CAST({column.default} AS {column.type}) AS v"
        return answer(spark(), text, sql).column("v").cast(kind)[0]


def _drop_column(
    store: Hummock, stored: StoredCatalog, relation: Relation, name: str, statement: Alter
) -> Commit:
    if relation.kind != "table":
        hint = "DROP it, and CREATE it without the column"
        raise _error(f"columns of a {relation.kind} are those of its query", name, statement.sql, hint)
    column = _column(relation, name, statement.sql)
    for columns, message in (
        (relation.primary_key, f"{name} is part of the primary key of {relation.name}"),
        (relation.version_columns, f"rows of {relation.name} are told apart by their version in {name}"),
        ((relation.watermark.column,) if relation.watermark else (), f"{name} carries the watermark"),
    ):
        if column.source in columns:
            raise _error(message, name, statement.sql, "make a new table and INSERT … SELECT")
    if len([c for c in relation.columns if not c.hidden]) == 1:
        raise _error(f"{name} is the only column of {relation.name}", name, statement.sql, "DROP the table")
    used = users_of(stored, relation, column)
    if used:
        hint = "drop those first"
        raise _error(
            f"column {name} of {relation.name} is read by {', '.join(used)}", name, statement.sql, hint
        )
    kept = tuple(c for c in relation.columns if c.name != name)
    changed = msgspec.structs.replace(relation, columns=kept)
    return _with_indexes(store, stored, _rewritten(changed), drop=[column.source])


def _with_indexes(
    store: Hummock,
    stored: StoredCatalog,
    relation: Relation,
    *,
    add: Sequence[pa.Field[Any]] = (),
    drop: Sequence[str] = (),
) -> Commit:
    """Return the commit that gives a table and its indexes other columns."""
    tables = store.version.tables
    changed = {relation.name: altered(tables[relation.name].table, add, drop)}
    relations: Relations = {relation.name: relation}
    plans: Plans = {}
    catalog = Catalog({**stored.catalog.relations, relation.name: relation})
    for name, other in stored.catalog.relations.items():
        if other.kind != "index" or other.sql or other.depends_on != (relation.name,):
            continue
        by = next(
            columns
            for columns in _index_columns(stored, relation.name)
            if index_name(relation.name, columns) == name
        )
        fragment = index_fragment(relation.name, by, catalog)
        plans[name] = IncrementalPlan(name, (fragment,))
        relations[name] = msgspec.structs.replace(other, columns=relation.columns)
        if name in tables:
            changed[name] = altered(tables[name].table, add, drop)
    return Commit(alter=changed, catalog=entries(relations, plans))


def _index_columns(stored: StoredCatalog, table: str) -> list[tuple[str, ...]]:
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
        raise _error(f"{relation.name} is a {relation.kind}", relation.name, statement.sql, hint)
    for name, value in options.items():
        found = re.search(rf"\b{re.escape(name)}\b", statement.sql, re.IGNORECASE)
        start = found.start() if found else 0
        check_option(name, value, start, statement.sql)
        if name not in CHANGEABLE:
            hint = f"DROP the view and CREATE it with the option; {', '.join(CHANGEABLE)} can be changed"
            raise _error(f"option {name} is fixed when the view is made", name, statement.sql, hint)
    kept = changed_options(relation.options, options, statement.sql)
    changed = msgspec.structs.replace(relation, options=kept)
    domain = domain_of(stored, relation.name)
    before = control_of(version, domain)
    control = before
    if RATE_LIMIT in options:
        control = asking(control, "throttle", relation, _number(options[RATE_LIMIT]), now)
    if PARALLELISM in options:
        control = asking(control, "update", relation, _number(options[PARALLELISM]), now)
    catalog = Catalog({**stored.catalog.relations, relation.name: changed})
    after = StoredCatalog(catalog, stored.plans)
    tables = misplaced(version, after, domains(stored)[domain], before) if RETENTION in options else {}
    same = (catalog_unchanged(version), same_queue(version, domain))

    def unchanged(base: Version) -> None:
        for check in same:
            check(base)

    noted = entries({relation.name: changed}, {}) | (entry(domain, control) if control != before else {})
    return Commit(catalog=noted, alter=tables, precondition=unchanged)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _names(relation: Relation) -> set[str]:
    return {column.name.lower() for column in relation.columns}


def _column(relation: Relation, name: str, sql: str) -> Column:
    for column in relation.columns:
        if column.name == name and not column.hidden:
            return column
    shown = ", ".join(column.name for column in relation.columns if not column.hidden)
    raise _error(f"{relation.name} has no column {name}", name, sql, f"its columns are {shown}")


def _with_column(relation: Relation, old: Column, new: Column) -> Relation:
    columns = tuple(new if column.name == old.name else column for column in relation.columns)
    return msgspec.structs.replace(relation, columns=columns)


def _rewritten(relation: Relation) -> Relation:
    """Return a table with the statement that would make it as it is now; views keep theirs."""
    if relation.kind != "table":
        return relation
    return msgspec.structs.replace(relation, sql=create_text(relation), dialect="spark")


def _refuse_readers(stored: StoredCatalog, relation: Relation, what: str, statement: Alter) -> None:
    found = readers(stored, relation.name)
    if found:
        message = f"{what}: {relation.name} is read by {', '.join(found)}, whose text names it"
        raise _error(
            message, relation.name, statement.sql, "drop those first, and create them again with the new name"
        )


def _refuse_connector(relation: Relation, statement: Alter) -> None:
    if "connector" in relation.options:
        message = f"the columns of {relation.name} are named by its {relation.options['connector']} source"
        raise _error(message, relation.name, statement.sql, "rename the column in a view over the table")


def _error(message: str, name: str, sql: str, hint: str) -> SqlError:
    line, column = place_of(name, sql)
    return SqlError(message, sql=sql, line=line, column=column, hint=hint)
