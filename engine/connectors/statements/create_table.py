"""CREATE TABLE and CREATE SOURCE: what feeds the table is looked at before it is made."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from engine.connectors.registry import CONNECTORS
from engine.connectors.source_statements import as_pass_through
from engine.connectors.table_options import RETENTION_OF_ANY, check_table_options, locate_path_errors
from engine.hummock.monitoring.driver_traffic import track_traffic
from engine.runtime.spark.session import is_of_this_process
from engine.runtime.spark.shared_folders import is_in_this_process
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create import relations
from engine.sql.statements.statement_types import CreateTable


def execute_create_table(statement: CreateTable, context: StatementContext) -> None:
    """Create a table or a source; gives a notice of what its connector advises."""
    session = context.session
    check_table_options(statement, any_retention=context.settings.is_on(RETENTION_OF_ANY))
    advice, build_companion = "", relations.build_no_companion
    if relations.can_skip_create(
        context.read_catalog(), statement.name, statement.if_not_exists, statement.sql
    ):
        return
    if "connector" in statement.options:
        connector = CONNECTORS.find(statement.options["connector"])
        build_companion = connector.build_companion
        with locate_path_errors(statement):
            statement = connector.resolve_columns(as_pass_through(statement, connector))
            if session.reaches_out:
                connector.check_reading(statement, context.spark)
                connector.check_executors(statement, partial(_find_remote_spark, context))
                advice = connector.give_advice(statement)
    with track_traffic(context.store.counters, f"statement {statement.name}"):
        relations.create_table(statement, context, build_companion)
    session.notice(advice)


def _find_remote_spark(context: StatementContext) -> SparkSession | None:
    """Return the Spark session if its tasks run elsewhere than in this process; a master's address tells without it."""
    if is_of_this_process(context.session.on_demand.target):
        return None
    computing = context.spark()
    return None if is_in_this_process(computing) else computing
