"""The columns of a table that follows a Delta table: those that CREATE TABLE lists, checked, or all that the Delta table has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import msgspec
from pyspark.sql import SparkSession

from engine.connectors.contract.connector import StatementProblem
from engine.connectors.delta.frames import open_read_session
from engine.connectors.delta.log import DeltaLog, parse_delta_place
from engine.connectors.delta.types import DeltaColumn, parse_schema
from engine.connectors.delta.values import match_column
from engine.errors import SqlError
from engine.sql.catalog import RelationColumn, check_name
from engine.sql.column_names import match_columns
from engine.sql.parsing.statement_errors import mask_literals, unsupported_error_at
from engine.sql.statements.statement_types import CreateTable
from engine.sql.typing.types import TYPE_NAMES


def validate_table(statement: CreateTable) -> StatementProblem | None:
    """Return why a table that a statement makes cannot follow a Delta table at all, None if it can."""
    if statement.append_only or statement.watermark is not None:
        what = "is APPEND ONLY" if statement.append_only else "has a WATERMARK"
        return StatementProblem(
            "",
            f"{statement.name} {what}, but rows of a Delta table are changed and deleted",
            "leave it out, and filter by time in a view",
        )
    for column in statement.columns:
        if column.generated is not None or column.default is not None:
            what = "is generated" if column.generated is not None else "has a DEFAULT"
            return StatementProblem(
                "",
                f"column {column.name} {what}, but a Delta table gives each column its values",
                "compute it in a view over the table",
            )
    return None


def resolve_columns(statement: CreateTable) -> CreateTable:
    """Return a statement with the columns of the Delta table that it names, if it lists none.

    Raises SqlError, with the place, for a column that the Delta table has not, or of another type.
    """
    place = parse_delta_place(statement.options["path"])
    log = DeltaLog(place)
    metadata = log.read_metadata(log.find_newest_version())
    there = parse_schema(metadata.schema_string)
    if not statement.primary_key and (statement.pass_through or not metadata.tracks_rows):
        message = "the connector delta needs a PRIMARY KEY, by which updates and deletions find their rows"
        hint = "write PRIMARY KEY (…) in the list of columns" + (
            ""
            if statement.pass_through
            else "; a Delta table with row tracking (delta.enableRowTracking) needs none"
        )
        raise unsupported_error_at(message, statement.sql, statement.places.get("connector", 0), hint)
    names = [delta_column.name for delta_column in there]
    hint = f"its columns are {', '.join(names)}"
    if statement.columns:
        places = match_columns([column.name for column in statement.columns], names).found
        for column in statement.columns:
            if column.name not in places:
                raise _build_error(
                    statement, column.name, f"the Delta table has no column {column.name}", hint
                )
            _check_column(statement, column, there[places[column.name]])
        return statement
    places = match_columns(statement.primary_key, names).found
    for name in statement.primary_key:
        if name not in places:
            raise _build_error(
                statement, name, f"the Delta table at {place.display_name} has no column {name}", hint
            )
    columns = tuple(_build_column(statement, delta_column) for delta_column in there)
    key = tuple(columns[places[name]].name for name in statement.primary_key)
    listed = tuple(msgspec.structs.replace(column, nullable=column.name not in key) for column in columns)
    return replace(statement, columns=listed, primary_key=key)


def check_reading(statement: CreateTable, spark: Callable[[], SparkSession]) -> None:
    """Let Spark look at a Delta table on S3, which it reads with other credentials and a file system that it may lack.

    Raises SourceError for what it says. Nothing is asked for a folder, which this process has read.
    """
    place = parse_delta_place(statement.options["path"])
    if place.is_remote:
        with open_read_session(spark, statement.name, place) as session:
            session.read.format("delta").load(place.spark).limit(0).collect()


def _build_column(statement: CreateTable, delta_column: DeltaColumn) -> RelationColumn:
    name = delta_column.name.lower()
    if delta_column.type is None:
        hint = f"list the columns that the table is to have: {TYPE_NAMES}"
        raise _build_error(
            statement,
            name,
            f"column {delta_column.name} of the Delta table is {delta_column.delta_type}, which is not offered",
            hint,
        )
    return RelationColumn(check_name(name, "column", statement.sql), delta_column.type)


def _check_column(statement: CreateTable, column: RelationColumn, delta_column: DeltaColumn) -> None:
    matched = match_column(delta_column, column.type)
    if matched is None or matched.wider or column.length is not None or column.sql_type is not None:
        if delta_column.type is None:
            hint = "leave the column out"
        else:
            hint = f"write {column.name} {delta_column.type.upper()}, and cast it in a view over the table"
        own_type = f"{column.type}" if column.sql_type is None else column.sql_type
        own_type = own_type if column.length is None else f"a text of {column.length} characters at most"
        message = f"column {column.name} is {own_type} here and {delta_column.delta_type} in the Delta table"
        raise _build_error(statement, column.name, message, hint)
    if not column.nullable and delta_column.nullable and column.name not in statement.primary_key:
        message = f"column {column.name} is NOT NULL here and may be null in the Delta table"
        raise _build_error(statement, column.name, message, "leave NOT NULL out")


def _build_error(statement: CreateTable, name: str, message: str, hint: str) -> SqlError:
    listed = max(statement.sql.find("("), 0)
    found = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE).search(mask_literals(statement.sql), listed)
    return unsupported_error_at(message, statement.sql, found.start() if found else listed, hint)
