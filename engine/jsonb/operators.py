"""jsonb values compared and changed: `@>`, `?`, `||`, `-`, `#-`, jsonb_set and jsonb_strip_nulls, as texts in normal form.

What PostgreSQL refuses is answered by what is wrong, after an exclamation mark: no JSON text begins with one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from engine.jsonb.text import JsonNumber, Value, parse_json, render_json, render_pretty

_PLACE = re.compile(r"[+-]?\d{1,9}")


def contains(whole: str, part: str) -> bool:
    """Tell whether a value holds another one; an array holds a scalar that is one of its elements."""
    one, other = parse_json(whole), parse_json(part)
    if isinstance(one, list) and not isinstance(other, list | dict):
        return any(_is_equal(each, other) for each in one)
    return _contains_value(one, other)


def _contains_value(whole: Value, part: Value) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _contains_value(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            any(_contains_value(each, value) for each in whole) for value in part
        )
    return _is_equal(whole, part)


def _is_equal(one: Value, other: Value) -> bool:
    if isinstance(one, JsonNumber) and isinstance(other, JsonNumber):
        return Decimal(one) == Decimal(other)
    return type(one) is type(other) and one == other


def has_key(text: str, key: str) -> bool:
    """Tell whether a text is a key of an object, an element of an array, or the string itself."""
    value = parse_json(text)
    if isinstance(value, dict):
        return key in value
    texts = value if isinstance(value, list) else [value]
    return any(type(each) is str and each == key for each in texts)


def has_any(text: str, keys: Sequence[str | None]) -> bool:
    """Tell whether one of several texts is a key."""
    return any(has_key(text, key) for key in keys if key is not None)


def has_all(text: str, keys: Sequence[str | None]) -> bool:
    """Tell whether each of several texts is a key."""
    return all(has_key(text, key) for key in keys if key is not None)


def concatenate(one: str, other: str) -> str:
    """Return two objects as one, in which the second's values count, or the elements of both."""
    left, right = parse_json(one), parse_json(other)
    if isinstance(left, dict) and isinstance(right, dict):
        return render_json({**left, **right})
    first = left if isinstance(left, list) else [left]
    second = right if isinstance(right, list) else [right]
    return render_json([*first, *second])


def delete_keys(text: str, keys: Sequence[str | None]) -> str:
    """Return an object without keys, or an array without the strings that they are."""
    value = parse_json(text)
    if isinstance(value, dict):
        return render_json({key: part for key, part in value.items() if key not in keys})
    if isinstance(value, list):
        return render_json([part for part in value if not (type(part) is str and part in keys)])
    return "!cannot delete from a scalar of jsonb"


def delete_key(text: str, key: str) -> str:
    """Return an object without a key, or an array without the string that it is."""
    return delete_keys(text, [key])


def delete_element(text: str, place: int) -> str:
    """Return an array without the element at a place, which counts from the end if it is negative."""
    value = parse_json(text)
    if not isinstance(value, list):
        what = "an object of jsonb by a number" if isinstance(value, dict) else "a scalar of jsonb"
        return f"!cannot delete from {what}"
    if -len(value) <= place < len(value):
        del value[place]
    return render_json(value)


def delete_path(text: str, path: Sequence[str | None]) -> str:
    """Return a value without what stands at a path."""
    value = parse_json(text)
    if not isinstance(value, dict | list):
        return "!cannot delete from a scalar of jsonb"
    parent = _find_parent(value, path)
    if parent is not None:
        last = path[-1]
        if isinstance(parent, dict) and last in parent:
            del parent[str(last)]
        elif isinstance(parent, list):
            place = _parse_index(str(last))
            if place is None:
                return f"!path element {last!r} is no number of an array's element"
            if -len(parent) <= place < len(parent):
                del parent[place]
    return render_json(value)


def set_path(text: str, path: Sequence[str | None], new: str, create: bool = True) -> str:
    """Return a value with another one at a path, as jsonb_set does: what the path ends in may be new."""
    value = parse_json(text)
    if not isinstance(value, dict | list):
        return "!cannot set a path in a scalar of jsonb"
    parent = _find_parent(value, path)
    last = path[-1] if path else None
    if parent is None or last is None:
        return render_json(value)
    if isinstance(parent, dict):
        if create or last in parent:
            parent[last] = parse_json(new)
        return render_json(value)
    place = _parse_index(last)
    if place is None:
        return f"!path element {last!r} is no number of an array's element"
    if -len(parent) <= place < len(parent):
        parent[place] = parse_json(new)
    elif create:
        parent.insert(0 if place < 0 else len(parent), parse_json(new))
    return render_json(value)


def insert_at_path(text: str, path: Sequence[str | None], new: str, after: bool = False) -> str:
    """Return a value with another one put in at a path, as jsonb_insert does: before an element, or behind it."""
    value = parse_json(text)
    if not isinstance(value, dict | list):
        return "!cannot set a path in a scalar of jsonb"
    parent = _find_parent(value, path)
    last = path[-1] if path else None
    if parent is None or last is None:
        return render_json(value)
    if isinstance(parent, dict):
        if last in parent:
            return "!cannot replace an existing key: use jsonb_set"
        parent[last] = parse_json(new)
        return render_json(value)
    place = _parse_index(last)
    if place is None:
        return f"!path element {last!r} is no number of an array's element"
    start = max(place + len(parent), 0) if place < 0 else min(place, len(parent))
    outside = not -len(parent) <= place < len(parent)
    parent.insert(start if outside else start + bool(after), parse_json(new))
    return render_json(value)


def _find_parent(value: Value, path: Sequence[str | None]) -> dict[str, Value] | list[Value] | None:
    """Return the object or array in which a path ends, None if there is none."""
    if not path:
        return None
    found: Value = value
    for step in path[:-1]:
        if isinstance(found, dict) and step in found:
            found = found[str(step)]
        elif isinstance(found, list) and (place := _parse_index(str(step))) is not None:
            if not -len(found) <= place < len(found):
                return None
            found = found[place]
        else:
            return None
    return found if isinstance(found, dict | list) else None


def _parse_index(step: str) -> int | None:
    return int(step) if _PLACE.fullmatch(step) else None


def strip_nulls(text: str) -> str:
    """Return a value without the keys of objects whose value is null."""
    return render_json(_strip_value(parse_json(text)))


def _strip_value(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _strip_value(part) for key, part in value.items() if part is not None}
    return [_strip_value(part) for part in value] if isinstance(value, list) else value


def format_lines(text: str) -> str:
    """Return a value over several lines."""
    return render_pretty(parse_json(text))
