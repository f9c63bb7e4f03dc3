"""A CREATE TABLE statement written from the catalog, for tables that are no longer as their statement made them."""

from __future__ import annotations

from datetime import timedelta

from engine.sql.catalog import Relation, RelationColumn, Watermark
from engine.sql.expression.spark_sql import quote, quote_text
from engine.sql.typing.intervals import build_day_time_literal
from engine.sql.typing.text_lengths import format_column_type

_CONFLICTS = {"overwrite": "OVERWRITE", "ignore": "IGNORE", "update if not null": "DO UPDATE IF NOT NULL"}


def render_create_table(relation: Relation) -> str:
    """Return the statement of the dialect spark that makes a table as the catalog describes it."""
    visible = relation.visible_columns
    implied = () if relation.null_keys else relation.unique_key  # which columns the key makes NOT NULL
    lines = [_render_column(column, column.storage_name in implied) for column in visible]
    key = [column.name for column in visible if column.storage_name in relation.unique_key]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(quote(name) for name in key)})")
    if relation.watermark is not None:
        lines.append(_render_watermark(relation, relation.watermark))
    text = f"CREATE TABLE {quote(relation.name)} ({', '.join(lines)})"
    if relation.append_only:
        text += " APPEND ONLY"
    if relation.on_conflict in _CONFLICTS:
        text += f" ON CONFLICT {_CONFLICTS[relation.on_conflict]}"
    if relation.version_columns:
        names = (quote(column.name) for column in visible if column.storage_name in relation.version_columns)
        text += f" WITH VERSION COLUMN ({', '.join(names)})"
    if relation.options:
        options = ", ".join(f"{name} = {quote_text(value)}" for name, value in relation.options.items())
        text += f" WITH ({options})"
    return text


def _render_watermark(relation: Relation, watermark: Watermark) -> str:
    column = next(column for column in relation.columns if column.storage_name == watermark.column)
    name, delay = quote(column.name), abs(watermark.delay)
    ttl = " WITH TTL" if watermark.ttl else ""
    if not delay:
        return f"WATERMARK FOR {name} AS {name}{ttl}"
    is_time = column.type.startswith("timestamp")
    amount = build_day_time_literal(timedelta(microseconds=delay)).sql("spark") if is_time else str(delay)
    return f"WATERMARK FOR {name} AS {name} {'-' if watermark.delay > 0 else '+'} {amount}{ttl}"


def _render_column(column: RelationColumn, in_key: bool) -> str:
    text = f"{quote(column.name)} {format_column_type(column).upper()}"
    if not column.nullable and not in_key:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {column.default}"
    if column.generated is not None:
        text += f" GENERATED ALWAYS AS ({column.generated})"
    if column.comment is not None:
        text += f" COMMENT {quote_text(column.comment)}"
    return text
