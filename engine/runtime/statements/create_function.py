"""CREATE FUNCTION: an expression in SQL that is written into the queries that call it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.hummock import Commit, Hummock
from engine.meta.catalog_store import entries, load
from engine.runtime.reads.spark_read import analysed, view_prefix
from engine.runtime.statements.ddl import inputs_stand, is_there
from engine.sql.batch.ad_hoc import spark_query
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.statements.macros import Macro, body_of, function_body, functions_called
from engine.sql.statements.statement_types import CreateFunction
from engine.sql.typing.types import cast_type


def create_function(
    store: Hummock, spark: Callable[[], SparkSession], statement: CreateFunction, dialect: Dialect
) -> bool:
    """Create a function in SQL: an expression that is written into the queries that call it."""
    stored = load(store.refresh())
    if is_there(stored.catalog, statement.name, statement.if_not_exists, statement.sql):
        return False
    macro = Macro(statement.parameters, statement.returns, function_body(statement, dialect))
    relation = Relation(
        name=statement.name,
        kind="function",
        columns=(),
        sql=statement.sql,
        dialect=dialect,
        options={"macro": msgspec.json.encode(macro).decode()},
        through=functions_called(body_of(macro, dialect), stored.catalog),
    )
    catalog = Catalog({**stored.catalog.relations, statement.name: relation})
    call = exp.Anonymous(
        this=statement.name,
        expressions=[exp.Cast(this=exp.Null(), to=cast_type(kind)) for _, kind in statement.parameters],
    )
    probe = spark_query(exp.select(call), catalog, dialect, view_prefix(), statement.sql)
    analysed(spark(), probe.text, statement.sql)
    store.commit(
        Commit(
            catalog=entries({statement.name: relation}, {}),
            precondition=inputs_stand(statement.name, relation.through),
        )
    )
    return True
