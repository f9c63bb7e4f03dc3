"""SHOW, read by its words."""

from __future__ import annotations

import re

from engine.sql.dialect import Dialect
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.statements.session.session_statements import LISTS
from engine.sql.statements.session.set_statements import read_show_variable
from engine.sql.statements.statement_types import Show, ShowCreate, ShowVariable, Statement

_LISTS = r"TABLES|MATERIALIZED\s+VIEWS|VIEWS|INDEXES|FUNCTIONS|SOURCES|SCHEMAS|DATABASES|ALL"
_SHOW = (
    "SHOW TABLES, VIEWS, MATERIALIZED VIEWS, INDEXES, FUNCTIONS, SINKS, SUBSCRIPTIONS, CURSORS, ALL "
    "(each with LIKE 'pattern'), COLUMNS FROM name, CREATE TABLE name, JOBS, WATERMARKS, VARIABLES, or the name of a setting"
)


def read_show(text: str, start: int, sql: str, dialect: Dialect) -> Statement:
    """Return the statement that a SHOW is; raises UnsupportedSql with the place."""
    if found := re.fullmatch(rf"SHOW\s+({'|'.join(LISTS)})", text, re.IGNORECASE):
        return LISTS[found[1].upper()](sql)
    pattern = rf"SHOW\s+CREATE\s+(?:TABLE|SOURCE|(?:MATERIALIZED\s+)?VIEW|INDEX|FUNCTION|SINK|SUBSCRIPTION)\s+({NAME})"
    if found := re.fullmatch(pattern, text, re.IGNORECASE):
        return ShowCreate(parse_name(found[1], dialect), sql)
    if dialect != "spark" and re.fullmatch(r"SHOW\s+ALL", text, re.IGNORECASE):
        return ShowVariable(None, sql)
    pattern = rf"SHOW\s+({_LISTS})(?:\s+(?:FROM|IN)\s+({NAME}))?(?:\s+LIKE\s+'([^']*)')?"
    found = re.fullmatch(pattern, text, re.IGNORECASE)
    if found and not (found[2] and found[1].upper() == "INDEXES"):
        what = "schemas" if found[1].upper() == "DATABASES" else " ".join(found[1].lower().split())
        schema = parse_name(found[2], dialect) if found[2] else None
        return Show(what, found[3], sql, schema=schema)
    pattern = rf"SHOW\s+(COLUMNS|INDEXES)\s+(?:FROM|IN|ON)\s+({NAME})"
    if found := re.fullmatch(pattern, text, re.IGNORECASE):
        return Show(found[1].lower(), None, sql, parse_name(found[2], dialect))
    variable = read_show_variable(text, sql)
    if variable is not None:
        return variable
    raise unsupported_error_at(f"{text[:40]} is not offered", sql, start, _SHOW)
