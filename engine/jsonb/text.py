"""The text of a jsonb value: PostgreSQL's normal form, in which values that are equal have equal bytes.

Keys stand once, the last of several values counts; they are ordered by their length in bytes, then by their bytes. Numbers keep
their digits and lose their exponent, so that of the numbers that are equal 1.0 and 1.00 alone differ.
Source: PostgreSQL's manual, "JSON Types"; its jsonb_util.c for the order of keys.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

Value: TypeAlias = "dict[str, Value] | list[Value] | str | JsonNumber | bool | None"
_PLAIN = re.compile(r"-?\d+(\.\d+)?")
_SURROGATE = re.compile("[\ud800-\udfff\0]")
_MOST_DIGITS = 131_072
_EXCERPT = 60


class NotJson(ValueError):
    """A text is no JSON value that jsonb could hold."""


class JsonNumber(str):
    """A number by its digits, as numeric shows it: no exponent, no sign before zero."""

    __slots__ = ()


def parse_number(text: str) -> JsonNumber:
    """Return a number of JSON by its digits; raises NotJson for one that has more of them than numeric."""
    if _PLAIN.fullmatch(text) is None or text.startswith("-0"):
        try:
            value = Decimal(text)
        except InvalidOperation:  # the exponent itself has too many digits
            value = Decimal("nan")
        exponent = value.as_tuple().exponent
        if isinstance(exponent, str) or abs(value.adjusted()) > _MOST_DIGITS or abs(exponent) > _MOST_DIGITS:
            raise NotJson(f"the number {text[:_EXCERPT]} has too many digits")
        text = format(value.copy_abs() if value.is_zero() else value, "f")
    return JsonNumber(text)


def _reject_number(text: str) -> None:
    raise NotJson(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(parse_int=parse_number, parse_float=parse_number, parse_constant=_reject_number)


def parse_json(text: str) -> Value:
    """Return the value of a JSON text; raises NotJson."""
    try:
        value: Value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise NotJson(f"{text[:_EXCERPT]!r} is no JSON: {why}") from None
    if "\\u" in text:
        _check_texts(value, text)
    return value


def _check_texts(value: Value, text: str) -> None:
    """Raise NotJson for half of a pair of surrogates, and for the character 0, which no text of PostgreSQL holds."""
    found: list[Any] = [value]
    while found:
        part = found.pop()
        if isinstance(part, str) and _SURROGATE.search(part):
            raise NotJson(f"{text[:_EXCERPT]!r} is no JSON: no text holds \\u0000 or half of a character")
        if isinstance(part, list):
            found += part
        elif isinstance(part, dict):
            found += [*part, *part.values()]


def quote_json(text: str) -> str:
    """Return a text as a string of JSON."""
    return json.dumps(text, ensure_ascii=False)


def key_order(key: str) -> tuple[int, bytes]:
    """Return what orders the keys of an object: their length in bytes, then their bytes."""
    encoded = key.encode()
    return len(encoded), encoded


def render_json(value: Value) -> str:
    """Return a value as jsonb shows it."""
    match value:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case JsonNumber():
            return str(value)
        case str():
            return quote_json(value)
        case list():
            return f"[{', '.join(map(render_json, value))}]"
        case _:
            items = sorted(value.items(), key=lambda item: key_order(item[0]))
            return f"{{{', '.join(f'{quote_json(key)}: {render_json(part)}' for key, part in items)}}}"


def normalize_json(text: str) -> str:
    """Return a JSON text in the normal form of jsonb; raises NotJson."""
    return render_json(parse_json(text))


def render_pretty(value: Value, indent: str = "") -> str:
    """Return a value over several lines, as jsonb_pretty shows it."""
    deeper = indent + "    "
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: key_order(item[0]))
        lines = [f"{deeper}{quote_json(key)}: {render_pretty(part, deeper)}" for key, part in items]
        opening, closing = "{", "}"
    elif isinstance(value, list):
        lines = [f"{deeper}{render_pretty(part, deeper)}" for part in value]
        opening, closing = "[", "]"
    else:
        return render_json(value)
    inner = ",\n".join(lines)
    return f"{opening}\n{inner}\n{indent}{closing}" if lines else f"{opening}\n{indent}{closing}"
