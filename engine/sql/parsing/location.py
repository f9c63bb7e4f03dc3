"""Where in the text an expression stands."""

from __future__ import annotations

import re
from typing import TypeVar

import sqlglot.expressions as exp

_KEYWORDS: dict[type[exp.Expr], str] = {
    exp.Order: "ORDER",
    exp.Limit: "LIMIT",
    exp.Offset: "OFFSET",
    exp.Fetch: "FETCH",
    exp.Qualify: "QUALIFY",
    exp.Having: "HAVING",
    exp.Exists: "EXISTS",
    exp.Case: "CASE",
    exp.Select: "SELECT",
    exp.Lateral: "LATERAL",
    exp.With: "WITH",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING",
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.Into: "INTO",
    exp.Values: "VALUES",
    exp.Extract: "EXTRACT",
    exp.Any: "ANY",
}
_SET_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}

E = TypeVar("E", bound=exp.Expr)


def locate(node: exp.Expr | None, sql: str) -> tuple[int, int]:
    """Return line and column, both from 1, of the first token of an expression; (1, 1) if it is not known."""
    start = _find_start(node, sql) if node is not None else None
    if start is None:
        return 1, 1
    before = sql[:start]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def copy_location(new: E, old: exp.Expr) -> E:
    """Return `new`, which stands in the text where `old` stood."""
    starts = [part.meta["start"] for part in old.walk() if "start" in part.meta]
    if starts:
        new.meta["start"] = min(starts)
    return new


def _find_start(node: exp.Expr, sql: str) -> int | None:
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        return _find_start(node.this, sql)
    kind = type(node)
    if kind in _SET_OPERATIONS:  # the keyword stands before the right side
        first = _find_first_token(node.expression)
        return _find_last(_SET_OPERATIONS[kind], sql, first) if first is not None else None
    first = _find_first_token(node.expressions[0] if kind is exp.Select and node.expressions else node)
    if kind in _KEYWORDS:
        found = _find_last(_KEYWORDS[kind], sql, len(sql) if first is None else first)
        if found is not None:
            return found
    if first is None:
        first = _search_text(node, sql)
    return first if first is not None or node.parent is None else _find_start(node.parent, sql)


def _find_first_token(node: exp.Expr) -> int | None:
    return min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=None)


def _find_last(word: str, sql: str, before: int) -> int | None:
    found = [match.start() for match in re.finditer(rf"\b{word}\b", sql[:before], re.IGNORECASE)]
    return found[-1] if found else None


def _search_text(node: exp.Expr, sql: str) -> int | None:
    names = list(node.sql_names()) if isinstance(node, exp.Func) else []
    for text in [*names, node.sql()]:
        found = re.search(rf"(?<!\w){re.escape(text)}", sql, re.IGNORECASE)
        if found:
            return found.start()
    return None
