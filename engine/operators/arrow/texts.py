"""Functions of texts on Arrow: their parts, lengths, letters and patterns; positions count code points, as Spark's do."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType

from engine.operators.arrow.expressions import ARROW_TYPES, Inexact, Kernel, Value
from engine.operators.arrow.whole_numbers import COUNTS

_MOST = 2**31 - 1
_LETTERS = re.compile(
    "["
    "\\0-\xde\xe0-\u012f\u0132-\u0148\u014a-\u017f"  # Latin without ß, İ, ı and ŉ; what follows changed lately
    "\u0391-\u03a2\u03a4-\u03af\u03b1-\u03ce"  # Greek without Σ, whose small letter depends on its place
    "\u0400-\u052f\u3000-\u9fff\uac00-\ud7a3"  # Cyrillic, Chinese, Japanese, Korean
    "]*"
)
"""Texts of letters that are one small and one large letter to Java and Python alike."""
_LONGEST = 10_000
"""A text is filled up or repeated here to so many characters at most."""


def _require_letters(texts: pa.Array[Any]) -> None:
    """Raise an error of Arrow's for bytes that are no UTF-8: Spark takes such texts, and has its own view of their letters."""
    if not pc.all(pc.string_is_ascii(texts), skip_nulls=True, min_count=0).as_py():
        texts.validate(full=True)


def _change_letters(texts: pa.Array[Any], upper: bool) -> pa.Array[Any]:
    if pc.all(pc.string_is_ascii(texts), skip_nulls=True, min_count=0).as_py():
        return pc.ascii_upper(texts) if upper else pc.ascii_lower(texts)
    values = texts.to_pylist()
    if not all(value is None or _LETTERS.fullmatch(value) for value in values):
        raise Inexact("letters of which Java may have rules of its own")
    changed = [value and (value.upper() if upper else value.lower()) for value in values]
    return pa.array(changed, pa.string())


def _trim(texts: pa.Array[Any], side: str, characters: str) -> pa.Array[Any]:
    trims = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
    trimmed: pa.Array[Any] = trims[side](texts, characters=characters)
    return trimmed


def _measure(texts: Any, unit: str) -> pa.Array[Any]:
    if unit == "characters":
        _require_letters(texts)
    lengths: pa.Array[Any] = pc.utf8_length(texts) if unit == "characters" else pc.binary_length(texts)
    return lengths


def _reverse(texts: pa.Array[Any]) -> pa.Array[Any]:
    _require_letters(texts)
    return pc.utf8_reverse(texts)


def _slice(texts: pa.Array[Any], start: int, end: int) -> pa.Array[Any]:
    return pc.utf8_slice_codeunits(texts, start, end)


def _replace(texts: pa.Array[Any], old: str, new: str) -> pa.Array[Any]:
    return pc.replace_substring(texts, old, new) if old else texts


