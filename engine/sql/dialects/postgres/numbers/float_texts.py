"""Floating numbers as texts: PostgreSQL writes `1`, `1e+15` and `1e-05` where Spark writes `1.0`, `1.0E15` and `1.0E-5`.

The digits are Spark's, the fewest that mean the number. Source of the forms: PostgreSQL's manual, "Floating-Point Types".
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.templates import fill_tree

_DIGITS = {"double": 15, "float": 6}
_FIXED = "rtrim('.', rtrim('0', CAST(CAST(CAST(_p0 AS STRING) AS DECIMAL(38, 21)) AS STRING)))"
_MANTISSA = r"regexp_replace(regexp_extract(CAST(_p0 AS STRING), '^([^E]*)', 1), '[.]0$', '')"
_POWER = r"regexp_extract(CAST(_p0 AS STRING), 'E-?([0-9]+)$', 1)"
_SIGN = "if(abs(_p0) < 1, '-', '+')"
_TEXT = (
    "CASE WHEN _p0 IS NULL THEN NULL WHEN isnan(_p0) OR abs(_p0) = CAST('Infinity' AS DOUBLE) THEN CAST(_p0 AS STRING) "
    "WHEN _p0 = 0 THEN if(CAST(_p0 AS STRING) = '-0.0', '-0', '0') "
    f"WHEN abs(_p0) >= 1e-4 AND abs(_p0) < 1e{{digits}} THEN {_FIXED} "
    f"ELSE concat({_MANTISSA}, 'e', {_SIGN}, lpad({_POWER}, greatest(length({_POWER}), 2), '0')) END"
)


def is_floating(kind: str | None) -> bool:
    """Tell whether a type's texts are written so."""
    return kind in _DIGITS


def format_float(value: exp.Expr, kind: str) -> exp.Expr:
    """Return the text of a float or double: `CAST(g AS TEXT)` -> `CASE WHEN … END`"""
    return exp.Paren(this=fill_tree(_TEXT.format(digits=_DIGITS[kind]), value))
