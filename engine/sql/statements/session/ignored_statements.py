"""Statements that clients and scripts of elsewhere send, and that mean nothing here: they are taken, and a notice says why.

What would promise something that is not kept (ROLLBACK, GRANT, LOCK) is not among them: that is an error.
"""

from __future__ import annotations

import re

from engine.sql.statements.session.session_statements import IgnoredStatement
from engine.sql.statements.statement_types import Set, Statement

_COMMITS = "each statement is its own transaction: it is committed when it returns, and cannot be rolled back"
_STATISTICS = "there are no statistics to gather: plans follow from the rows that change"
_IGNORED = (
    (
        r"(BEGIN|START)(\s+(TRANSACTION|WORK))?(\s+(READ\s+(ONLY|WRITE)|ISOLATION\s+LEVEL\s+[\w\s]+))*",
        _COMMITS,
    ),
    (r"(COMMIT|END)(\s+(TRANSACTION|WORK))?", _COMMITS),
    (r"ANALY[ZS]E\b.*", _STATISTICS),
    (r"VACUUM\b.*", "compaction runs by itself; `tideline compact` runs it now"),
    (r"REFRESH\s+(TABLE|FUNCTION)\b.*", "each statement reads what is there"),
    (r"(UN)?CACHE\s+TABLE\b.*", "what is read often is kept by itself"),
    (r"DEALLOCATE\b.*", "nothing is kept of a statement that has run"),
)


def read_ignored_statement(text: str, sql: str) -> Statement | None:
    """Return the statement if it is one of these, else None."""
    if re.fullmatch(r"DISCARD\s+ALL", text, re.IGNORECASE):
        return Set("", None, sql)
    for pattern, why in _IGNORED:
        if re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL):
            return IgnoredStatement(f"{' '.join(text.split()[:2]).upper()} has no meaning here: {why}", sql)
    return None
