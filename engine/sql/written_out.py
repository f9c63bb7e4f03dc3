"""What stands for something longer in a query is written out, before names are bound or Spark reads it: one meaning for both."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog
from engine.sql.macros import inline_functions
from engine.sql.rewrites.corresponding import corresponding
from engine.sql.rewrites.regexp_matches import regexp_matches


def written_out(tree: exp.Expr, catalog: Catalog, dialect: str, sql: str) -> exp.Expr:
    """Return a query with functions of users, CORRESPONDING and regexp_matches written out; raises SqlError with the place."""
    tree = inline_functions(tree, catalog, dialect, sql)
    if dialect != "spark":
        tree = regexp_matches(tree)
    return corresponding(tree, catalog, sql)
