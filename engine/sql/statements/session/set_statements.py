"""SET, RESET and SHOW of settings, read from their tokens: PostgreSQL's and RisingWave's forms in every dialect."""

from __future__ import annotations

import re

from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import find_first_word, unsupported_error_at
from engine.sql.parsing.tokens import tokenize
from engine.sql.statements.statement_types import Set, ShowVariable

_FORM = "SET name = value, SET name TO value, SET name TO DEFAULT, RESET name, RESET ALL"
_SPECIAL = (
    (r"TIME\s+ZONE\s+(?:INTERVAL\s+)?", "timezone"),
    (r"NAMES\s+", "names"),
    (r"(?:SESSION\s+CHARACTERISTICS\s+AS\s+)?TRANSACTION\s+ISOLATION\s+LEVEL\s+", "transaction_isolation"),
    (r"(?:SESSION\s+CHARACTERISTICS\s+AS\s+)?TRANSACTION\s+(?=READ\b)", "transaction_read_only"),
)
_ACCESS = {"READ ONLY": "true", "READ WRITE": "false"}


def read_set(readable: str, sql: str, dialect: Dialect) -> Set | None:
    """Return the statement if it is a SET or RESET, else None; raises UnsupportedSql with the place for a form that is none."""
    text, start = readable.strip(), find_first_word(readable)
    if found := re.fullmatch(r"RESET\s+(.+)", text, re.IGNORECASE | re.DOTALL):
        name = _normalize_name(found[1])
        if name is None:
            raise unsupported_error_at("RESET takes the name of a setting, or ALL", sql, start, _FORM)
        return Set("" if name == "all" else name, None, sql)
    opening = re.match(r"SET\b\s*(?:(LOCAL|SESSION(?!\s+CHARACTERISTICS))\s+)?", text, re.IGNORECASE)
    if opening is None:
        return None
    local, rest = (opening[1] or "").upper() == "LOCAL", text[opening.end() :]
    for pattern, name in _SPECIAL:
        if special := re.match(pattern, rest, re.IGNORECASE):
            value = _read_value(rest[special.end() :], dialect)
            value = _ACCESS.get((value or "").upper(), value) if name == "transaction_read_only" else value
            return Set(name, None if (value or "").upper() == "LOCAL" else value, sql, local)
    named = re.match(r"([\w.]+|\"[^\"]+\"|`[^`]+`)\s*(?:=|\bTO\b)\s*(?=\S)", rest, re.IGNORECASE)
    if named is None:
        raise unsupported_error_at("this form of SET is not offered", sql, start, _FORM)
    return Set(named[1].strip('"`').lower(), _read_value(rest[named.end() :], dialect), sql, local)


def read_show_variable(text: str, sql: str) -> ShowVariable | None:
    """Return the statement if it shows settings, else None."""
    if re.fullmatch(r"SHOW\s+(VARIABLES|PARAMETERS|SETTINGS)", text, re.IGNORECASE):
        return ShowVariable(None, sql)
    pattern = r"SHOW\s+([\w.]+|\"[^\"]+\"|TIME\s+ZONE|TRANSACTION\s+ISOLATION\s+LEVEL)"
    if found := re.fullmatch(pattern, text, re.IGNORECASE):
        return ShowVariable(" ".join(found[1].strip('"').lower().split()), sql)
    return None


def _normalize_name(text: str) -> str | None:
    found = re.fullmatch(r"([\w.]+|TIME\s+ZONE)|\"([^\"]+)\"", text.strip(), re.IGNORECASE)
    return None if found is None else " ".join((found[1] or found[2]).lower().split())


def _read_value(text: str, dialect: Dialect) -> str | None:
    """Return what a setting is set to, None for DEFAULT; texts lose their quotes, of a list each item does."""
    tokens = tokenize(text, dialect)
    if len(tokens) == 1 and text.strip().upper() == "DEFAULT":
        return None
    value, end = "", -1
    for token in tokens:
        gap = " " if value and end + 1 < token.start and token.text != "," else ""
        value, end = value + gap + token.text, token.end
    return value
