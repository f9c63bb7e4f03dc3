"""Plans as they were stored when expressions were texts: they are read into trees, and written so by the next flush.

Fragments, states and keys stay what they are, so that a view goes on from the content that it has.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from engine.errors import Conflict
from engine.hummock import Commit, Hummock, Version
from engine.sql.expression.nodes import Call, Expr, Literal, known
from engine.sql.expression.read import read
from engine.sql.expression.tokens import Unreadable
from engine.sql.incremental.fragments import IncrementalPlan

PLAN = "plan/"
_EXPRESSION = "sql"
_OF_PARTIALS = ("delta", "merge", "result")
_NAMED = ("gone", "needed")


def has_texts(plan: str) -> bool:
    """Tell whether a stored plan holds expressions as texts; inside of a value the mark would have its quotes escaped."""
    return f'"{_EXPRESSION}":' in plan


def plan_of_texts(plan: str) -> IncrementalPlan:
    """Return a plan that holds expressions as texts as one that holds trees."""
    return msgspec.convert(_with_trees(msgspec.json.decode(plan)), IncrementalPlan)


def _with_trees(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_trees(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _EXPRESSION in value:
        return _tree(value[_EXPRESSION], value.get("position") or (0, 0))
    found = {name: _with_trees(item) for name, item in value.items()}
    if "function" in found:  # an aggregate call
        found["whole"] = found.pop("text", None)
    for name in _OF_PARTIALS:
        if isinstance(found.get(name), str):
            found[name] = _tree(found[name])
    for name in _NAMED:
        if isinstance(found.get(name), list):
            found[name] = [found[name][0], _tree(found[name][1])]
    return found


def _tree(text: str, position: Any = (0, 0)) -> Any:
    return msgspec.to_builtins(known(_read(text), position=tuple(position)))


def _read(text: str) -> Expr:
    """Return the tree of a stored text; of one that has none an expression that fails, so that no other view is held up by it."""
    try:
        return read(text)
    except (Unreadable, RecursionError):
        why = f"{text[:200]}, of a plan that an earlier version wrote, cannot be read: drop the view and create it again"
        return Call("raise_error", (Literal(why, "string"),))


def refreshed(store: Hummock) -> Version:
    """Return the newest version; plans that hold texts are written as trees first, all of them in one commit."""
    version = store.refresh()
    old = {key: text for key, text in version.catalog.items() if key.startswith(PLAN) and has_texts(text)}
    if not old:
        return version
    new = {key: msgspec.json.encode(plan_of_texts(text)).decode() for key, text in old.items()}

    def unchanged(now: Version) -> None:
        if any(now.catalog.get(key) != text for key, text in old.items()):
            raise Conflict("a plan was dropped or written anew by another process meanwhile")

    with suppress(Conflict):  # the next flush finds what is left
        store.commit(Commit(catalog=new, precondition=unchanged))
    return store.refresh()
