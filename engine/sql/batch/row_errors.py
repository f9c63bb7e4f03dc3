"""on_row_error = 'null': expressions are rewritten so that they give null on a row on which they would fail.

Bound plans hold trees (`expression/null_on_error.py`); a query recomputed as a whole is rewritten as it was parsed. An aggregate
that overflows fails under either setting, since its state would be lost, and so does array[i] beyond the array's end.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlglot.expressions as exp

from engine.sql.expression.nodes import Expr
from engine.sql.expression.null_on_error import CALLS, OPERATORS, guard_expression
from engine.sql.functions import find_function_name
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.plan import Node

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}


def guard_plan(node: Node) -> Node:
    """Return a plan all of whose row expressions give null where they would fail."""
    rewritten: Node = _guard_value(node)
    return rewritten


def _guard_value(value: Any) -> Any:
    if isinstance(value, Expr):
        return guard_expression(value)
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            new = _guard_value(old)
            if new is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        new_items = tuple(_guard_value(item) for item in value)
        same = all(new is old for new, old in zip(new_items, value, strict=True))
        return value if same else new_items
    return value


def guard_tree(tree: exp.Expr) -> exp.Expr:
    """Return a tree of Spark SQL in which every part that can fail on a row is its try_ form."""
    for key, value in list(tree.args.items()):
        if isinstance(value, exp.Expr):
            tree.set(key, guard_tree(value))
        elif isinstance(value, list):
            tree.set(key, [guard_tree(v) if isinstance(v, exp.Expr) else v for v in value])
    return _guard_node(tree)


def _guard_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Cast):
        return exp.TryCast(this=node.this, to=node.args["to"], safe=True)
    if type(node) in _OPERATORS:
        return _build_call(OPERATORS[_OPERATORS[type(node)]], node.this, node.expression)
    if isinstance(node, exp.IntDiv):
        zero = exp.Anonymous(this="nullif", expressions=[node.expression.unnest(), exp.Literal.number(0)])
        return exp.IntDiv(this=_wrap_operand(node.this), expression=zero)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal | exp.Interval):
        least = exp.Cast(this=exp.Literal.number(-1), to=exp.DataType.build("TINYINT"))
        fits = exp.Not(
            this=exp.Is(this=_build_call("try_multiply", node.this.copy(), least), expression=exp.Null())
        )
        return exp.Case(ifs=[exp.If(this=fits, true=node)])
    if isinstance(node, exp.Bracket) and node.args.get("offset") == 1:  # element_at
        node.set("safe", True)
        return node
    if isinstance(node, exp.Func):
        name = find_function_name(node)
        if name == "assert_true":
            return exp.Null()
        if name in CALLS:
            text = node.sql(dialect="spark")
            return parse_tree(CALLS[name] + text[text.index("(") :], "spark")
    return node


def _build_call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.unnest() for argument in arguments])


def _wrap_operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
