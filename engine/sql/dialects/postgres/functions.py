"""Functions of Postgres that Spark has under another name, or with another meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.arrays import array_call, concatenated, sliced
from engine.sql.dialects.postgres.bytea import as_bytea
from engine.sql.dialects.postgres.calls import CALLS
from engine.sql.dialects.postgres.filled import filled
from engine.sql.dialects.postgres.matches import match
from engine.sql.dialects.postgres.patterns import NotSaid, regex_of_similar, replacement_of
from engine.sql.dialects.postgres.terms import Rules, TypeOf
from engine.sql.dialects.postgres.terms import call as _call
from engine.sql.dialects.postgres.terms import number as _number
from engine.sql.dialects.postgres.terms import text as _text
from engine.sql.dialects.postgres.texts import concatenated_texts, formatted, with_separators
from engine.sql.dialects.postgres.timestamps import RULES_OF_MOMENTS
from engine.sql.dialects.postgres.typed_calls import TYPED, typed_call
from engine.sql.typing.expression_types import is_number

Build = Callable[[list[exp.Expr]], exp.Expr | None]
_FLOATS = ("float", "double")


# ---- calls that the parser leaves as they are ------------------------------------------------------------------
def _varying_unit(arguments: list[exp.Expr]) -> exp.Expr:
    raise NotSaid("a unit of time that is no literal", "write it in quotes")


TRANSLATED: dict[str, Build] = {
    "date_trunc": _varying_unit,
    "date_part": _varying_unit,
    "regexp_split_to_array": lambda a: _call("split", *a, -1) if len(a) == 2 else None,
    "row": lambda a: _call(
        "named_struct", *(part for n, value in enumerate(a, 1) for part in (f"f{n}", value))
    ),
    "make_timestamptz": lambda a: _call("make_timestamp", *a) if len(a) in (6, 7) else None,
    **CALLS,
}


_PARSED = ("regexp_match", "string_to_array", "bpchar", "justify_hours")
"""Those of which the parser makes trees of their own, or whose form depends on what stands around them."""


def translated(name: str) -> bool:
    """Tell whether a function that Spark does not know has a translation."""
    return name in TRANSLATED or name in TYPED or name in _PARSED


def as_spark_call(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a call as Spark says it, or None if it says the same; raises NotSaid if Spark has no like."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, type_of)
    found = typed_call(node, type_of) or array_call(node, type_of)
    if found is not None:
        return found
    if isinstance(node, exp.Anonymous):
        if node.name.lower() == "regexp_match":
            return _match(node)
        build = TRANSLATED.get(node.name.lower())
        return build(list(node.expressions)) if build is not None else None
    return None


# ---- numbers ---------------------------------------------------------------------------------------------------
def _trunc(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Towards zero: `trunc(x, n)` -> `IF(x >= 0, FLOOR(x, n), CEIL(x, n))`"""
    digits = node.args.get("decimals")
    more = [] if digits is None else [digits]
    positive = exp.GTE(this=exp.Paren(this=node.this.copy()), expression=exp.Literal.number(0))
    return exp.If(this=positive, true=_call("floor", node.this, *more), false=_call("ceil", node.this, *more))


