"""Functions of Postgres that Spark has under another name, or with another meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.datetimes.timestamps import RULES_OF_MOMENTS
from engine.sql.dialects.postgres.nested.arrays import (
    slice_array,
    translate_array_call,
    translate_array_concat,
)
from engine.sql.dialects.postgres.strings.bytea import convert_to_bytea
from engine.sql.dialects.postgres.strings.concat_and_format import (
    translate_concat,
    translate_concat_ws,
    translate_format,
)
from engine.sql.dialects.postgres.strings.patterns import (
    Untranslatable,
    convert_replacement,
    convert_similar_pattern,
)
from engine.sql.dialects.postgres.strings.regexp_matches import extract_match
from engine.sql.dialects.postgres.template_calls import CALLS
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import Rules, TypeOf, build_call, read_number, read_text
from engine.sql.dialects.postgres.typed_calls import TYPED, translate_typed_call
from engine.sql.typing.expression_types import is_number

Build = Callable[[list[exp.Expr]], exp.Expr | None]
_FLOATS = ("float", "double")


# ---- calls that the parser leaves as they are ------------------------------------------------------------------
def _refuse_varying_unit(arguments: list[exp.Expr]) -> exp.Expr:
    raise Untranslatable("a unit of time that is no literal", "write it in quotes")


TRANSLATED: dict[str, Build] = {
    "date_trunc": _refuse_varying_unit,
    "date_part": _refuse_varying_unit,
    "regexp_split_to_array": lambda a: build_call("split", *a, -1) if len(a) == 2 else None,
    "row": lambda a: build_call(
        "named_struct", *(part for n, value in enumerate(a, 1) for part in (f"f{n}", value))
    ),
    "make_timestamptz": lambda a: build_call("make_timestamp", *a) if len(a) in (6, 7) else None,
    **CALLS,
}


_PARSED = ("regexp_match", "string_to_array", "bpchar", "justify_hours")
"""Those of which the parser makes trees of their own, or whose form depends on what stands around them."""


def has_translation(name: str) -> bool:
    """Tell whether a function that Spark does not know has a translation."""
    return name in TRANSLATED or name in TYPED or name in _PARSED


def translate_call(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a call as Spark says it, or None if it says the same; raises NotSaid if Spark has no like."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, type_of)
    found = translate_typed_call(node, type_of) or translate_array_call(node, type_of)
    if found is not None:
        return found
    if isinstance(node, exp.Anonymous):
        if node.name.lower() == "regexp_match":
            return _translate_regexp_match(node)
        build = TRANSLATED.get(node.name.lower())
        return build(list(node.expressions)) if build is not None else None
    return None


# ---- numbers ---------------------------------------------------------------------------------------------------
def _translate_trunc(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Towards zero: `trunc(x, n)` -> `IF(x >= 0, FLOOR(x, n), CEIL(x, n))`"""
    digits = node.args.get("decimals")
    more = [] if digits is None else [digits]
    positive = exp.GTE(this=exp.Paren(this=node.this.copy()), expression=exp.Literal.number(0))
    return exp.If(
        this=positive, true=build_call("floor", node.this, *more), false=build_call("ceil", node.this, *more)
    )


