"""CREATE FUNCTION: an expression in SQL that is written into the queries that call it."""

from __future__ import annotations

import msgspec
import sqlglot.expressions as exp

from engine.hummock import Commit
from engine.meta.catalog.stored_catalog import encode_entries, load_catalog
from engine.runtime.reads.spark_read import analyze_sql, make_view_prefix
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.relations import can_skip_create
from engine.runtime.statements.create.required_inputs import require_inputs
from engine.sql.batch.ad_hoc import build_spark_query
from engine.sql.catalog import Catalog, Relation
from engine.sql.statements.ddl.macros import Macro, extract_body, list_called_functions, parse_body
from engine.sql.statements.statement_types import CreateFunction
from engine.sql.typing.types import cast_type


def execute_create_function(statement: CreateFunction, context: StatementContext) -> None:
    """Create a function in SQL: an expression that is written into the queries that call it."""
    store, dialect = context.store, context.dialect
    stored = load_catalog(store.refresh())
    if can_skip_create(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return
    macro = Macro(statement.parameters, statement.returns, extract_body(statement, dialect))
    relation = Relation(
        name=statement.name,
        kind="function",
        columns=(),
        sql=statement.sql,
        dialect=dialect,
        options={"macro": msgspec.json.encode(macro).decode()},
        through=list_called_functions(parse_body(macro, dialect), stored.catalog),
    )
    catalog = Catalog({**stored.catalog.relations, statement.name: relation})
    call = exp.Anonymous(
        this=statement.name,
        expressions=[exp.Cast(this=exp.Null(), to=cast_type(kind)) for _, kind in statement.parameters],
    )
    probe = build_spark_query(exp.select(call), catalog, dialect, make_view_prefix(), statement.sql)
    analyze_sql(context.spark(), probe.text, statement.sql)
    store.commit(
        Commit(
            catalog=encode_entries({statement.name: relation}, {}),
            precondition=require_inputs(statement.name, relation.through, stored.catalog),
        )
    )
