"""on_row_error = 'null': expressions are rewritten so that they give null on a row on which they would fail.

Method: Spark's own try_ functions. Arithmetic, casts, element_at, and the conversions of text below are covered. An aggregate
that overflows fails under either setting, since its state would be lost, and so does array[i] beyond the array's end.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlglot.expressions as exp

from engine.sql.functions import function_name
from engine.sql.parsed import parsed
from engine.sql.plan import AggCall, Expr, Node

_OPERATORS: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Add, "try_add"),
    (exp.Sub, "try_subtract"),
    (exp.Mul, "try_multiply"),
    (exp.Div, "try_divide"),
    (exp.Mod, "try_mod"),
)
_CALLS = {
    "to_timestamp": "try_to_timestamp",
    "to_date": "try_to_date",
    "to_time": "try_to_time",
    "to_number": "try_to_number",
    "to_binary": "try_to_binary",
    "make_timestamp": "try_make_timestamp",
    "make_interval": "try_make_interval",
    "parse_url": "try_parse_url",
    "url_decode": "try_url_decode",
    "parse_json": "try_parse_json",
    "variant_get": "try_variant_get",
    "validate_utf8": "try_validate_utf8",
    "zstd_decompress": "try_zstd_decompress",
    "mod": "try_mod",
}


def null_on_error(node: Node) -> Node:
    """Return a plan all of whose row expressions give null where they would fail."""
    rewritten: Node = _rewritten(node)
    return rewritten


def _rewritten(value: Any) -> Any:
    if isinstance(value, Expr):
        return safe(value)
    if isinstance(value, AggCall) and value.text is not None:
        return value  # a whole aggregate call as text
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            new = _rewritten(old)
            if new is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        new_items = tuple(_rewritten(item) for item in value)
        same = all(new is old for new, old in zip(new_items, value, strict=True))
        return value if same else new_items
    return value


def safe(expr: Expr) -> Expr:
    """Return an expression that gives null where `expr` would fail on a row."""
    if expr.column is not None:
        return expr
    tree = parsed(expr.sql, "spark")
    before = tree.sql(dialect="spark")
    after = without_errors(tree).sql(dialect="spark")
    return expr if after == before else msgspec.structs.replace(expr, sql=after)


def without_errors(tree: exp.Expr) -> exp.Expr:
    """Return a tree of Spark SQL in which every part that can fail on a row is its try_ form."""
    for key, value in list(tree.args.items()):
        if isinstance(value, exp.Expr):
            tree.set(key, without_errors(value))
        elif isinstance(value, list):
            tree.set(key, [without_errors(v) if isinstance(v, exp.Expr) else v for v in value])
    return _safe_node(tree)


def _safe_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Cast):
        return exp.TryCast(this=node.this, to=node.args["to"], safe=True)
    for kind, name in _OPERATORS:
        if type(node) is kind:
            return _call(name, node.this, node.expression)
    if isinstance(node, exp.IntDiv):
        zero = exp.Anonymous(this="nullif", expressions=[node.expression.unnest(), exp.Literal.number(0)])
        return exp.IntDiv(this=_operand(node.this), expression=zero)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
        return _call("try_subtract", exp.Literal.number(0), node.this)
    if isinstance(node, exp.Bracket) and node.args.get("offset") == 1:  # element_at
        node.set("safe", True)
        return node
    if isinstance(node, exp.Func):
        called = function_name(node)
        if called in _CALLS:
            text = node.sql(dialect="spark")
            return parsed(_CALLS[called] + text[text.index("(") :], "spark")
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.unnest() for argument in arguments])


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
