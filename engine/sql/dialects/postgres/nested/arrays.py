"""Arrays of PostgreSQL: `||`, slices, what is put before or behind, and what is taken out."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf, read_number
from engine.sql.typing.types import element_type

_SLICE = "slice(_p0, greatest({low}, 1), greatest(least({high}, size(_p0)) - greatest({low}, 1) + 1, 0))"


def translate_array_concat(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return `||` of which a side is an array; a null array is an empty one. `a || 1` -> `concat(coalesce(a, …), array(1))`

    Raises NotSaid where it is not certain whether a side is an array, or a text is read as one.
    """
    left, right = _find_kind(node.this, type_of), _find_kind(node.expression, type_of)
    if not _is_array(left) and not _is_array(right):
        return None
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(side.unnest(), exp.Null):  # an array without a type is an array
            array: exp.Expr = other
            return array
        if isinstance(side, exp.Literal) and side.is_string:
            raise Untranslatable(
                "a text beside an array, which PostgreSQL reads as an array,", "write ARRAY['…']"
            )
    if left is None or right is None:
        raise Untranslatable("|| of an array and a value whose type is not certain", "CAST it to its type")
    if _is_array(left) and element_type(left) == right:
        return append_item(node.this, node.expression, left)
    if _is_array(right) and element_type(right) == left:
        return prepend_item(node.expression, node.this, right)
    if _is_array(left) and _is_array(right):
        return concatenate_arrays(node.this, node.expression, left if left == right else None)
    if _is_array(left):
        return append_item(node.this, node.expression, None)
    return prepend_item(node.expression, node.this, None)


def concatenate_arrays(one: exp.Expr, other: exp.Expr, kind: str | None) -> exp.Expr:
    """Return the items of two arrays; if one is null, those of the other."""
    return _fill_typed("coalesce(concat(_p0, _p1), _p0, _p1)", kind, one, other)


def append_item(array: exp.Expr, value: exp.Expr, kind: str | None) -> exp.Expr:
    """Return an array with a value behind it."""
    return _fill_typed("if(_p0 IS NULL, array(_p1), concat(_p0, array(_p1)))", kind, array, value)


def prepend_item(array: exp.Expr, value: exp.Expr, kind: str | None) -> exp.Expr:
    """Return an array with a value before it."""
    return _fill_typed("if(_p0 IS NULL, array(_p1), concat(array(_p1), _p0))", kind, array, value)


def translate_array_call(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return array_append, array_prepend, array_cat and array_remove: null arrays are empty, nulls are values."""
    match node:
        case exp.ArrayAppend():
            return append_item(node.this, node.expression, _find_kind(node.this, type_of))
        case exp.ArrayPrepend():
            return prepend_item(node.this, node.expression, _find_kind(node.this, type_of))
        case exp.ArrayConcat() if len(node.expressions) == 1:
            return concatenate_arrays(node.this, node.expressions[0], _find_kind(node.this, type_of))
        case exp.ArrayRemove():
            return fill_tree("filter(_p0, _e -> NOT (_e <=> _p1))", node.this, node.expression)
    return None


def slice_array(array: exp.Expr, bounds: exp.Slice) -> exp.Expr:
    """Return the items between two places; `a[2:3]` beyond the ends is cut, a null place gives null."""
    low, high = bounds.this, bounds.expression
    if bounds.args.get("step") is not None:
        raise Untranslatable("a slice with a step", "write array[from:to]")
    parts, checked = [array], list[str]()
    places = {"low": "1", "high": "size(_p0)"}
    for name, bound in (("low", low), ("high", high)):
        if bound is not None:
            places[name] = f"CAST(_p{len(parts)} AS INT)"
            if read_number(bound) is None:
                checked.append(f"_p{len(parts)} IS NULL")
            parts.append(bound)
    text = _SLICE.format(**places)
    return fill_tree(f"if({' OR '.join(checked)}, NULL, {text})" if checked else text, *parts)


def _fill_typed(text: str, kind: str | None, *parts: exp.Expr) -> exp.Expr:
    found = fill_tree(text, *parts)
    if kind is None or not _is_array(kind):
        return found
    return exp.Cast(this=found, to=exp.DataType.build(kind, dialect="spark"))


def _find_kind(node: exp.Expr, type_of: TypeOf) -> str | None:
    inner = node.unnest()
    kind = type_of(inner)
    if kind is None and isinstance(inner, exp.Array):
        return "array<>"
    return kind


def _is_array(kind: str | None) -> bool:
    return kind is not None and kind.startswith("array<")
