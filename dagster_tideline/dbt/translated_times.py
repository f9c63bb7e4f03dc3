"""Times in texts that become those of postgres: what sqlglot leaves to mean something else there.

Formats with `%Y` become patterns of `to_char`, letters between them in quotes: sqlglot makes DDTHH24 of `%dT%H`, whose DDTH is
the ordinal of the day. date_trunc of a date has no zone in DuckDB and Redshift, where that of postgres has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from engine.sql.parsing.table_names import build_error_at

_PERCENT = ("duckdb", "bigquery", "trino", "athena")
"""Dialects whose formats have `%`, as sqlglot reads them; others have patterns of their own, which are like `to_char`'s."""
_PLAIN_MOMENTS = ("duckdb", "trino", "athena")
"""Dialects where a moment that is read from a text has no zone."""
_MOMENTS = ("timestamp", "timestampntz", "timestamptz", "timestampltz")
_PLAIN_TRUNCATION = ("duckdb", "redshift")
_PATTERNS = {
    "%Y": "YYYY", "%y": "YY", "%G": "IYYY", "%m": "MM", "%-m": "FMMM", "%B": "FMMonth", "%b": "Mon",
    "%d": "DD", "%-d": "FMDD", "%j": "DDD", "%-j": "FMDDD", "%A": "FMDay", "%a": "Dy", "%u": "ID",
    "%V": "IW", "%H": "HH24", "%-H": "FMHH24", "%I": "HH12", "%-I": "FMHH12", "%M": "MI", "%-M": "FMMI",
    "%S": "SS", "%-S": "FMSS", "%f": "US", "%p": "AM",
}  # fmt: skip
_LITERAL = re.compile(r'[^\W_]+|"')
_PART = re.compile(r"%-?.|[^%]+", re.DOTALL)


def translate_times(tree: exp.Query, text: str, read: str) -> None:
    """Write the times of a query for postgres in its tree; raises SqlError for a part of a format that no pattern stands for."""
    if read in _PERCENT:
        for node in list(tree.find_all(exp.TimeToStr)):
            _translate_format(node, text, read)
    if read in _PLAIN_MOMENTS:
        for moment in reversed(list(tree.find_all(exp.StrToTime))):  # the inner ones first
            moment.replace(exp.cast(moment.copy(), exp.DataType.Type.TIMESTAMPNTZ))
    if read in _PLAIN_TRUNCATION:
        for start in tree.find_all(exp.TimestampTrunc, exp.DateTrunc):
            if isinstance(start.this, exp.Cast) and start.this.to.is_type(*_MOMENTS):
                continue
            # A date becomes a moment without a zone by that, and moments stay what they are.
            start.set(
                "this", start.this + exp.Interval(this=exp.Literal.string("0"), unit=exp.Var(this="DAY"))
            )


def _translate_format(node: exp.TimeToStr, text: str, read: str) -> None:
    moment, pattern = node.this, node.args["format"]
    if read == "duckdb" and _is_text(moment) and not _is_text(pattern):
        moment, pattern = pattern, moment  # it takes them in both orders
    if _is_text(pattern):
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        parts = "".join(_translate_parts(pattern.name, text, min(starts, default=0)))
        node.replace(exp.Anonymous(this="TO_CHAR", expressions=[moment, exp.Literal.string(parts)]))


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _translate_parts(pattern: str, text: str, at: int) -> Iterator[str]:
    before = ""
    for part in _PART.findall(pattern):
        if part == "%%" or not part.startswith("%"):
            yield _LITERAL.sub(
                lambda found: '\\"' if found[0] == '"' else f'"{found[0]}"', part.replace("%%", "%")
            )
            before = ""
        elif part in _PATTERNS:
            found = _PATTERNS[part]
            yield (
                f'""{found}' if before.endswith(found.removeprefix("FM")[0]) else found
            )  # IDDD is one pattern
            before = found
        else:
            message = f"{part} in the format of a date has no pattern in postgres"
            raise build_error_at(message, text, at, "write that part with extract()")
