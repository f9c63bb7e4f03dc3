"""`(row(…)).*` of PostgreSQL: the fields of a row that is written out, or as an argument of a call the row itself.

Applies in the dialects of PostgreSQL.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.location import copy_location
from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT (row(id, note)).*, (row(id, note)).f2 AS note FROM bid",
    after="SELECT id AS f1, note AS f2, note AS note FROM bid",
    dialect="postgres",
)


def expand_row_fields(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with the fields of rows in their place."""
    if text.dialect == "spark":
        return tree
    for node in list(tree.find_all(exp.Dot)):
        row, field = node.this.unnest(), node.expression
        fields = row.expressions if isinstance(row, exp.Anonymous) and row.name.lower() == "row" else None
        if isinstance(field, exp.Star):
            _expand_fields(node, row, fields)
        elif fields is not None and (place := _parse_position(field.name, len(fields))) is not None:
            found = fields[place].copy()
            plain = isinstance(found, exp.Column | exp.Literal | exp.Func)
            node.replace(copy_location(found if plain else exp.Paren(this=found), node))
    return tree


def _expand_fields(node: exp.Dot, row: exp.Expr, fields: list[exp.Expr] | None) -> None:
    outer = node.parent
    if not isinstance(outer, exp.Select):
        node.replace(row.copy())
    elif fields is not None:
        named = [
            copy_location(exp.alias_(field.copy(), f"f{n}", copy=False), node)
            for n, field in enumerate(fields, 1)
        ]
        items = [part for item in outer.expressions for part in (named if item is node else [item])]
        outer.set("expressions", items)


def _parse_position(name: str, width: int) -> int | None:
    number = name[1:]
    found = name[:1].lower() == "f" and number.isdigit() and 1 <= int(number) <= width
    return int(number) - 1 if found else None
