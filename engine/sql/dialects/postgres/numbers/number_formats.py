"""to_char of numbers: the patterns 9 0 . , D G S MI PR and FM of PostgreSQL, written out for Spark.

Spark's own to_char keeps no place for a sign and fills otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree

_HINT = "the patterns are 9 0 . , D G S MI PR FM; or CAST the number to a text"
_FORM = re.compile(r"(FM)?(MI|S)?([09,.GD]+)(MI|S|PR)?(FM)?", re.IGNORECASE)


@dataclass(frozen=True)
class _NumberFormat:
    """A pattern: its places before and behind the point, whether it fills, and how it shows a sign."""

    whole: str
    fraction: str
    point: bool
    tight: bool
    before: str
    behind: str

    @property
    def digits(self) -> int:
        return sum(mark in "09" for mark in self.whole)

    @property
    def has_zeros(self) -> bool:
        return "0" in self.whole + self.fraction

    @property
    def zero_start(self) -> int:
        """The place from which zeros are shown before the first digit; the first one if they stand behind the point only."""
        places = [mark for mark in self.whole if mark in "09"]
        return places.index("0") + 1 if "0" in places else 0

    @property
    def min_fraction(self) -> int:
        """How many digits of the fraction stay although they are zeros."""
        return self.fraction.rindex("0") + 1 if "0" in self.fraction else 0


def format_number(value: exp.Expr, pattern: str) -> exp.Expr:
    """Return the text of a whole number or a decimal by a pattern of to_char; raises NotSaid for other patterns.

    A number of more digits than places is shown by `#`, as PostgreSQL does.
    """
    form = _parse_format(pattern)
    scale = len(form.fraction)
    rounded = f"CAST(round(_p0, {scale}) AS DECIMAL(38, {scale}))"
    body = _trim_digits(form) if form.tight else _pad_digits(form)
    whole, fraction = _render_digits(form)
    parts = f"named_struct('r', _r, 'w', {whole}, 'f', {fraction})"
    text = (
        f"get(transform(transform(array({rounded}), _r -> {parts}), _v -> if(_v.r IS NULL, NULL, {body})), 0)"
    )
    return fill_tree(text, value)


def is_number_format(pattern: str) -> bool:
    """Tell whether a pattern has places for digits and nothing that shows a moment."""
    return re.search("[09]", pattern) is not None and _FORM.fullmatch(pattern.strip()) is not None


def _parse_format(pattern: str) -> _NumberFormat:
    found = _FORM.fullmatch(pattern.strip())
    marks = found[3].upper().replace("G", ",").replace("D", ".") if found is not None else ""
    whole, point, fraction = marks.partition(".")
    wrong = found is None or "." in fraction or "," in fraction or not re.search("[09]", whole)
    if found is None or wrong or (found[2] and found[4]) or whole.startswith(","):
        raise Untranslatable(f"the format {pattern} of a number", _HINT)
    tight = bool(found[1] or found[5])
    return _NumberFormat(
        whole, fraction, bool(point and fraction), tight, (found[2] or "").upper(), (found[4] or "").upper()
    )


def _render_digits(form: _NumberFormat) -> tuple[str, str]:
    """Return the digits before the point with blanks before them, `#` for too many, and those behind it."""
    text = "CAST(abs(_r) AS STRING)"
    whole, fraction = (f"split_part({text}, '.', {n})" for n in (1, 2))
    over = f"length({whole}) > {form.digits}"
    said = whole
    if form.fraction and not form.has_zeros:  # a nought before the point is not said
        said = f"if({whole} = '0', '', {whole})"
    return (
        f"lpad(if({over}, '{'#' * form.digits}', {said}), {form.digits}, ' ')",
        f"if({over}, '{'#' * len(form.fraction)}', {fraction})",
    )


def _render_whole_part(form: _NumberFormat) -> str:
    """Return the part before the point as a text with leading blanks."""
    parts, at = list[str](), 0
    for mark in form.whole:
        if mark == ",":
            parts.append(
                "','" if _is_zero_from(form, at) else f"if(substring(_v.w, {at}, 1) = ' ', ' ', ',')"
            )
            continue
        at += 1
        digit = f"substring(_v.w, {at}, 1)"
        parts.append(f"if({digit} = ' ', '0', {digit})" if _is_zero_from(form, at) else digit)
    return f"concat({', '.join(parts)})"


def _is_zero_from(form: _NumberFormat, at: int) -> bool:
    return form.has_zeros and form.zero_start <= at


def _render_sign(form: _NumberFormat, positive: str, plus: str = "+") -> str:
    explicit = "S" in (form.before, form.behind)
    return f"if(_v.r < 0, '-', '{plus if explicit else positive}')"


def _pad_digits(form: _NumberFormat) -> str:
    body = _render_whole_part(form)
    if form.point:
        body = f"concat({body}, '.', _v.f)" if form.fraction else f"concat({body}, '.')"
    width = len(form.whole) + len(form.fraction) + form.point
    if form.before == "MI":
        return f"concat({_render_sign(form, ' ')}, {body})"
    if form.behind in ("MI", "S"):
        return f"concat({body}, {_render_sign(form, ' ')})"
    if form.behind == "PR":
        line = f"lpad(concat(if(_v.r < 0, '<', ' '), ltrim({body})), {width + 1}, ' ')"
        return f"concat({line}, if(_v.r < 0, '>', ' '))"
    return f"lpad(concat({_render_sign(form, ' ')}, ltrim({body})), {width + 1}, ' ')"


def _trim_digits(form: _NumberFormat) -> str:
    body = f"ltrim({_render_whole_part(form)})"
    if form.point:
        min_digits = form.min_fraction
        rest = f"rtrim('0', substring(_v.f, {min_digits + 1}))"
        decimals = f"concat(substring(_v.f, 1, {min_digits}), {rest})" if min_digits else rest
        if not form.has_zeros and form.fraction:
            body = f"if({body} = '' AND {decimals} = '', '0', {body})"
        body = f"concat({body}, '.', {decimals})"
    if form.behind in ("MI", "S"):
        return f"concat({body}, {_render_sign(form, '')})"
    if form.behind == "PR":
        return f"concat(if(_v.r < 0, '<', ''), {body}, if(_v.r < 0, '>', ''))"
    return f"concat({_render_sign(form, '')}, {body})"
