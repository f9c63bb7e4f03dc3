"""Rows in parentheses compared field by field: a null among the fields leaves the answer open, unless another one decides it."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.terms import TypeOf

_STRICT: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LT,
    exp.LTE: exp.LT,
    exp.GT: exp.GT,
    exp.GTE: exp.GT,
}


def compare_rows(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`(a, b) = (1, 2)` -> `a = 1 AND b = 2`; `(a, b) < (1, 2)` -> `a < 1 OR a = 1 AND b < 2`; None for any other expression.

    `(a, b) IS NULL` holds if all fields are null, `IS NOT NULL` if none is. `(a, b) IN ((1, 2), …)` is one of several equalities.
    """
    if isinstance(node, exp.In) and _list_fields(node.this) is not None and not node.args.get("query"):
        equalities = [exp.EQ(this=node.this.copy(), expression=row.copy()) for row in node.expressions]
        return _combine_or([compare_rows(part, type_of) for part in equalities])
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = compare_rows(exp.GTE(this=node.this, expression=node.args["low"]), type_of)
        high = compare_rows(exp.LTE(this=node.this, expression=node.args["high"]), type_of)
        return None if low is None or high is None else exp.Paren(this=exp.and_(low, high))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return _translate_row_is_null(node)
    if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    left, right = _list_fields(node.this), _list_fields(node.expression)
    if left is None or right is None or len(left) != len(right):
        return None
    pairs = list(zip(left, right, strict=True))
    if isinstance(node, exp.EQ | exp.NEQ):
        each = [type(node)(this=a.copy(), expression=b.copy()) for a, b in pairs]
        return exp.Paren(this=(exp.and_ if isinstance(node, exp.EQ) else exp.or_)(*each))
    last, strict = type(node), _STRICT[type(node)]
    (a, b), *before = reversed(pairs)
    found: exp.Expr = last(this=a.copy(), expression=b.copy())
    for a, b in before:
        same = exp.and_(exp.EQ(this=a.copy(), expression=b.copy()), found)
        found = exp.or_(strict(this=a.copy(), expression=b.copy()), same)
    return exp.Paren(this=found)


def _combine_or(parts: list[exp.Expr | None]) -> exp.Expr | None:
    known = [part for part in parts if part is not None]
    return exp.Paren(this=exp.or_(*known)) if known and len(known) == len(parts) else None


def _translate_row_is_null(node: exp.Is) -> exp.Expr | None:
    fields = _list_fields(node.this)
    if fields is None:
        return None
    each: list[exp.Expr] = [exp.Is(this=field.copy(), expression=exp.Null()) for field in fields]
    if node.args.get("negate"):
        each = [exp.Not(this=part) for part in each]
    return exp.Paren(this=exp.and_(*each))


def _list_fields(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the fields of a row that is written out."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "named_struct":
        return list(node.expressions[1::2])
    return None