def _translate_power(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A power of numerics is one: `pow(10.0, 4)` -> `CAST(POWER(10.0, 4) AS DECIMAL(38, 10))`"""
    kinds = [type_of(node.this) or "", type_of(node.expression) or ""]
    if not any(kind.startswith("decimal") for kind in kinds) or not all(is_number(kind) for kind in kinds):
        return None
    if any(kind in _FLOATS for kind in kinds):
        return None
    return exp.Cast(this=node.copy(), to=exp.DataType.build("DECIMAL(38, 10)", dialect="spark"))


def _translate_round(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A float is rounded to the even neighbour: `round(g)` -> `BROUND(g)`"""
    if type_of(node.this) in _FLOATS and node.args.get("decimals") is None:
        return build_call("bround", node.this, 0)
    return None


def _translate_hex(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if isinstance(node.parent, exp.Lower):
        return None
    number = node.this
    if type_of(number) in ("tinyint", "smallint", "int"):  # 32 bits, of a negative one, too
        number = fill_tree("CAST(_p0 AS BIGINT) & 4294967295", number)
    return exp.Lower(this=exp.Hex(this=number))


# ---- texts -----------------------------------------------------------------------------------------------------
def _translate_initcap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A word starts after anything that is no letter or digit, not after spaces alone."""
    words = build_call("split", exp.Lower(this=node.this.copy()), r"(?<=[^\p{L}\p{N}])", -1)
    word = exp.column("_w")
    first = exp.Upper(this=build_call("left", word, 1))
    body = build_call("concat", first, build_call("substring", word, 2))
    return build_call(
        "array_join",
        build_call("transform", words, exp.Lambda(this=body, expressions=[exp.to_identifier("_w")])),
        "",
    )


def _translate_left_right(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A negative length leaves that many characters out at the other end."""
    count = read_number(node.expression)
    if count is not None and count >= 0:
        return None
    length = build_call("length", node.this)
    rest = build_call("greatest", exp.Add(this=length, expression=exp.Paren(this=node.expression.copy())), 0)
    chars = (
        rest
        if count is not None
        else exp.If(
            this=exp.GTE(this=exp.Paren(this=node.expression.copy()), expression=exp.Literal.number(0)),
            true=node.expression.copy(),
            false=rest,
        )
    )
    return build_call("left" if isinstance(node, exp.Left) else "right", node.this, chars)


def _translate_substring(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A start below 1 counts, as characters that are not there."""
    start, length = node.args.get("start"), node.args.get("length")
    if isinstance(start, exp.Literal) and start.is_string:
        pattern = start.name
        group = 1 if re.compile(pattern).groups else 0
        found = exp.RegexpLike(this=node.this.copy(), expression=start.copy())
        return exp.If(
            this=found, true=build_call("regexp_extract", node.this, start, group), false=exp.Null()
        )
    first = read_number(start)
    if start is None or (first is not None and first >= 1):
        return None
    begin = build_call("greatest", start, 1)
    if length is None:
        return build_call("substring", node.this, begin)
    end = exp.Add(this=exp.Paren(this=start.copy()), expression=exp.Paren(this=length.copy()))
    rest = build_call("greatest", exp.Sub(this=end, expression=begin.copy()), 0)
    return build_call("substring", node.this, begin, rest)


def _translate_chr(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    code = read_number(node.expressions[0] if node.expressions else node.this)
    if code is None or code > 127:
        raise Untranslatable("chr of a code above 127", "write the character itself")
    return None


def _translate_string_to_array(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`string_to_array(s, '.')` -> `split(s, '[.]', -1)`, and an empty text has no parts"""
    text, separator = node.this, read_text(node.expression, "a separator")
    pattern = "".join(f"[{c}]" if c in ".|*+?()[]{}$-" else "\\" + c if c in "\\^" else c for c in separator)
    parts: exp.Expr = build_call("split", text, pattern, -1)
    if not separator:  # the whole text is one part
        parts = exp.If(
            this=exp.Is(this=text.copy(), expression=exp.Null()),
            true=exp.Null(),
            false=build_call("array", text),
        )
    null = node.args.get("null")
    if null is not None:
        part = exp.column("_p")
        part_or_null = build_call("nullif", part, null)
        parts = build_call(
            "transform", parts, exp.Lambda(this=part_or_null, expressions=[exp.to_identifier("_p")])
        )
    empty = exp.Cast(this=build_call("array"), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))
    return exp.If(this=exp.EQ(this=text.copy(), expression=exp.Literal.string("")), true=empty, false=parts)


def _translate_encode(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    kind = read_text(node.args.get("charset"), "an encoding").lower()
    value = convert_to_bytea(node.this) if isinstance(node, exp.Encode) else node.this
    forms: dict[tuple[type[exp.Expr], str], Callable[[], exp.Expr]] = {
        (exp.Encode, "hex"): lambda: exp.Lower(this=exp.Hex(this=value)),
        (exp.Encode, "base64"): lambda: build_call("base64", value),
        (exp.Decode, "hex"): lambda: build_call("unhex", node.this),
        (exp.Decode, "base64"): lambda: build_call("unbase64", node.this),
    }
    if (type(node), kind) not in forms:
        raise Untranslatable(f"the encoding {kind}", "use hex or base64")
    return forms[type(node), kind]()


def _translate_regexp_like(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`regexp_like(s, 'a', 'i')` -> `s RLIKE '(?i)a'`"""
    flag = node.args.get("flag")
    if flag is None:
        return None
    flags, pattern = read_text(flag, "flags"), read_text(node.expression, "a pattern")
    if set(flags) - set("ic"):
        raise Untranslatable("regexp_like with these flags", "use i or none")
    insensitive = flags[-1:] == "i"
    return exp.RegexpLike(
        this=node.this.copy(), expression=exp.Literal.string("(?i)" * insensitive + pattern)
    )


# ---- patterns --------------------------------------------------------------------------------------------------
def _translate_element(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`(regexp_match(s, p))[k]` -> `IF(s RLIKE p, regexp_extract(s, p, k), NULL)`; `a[1]` -> `get(a, 0)`, null beyond the ends.

    What stands in the brackets of a map is a key.
    """
    place = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(place, exp.Slice):
        return slice_array(node.this, place)
    if place is None:
        raise Untranslatable("a second dimension of an array", "take an element, and its element")
    if (type_of(node.this) or "").startswith("map<"):
        return None
    call = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if isinstance(call, exp.Anonymous) and call.name.lower() == "regexp_match":
        return _extract_group(call, place)
    return build_call("get", node.this, _shift_to_zero(place))


def _shift_to_zero(place: exp.Expr) -> exp.Expr:
    """Return a place counted from 0; the least number has none before it, and there is nothing at it."""
    known = read_number(place)
    return exp.Literal.number(known - 1) if known is not None else build_call("try_subtract", place, 1)


def _extract_group(call: exp.Anonymous, place: exp.Expr) -> exp.Expr:
    number = read_number(place)
    if len(call.expressions) != 2 or number is None:
        return build_call("get", extract_match(list(call.expressions)), _shift_to_zero(place))
    text, pattern = call.expressions
    groups = re.compile(read_text(pattern, "a pattern")).groups
    if number < 1 or number > max(groups, 1):
        return exp.Null()
    found = exp.RegexpLike(this=text.copy(), expression=pattern.copy())
    group = number if groups else 0
    return exp.If(this=found, true=build_call("regexp_extract", text, pattern, group), false=exp.Null())


def _translate_regexp_match(node: exp.Anonymous) -> exp.Expr | None:
    """A match of which one group is taken is left to who takes it."""
    outer = node.parent.parent if isinstance(node.parent, exp.Paren) else node.parent
    return None if isinstance(outer, exp.Bracket) else extract_match(list(node.expressions))


def _translate_regexp_replace(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Without the flag g the first match alone is replaced."""
    pattern = read_text(node.expression, "a pattern")
    replacement = read_text(node.args.get("replacement") or exp.Literal.string(""), "a replacement")
    modifiers = node.args.get("modifiers")
    flags = read_text(modifiers, "flags") if modifiers is not None else ""
    if set(flags) - set("gi") or node.args.get("position") or node.args.get("occurrence"):
        raise Untranslatable("regexp_replace with these flags", "use g, i or none")
    case = "(?i)" if "i" in flags else ""
    if "g" in flags:
        return build_call("regexp_replace", node.this, case + pattern, convert_replacement(replacement))
    if "^" in pattern or "\\A" in pattern:  # it matches once at most
        return build_call("regexp_replace", node.this, case + pattern, convert_replacement(replacement))
    first = f"(?s)^(.*?)(?:{case}{_shift_references(pattern)})(.*)$"
    last = re.compile(pattern).groups + 2
    return build_call("regexp_replace", node.this, first, f"$1{convert_replacement(replacement, 1)}${last}")


def _shift_references(pattern: str) -> str:
    """Return a pattern behind one more group: its references to its own groups move by one."""
    if re.search(r"\\\\[1-9]", pattern):
        raise Untranslatable("a pattern that refers to its own groups", "use the flag g")
    return pattern


def _translate_similar(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`s SIMILAR TO 'a%'` -> `s RLIKE '^(?:a.*)$'`"""
    pattern = convert_similar_pattern(read_text(node.expression, "a pattern"))
    return exp.RegexpLike(this=node.this, expression=exp.Literal.string(pattern))


# ---- arrays ----------------------------------------------------------------------------------------------------
def _translate_array_length(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`array_length(a, 1)` is null for an empty array."""
    if isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == "nullif":
        return None
    dimension = node.args.get("expression")
    if dimension is not None and read_number(dimension) != 1:
        raise Untranslatable("the length of a second dimension", "take the length of an element")
    return build_call("nullif", build_call("size", node.this), 0)


def _translate_position(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """What is not there has no place."""
    if node.args.get("zero_based") is not None:  # what sqlglot takes the third argument for
        raise Untranslatable("array_position from a place on", "take a slice of the array")
    if isinstance(node.expression, exp.Literal):
        return build_call("nullif", build_call("array_position", node.this, node.expression), 0)
    places = "transform(_p0, (_e, _i) -> if(_e <=> _p1, _i + 1, NULL))"  # a null is found, too
    return fill_tree(f"get(filter({places}, _e -> _e IS NOT NULL), 0)", node.this, node.expression)


def _translate_contains(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    whole, part = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        whole, part = part, whole
    inside = "size(array_except(_p0, _p1)) = 0"  # in which a null equals a null, and to PostgreSQL none does
    text = f"if(exists(_p0, _e -> _e IS NULL), if(_p1 IS NULL, NULL, FALSE), {inside})"
    return fill_tree(text, part, whole)


def _translate_overlap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return build_call("arrays_overlap", node.this, node.expression)


def _translate_escape(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if isinstance(node.this, exp.RegexpLike):
        raise Untranslatable("SIMILAR TO … ESCAPE", "escape with a backslash")
    return None


def _translate_digest(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return build_call("unhex", build_call("sha2", node.this, node.args.get("length") or 256))


_RULES: Rules = {
    **RULES_OF_MOMENTS,
    exp.JustifyHours: lambda node, type_of: node.this,
    exp.Localtimestamp: lambda node, type_of: build_call("localtimestamp"),
    exp.DPipe: translate_array_concat,
    exp.Concat: translate_concat,
    exp.ConcatWs: translate_concat_ws,
    exp.Format: translate_format,
    exp.Pow: _translate_power,
    exp.Trunc: _translate_trunc,
    exp.Round: _translate_round,
    exp.Hex: _translate_hex,
    exp.Initcap: _translate_initcap,
    exp.Left: _translate_left_right,
    exp.Right: _translate_left_right,
    exp.Substring: _translate_substring,
    exp.Chr: _translate_chr,
    exp.StringToArray: _translate_string_to_array,
    exp.Encode: _translate_encode,
    exp.Decode: _translate_encode,
    exp.Bracket: _translate_element,
    exp.RegexpLike: _translate_regexp_like,
    exp.RegexpReplace: _translate_regexp_replace,
    exp.SimilarTo: _translate_similar,
    exp.ArrayPosition: _translate_position,
    exp.ArraySize: _translate_array_length,
    exp.ArrayContainsAll: _translate_contains,
    exp.ArrayContainedBy: _translate_contains,
    exp.ArrayOverlaps: _translate_overlap,
    exp.Escape: _translate_escape,
    exp.SHA2Digest: _translate_digest,
}