def _join(separators: pa.Array[Any], *texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return what is not null of each row, joined; of a row of nothing but nulls Arrow would give no text at all."""
    absent = np.logical_and.reduce([text.is_null().to_numpy(zero_copy_only=False) for text in texts])
    first = pc.if_else(pa.array(absent), "", texts[0])
    joined: Any = pc.binary_join_element_wise(
        first, *texts[1:], separators.fill_null(""), null_handling="skip"
    )
    found: pa.Array[Any] = pc.if_else(separators.is_null(), pa.scalar(None, pa.string()), joined)
    return found


def _match(texts: pa.Array[Any], way: str, pattern: str) -> pa.Array[Any]:
    """Return whether texts start or end with, contain or fit a pattern; of the empty one Arrow's functions are not asked."""
    match way:
        case "start":
            return pc.starts_with(texts, pattern)
        case "end":
            return pc.ends_with(texts, pattern)
        case "part":
            return pc.match_substring(texts, pattern)
    _require_letters(texts)
    return pc.match_substring_regex(texts, pattern)


def _map_rows(*given: Any) -> pa.Array[Any]:
    """Return a function of Python's for each row, null where an argument is null; it comes last, before its type."""
    *arrays, function, kind = given
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    found: pa.Array[Any] = pa.array([None if None in row else function(*row) for row in rows], kind)
    return found


def _cut(text: str, position: int, length: int = _MOST) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = min(start + length, _MOST)
    return text[max(start, 0) : max(end, 0)] if end > start else ""


def _take_left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def _take_right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _find(text: str, part: str) -> int:
    return text.find(part) + 1


def _locate(part: str, text: str) -> int:
    return text.find(part) + 1


def _fill_left(text: str, length: int, by: str = " ") -> str:
    kept, filled = _fill(text, length, by)
    return filled + kept


def _fill_right(text: str, length: int, by: str = " ") -> str:
    return "".join(_fill(text, length, by))


def _fill(text: str, length: int, by: str) -> tuple[str, str]:
    """Return what is kept of a text, and what fills it up to its length."""
    missing = length - len(text)
    if missing < -_MOST:
        raise Inexact("a length that Spark cannot subtract from")
    if missing <= 0 or not by:
        return text[: max(length, 0)], ""
    if length > _LONGEST:
        raise Inexact("a long text")
    return text, (by * (missing // len(by) + 1))[:missing]


def _repeat(text: str, times: int) -> str:
    if times > 0 and len(text) * times > _LONGEST:
        raise Inexact("a long text")
    return text * times


def _take_part(text: str, delimiter: str, number: int) -> str:
    if number == 0 or number < -_MOST:
        raise Inexact("a part with a number that Spark does not take")
    parts = text.split(delimiter) if delimiter else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _hash_md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _hash_sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _hash_sha2(text: str, bits: int) -> str | None:
    name = f"sha{bits or 256}"
    return hashlib.new(name, text.encode()).hexdigest() if bits in (0, 224, 256, 384, 512) else None


def _sum_crc32(text: str) -> int:
    return zlib.crc32(text.encode())


# ---- from values to values -----------------------------------------------------------------------------------------
def _is_text(value: Value) -> bool:
    return value.kind == StringType()


def _read_text(value: Value) -> str | None:
    return value.constant if value.function == "constant" and isinstance(value.constant, str) else None


def _read_count(value: Value) -> int | None:
    return value.constant if value.kind in COUNTS and isinstance(value.constant, int) else None


def _make_function(
    kind: DataType, apply: Callable[..., pa.Array[Any]], *options: Any, may_fail: bool = False
) -> Callable[..., Value | None]:
    """Return what compiles a function of one text."""

    def compile_function(text: Value) -> Value | None:
        if not _is_text(text):
            return None
        return Value(kind, apply.__name__, (text,), kernel=Kernel(apply, options, may_fail))

    return compile_function


def _make_row_function(
    kind: DataType, function: Callable[..., Any], *signatures: str, may_fail: bool = False
) -> Callable[..., Value | None]:
    """Return what compiles a function that is computed row by row: a signature has a letter, text or count, an argument."""

    def compile_function(*arguments: Value) -> Value | None:
        given = "".join("t" if _is_text(each) else "c" if each.kind in COUNTS else "-" for each in arguments)
        if given not in signatures:
            return None
        kernel = Kernel(_map_rows, (function, ARROW_TYPES[kind]), may_fail)
        return Value(kind, function.__name__, arguments, kernel=kernel)

    return compile_function


_compile_any_cut = _make_row_function(StringType(), _cut, "tc", "tcc")
_compile_any_left = _make_row_function(StringType(), _take_left, "tc")


def _compile_cut(text: Value, position: Value, length: Value | None = None) -> Value | None:
    start, count = _read_count(position), _MOST if length is None else _read_count(length)
    if not _is_text(text) or start is None or count is None or start < 0:
        return _compile_any_cut(*(each for each in (text, position, length) if each is not None))
    first = max(start - 1, 0)
    kernel = Kernel(_slice, (first, max(min(first + count, _MOST), first)))
    return Value(StringType(), "substring", (text,), kernel=kernel)


def _compile_left(text: Value, length: Value) -> Value | None:
    count = _read_count(length)
    if count is None or not _is_text(text):
        return _compile_any_left(text, length)
    return Value(StringType(), "left", (text,), kernel=Kernel(_slice, (0, max(count, 0))))


def compile_trim(side: str, characters: Value, text: Value) -> Value | None:
    """Return a text without some characters at its ends: both, or the LEADING or TRAILING one."""
    removed = _read_text(characters)
    if not removed or not _is_text(text):
        return None
    return Value(StringType(), "trim", (text,), kernel=Kernel(_trim, (side, removed)))


def _compile_replacement(text: Value, old: Value, new: Value | None = None) -> Value | None:
    before, after = _read_text(old), "" if new is None else _read_text(new)
    if before is None or after is None or not _is_text(text):
        return None
    return Value(StringType(), "replace", (text,), kernel=Kernel(_replace, (before, after)))


def _compile_join(*values: Value) -> Value | None:
    if len(values) < 2 or not all(map(_is_text, values)):
        return None
    return Value(StringType(), "concat_ws", values, kernel=Kernel(_join))


def _make_match(way: str, function: Callable[[str, str], bool]) -> Callable[..., Value | None]:
    any_pattern = _make_row_function(BooleanType(), function, "tt")

    def compile_match(text: Value, pattern: Value) -> Value | None:
        known = _read_text(pattern)
        if not known or not _is_text(text):
            return any_pattern(text, pattern)
        return Value(BooleanType(), way, (text,), kernel=Kernel(_match, (way, known)))

    return compile_match


def compile_like(text: Value, pattern: str) -> Value | None:
    """Return whether a text fits a pattern of LIKE, in which a backslash takes a wildcard or itself by the letter."""
    tokens = re.findall(r"\\[\\%_]|[^\\]", pattern, re.DOTALL)
    if not _is_text(text) or "".join(tokens) != pattern or "\0" in pattern:
        return None
    wild = {"%": "(?s:.*)", "_": "(?s:.)"}
    ends = tokens[:1] == ["%"], tokens[1:] != [] and tokens[-1:] == ["%"]
    inner = tokens[ends[0] : len(tokens) - ends[1]]
    plain = "".join(token[-1] for token in inner)
    if plain and any(ends) and not set(inner) & set(wild):
        way = {(True, True): "part", (True, False): "end", (False, True): "start"}[ends]
        return Value(BooleanType(), way, (text,), kernel=Kernel(_match, (way, plain)))
    expression = "".join(wild.get(token) or _quote(token[-1]) for token in tokens)
    return Value(BooleanType(), "like", (text,), kernel=Kernel(_match, ("fit", rf"\A{expression}\z")))


def _quote(letter: str) -> str:
    return f"\\{letter}" if letter.isascii() and not letter.isalnum() and letter.isprintable() else letter


_letters = dict.fromkeys(("upper", "ucase"), True) | dict.fromkeys(("lower", "lcase"), False)
FUNCTIONS: Mapping[str, Callable[..., Value | None]] = {
    **{
        name: _make_function(StringType(), _change_letters, up, may_fail=True)
        for name, up in _letters.items()
    },
    **dict.fromkeys(("trim", "btrim"), _make_function(StringType(), _trim, "BOTH", " ")),
    "ltrim": _make_function(StringType(), _trim, "LEADING", " "),
    "rtrim": _make_function(StringType(), _trim, "TRAILING", " "),
    **dict.fromkeys(
        ("length", "len", "char_length", "character_length"),
        _make_function(IntegerType(), _measure, "characters"),
    ),
    "octet_length": _make_function(IntegerType(), _measure, "bytes"),
    "reverse": _make_function(StringType(), _reverse),
    **dict.fromkeys(("substring", "substr"), _compile_cut),
    "left": _compile_left,
    "right": _make_row_function(StringType(), _take_right, "tc"),
    "replace": _compile_replacement,
    "concat_ws": _compile_join,
    "startswith": _make_match("start", str.startswith),
    "endswith": _make_match("end", str.endswith),
    "contains": _make_match("part", str.__contains__),
    "instr": _make_row_function(IntegerType(), _find, "tt"),
    **dict.fromkeys(("locate", "position"), _make_row_function(IntegerType(), _locate, "tt")),
    "lpad": _make_row_function(StringType(), _fill_left, "tc", "tct", may_fail=True),
    "rpad": _make_row_function(StringType(), _fill_right, "tc", "tct", may_fail=True),
    "repeat": _make_row_function(StringType(), _repeat, "tc", may_fail=True),
    "md5": _make_row_function(StringType(), _hash_md5, "t"),
    **dict.fromkeys(("sha", "sha1"), _make_row_function(StringType(), _hash_sha1, "t")),
    "sha2": _make_row_function(StringType(), _hash_sha2, "tc"),
    "crc32": _make_row_function(LongType(), _sum_crc32, "t"),
    "split_part": _make_row_function(StringType(), _take_part, "ttc", may_fail=True),
}
"""By Spark's name of a function, what gives its value of the values of its arguments, or None where Spark has to."""
