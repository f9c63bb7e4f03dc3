"""FOR SYSTEM_TIME AS OF PROCTIME(): the right side of a join as it stood when a row of the left side came."""

from __future__ import annotations

import sqlglot.expressions as exp


def is_at_arrival(item: exp.Expr) -> bool:
    """Tell whether an item of FROM is read as of the time of processing."""
    version = item.args.get("version") if isinstance(item, exp.Table) else None
    if not isinstance(version, exp.Version) or str(version.args.get("kind")).upper() != "AS OF":
        return False
    return is_proctime(version.expression)


def is_proctime(node: exp.Expr | None) -> bool:
    """Tell whether an expression is PROCTIME()."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME" and not node.expressions


def without_moment(item: exp.Expr) -> exp.Expr:
    """Return an item of FROM without the moment at which it is read."""
    plain = item.copy()
    plain.set("version", None)
    return plain


def as_of_now(query: exp.Expr) -> exp.Expr:
    """Return a query that is answered once: for it what is read as of the time of processing is read as it is now."""
    now = query.copy()
    for table in now.find_all(exp.Table):
        if is_at_arrival(table):
            table.set("version", None)
    return now
