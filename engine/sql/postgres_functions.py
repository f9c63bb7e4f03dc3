"""Functions of Postgres that Spark has under another name, or with another meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.postgres_calls import CALLS
from engine.sql.postgres_patterns import NotSaid, regex_of_similar, replacement_of

TypeOf = Callable[[exp.Expr], str | None]
Build = Callable[[list[exp.Expr]], exp.Expr | None]
_FLOATS = ("float", "double")
_CODES = re.compile(r"%-?[YymdHIMSfjpbB%]")

_CODE_OF = {
    "yyyy": "%Y",
    "mm": "%m",
    "dd": "%d",
    "hh24": "%H",
    "hh12": "%I",
    "hh": "%I",
    "mi": "%M",
    "ss": "%S",
}
_PATTERNS = re.compile(rf"(%-?\w)|({'|'.join(_CODE_OF)})", re.IGNORECASE)
"""Patterns of a format that sqlglot leaves: PostgreSQL reads them in either case, and HH as the hour of a half day."""


def _call(name: str, *arguments: exp.Expr | str | int) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[_value(argument) for argument in arguments])


def _value(argument: exp.Expr | str | int) -> exp.Expr:
    if isinstance(argument, exp.Expr):
        return argument.copy()
    return exp.Literal.number(argument) if isinstance(argument, int) else exp.Literal.string(argument)


def _number(node: exp.Expr | None) -> int | None:
    """Return a literal's whole number, with its sign."""
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def _text(node: exp.Expr | None, what: str) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.name)
    raise NotSaid(f"{what} that is no literal", "write it in quotes")


# ---- calls that the parser leaves as they are ------------------------------------------------------------------
TRANSLATED: dict[str, Build] = {
    "regexp_split_to_array": lambda a: _call("split", *a, -1) if len(a) == 2 else None,
    "array_cat": lambda a: _call("concat", *a),
    "row": lambda a: _call(
        "named_struct", *(part for n, value in enumerate(a, 1) for part in (f"f{n}", value))
    ),
    "make_timestamptz": lambda a: _call("make_timestamp", *a) if len(a) in (6, 7) else None,
    "jsonb_array_length": lambda a: _call("json_array_length", *a),
    **CALLS,
}


def translated(name: str) -> bool:
    """Tell whether a function that Spark does not know has a translation."""
    return name in TRANSLATED or name in ("regexp_match", "string_to_array", "bpchar")


