"""A call of a user's function in Python, as plans and Spark have it: by the name of its content, checked row by row."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.python_functions.definition import ARGUMENT, PROBLEM, RESULT, PythonFunction, find_known
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.typing.types import cast_type, quote_type

_CALL = "_p0"
_CHECKED = (
    f"get(transform(array({_CALL}), _c -> if(_c.{PROBLEM} IS NULL, _c.{RESULT}, "
    f"CAST(assert_true(FALSE, _c.{PROBLEM}) AS {{kind}}))), 0)"
)
"""The call stands there once, however deep it is nested; a row that nobody asks for does not fail."""


def is_python_call(node: exp.Expr) -> bool:
    """Tell whether a node is the call of a function in Python by the name of its content."""
    return isinstance(node, exp.Anonymous) and find_known(str(node.name)) is not None


def build_python_call(
    function: PythonFunction, arguments: list[exp.Expr], where: exp.Expr | None = None
) -> exp.Expr:
    """Return the call of a function of values of its parameters' types; of an aggregate, over the rows of the group."""
    if function.aggregate:
        arguments = [_list_rows(arguments, where)]
    given = arguments or [exp.Literal.number(0)]  # Spark calls no function in Python without an argument
    call = exp.Anonymous(this=function.call_name, expressions=given)
    text = _CHECKED.format(kind=quote_type(function.returns))
    tree = parse_tree(f"SELECT {text}", "spark").expressions[0]
    for hole in list(tree.find_all(exp.Column)):
        if hole.name == _CALL:
            hole.replace(call)
    for part in tree.walk():
        if part is not call and part.find_ancestor(exp.Anonymous) is not call:
            part.meta.pop("start", None)
            part.meta.pop("end", None)
    return exp.Cast(this=tree, to=cast_type(function.returns))


def _list_rows(arguments: list[exp.Expr], where: exp.Expr | None) -> exp.Expr:
    fields: list[exp.Expr] = []
    for number, argument in enumerate(arguments):
        fields += [exp.Literal.string(f"{ARGUMENT}{number}"), argument]
    rows: exp.Expr = exp.ArrayAgg(this=exp.Anonymous(this="named_struct", expressions=fields))
    return rows if where is None else exp.Filter(this=rows, expression=exp.Where(this=where))
