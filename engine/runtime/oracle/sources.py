"""What a plan's rows are found by: columns of it whose values are those of columns of a scan below it, as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.runtime.answers.narrow_evaluation import list_branch_columns
from engine.sql.expression.nodes import Expr
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
)


@dataclass(frozen=True)
class SampledSource:
    """A scan of a plan: by a column of the plan the column of the table that it is.

    A row of the table has a part in those rows of the plan only that have its values in these columns.
    """

    table: str
    columns: Mapping[str, str]

    def rename(self, names: Mapping[str, str]) -> SampledSource:
        """Return it by other columns, each of which is one of these columns."""
        found = {new: self.columns[old] for new, old in names.items() if old in self.columns}
        return SampledSource(self.table, found)


Worth = Mapping[str, int]
"""How much is known by a column of which the values are known."""
UNKNOWN = SampledSource("", {})
"""In the place of what no scan's columns find rows of."""


def list_sources(node: Node, worth: Worth) -> list[SampledSource]:
    """Return scans of a plan that all its rows are found by: each row of it comes of a row of one of them.

    Of the two sides of a join one is enough: that by which columns of more `worth` are known.
    """
    match node:
        case Scan():
            return [SampledSource(node.table, dict(node.items))]
        case Project():
            return _list_renamed(node.input, worth, _list_plain(node.items))
        case Aggregate():
            return _list_renamed(node.input, worth, _list_plain(node.keys))
        case Over() | TopN():
            return _list_renamed(node.input, worth, {name: name for name in node.partition})
        case Filter() | Unnest() | DynamicFilter() | TemporalFilter():
            return list_sources(node.input, worth)
        case Join():
            left = list_sources(node.left, worth)
            if node.kind != "inner" or node.nearest is not None:
                return left  # a row that is there for want of a partner is not found by that
            right = list_sources(node.right, worth)
            return right if _count_known(right, worth) > _count_known(left, worth) else left
        case UnionAll():
            branches = (
                _list_renamed(child, worth, list_branch_columns(node, at))
                for at, child in enumerate(node.inputs)
            )
            return [source for branch in branches for source in branch]
    return [UNKNOWN]


def _list_plain(items: Sequence[tuple[str, Expr]]) -> dict[str, str]:
    return {name: expr.column for name, expr in items if expr.column is not None}


def _list_renamed(node: Node, worth: Worth, names: Mapping[str, str]) -> list[SampledSource]:
    """Return the sources of an input by the columns above it, each of which is one of the input's."""
    below = {names[name]: value for name, value in worth.items() if name in names}
    return [source.rename(names) for source in list_sources(node, below)]


def _count_known(sources: Sequence[SampledSource], worth: Worth) -> int:
    """Return of how much worth the columns are that are known by each of some sources."""
    return min(sum(worth.get(column, 0) for column in source.columns) for source in sources)
