"""Parsed parts of a call in a tree that is made of them: what rewrites a call before its names are bound."""

from __future__ import annotations

import sqlglot
import sqlglot.expressions as exp

from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.spark_sql import render_spark_sql

_PART = "_part_"


class ParsedParts:
    """The parsed parts of a call, each as a column in the tree that is made of them."""

    def __init__(self) -> None:
        self.nodes: list[exp.Expr] = []

    def add(self, node: exp.Expr) -> Column:
        self.nodes.append(node)
        return Column(f"{_PART}{len(self.nodes) - 1}")

    def fill(self, tree: Expr) -> exp.Expr:
        """Return a tree as sqlglot's, in which the parts stand again."""

        def restore_part(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or not node.name.startswith(_PART):
                return node
            found = self.nodes[int(node.name.removeprefix(_PART))].copy()
            return found if isinstance(found, exp.Column | exp.Literal | exp.Func) else exp.Paren(this=found)

        return sqlglot.parse_one(render_spark_sql(tree), read="spark").transform(restore_part)
