"""What is said, once, of columns that a Delta table has and the table that follows it lacks, or has narrower."""

from __future__ import annotations

from collections.abc import Collection

from engine.connectors.delta.log import Metadata
from engine.connectors.delta.offsets import DeltaOffset
from engine.connectors.delta.types import parse_schema
from engine.connectors.delta.values import MatchedColumn
from engine.sql.catalog import Relation


def describe_missing(
    relation: Relation, metadata: Metadata, offset: DeltaOffset | None, columns: Collection[MatchedColumn]
) -> tuple[list[str], tuple[str, ...]]:
    """Return what to say of what a table lacks or has narrower, each once, and of which it is said by now."""
    there = {column.name: column for column in parse_schema(metadata.schema_string)}
    matched = {column.name for column in columns}
    name, pass_through = relation.name, relation.is_pass_through
    anew = "a source that is created anew" if pass_through else "a table that is made anew"
    said: dict[str, str] = {}
    for column in (one for one in there if one not in matched):
        adds = f"ALTER TABLE {name} ADD COLUMN {column} {(there[column].type or '…').upper()} reads it from then on"
        said[column] = f"the Delta table has a new column {column}, which {name} lacks: " + (
            f"{anew} has it" if pass_through else adds
        )
    for field in (field for column in columns for field in column.left):
        said[field] = f"the Delta table has a new field {field}, which {name} lacks: {anew} has it"
    for one in (one for column in columns for one in column.wider):
        path, _, kind = one.rpartition(" ")
        unfit = (
            "the first value that does not fit stops it"
            if pass_through
            else "rows whose value does not fit are set aside"
        )
        said[one] = (
            f"{path} of the Delta table is {kind} by now, and narrower in {name}: {unfit}; {anew} has its type"
        )
    if offset is None:  # what the user has left out
        return [], tuple(said)
    return [text for what, text in said.items() if what not in offset.told], tuple(said)
