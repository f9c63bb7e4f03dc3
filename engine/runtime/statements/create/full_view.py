"""Planning of views that are recomputed: one fragment with rule `full`, its columns and its key."""

from __future__ import annotations

import re
from collections.abc import Collection

import sqlglot.expressions as exp
from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from engine.errors import SqlError
from engine.operators.compile import batch
from engine.operators.context import EpochContext
from engine.operators.full_refresh import list_visible
from engine.runtime.spark.analyze import SparkAnalyzer
from engine.runtime.spark.errors import build_analysis_error
from engine.runtime.statement_context import StatementContext
from engine.spark_internals import derive_spark_schema
from engine.sql.batch.full_refresh import WholeQuery, build_whole_query
from engine.sql.catalog import Catalog, Relation, check_name
from engine.sql.column_names import to_storage_name
from engine.sql.expression.spark_sql import quote
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import FullRefresh
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.plan import OCCURRENCE, Recompute
from engine.sql.statements.options.view_options import parse_column_list, resolve_on_row_error
from engine.sql.statements.statement_types import CreateMaterializedView, CreateView

_NESTED = (ArrayType, MapType, StructType, VariantType)


def plan_full(
    statement: CreateMaterializedView, catalog: Catalog, context: StatementContext
) -> tuple[IncrementalPlan, tuple[str, ...]]:
    """Return the plan of a view with refresh_policy = 'full' and its visible columns; raises SqlError with the place."""
    dialect, analyzer = context.dialect, SparkAnalyzer(context.spark(), catalog, statement.sql)
    null = resolve_on_row_error(statement.options, dialect) == "null"
    whole = build_whole_query(statement.query, catalog, dialect, statement.sql, null)
    schema = _analyze_schema(whole, analyzer, statement)
    identifiers = {name.name for name in statement.query.find_all(exp.Identifier)}
    identifiers |= {column for scan in whole.inputs for column in scan.columns}
    names = name_columns(statement, _choose_names(schema, identifiers, statement))
    key_option = statement.options.get("key")
    if key_option is not None:
        key = tuple(parse_column_list(key_option))
        for name in key:
            if name not in names:
                hint = f"columns are {', '.join(names)}"
                raise sql_error(
                    f"option key names {name}, which is no column of the view", None, statement.sql, hint
                )
        stored = tuple(map(to_storage_name, names))
        node = Recompute(whole.text, whole.prune_inputs(), stored, tuple(map(to_storage_name, key)))
    else:
        stored = tuple(map(to_storage_name, names))
        kinds = {name: field.dataType for name, field in zip(stored, schema.fields, strict=True)}
        plain = tuple(name for name, kind in kinds.items() if not isinstance(kind, _NESTED))
        node = Recompute(
            whole.text, whole.prune_inputs(), stored, (*plain, OCCURRENCE), _build_row_number(kinds, plain)
        )
    why = "the query is computed as a whole, and the difference to the old content is committed"
    fragment = Fragment(statement.name, FullRefresh(), node, node.key, node.key, why)
    return IncrementalPlan(statement.name, (analyzer.add_fragment(fragment),)), names


def name_columns(statement: CreateMaterializedView | CreateView, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a view's columns: those after its name, else those that its query gives; raises SqlError."""
    if statement.columns and len(statement.columns) != len(names):
        message = f"view {statement.name} names {len(statement.columns)} columns of {len(names)}"
        raise sql_error(message, statement.query, statement.sql, f"the query gives {', '.join(names)}")
    return statement.columns or names


def check_columns(relation: Relation, visible: tuple[str, ...], statement: CreateMaterializedView) -> None:
    """Raise SqlError if an option of a view names columns that it lacks."""
    for option in ("key", "partition_by"):
        for name in parse_column_list(statement.options[option]) if option in statement.options else ():
            if name not in visible:
                hint = f"columns are {', '.join(visible)}"
                message = f"option {option} names {name}, which is no column of {relation.name}"
                raise sql_error(message, None, statement.sql, hint)


def _analyze_schema(
    whole: WholeQuery, analyzer: SparkAnalyzer, statement: CreateMaterializedView
) -> StructType:
    spark = analyzer.spark
    schemas = {
        scan.table: derive_spark_schema(analyzer.get_table_schema(scan.table)) for scan in whole.inputs
    }
    context = EpochContext(spark, "", {}, {}, None, 0, 1, 0, schemas=schemas)
    inputs = {
        f"t{n}": batch(scan, context).select(*map(quote, list_visible(scan)))
        for n, scan in enumerate(whole.inputs)
    }
    try:
        return spark.sql(whole.text, None, **inputs).schema
    except AnalysisException as error:
        raise build_analysis_error(error, statement.sql) from error


def _choose_names(
    schema: StructType, identifiers: Collection[str], statement: CreateMaterializedView
) -> tuple[str, ...]:
    """Return the names of a query's columns: those of columns and aliases as they are, others after what is called."""
    names: list[str] = []
    for n, field in enumerate(schema.fields, 1):
        name = field.name
        if name not in identifiers and re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            call = re.match(r"([A-Za-z_]\w*)\(", name)
            name = call[1].lower() if call else f"column_{n}"
            while name in names:
                name = f"column_{n}" if name != f"column_{n}" else f"{name}_{n}"
        if statement.columns:  # whose names go before these
            names.append(name)
            continue
        check_name(name, "column", statement.sql, 1, 1)
        if name.lower() in (known.lower() for known in names):
            hint = "give one of them another name with AS"
            raise sql_error(f"two columns are named {name}", statement.query, statement.sql, hint)
        names.append(name)
    if not names:
        raise SqlError("the query has no columns", sql=statement.sql)
    return tuple(names)


def _build_row_number(kinds: dict[str, DataType], plain: tuple[str, ...]) -> str:
    """Return the expression that counts rows which are equal in all plain columns, in the order of their other columns."""
    nested = [quote(name) for name in kinds if name not in plain]
    order = f"to_json(struct({', '.join(nested)}))" if nested else "1"
    part = f"PARTITION BY {', '.join(quote(name) for name in plain)} " if plain else ""
    return f"row_number() OVER ({part}ORDER BY {order})"
