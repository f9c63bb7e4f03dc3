"""The option `gate` of a materialized view, read: `rows_changed <= 1%; rows_deleted = 0; changed(total) <= 100`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from engine.sql.parsing.statement_errors import unsupported_error_at

GATE = "gate"
FORM = (
    "bounds between semicolons, each rows_changed, rows_inserted, rows_deleted, rows_updated or changed(column), "
    "<= or <, and a number of rows or a share such as 1%; = 0 allows none"
)
MEASURES = ("rows_changed", "rows_inserted", "rows_deleted", "rows_updated")
_COLUMN = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[A-Za-z_]\w*'
_BOUND = re.compile(
    rf"({'|'.join(MEASURES)}|changed\s*\(\s*(?P<column>{_COLUMN})\s*\))\s*(?P<sign><=|<|=)\s*(?P<limit>\d+(?:\.\d+)?)\s*(?P<share>%?)",
    re.IGNORECASE,
)
_PARTS = re.compile(r'(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^;"`])+')


@dataclass(frozen=True)
class GateBound:
    """One bound: how many of the `measure` there may be, of `changed` in the updated rows in which `column` changes.

    A share is a limit in per cent of the rows that the view has, or of those that it gets where it has none.
    """

    text: str
    measure: str
    limit: Decimal
    is_share: bool
    is_strict: bool
    column: str = ""

    def is_kept(self, count: int, rows: int) -> bool:
        """Tell whether so many rows, of a view with so many, are within the bound."""
        value, limit = (100 * count, self.limit * max(rows, 1)) if self.is_share else (count, self.limit)
        return value < limit or (not self.is_strict and value == limit)


def parse_gate(text: str, sql: str) -> tuple[GateBound, ...]:
    """Return the bounds that an option says; raises UnsupportedSql for what is none."""
    found = [_parse_bound(part.strip(), sql) for part in _PARTS.findall(text) if part.strip()]
    if not found:
        raise _build_error("the option gate says no bound", "", sql)
    return tuple(found)


def _parse_bound(text: str, sql: str) -> GateBound:
    match = _BOUND.fullmatch(text)
    if match is None:
        raise _build_error(f"a gate cannot be bounded by {text}", text, sql)
    limit, is_share = Decimal(match["limit"]), bool(match["share"])
    if match["sign"] == "=" and limit:
        raise _build_error(f"{text} would ask for just so many rows", text, sql)
    column = match["column"] or ""
    if column[:1] in ('"', "`"):
        column = column[1:-1].replace(column[0] * 2, column[0])
    measure = "changed" if column else match[1].lower()
    return GateBound(text, measure, limit, is_share, match["sign"] == "<", column)


def _build_error(message: str, text: str, sql: str) -> Exception:
    return unsupported_error_at(message, sql, max(sql.find(text), 0), f"write {FORM}")
