"""FULL JOIN: the left join, and the right rows without a match, with nulls for the left side.

`a FULL JOIN b ON c` -> `(a LEFT JOIN b ON c) UNION ALL (nulls, b ANTI JOIN a ON c)`

Applies to FULL JOIN while FROM is bound: what follows reads the columns of the union, and USING those of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.template import as_columns, build_null
from engine.sql.plan import Node, Project, UnionAll
from engine.sql.rewrites.binding.join_keys import JoinKeys, Pair
from engine.sql.rewrites.contract import BindingExample

EXAMPLE = BindingExample(
    sql="SELECT b.id, a.item FROM bid b FULL JOIN auction a ON b.auction = a.id",
    plan="""
Project [out:id = `b:id`, out:item = `a:item`, union:branch = `_branch`, union:key0_0 = `_key0_0`, union:key1_0 = `_key1_0`] key (union:branch, union:key0_0, union:key1_0) retracting
  UnionAll of 2 key (_branch, _key0_0, _key1_0) retracting
    Project [`b:id`, `a:item`] key (b:id) retracting
      LeftJoin on b:auction = a:id key (b:id) retracting
        Scan bid [id, auction] key (b:id) retracting
        Scan auction [id, item] key (a:id) retracting
    Project [b:id = CAST(NULL AS BIGINT), `a:item`, `a:id`] key (a:id) retracting
      AntiJoin on a:id = b:auction key (a:id) retracting
        Scan auction [id, item] key (a:id) retracting
        Scan bid [id, auction] key (b:id) retracting
""",  # noqa: E501  # a node a line
)


def build_full_join(
    left: Node,
    right: Node,
    pairs: Sequence[Pair],
    residual: Sequence[Expr],
    keys: JoinKeys,
    null_safe: bool = False,
) -> Node:
    """Return the full join under the column names of its inputs."""
    keys.add_note("FULL JOIN: the left join, and the right rows that an anti join leaves")
    matched = keys.join(left, right, "left", pairs, residual, null_safe)
    unmatched = keys.join(right, left, "anti", [(b, a) for a, b in pairs], residual, null_safe)
    nulls = tuple((column, build_null(keys.types.get(column))) for column in left.columns)
    own = as_columns(right.columns)
    columns = left.columns + right.columns
    first = Project(matched, as_columns(columns))
    return build_union_all((first, Project(unmatched, nulls + own)), columns, keys.fresh)


def build_union_all(inputs: Sequence[Node], names: tuple[str, ...], fresh: Callable[[str], str]) -> Node:
    """Return the union under `names`; its key's columns get names that no other union has."""
    union = UnionAll(tuple(inputs), names)
    items = as_columns(names)
    return Project(union, items + tuple((fresh(f"union:{k.strip('_')}"), Column(k)) for k in union.key))
