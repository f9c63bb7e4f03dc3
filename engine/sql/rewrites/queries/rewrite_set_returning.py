"""Functions of PostgreSQL that give rows, as regexp_matches and jsonb_array_elements do: over the arrays of what they give.

Applies in the dialects of PostgreSQL: in Spark's the same names are functions of one value.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.template_calls import ENTRIES, SETS
from engine.sql.parsing.location import copy_location
from engine.sql.rewrites.contract import ParsedExample, QueryText

EXAMPLE = ParsedExample(
    before="SELECT id, regexp_matches(note, 'a(.)', 'g') FROM bid",
    after="SELECT id, EXPLODE(REGEXP_MATCHES(note, 'a(.)', 'g')) AS regexp_matches FROM bid",
    dialect="postgres",
)


def rewrite_set_returning(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with every call that gives rows as EXPLODE of an array of them, an item of FROM as a table function.

    `unnest(regexp_matches(…))` gives the groups of all matches one after the other.
    """
    if text.dialect == "spark":
        return tree
    for node in [part for part in tree.find_all(exp.Anonymous) if part.name.lower() in SETS]:
        outer = node.parent
        if isinstance(outer, exp.Explode) or (isinstance(outer, exp.Unnest) and len(outer.expressions) == 1):
            flat = exp.Anonymous(this="flatten", expressions=[node.copy()])
            node.replace(copy_location(flat, node))
            continue
        if isinstance(outer, exp.Table | exp.Lateral):
            outer.replace(_build_source(outer, node))
            continue
        rows: exp.Expr = copy_location(exp.Explode(this=node.copy()), node)
        if isinstance(outer, exp.Select):
            rows = exp.alias_(rows, node.name.lower(), copy=False)
        node.replace(rows)
    return tree


def _build_source(table: exp.Table | exp.Lateral, call: exp.Anonymous) -> exp.Expr:
    """Return an item of FROM that gives the rows of a call; beside others it may read their columns."""
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(call.name.lower()))
    entries = call.name.lower() in ENTRIES
    if not alias.args.get("columns"):
        alias.set(
            "columns", list(map(exp.to_identifier, ("key", "value"))) if entries else [alias.this.copy()]
        )
    is_lateral = isinstance(table, exp.Lateral) or isinstance(table.parent, exp.Join)
    kind = exp.Lateral if is_lateral else exp.Table
    rows = exp.Inline if entries else exp.Explode
    return copy_location(kind(this=copy_location(rows(this=call.copy()), call), alias=alias), table)
