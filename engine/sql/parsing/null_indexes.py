"""Elements at null indexes are null: Spark declares an element of an array without nulls as not null, whatever the index is.

What is compiled then takes the index for -1, and what is interpreted the element for 0: `WHERE a[i] IS NULL` finds no row, and
`element_at(a, i)` may be the last element (Spark 4.2). The same is done to the expressions of plans as they are rendered.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.functions import is_table_function


def guard_null_indexes(tree: exp.Expr) -> exp.Expr:
    """Return a tree of Spark's dialect, changed in place, whose elements of arrays are null where their index is.

    Columns of a SELECT keep the names that they have without that; functions that return rows name theirs themselves.
    """
    for select in tree.find_all(exp.Select):
        for item in select.expressions:
            if _is_named_by_text(item) and any(map(_may_be_null, item.find_all(exp.Bracket))):
                name = item.sql(dialect="spark", normalize_functions="lower")
                item.replace(exp.alias_(item.copy(), exp.to_identifier(name, quoted=True)))
    for node in reversed([node for node in tree.find_all(exp.Bracket) if _may_be_null(node)]):
        (index,) = node.expressions
        value = index.copy() if isinstance(index, exp.Column | exp.Identifier) else exp.paren(index.copy())
        is_null = exp.Is(this=value, expression=exp.Null())
        guarded = exp.If(this=is_null, true=exp.Null(), false=node.copy())
        if node is tree:
            return guarded
        node.replace(guarded)
    return tree


def _is_named_by_text(item: exp.Expr) -> bool:
    """Tell whether Spark calls an item of a SELECT as it is written: it has no name, and gives one column."""
    return not (
        isinstance(item, exp.Alias | exp.Aliases) or item.is_star or any(map(is_table_function, item.walk()))
    )


def _may_be_null(node: exp.Bracket) -> bool:
    """Tell whether an element is taken by an index that is no literal; `try_element_at` is declared as it should be."""
    if len(node.expressions) != 1 or node.args.get("safe"):
        return False
    (index,) = node.expressions
    return not isinstance(index.this if isinstance(index, exp.Neg) else index, exp.Literal | exp.Slice)
