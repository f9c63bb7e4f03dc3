"""Expressions as plans held them when they were texts: they are read into trees."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.sql.expression.nodes import Call, Expr, Literal, annotate
from engine.sql.expression.parser import parse_expression
from engine.sql.expression.tokens import Unreadable

_EXPRESSION = "sql"
_OF_PARTIALS = ("delta", "merge", "result")
_NAMED = ("gone", "needed")


def has_texts(plan: str) -> bool:
    """Tell whether a stored plan holds expressions as texts; inside of a value the mark would have its quotes escaped."""
    return f'"{_EXPRESSION}":' in plan


def parse_expressions(value: Any) -> Any:
    """Return a part of a stored plan, decoded from JSON, with a tree in the place of each text."""
    if isinstance(value, list):
        return [parse_expressions(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _EXPRESSION in value:
        return _parse_tree(value[_EXPRESSION], value.get("position") or (0, 0))
    found = {name: parse_expressions(item) for name, item in value.items()}
    if "function" in found:  # an aggregate call
        found["whole"] = found.pop("text", None)
    for name in _OF_PARTIALS:
        if isinstance(found.get(name), str):
            found[name] = _parse_tree(found[name])
    for name in _NAMED:
        if isinstance(found.get(name), list):
            found[name] = [found[name][0], _parse_tree(found[name][1])]
    return found


def _parse_tree(text: str, position: Any = (0, 0)) -> Any:
    return msgspec.to_builtins(annotate(_parse_text(text), position=tuple(position)))


def _parse_text(text: str) -> Expr:
    """Return the tree of a stored text; of one that has none an expression that fails, so that no other view is held up by it."""
    try:
        return parse_expression(text)
    except (Unreadable, RecursionError):
        why = f"{text[:200]}, of a plan that an earlier version wrote, cannot be read: drop the view and create it again"
        return Call("raise_error", (Literal(why, "string"),))
