"""Whether two plans compute the same: what a query calls its tables gives names to columns between them, and means nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engine.sql.expression.nodes import Literal
from engine.sql.plan import Recompute, Scan


def is_same_plan(one: Any, other: Any) -> bool:
    """Tell whether two plans, or parts of them, are equal but for the names of tables in their queries: `t` and `t AS x` are."""
    return bool(one == other or _normalize(one) == _normalize(other))


def _normalize(plan: Any) -> Any:
    """Return a plan in which columns of scans have numbers, in the order of the scans, also as parts of other names."""
    names = tuple(dict.fromkeys(name for name in _list_scan_names(plan) if ":" in name))
    if not names:
        return plan
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    numbers = {name: f"\0{number}\0" for number, name in enumerate(names)}
    return _replace_names(plan, re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)"), numbers)


def _list_scan_names(value: Any) -> Iterator[str]:
    if isinstance(value, Scan):
        yield from (name for name, _ in value.items)
    elif isinstance(value, tuple):
        for item in value:
            yield from _list_scan_names(item)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _list_scan_names(getattr(value, field))


def _replace_names(value: Any, pattern: re.Pattern[str], numbers: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda found: numbers[found[0]], value)
    if isinstance(value, tuple):
        return tuple(_replace_names(item, pattern, numbers) for item in value)
    if not isinstance(value, msgspec.Struct) or isinstance(value, Literal | Recompute):
        return value  # a text of the query's own stays as it is
    fields = value.__struct_fields__
    replaced = {field: _replace_names(getattr(value, field), pattern, numbers) for field in fields}
    return msgspec.structs.replace(value, **replaced)
