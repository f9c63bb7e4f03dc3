"""to_char of dates and timestamps: each pattern of PostgreSQL as an expression of Spark's."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.expression.spark_sql import quote_text

_YEAR = "if(year(_p0) > 0, year(_p0), 1 - year(_p0))"
_ISO_YEAR = "extract(YEAROFWEEK FROM _p0)"
_MICROS = "pmod(unix_micros(CAST(_p0 AS TIMESTAMP)), 1000000)"
_MOMENT = "CAST(_p0 AS TIMESTAMP_NTZ)"
_NUMBERS: dict[str, tuple[str, int]] = {
    "HH24": (f"hour({_MOMENT})", 2),
    "HH12": (f"(hour({_MOMENT}) + 11) % 12 + 1", 2),
    "HH": (f"(hour({_MOMENT}) + 11) % 12 + 1", 2),
    "MI": (f"minute({_MOMENT})", 2),
    "SSSSS": (f"hour({_MOMENT}) * 3600 + minute({_MOMENT}) * 60 + second({_MOMENT})", 1),
    "SSSS": (f"hour({_MOMENT}) * 3600 + minute({_MOMENT}) * 60 + second({_MOMENT})", 1),
    "SS": (f"second({_MOMENT})", 2),
    "MS": (f"{_MICROS} DIV 1000", 3),
    "US": (_MICROS, 6),
    **{f"FF{n}": (f"{_MICROS} DIV {10 ** (6 - n)}", n) for n in range(1, 7)},
    "YYYY": (_YEAR, 4),
    "YYY": (f"{_YEAR} % 1000", 3),
    "YY": (f"{_YEAR} % 100", 2),
    "Y": (f"{_YEAR} % 10", 1),
    "IYYY": (_ISO_YEAR, 4),
    "IYY": (f"{_ISO_YEAR} % 1000", 3),
    "IY": (f"{_ISO_YEAR} % 100", 2),
    "I": (f"{_ISO_YEAR} % 10", 1),
    "MM": ("month(_p0)", 2),
    "IDDD": ("(weekofyear(_p0) - 1) * 7 + weekday(_p0) + 1", 3),
    "DDD": ("dayofyear(_p0)", 3),
    "DD": ("day(_p0)", 2),
    "ID": ("weekday(_p0) + 1", 1),
    "D": ("dayofweek(_p0)", 1),
    "WW": ("(dayofyear(_p0) - 1) DIV 7 + 1", 2),
    "W": ("(day(_p0) - 1) DIV 7 + 1", 1),
    "IW": ("weekofyear(_p0)", 2),
    "CC": (f"({_YEAR} - 1) DIV 100 + 1", 2),
    "J": ("datediff(CAST(_p0 AS DATE), DATE '1970-01-01') + 2440588", 1),
    "Q": ("quarter(_p0)", 1),
}
"""Patterns that give a number: the number, and how many digits it is filled up to."""
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_ROMAN_MONTH = f"element_at(array({', '.join(repr(word) for word in _ROMAN)}), month(_p0))"
_NAMES: dict[str, tuple[str, int]] = {
    "MONTH": (f"date_format({_MOMENT}, 'MMMM')", 9),
    "MON": (f"date_format({_MOMENT}, 'MMM')", 0),
    "DAY": (f"date_format({_MOMENT}, 'EEEE')", 9),
    "DY": (f"date_format({_MOMENT}, 'EEE')", 0),
}
"""Patterns that give a name, in upper case, in lower case or with a capital: the name, and how many places it is filled up to."""
_HALVES = {
    "AM": (f"if(hour({_MOMENT}) < 12, 'AM', 'PM')"),
    "A.M.": (f"if(hour({_MOMENT}) < 12, 'A.M.', 'P.M.')"),
    "BC": "if(year(_p0) > 0, 'AD', 'BC')",
    "B.C.": "if(year(_p0) > 0, 'A.D.', 'B.C.')",
}
_WORDS = {
    **_HALVES,
    "PM": _HALVES["AM"],
    "P.M.": _HALVES["A.M."],
    "AD": _HALVES["BC"],
    "A.D.": _HALVES["B.C."],
}
_ZONES = {"TZH": "'+00'", "TZM": "'00'", "OF": "'+00'"}
_ORDINAL = (
    "CASE WHEN {0} % 100 BETWEEN 11 AND 13 THEN 'th' WHEN {0} % 10 = 1 THEN 'st' WHEN {0} % 10 = 2 THEN 'nd' "
    "WHEN {0} % 10 = 3 THEN 'rd' ELSE 'th' END"
)


def format_moment(moment: exp.Expr, pattern: str, *, zoned: bool) -> exp.Expr:
    """Return the text of a moment by a pattern of PostgreSQL's to_char; `zoned` moments are shown in UTC.

    `to_char(t, 'FMMonth DD')` -> `if(t IS NULL, NULL, concat(date_format(t, 'MMMM'), ' ', lpad(day(t), 2, '0')))`
    """
    parts = list(_render_parts(pattern, zoned))
    body = f"concat({', '.join(parts)})" if parts else "''"
    return fill_tree(f"if(_p0 IS NULL, NULL, {body})", moment)


def _render_parts(pattern: str, zoned: bool) -> Iterator[str]:
    """Yield the texts in Spark SQL that a pattern is made of."""
    at, literal = 0, ""
    while at < len(pattern):
        if pattern[at] == '"':
            end = pattern.find('"', at + 1)
            end = len(pattern) if end < 0 else end
            literal += pattern[at + 1 : end]
            at = end + 1
            continue
        if pattern[at] == "\\" and pattern[at + 1 : at + 2] == '"':
            literal, at = literal + '"', at + 2
            continue
        start = at
        tight = pattern[at : at + 2] in ("FM", "fm", "TM")
        if tight or pattern[at : at + 2] in ("FX", "fx"):
            at += 2
        found = _render_pattern(pattern, at, tight, zoned)
        if found is None:
            if at == start:
                literal, at = literal + pattern[at], at + 1
            continue
        text, at = found
        if literal:
            yield quote_text(literal)
            literal = ""
        yield text
    if literal:
        yield quote_text(literal)


def _render_pattern(pattern: str, at: int, tight: bool, zoned: bool) -> tuple[str, int] | None:
    """Return what the pattern that begins at a place gives, and the place behind it; None for a plain character."""
    if pattern[at : at + 5].upper() == "Y,YYY" and pattern[at : at + 5] in ("Y,YYY", "y,yyy"):
        return _append_ordinal(
            f"format_string('%d,%03d', {_YEAR} DIV 1000, {_YEAR} % 1000)", _YEAR, pattern, at + 5
        )
    for length in (5, 4, 3, 2, 1):
        word = pattern[at : at + length]
        if len(word) < length:
            continue
        upper = word.upper()
        if word not in (upper, word.lower(), word.capitalize()):
            continue
        if upper in _NAMES and (word != word.capitalize() or length > 1):
            return _render_cased(*_NAMES[upper], word, tight), at + length
        if word not in (upper, word.lower()):
            continue
        if upper in _NUMBERS:
            number, digits = _NUMBERS[upper]
            text = f"CAST({number} AS STRING)"
            if not tight and digits > 1:
                text = f"if({number} < {10 ** (digits - 1)}, lpad({text}, {digits}, '0'), {text})"
            return _append_ordinal(text, number, pattern, at + length)
        if upper in _WORDS:
            return (_WORDS[upper] if word == upper else f"lower({_WORDS[upper]})"), at + length
        if upper == "RM":
            roman = _ROMAN_MONTH if word != upper else f"upper({_ROMAN_MONTH})"
            return (roman if tight else f"rpad({roman}, 4, ' ')"), at + length
        if upper == "TZ":
            return (f"'{'UTC' if word == upper else 'utc'}'" if zoned else "''"), at + length
        if upper in _ZONES:
            return _ZONES[upper], at + length
    return None


def _render_cased(name: str, width: int, word: str, tight: bool) -> str:
    if word == word.upper():
        name = f"upper({name})"
    elif word == word.lower():
        name = f"lower({name})"
    return name if tight or not width else f"rpad({name}, {width}, ' ')"


def _append_ordinal(text: str, number: str, pattern: str, at: int) -> tuple[str, int]:
    """Return a number, with the ending that TH behind it asks for."""
    word = pattern[at : at + 2]
    if word not in ("TH", "th"):
        return text, at
    ending = _ORDINAL.format(f"({number})")
    return f"concat({text}, {ending if word == 'th' else f'upper({ending})'})", at + 2
