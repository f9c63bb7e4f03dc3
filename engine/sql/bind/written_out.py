"""What stands for something longer in a query is written out, before names are bound or Spark reads it: one meaning for both."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.bind.macros import inline_functions
from engine.sql.catalog import Catalog
from engine.sql.rewrites.corresponding import corresponding
from engine.sql.rewrites.lockstep import lockstep
from engine.sql.rewrites.set_returning import set_returning


def written_out(tree: exp.Expr, catalog: Catalog, dialect: str, sql: str) -> exp.Expr:
    """Return a query with functions of users, those that give rows, and CORRESPONDING written out; raises SqlError."""
    tree = inline_functions(tree, catalog, dialect, sql)
    if dialect != "spark":
        tree = lockstep(set_returning(tree))
    return corresponding(tree, catalog, sql)
