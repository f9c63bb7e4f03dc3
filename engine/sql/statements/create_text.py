"""A CREATE TABLE statement written from the catalog, for tables that are no longer as their statement made them."""

from __future__ import annotations

from datetime import timedelta

from engine.sql.catalog import Column, Relation, Watermark
from engine.sql.expression.spark_sql import quote
from engine.sql.typing.intervals import day_time_literal
from engine.sql.typing.text_lengths import shown_type

_CONFLICTS = {"overwrite": "OVERWRITE", "ignore": "IGNORE", "update if not null": "DO UPDATE IF NOT NULL"}


def create_text(relation: Relation) -> str:
    """Return the statement of the dialect spark that makes a table as the catalog describes it."""
    shown = [column for column in relation.columns if not column.hidden]
    told = () if relation.null_keys else relation.unique_key  # which columns the key makes NOT NULL
    lines = [_column(column, column.source in told) for column in shown]
    key = [column.name for column in shown if column.source in relation.unique_key]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(quote(name) for name in key)})")
    if relation.watermark is not None:
        lines.append(_watermark(relation, relation.watermark))
    text = f"CREATE TABLE {quote(relation.name)} ({', '.join(lines)})"
    if relation.append_only:
        text += " APPEND ONLY"
    if relation.on_conflict in _CONFLICTS:
        text += f" ON CONFLICT {_CONFLICTS[relation.on_conflict]}"
    if relation.version_columns:
        names = (quote(column.name) for column in shown if column.source in relation.version_columns)
        text += f" WITH VERSION COLUMN ({', '.join(names)})"
    if relation.options:
        options = ", ".join(f"{name} = {_string(value)}" for name, value in relation.options.items())
        text += f" WITH ({options})"
    return text


def _watermark(relation: Relation, watermark: Watermark) -> str:
    column = next(column for column in relation.columns if column.source == watermark.column)
    name, delay = quote(column.name), abs(watermark.delay)
    ttl = " WITH TTL" if watermark.ttl else ""
    if not delay:
        return f"WATERMARK FOR {name} AS {name}{ttl}"
    is_time = column.type.startswith("timestamp")
    amount = day_time_literal(timedelta(microseconds=delay)).sql("spark") if is_time else str(delay)
    return f"WATERMARK FOR {name} AS {name} {'-' if watermark.delay > 0 else '+'} {amount}{ttl}"


def _column(column: Column, in_key: bool) -> str:
    text = f"{quote(column.name)} {shown_type(column).upper()}"
    if not column.nullable and not in_key:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {column.default}"
    if column.generated is not None:
        text += f" GENERATED ALWAYS AS ({column.generated})"
    if column.comment is not None:
        text += f" COMMENT {_string(column.comment)}"
    return text


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
