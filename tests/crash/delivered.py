"""What a reader of a sink's files ends up with; every change must fit what came before it, so each came once and in order.

Names say where the sink began: a reader forgets what it had when rows of a later beginning come, so the newest one alone must add up
to what the sink reads, and each one before it must have been right as far as it came.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from tests.crash.broken import Broken


def replayed(
    sink: str, objects: Mapping[str, bytes], key: Sequence[str], kinds: Mapping[str, str] | None = None
) -> Counter:
    """Return the rows that files of JSON lines add up to; raises Broken for a change that does not fit those before it.

    Within a beginning epochs never fall in the order of the names. `kinds` are the types of the columns, none where JSON has all of
    them as they are.
    """
    parts: dict[str, list[str]] = {}
    for path in sorted(objects):
        parts.setdefault(_beginning(sink, path), []).append(path)
    state: Counter = Counter()
    for paths in parts.values():
        lines = [json.loads(line) for path in paths for line in objects[path].split(b"\n") if line]
        if kinds and lines and kinds.keys() != lines[0].keys() and paths is not list(parts.values())[-1]:
            continue  # the sink read what had other columns then
        state = _applied(sink, [typed(line, kinds or {}) for line in lines], key)
    return state


def rows_alone(sink: str, objects: Mapping[str, bytes], kinds: Mapping[str, str]) -> Counter:
    """Return the rows of the newest beginning of a sink whose files hold just the rows."""
    parts: dict[str, list[str]] = {}
    for path in sorted(objects):
        parts.setdefault(_beginning(sink, path), []).append(path)
    paths = next(reversed(parts.values()), [])
    lines = [json.loads(line) for path in paths for line in objects[path].split(b"\n") if line]
    return Counter(tuple(typed(line, kinds).values()) for line in lines)


def typed(line: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return a line's values as `edges.plain` has those of the columns that they come from."""
    return {name: _value(value, kinds.get(name, "")) for name, value in line.items()}


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind in ("double", "float"):
        return "NaN" if value == "NaN" else float(value)
    if kind.startswith("decimal"):
        return Decimal(value)
    if kind == "binary":
        return base64.b64decode(value)
    if kind == "date":
        return _days(value)
    if kind in ("timestamp", "timestamp_ntz"):
        day, clock = re.fullmatch(r"(.+-\d\d)[T ](.*)", value).groups()  # type: ignore[union-attr]
        found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(\+00:00)?", clock)
        if found is None or (found[5] is None) is (kind == "timestamp"):
            raise Broken(f"{value} is no {kind}")
        seconds = ((_days(day) * 24 + int(found[1])) * 60 + int(found[2])) * 60 + int(found[3])
        return seconds * 1_000_000 + int((found[4] or "0").ljust(6, "0"))
    return value


def _days(text: str) -> int:
    """Return the days from 1970 to a date, whose year may be any."""
    year, month, day = map(int, re.fullmatch(r"([+-]?\d{4,})-(\d\d)-(\d\d)", text).groups())  # type: ignore[union-attr]
    cycles, within = divmod(year, 400)
    return (date(within + 2000, month, day) - date(2000, 1, 1)).days + 10_957 + (cycles - 5) * 146_097


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
