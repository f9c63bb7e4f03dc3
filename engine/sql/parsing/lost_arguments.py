"""Whether a tree's text in Spark SQL says all that the tree says: sqlglot leaves out arguments that its form of a call lacks.

`regexp_like(s, 'a', 'i')` would become `s RLIKE 'a'`. Patterns of dates are translated, and not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
import sqlglot.expressions as exp


def find_lost_argument(tree: exp.Expr, text: str) -> exp.Expr | None:
    """Return a constant or column that is an argument of a call in `tree` and does not stand in `text`, None if all do."""
    said = {token.text.lower() for token in sqlglot.tokenize(text, read="spark")}
    return next(
        (leaf for leaf in _list_arguments(tree) if leaf.name.lower() not in said and not _is_default(leaf)),
        None,
    )


def _is_default(leaf: exp.Expr) -> bool:
    """Tell whether a call means the same without an argument: `regexp_extract(s, p, 1)` takes the first group anyway."""
    call = leaf.parent
    return call is not None and sqlglot.parse_one(call.sql(dialect="spark"), read="spark") == call


def _list_arguments(tree: exp.Expr) -> Iterator[exp.Expr]:
    for leaf in tree.find_all(exp.Literal, exp.Column):
        if isinstance(leaf.parent, exp.Func) and leaf.arg_key != "format":
            yield leaf