def _power(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A power of numerics is one: `pow(10.0, 4)` -> `CAST(POWER(10.0, 4) AS DECIMAL(38, 10))`"""
    kinds = [type_of(node.this) or "", type_of(node.expression) or ""]
    if not any(kind.startswith("decimal") for kind in kinds) or not all(is_number(kind) for kind in kinds):
        return None
    if any(kind in _FLOATS for kind in kinds):
        return None
    return exp.Cast(this=node.copy(), to=exp.DataType.build("DECIMAL(38, 10)", dialect="spark"))


def _round(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A float is rounded to the even neighbour: `round(g)` -> `BROUND(g)`"""
    if type_of(node.this) in _FLOATS and node.args.get("decimals") is None:
        return _call("bround", node.this, 0)
    return None


def _hex(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if isinstance(node.parent, exp.Lower):
        return None
    number = node.this
    if type_of(number) in ("tinyint", "smallint", "int"):  # 32 bits, of a negative one, too
        number = filled("CAST(_p0 AS BIGINT) & 4294967295", number)
    return exp.Lower(this=exp.Hex(this=number))


# ---- texts -----------------------------------------------------------------------------------------------------
def _initcap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A word starts after anything that is no letter or digit, not after spaces alone."""
    words = _call("split", exp.Lower(this=node.this.copy()), r"(?<=[^\p{L}\p{N}])", -1)
    word = exp.column("_w")
    first = exp.Upper(this=_call("left", word, 1))
    body = _call("concat", first, _call("substring", word, 2))
    return _call(
        "array_join",
        _call("transform", words, exp.Lambda(this=body, expressions=[exp.to_identifier("_w")])),
        "",
    )


def _side(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A negative length leaves that many characters out at the other end."""
    count = _number(node.expression)
    if count is not None and count >= 0:
        return None
    length = _call("length", node.this)
    rest = _call("greatest", exp.Add(this=length, expression=exp.Paren(this=node.expression.copy())), 0)
    chars = (
        rest
        if count is not None
        else exp.If(
            this=exp.GTE(this=exp.Paren(this=node.expression.copy()), expression=exp.Literal.number(0)),
            true=node.expression.copy(),
            false=rest,
        )
    )
    return _call("left" if isinstance(node, exp.Left) else "right", node.this, chars)


def _substring(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A start below 1 counts, as characters that are not there."""
    start, length = node.args.get("start"), node.args.get("length")
    if isinstance(start, exp.Literal) and start.is_string:
        pattern = start.name
        group = 1 if re.compile(pattern).groups else 0
        found = exp.RegexpLike(this=node.this.copy(), expression=start.copy())
        return exp.If(this=found, true=_call("regexp_extract", node.this, start, group), false=exp.Null())
    first = _number(start)
    if start is None or (first is not None and first >= 1):
        return None
    begin = _call("greatest", start, 1)
    if length is None:
        return _call("substring", node.this, begin)
    end = exp.Add(this=exp.Paren(this=start.copy()), expression=exp.Paren(this=length.copy()))
    rest = _call("greatest", exp.Sub(this=end, expression=begin.copy()), 0)
    return _call("substring", node.this, begin, rest)


def _char(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    code = _number(node.expressions[0] if node.expressions else node.this)
    if code is None or code > 127:
        raise NotSaid("chr of a code above 127", "write the character itself")
    return None


def _split(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`string_to_array(s, '.')` -> `split(s, '[.]', -1)`, and an empty text has no parts"""
    text, separator = node.this, _text(node.expression, "a separator")
    pattern = "".join(f"[{c}]" if c in ".|*+?()[]{}$-" else "\\" + c if c in "\\^" else c for c in separator)
    parts: exp.Expr = _call("split", text, pattern, -1)
    if not separator:  # the whole text is one part
        parts = exp.If(
            this=exp.Is(this=text.copy(), expression=exp.Null()), true=exp.Null(), false=_call("array", text)
        )
    null = node.args.get("null")
    if null is not None:
        part = exp.column("_p")
        shown = _call("nullif", part, null)
        parts = _call("transform", parts, exp.Lambda(this=shown, expressions=[exp.to_identifier("_p")]))
    empty = exp.Cast(this=_call("array"), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))
    return exp.If(this=exp.EQ(this=text.copy(), expression=exp.Literal.string("")), true=empty, false=parts)


def _encode(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    kind = _text(node.args.get("charset"), "an encoding").lower()
    value = as_bytea(node.this) if isinstance(node, exp.Encode) else node.this
    forms: dict[tuple[type[exp.Expr], str], Callable[[], exp.Expr]] = {
        (exp.Encode, "hex"): lambda: exp.Lower(this=exp.Hex(this=value)),
        (exp.Encode, "base64"): lambda: _call("base64", value),
        (exp.Decode, "hex"): lambda: _call("unhex", node.this),
        (exp.Decode, "base64"): lambda: _call("unbase64", node.this),
    }
    if (type(node), kind) not in forms:
        raise NotSaid(f"the encoding {kind}", "use hex or base64")
    return forms[type(node), kind]()


def _contains_pattern(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`regexp_like(s, 'a', 'i')` -> `s RLIKE '(?i)a'`"""
    flag = node.args.get("flag")
    if flag is None:
        return None
    flags, pattern = _text(flag, "flags"), _text(node.expression, "a pattern")
    if set(flags) - set("ic"):
        raise NotSaid("regexp_like with these flags", "use i or none")
    insensitive = flags[-1:] == "i"
    return exp.RegexpLike(
        this=node.this.copy(), expression=exp.Literal.string("(?i)" * insensitive + pattern)
    )


# ---- patterns --------------------------------------------------------------------------------------------------
def _element(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`(regexp_match(s, p))[k]` -> `IF(s RLIKE p, regexp_extract(s, p, k), NULL)`; `a[1]` -> `get(a, 0)`, null beyond the ends.

    What stands in the brackets of a map is a key.
    """
    place = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(place, exp.Slice):
        return sliced(node.this, place)
    if place is None:
        raise NotSaid("a second dimension of an array", "take an element, and its element")
    if (type_of(node.this) or "").startswith("map<"):
        return None
    call = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if isinstance(call, exp.Anonymous) and call.name.lower() == "regexp_match":
        return _group(call, place)
    return _call("get", node.this, _from_zero(place))


def _from_zero(place: exp.Expr) -> exp.Expr:
    """Return a place counted from 0; the least number has none before it, and there is nothing at it."""
    known = _number(place)
    return exp.Literal.number(known - 1) if known is not None else _call("try_subtract", place, 1)


def _group(call: exp.Anonymous, place: exp.Expr) -> exp.Expr:
    number = _number(place)
    if len(call.expressions) != 2 or number is None:
        return _call("get", match(list(call.expressions)), _from_zero(place))
    text, pattern = call.expressions
    groups = re.compile(_text(pattern, "a pattern")).groups
    if number < 1 or number > max(groups, 1):
        return exp.Null()
    found = exp.RegexpLike(this=text.copy(), expression=pattern.copy())
    group = number if groups else 0
    return exp.If(this=found, true=_call("regexp_extract", text, pattern, group), false=exp.Null())


def _match(node: exp.Anonymous) -> exp.Expr | None:
    """A match of which one group is taken is left to who takes it."""
    outer = node.parent.parent if isinstance(node.parent, exp.Paren) else node.parent
    return None if isinstance(outer, exp.Bracket) else match(list(node.expressions))


def _regexp_replace(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Without the flag g the first match alone is replaced."""
    pattern = _text(node.expression, "a pattern")
    replacement = _text(node.args.get("replacement") or exp.Literal.string(""), "a replacement")
    modifiers = node.args.get("modifiers")
    flags = _text(modifiers, "flags") if modifiers is not None else ""
    if set(flags) - set("gi") or node.args.get("position") or node.args.get("occurrence"):
        raise NotSaid("regexp_replace with these flags", "use g, i or none")
    case = "(?i)" if "i" in flags else ""
    if "g" in flags:
        return _call("regexp_replace", node.this, case + pattern, replacement_of(replacement))
    if "^" in pattern or "\\A" in pattern:  # it matches once at most
        return _call("regexp_replace", node.this, case + pattern, replacement_of(replacement))
    first = f"(?s)^(.*?)(?:{case}{_shifted(pattern)})(.*)$"
    last = re.compile(pattern).groups + 2
    return _call("regexp_replace", node.this, first, f"$1{replacement_of(replacement, 1)}${last}")


def _shifted(pattern: str) -> str:
    """Return a pattern behind one more group: its references to its own groups move by one."""
    if re.search(r"\\\\[1-9]", pattern):
        raise NotSaid("a pattern that refers to its own groups", "use the flag g")
    return pattern


def _similar(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`s SIMILAR TO 'a%'` -> `s RLIKE '^(?:a.*)$'`"""
    pattern = regex_of_similar(_text(node.expression, "a pattern"))
    return exp.RegexpLike(this=node.this, expression=exp.Literal.string(pattern))


# ---- arrays ----------------------------------------------------------------------------------------------------
def _array_size(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`array_length(a, 1)` is null for an empty array."""
    if isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == "nullif":
        return None
    dimension = node.args.get("expression")
    if dimension is not None and _number(dimension) != 1:
        raise NotSaid("the length of a second dimension", "take the length of an element")
    return _call("nullif", _call("size", node.this), 0)


def _position(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """What is not there has no place."""
    if node.args.get("zero_based") is not None:  # what sqlglot takes the third argument for
        raise NotSaid("array_position from a place on", "take a slice of the array")
    if isinstance(node.expression, exp.Literal):
        return _call("nullif", _call("array_position", node.this, node.expression), 0)
    places = "transform(_p0, (_e, _i) -> if(_e <=> _p1, _i + 1, NULL))"  # a null is found, too
    return filled(f"get(filter({places}, _e -> _e IS NOT NULL), 0)", node.this, node.expression)


def _contains_all(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    whole, part = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        whole, part = part, whole
    inside = "size(array_except(_p0, _p1)) = 0"  # in which a null equals a null, and to PostgreSQL none does
    text = f"if(exists(_p0, _e -> _e IS NULL), if(_p1 IS NULL, NULL, FALSE), {inside})"
    return filled(text, part, whole)


def _overlap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _call("arrays_overlap", node.this, node.expression)


def _escaped(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if isinstance(node.this, exp.RegexpLike):
        raise NotSaid("SIMILAR TO … ESCAPE", "escape with a backslash")
    return None


def _digest(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _call("unhex", _call("sha2", node.this, node.args.get("length") or 256))


_RULES: Rules = {
    **RULES_OF_MOMENTS,
    exp.JustifyHours: lambda node, type_of: node.this,
    exp.Localtimestamp: lambda node, type_of: _call("localtimestamp"),
    exp.DPipe: concatenated,
    exp.Concat: concatenated_texts,
    exp.ConcatWs: with_separators,
    exp.Format: formatted,
    exp.Pow: _power,
    exp.Trunc: _trunc,
    exp.Round: _round,
    exp.Hex: _hex,
    exp.Initcap: _initcap,
    exp.Left: _side,
    exp.Right: _side,
    exp.Substring: _substring,
    exp.Chr: _char,
    exp.StringToArray: _split,
    exp.Encode: _encode,
    exp.Decode: _encode,
    exp.Bracket: _element,
    exp.RegexpLike: _contains_pattern,
    exp.RegexpReplace: _regexp_replace,
    exp.SimilarTo: _similar,
    exp.ArrayPosition: _position,
    exp.ArraySize: _array_size,
    exp.ArrayContainsAll: _contains_all,
    exp.ArrayContainedBy: _contains_all,
    exp.ArrayOverlaps: _overlap,
    exp.Escape: _escaped,
    exp.SHA2Digest: _digest,
}
