"""Whether a new view can be cut into the partitions that it declares, and whether a partition is one of a view's."""

from __future__ import annotations

import re

from engine.errors import SqlError
from engine.sql.catalog import Relation
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.partitions import (
    PARTITION_BY,
    PARTITIONS,
    NotPartitionable,
    Partitioning,
    derive_partitioning,
    is_partitioned,
    list_usable_columns,
)
from engine.sql.parsing.statement_errors import unsupported_error_at


def check_partitions(relation: Relation, plan: IncrementalPlan) -> None:
    """Raise UnsupportedSql if an operator of a view mixes rows of the partitions that its options declare."""
    if not is_partitioned(relation.options):
        return
    try:
        derive_partitioning(plan, relation.options)
    except NotPartitionable as error:
        option = PARTITION_BY if PARTITION_BY in relation.options else PARTITIONS
        option_value = relation.options[option]
        visible = [column.name for column in relation.visible_columns]
        usable = list_usable_columns(plan, visible)
        if usable:
            hint = f"{relation.name} can be divided by {' or '.join(usable)}: WITH (partition_by = '{usable[0]}')"
            hint += (
                ", with partitions = 64 for that many groups of its values" if option == PARTITIONS else ""
            )
        else:
            hint = "no column of the view is part of the key of every operator: leave the option out, or group and join by one"
        found = re.search(rf"\b{option}\b", relation.sql, re.IGNORECASE)
        raise unsupported_error_at(
            f"{relation.name} cannot be divided by {option} = '{option_value}': {error}",
            relation.sql,
            found.start() if found else 0,
            hint,
        ) from error


def require_partitioning(relation: Relation, how: Partitioning | None) -> Partitioning:
    """Return how a view is cut; raises SqlError if it is not."""
    if how is None:
        hint = "create it WITH (partition_by = 'column') or WITH (partitions = 64)"
        raise SqlError(f"{relation.name} has no partitions", hint=hint)
    return how


def resolve_partition(how: Partitioning, key: str) -> str:
    """Return the name of a partition of a view; raises SqlError if it has no such group."""
    if how.groups is not None and not (key.isdecimal() and int(key) < how.groups):
        hint = f"its {how.groups} groups of vnodes are 0 to {how.groups - 1}"
        raise SqlError(f"{how.view} has no partition {key}", hint=hint)
    return key
