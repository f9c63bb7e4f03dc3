"""OVERLAPS of PostgreSQL: whether two spans of time, each with its ends in any order, have a moment in common."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf
from engine.sql.typing.intervals import has_months

_ANSWER = """CASE
  WHEN {s} IS NULL OR {t} IS NULL THEN NULL
  WHEN {s} > {t} THEN CASE WHEN {f} IS NULL THEN NULL WHEN {s} < {f} THEN TRUE WHEN {e} IS NULL THEN NULL ELSE FALSE END
  WHEN {s} < {t} THEN CASE WHEN {e} IS NULL THEN NULL WHEN {t} < {e} THEN TRUE WHEN {f} IS NULL THEN NULL ELSE FALSE END
  WHEN {e} IS NULL OR {f} IS NULL THEN NULL
  ELSE TRUE END"""
"""By the starts s and t and the ends e and f, of which a null is one that is not known (overlaps_timestamp of PostgreSQL)."""


def translate_overlaps(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Return `(a, b) OVERLAPS (c, d)`: each span begins with its earlier end and does not hold its later one.

    A span may be a start and a length: `(a, INTERVAL '1 day')`.
    """
    ends: list[exp.Expr] = []
    for span in (node.this, node.expression):
        if not isinstance(span, exp.Tuple) or len(span.expressions) != 2:
            raise Untranslatable(
                "OVERLAPS of anything but two pairs", "write (start, end) OVERLAPS (start, end)"
            )
        start, end = span.expressions
        if isinstance(end, exp.Interval) or has_months(end) or (type_of(end) or "").startswith("interval"):
            end = exp.Paren(this=exp.Add(this=start.copy(), expression=end.copy()))
        ends += [start, end]
    text = _ANSWER.format(
        s="least(_p0, _p1)",
        e="if(_p0 IS NULL OR _p1 IS NULL, NULL, greatest(_p0, _p1))",
        t="least(_p2, _p3)",
        f="if(_p2 IS NULL OR _p3 IS NULL, NULL, greatest(_p2, _p3))",
    )
    return exp.Paren(this=fill_tree(text, *ends))
