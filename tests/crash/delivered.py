"""What a reader of a sink's files ends up with; every change must fit what came before it, so each came once and in order.

Names say where the sink began: a reader forgets what it had when rows of a later beginning come, so the newest one alone must add up
to what the sink reads, and each one before it must have been right as far as it came.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.crash.broken import Broken


def replayed(sink: str, objects: Mapping[str, bytes], key: Sequence[str]) -> Counter:
    """Return the rows that files of JSON lines add up to; raises Broken for a change that does not fit those before it.

    Within a beginning epochs never fall in the order of the names.
    """
    parts: dict[str, list[str]] = {}
    for path in sorted(objects):
        parts.setdefault(_beginning(sink, path), []).append(path)
    state: Counter = Counter()
    for paths in parts.values():
        state = _applied(
            sink, [json.loads(line) for path in paths for line in objects[path].splitlines()], key
        )
    return state


def _beginning(sink: str, path: str) -> str:
    found = re.fullmatch(rf"{sink}-(\d{{20}})-(\d{{20}})-(\d{{20}})-v\d{{3}}-\d{{3}}-\d{{5}}\.jsonl", path)
    if found is None or not int(found[2]) < int(found[3]):
        raise Broken(f"sink {sink} wrote a file of an unknown name, {path}")
    return found[1]


def _applied(sink: str, changes: Sequence[Mapping[str, Any]], key: Sequence[str]) -> Counter:
    state: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    epoch = 0
    for change in changes:
        if change["_epoch"] < epoch:
            raise Broken(f"sink {sink} delivered {dict(change)} behind changes of epoch {epoch}")
        epoch = change["_epoch"]
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
