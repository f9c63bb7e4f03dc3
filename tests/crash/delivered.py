"""What a reader of a sink's files ends up with; every change must fit what came before it, so each came once and in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.crash.checks import Broken


def rows_of(objects: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Return the changes in files of JSON lines, in the order of the files' names."""
    return [json.loads(line) for path in sorted(objects) for line in objects[path].splitlines()]


def replayed(sink: str, changes: Sequence[Mapping[str, Any]], key: Sequence[str]) -> Counter:
    """Return the rows that the changes of a sink add up to; raises Broken for one that does not fit."""
    state: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for change in changes:
        at = tuple(change[column] for column in key)
        row = tuple(value for name, value in change.items() if name not in ("_op", "_epoch"))
        if (at in state) == (change["_op"] == "insert"):
            raise Broken(f"sink {sink} delivered {dict(change)}, before it was {state.get(at)}")
        if change["_op"] == "delete":
            if state.pop(at) != row:
                raise Broken(f"sink {sink} deletes {dict(change)}, a row that it did not deliver")
        else:
            state[at] = row
    return Counter(state.values())
