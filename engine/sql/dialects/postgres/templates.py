"""Texts in Spark SQL with holes, read as trees of the parser."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
import sqlglot.expressions as exp

_PART = re.compile(r"_p(\d+)")


def fill_tree(text: str, *parts: exp.Expr) -> exp.Expr:
    """Return the tree of a text in Spark SQL, in which `_p0`, `_p1` … stand for expressions."""

    def replace_part(node: exp.Expr) -> exp.Expr:
        found = _PART.fullmatch(node.name) if isinstance(node, exp.Column) else None
        return exp.Paren(this=parts[int(found[1])].copy()) if found is not None else node

    return _parse_template(text).copy().transform(replace_part, copy=False)


@lru_cache(maxsize=1024)
def _parse_template(text: str) -> exp.Expr:
    def normalize_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.ParseJSON):  # which sqlglot prints for Spark as nothing but its argument
            return exp.Anonymous(this="PARSE_JSON", expressions=[node.this])
        return node

    return sqlglot.parse_one(text, read="spark").transform(normalize_node)
