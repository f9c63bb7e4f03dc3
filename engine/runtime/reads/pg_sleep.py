"""SELECT pg_sleep(n) of PostgreSQL's family: scripts wait so until rows have aged, or others have done their work."""

from __future__ import annotations

import pyarrow as pa
import sqlglot.expressions as exp

_NAME = "pg_sleep"


def parse_pause(query: exp.Expr) -> float | None:
    """Return for how many seconds a query of nothing but pg_sleep with a number asks to wait, None for any other query."""
    if not isinstance(query, exp.Select) or any(v for k, v in query.args.items() if k != "expressions"):
        return None
    items = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    call = items[0] if len(items) == 1 else None
    if not isinstance(call, exp.Anonymous) or call.name.lower() != _NAME or len(call.expressions) != 1:
        return None
    seconds = call.expressions[0]
    return float(seconds.this) if isinstance(seconds, exp.Literal) and not seconds.is_string else None


def build_pause_result() -> pa.Table:
    """Return the row that a pause gives: an empty text, as clients show PostgreSQL's void."""
    return pa.table({_NAME: pa.array([""], pa.string())})
