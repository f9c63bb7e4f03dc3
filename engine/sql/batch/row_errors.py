"""on_row_error = 'null': expressions are rewritten so that they give null on a row on which they would fail.

Bound plans hold trees (`expression/null_on_error.py`); a query recomputed as a whole is rewritten as it was parsed. An aggregate
that overflows fails under either setting, since its state would be lost, and so does array[i] beyond the array's end.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlglot.expressions as exp

from engine.sql.expression.nodes import Expr
from engine.sql.expression.null_on_error import CALLS, OPERATORS, null_where_it_fails
from engine.sql.functions import function_name
from engine.sql.parsing.parsed import parsed
from engine.sql.plan import Node

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}


def null_on_error(node: Node) -> Node:
    """Return a plan all of whose row expressions give null where they would fail."""
    rewritten: Node = _rewritten(node)
    return rewritten


def _rewritten(value: Any) -> Any:
    if isinstance(value, Expr):
        return null_where_it_fails(value)
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
    if type(node) in _OPERATORS:
        return _call(OPERATORS[_OPERATORS[type(node)]], node.this, node.expression)
    if isinstance(node, exp.IntDiv):
        zero = exp.Anonymous(this="nullif", expressions=[node.expression.unnest(), exp.Literal.number(0)])
        return exp.IntDiv(this=_operand(node.this), expression=zero)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal | exp.Interval):
        least = exp.Cast(this=exp.Literal.number(-1), to=exp.DataType.build("TINYINT"))
        fits = exp.Not(
            this=exp.Is(this=_call("try_multiply", node.this.copy(), least), expression=exp.Null())
        )
        return exp.Case(ifs=[exp.If(this=fits, true=node)])
    if isinstance(node, exp.Bracket) and node.args.get("offset") == 1:  # element_at
        node.set("safe", True)
        return node
    if isinstance(node, exp.Func):
        name = function_name(node)
        if name in CALLS:
            text = node.sql(dialect="spark")
            return parsed(CALLS[name] + text[text.index("(") :], "spark")
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.unnest() for argument in arguments])


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
