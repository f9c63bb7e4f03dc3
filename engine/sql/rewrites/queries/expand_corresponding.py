"""CORRESPONDING: both sides of a UNION, INTERSECT or EXCEPT give the columns that they share, by name.

Applies to each operation that says CORRESPONDING, inner ones first: what they show is known afterwards.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.statement_errors import sql_error, unsupported_error
from engine.sql.rewrites.contract import ParsedExample, QueryText
from engine.sql.typing.query_types import QueryTypes

EXAMPLE = ParsedExample(
    before="SELECT id, note FROM bid UNION CORRESPONDING SELECT id FROM auction",
    after="SELECT `id` FROM (SELECT id, note FROM bid) AS `_side` UNION SELECT `id` FROM (SELECT id FROM auction) AS `_side`",
    dialect="postgres",
)
_HINT = "give columns that are to meet the same name, or write BY (column, …)"


def expand_corresponding(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with a SELECT of the shared columns around each side.

    The columns are those of BY, else all that both sides have, in the order of the left one. Raises SqlError with the place if
    there is none, or if one side lacks a column of BY.
    """
    found = [node for node in tree.find_all(exp.SetOperation) if _is_corresponding(node)]
    for node in reversed(found):
        types = QueryTypes(tree, text.catalog)
        names = _list_shared_names(node, types, text.sql)
        for part in ("this", "expression"):
            node.set(part, _select_names(node.args[part], names))
        for part in ("by_name", "kind", "on"):
            node.set(part, None)
    return tree


def _is_corresponding(node: exp.SetOperation) -> bool:
    return bool(node.args.get("by_name")) and str(node.args.get("kind") or "").upper() == "INNER"


def _list_shared_names(node: exp.SetOperation, types: QueryTypes, sql: str) -> list[str]:
    sides = [types.list_names(node.args[part]) for part in ("this", "expression")]
    columns = [part.this if isinstance(part, exp.Column) else part for part in node.args.get("on") or ()]
    if columns:
        for part in columns:
            for word, side in zip(("left", "right"), sides, strict=True):
                if side is not None and part.name.lower() not in side:
                    message = f"the {word} side has no column {part.name}"
                    raise sql_error(message, part, sql, f"its columns are {', '.join(side)}")
        return [normalize_identifier(part) for part in columns]
    left, right = sides
    if left is None or right is None:
        word = "left" if left is None else "right"
        message = f"the columns of the {word} side of CORRESPONDING are not known"
        raise unsupported_error(
            message, node, sql, "write BY (column, …), or list the columns of each side in one order"
        )
    shared = [name for name in left if name in right]
    if not shared:
        message = f"the sides share no column: {', '.join(left)} and {', '.join(right)}"
        raise sql_error(message, node, sql, _HINT)
    return shared


def _select_names(side: exp.Expr, names: list[str]) -> exp.Expr:
    items = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    inner = side.this if isinstance(side, exp.Subquery) and side.args.get("alias") is None else side
    alias = exp.TableAlias(this=exp.to_identifier("_side", quoted=True))
    return copy_location(
        exp.Select(expressions=items).from_(exp.Subquery(this=inner, alias=alias), copy=False), side
    )