def as_spark_call(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a call as Spark says it, or None if it says the same; raises NotSaid if Spark has no like."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, type_of)
    if isinstance(node, exp.Anonymous):
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


def _round(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A float is rounded to the even neighbour: `round(g)` -> `BROUND(g)`"""
    if type_of(node.this) in _FLOATS and node.args.get("decimals") is None:
        return _call("bround", node.this, 0)
    return None


def _hex(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    return None if isinstance(node.parent, exp.Lower) else exp.Lower(this=exp.Hex(this=node.this))


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
    parts = _call("split", text, pattern, -1)
    empty = exp.Cast(this=_call("array"), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))
    return exp.If(this=exp.EQ(this=text.copy(), expression=exp.Literal.string("")), true=empty, false=parts)


def _encode(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    kind = _text(node.args.get("charset"), "an encoding").lower()
    forms: dict[tuple[type[exp.Expr], str], Callable[[], exp.Expr]] = {
        (exp.Encode, "hex"): lambda: exp.Lower(this=exp.Hex(this=node.this)),
        (exp.Encode, "base64"): lambda: _call("base64", node.this),
        (exp.Decode, "hex"): lambda: _call("unhex", node.this),
        (exp.Decode, "base64"): lambda: _call("unbase64", node.this),
    }
    if (type(node), kind) not in forms:
        raise NotSaid(f"the encoding {kind}", "use hex or base64")
    return forms[type(node), kind]()


# ---- patterns --------------------------------------------------------------------------------------------------
def _matched_group(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`(regexp_match(s, p))[k]` -> `IF(s RLIKE p, regexp_extract(s, p, k), NULL)`; `a[i]` beyond the end is null."""
    call = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    place = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "regexp_match":
        if isinstance(place, exp.Slice) or place is None:
            raise NotSaid("a slice of an array", "use slice(array, start, length)")
        if (type_of(node.this) or "").startswith("map<"):
            return None
        return _call("get", node.this, place)
    text, pattern, *flags = call.expressions
    if flags:
        raise NotSaid("regexp_match with flags", "put (?i) into the pattern")
    groups = re.compile(_text(pattern, "a pattern")).groups
    number = _number(place)
    if number is None:
        raise NotSaid("the place of a match that is no literal", "write a number")
    group = number + 1 if groups else 0
    if number < 0 or number >= max(groups, 1):
        return exp.Null()
    found = exp.RegexpLike(this=text.copy(), expression=pattern.copy())
    return exp.If(this=found, true=_call("regexp_extract", text, pattern, group), false=exp.Null())


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


# ---- moments ---------------------------------------------------------------------------------------------------
def _format(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    kind = type_of(node.this) or ""
    if isinstance(node, exp.TimeToStr) and (
        kind in ("int", "bigint", "double", "float") or "decimal" in kind
    ):
        raise NotSaid("to_char of a number", "CAST it to a text")
    text = _text(node.args.get("format"), "a format")
    said = _PATTERNS.sub(lambda found: found[1] or _CODE_OF[found[2].lower()], text)
    if said != text:
        text = said
        node.set("format", exp.Literal.string(text))
    if re.search(r"[A-Za-z\"]", _CODES.sub("", text)):
        raise NotSaid(
            f"a part of the format that reads {_CODES.sub(' ', text).strip()}", "use YYYY MM DD HH24 MI SS"
        )
    return None


def _from_epoch(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _call("timestamp_seconds", node.this)


def _truncated(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """The result has a zone only if the moment has one."""
    if type_of(node.this) != "timestamp_ntz" or isinstance(node.parent, exp.Cast):
        return None
    return exp.Cast(this=node.copy(), to=exp.DataType(this=exp.DataType.Type.TIMESTAMPNTZ))


def _at_zone(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A moment with a zone loses it, one without gets it; Spark computes in UTC."""
    kind, zone = type_of(node.this), node.args["zone"]
    plain = exp.DataType(this=exp.DataType.Type.TIMESTAMPNTZ)
    if kind == "timestamp":
        return _call("convert_timezone", "UTC", zone, exp.Cast(this=node.this.copy(), to=plain))
    if kind in ("timestamp_ntz", "date"):
        local = exp.Cast(this=node.this.copy(), to=plain)
        moved = _call("convert_timezone", zone, "UTC", local)
        return exp.Cast(this=moved, to=exp.DataType(this=exp.DataType.Type.TIMESTAMPLTZ))
    raise NotSaid("AT TIME ZONE of a value whose type is not certain", "CAST it to timestamp or timestamptz")


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
    return _call("nullif", _call("array_position", node.this, node.expression), 0)


def _contains_all(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    whole, part = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        whole, part = part, whole
    size = _call("size", _call("array_except", part, whole))
    return exp.EQ(this=size, expression=exp.Literal.number(0))


def _overlap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _call("arrays_overlap", node.this, node.expression)


def _escaped(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    if isinstance(node.this, exp.RegexpLike):
        raise NotSaid("SIMILAR TO … ESCAPE", "escape with a backslash")
    return None


def _digest(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _call("unhex", _call("sha2", node.this, node.args.get("length") or 256))


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, TypeOf], exp.Expr | None]] = {
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
    exp.Bracket: _matched_group,
    exp.RegexpReplace: _regexp_replace,
    exp.SimilarTo: _similar,
    exp.TimeToStr: _format,
    exp.StrToTime: _format,
    exp.StrToDate: _format,
    exp.UnixToTime: _from_epoch,
    exp.TimestampTrunc: _truncated,
    exp.AtTimeZone: _at_zone,
    exp.ArrayPosition: _position,
    exp.ArraySize: _array_size,
    exp.ArrayContainsAll: _contains_all,
    exp.ArrayContainedBy: _contains_all,
    exp.ArrayOverlaps: _overlap,
    exp.Escape: _escaped,
    exp.SHA2Digest: _digest,
}
