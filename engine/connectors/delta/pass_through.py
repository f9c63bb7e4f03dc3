"""A Delta table's changes with the old row of each key beside the new one, for sources: nothing else holds the old rows.

Of several changes of a key the oldest tells its old row and the newest its new one. Where the Delta table has no feed, both are
what two of its versions hold. A key that occurs twice cannot be followed so, and stops the source where it is seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.connectors.delta.frames import read_feed, read_snapshot, render_columns
from engine.connectors.delta.log import DeltaPlace
from engine.connectors.delta.steps import DeltaStep
from engine.connectors.delta.values import MatchedColumn
from engine.hummock.manifests.pass_through import WAS, old_column
from engine.runtime.writes.spill import PLACE
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.column_names import ADDED
from engine.sql.expression.spark_sql import quote

_NEW, _AT, _FIRST, _LAST, _NET = (f"{ADDED}{part}" for part in ("new", "at", "first", "last", "net"))
_HAD, _HAS = f"(NOT {_FIRST}.{_NEW})", f"{_LAST}.{_NEW}"
TWICE = "its key occurs more than once in the Delta table"


def fold_feed(
    session: SparkSession,
    relation: Relation,
    step: DeltaStep,
    place: DeltaPlace,
    columns: Mapping[str, MatchedColumn],
) -> DataFrame:
    """Return what versions have changed by their feed, a row a key."""
    new = "_change_type IN ('insert', 'update_postimage')"
    rows = read_feed(session, step, place).selectExpr(
        *render_columns(relation, columns),
        f"{new} AS {_NEW}",
        f"CAST(_commit_version * 2 + IF({new}, 1, 0) AS BIGINT) AS {_AT}",
    )
    net = f"sum(IF({_NEW}, 1, -1))"
    return _fold_by_key(relation, rows, net, f"{_NET} = CAST({_HAS} AS INT) - CAST({_HAD} AS INT)")


def render_key_condition(relation: Relation) -> str:
    """Return the condition that a row has a key; where a null is a value of it, each row has one."""
    key = (column for column in relation.columns if column.storage_name in relation.primary_key)
    needed = [f"{quote(column.name)} IS NOT NULL" for column in key if relation.is_never_null(column)]
    return " AND ".join(["TRUE", *needed])


def compare_versions(
    session: SparkSession,
    relation: Relation,
    versions: tuple[int | None, int],
    place: DeltaPlace,
    columns: tuple[Mapping[str, MatchedColumn], Mapping[str, MatchedColumn]],
) -> DataFrame:
    """Return what differs between two versions, a row a key; without a first one all rows of the second."""
    before, after = versions
    rows = _mark_version(read_snapshot(session, relation, after, place, columns[1]), after, new=True)
    if before is not None:
        old = _mark_version(read_snapshot(session, relation, before, place, columns[0]), before, new=False)
        rows = rows.unionByName(old)
    return _compare_rows(relation, rows)


def compare_files(relation: Relation, rows: DataFrame, version: int) -> DataFrame:
    """Return what differs between rows that went and rows that came with the files of a version, a row a key."""
    new = f"({quote(PLACE)} % 2 = 1)"
    at = f"CAST({version * 2} + {quote(PLACE)} AS BIGINT) AS {_AT}"
    names = [quote(column.name) for column in relation.visible_columns]
    return _compare_rows(relation, rows.selectExpr(*names, f"{new} AS {_NEW}", at))


def _compare_rows(relation: Relation, rows: DataFrame) -> DataFrame:
    fits = f"{_NET} = CAST({_HAS} AS INT) + CAST({_HAD} AS INT)"
    found = _fold_by_key(relation, rows, "count(*)", fits)
    values = [column for column in _list_value_columns(relation) if "map<" not in column.type]
    if len(values) < len(_list_value_columns(relation)):  # maps are compared where the change is read
        return found
    same = [
        _compare_values(quote(each.name), quote(old_column(each.storage_name)), each.type) for each in values
    ]
    stays = " AND ".join([f"{quote(PLACE)} % 2 = 1", WAS, *same])
    return found.where(f"NOT ({stays})")


def _compare_values(new: str, old: str, kind: str) -> str:
    """Return a test whether values are identical: those with floating numbers as texts too, of which -0.0 is another."""
    texts = f" AND CAST({new} AS STRING) <=> CAST({old} AS STRING)"
    return f"{new} <=> {old}" + texts * ("float" in kind or "double" in kind)


def _mark_version(rows: DataFrame, version: int, *, new: bool) -> DataFrame:
    at = version * 2 + int(new)
    return rows.selectExpr("*", f"{str(new).upper()} AS {_NEW}", f"CAST({at} AS BIGINT) AS {_AT}")


def _list_value_columns(relation: Relation) -> list[RelationColumn]:
    return [c for c in relation.columns if not c.hidden and c.storage_name not in relation.primary_key]


def _fold_by_key(relation: Relation, rows: DataFrame, net: str, fits: str) -> DataFrame:
    """Return the oldest and the newest of each key's rows as its old row and its new one; `fits` tells that these are all."""
    key = [column.name for column in relation.columns if column.storage_name in relation.primary_key]
    values = _list_value_columns(relation)
    parts = [f"'v{n}', {quote(column.name)}" for n, column in enumerate(values)]
    parts.append(f"'{_NEW}', {_NEW}")
    whole = f"named_struct({', '.join(parts)})"
    grouped = rows.groupBy(*(F.col(quote(name)) for name in key)).agg(
        F.expr(f"min_by({whole}, {_AT})").alias(_FIRST),
        F.expr(f"max_by({whole}, {_AT})").alias(_LAST),
        F.expr(f"max({_AT})").alias(_AT),
        F.expr(net).alias(_NET),
    )
    key_texts = ", ".join(f"CAST({quote(name)} AS STRING)" for name in key)
    message = f"concat('{TWICE}: ', concat_ws(', ', {key_texts}))"
    place = f"(({_AT} DIV 2) * 2 + CAST({_HAS} AS INT))"
    items = [quote(name) for name in key]
    items += [f"IF({_HAS}, {_LAST}.v{n}, NULL) AS {quote(c.name)}" for n, c in enumerate(values)]
    items.append(f"{_HAD} AS {WAS}")
    items += [
        f"IF({_HAD}, {_FIRST}.v{n}, NULL) AS {quote(old_column(c.storage_name))}"
        for n, c in enumerate(values)
    ]
    items.append(
        f"IF({render_key_condition(relation)} AND NOT ({fits}), CAST(raise_error({message}) AS BIGINT), "
        f"{place}) AS {quote(PLACE)}"
    )
    return grouped.where(f"{_HAD} OR {_HAS} OR NOT ({fits})").selectExpr(*items)
