"""Where models stand in their files: errors of statements are told there, and names are seen where nothing else can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dagster_tideline.models.header import build_error
from engine.errors import SqlError, TidelineError
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.parsing.statement_errors import find_offset

_CREATE = re.compile(
    rf"^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(MATERIALIZED\s+VIEW|VIEW|TABLE|SOURCE|SINK|FUNCTION|AGGREGATE)\s+(?:IF\s+NOT\s+EXISTS\s+)?({NAME})",
    re.IGNORECASE | re.MULTILINE,
)
_KINDS = {"aggregate": "function"}


@dataclass(frozen=True)
class SourceText:
    """A statement in the text of its file, where it begins at a character.

    `options` are those that its header adds to it, and where the lines begin that say them.
    """

    text: str
    begin: int
    statement: str
    options: Mapping[str, int]

    def locate_error(self, error: TidelineError, sql: str) -> TidelineError:
        """Return an error of `sql`, the statement with what its header says in it, at its place in the file."""
        if not isinstance(error, SqlError) or not error.line or error.sql != sql:
            return error
        at, longer = find_offset(sql, error.line, error.column), len(sql) - len(self.statement)
        added = next(
            (i for i, pair in enumerate(zip(sql, self.statement, strict=False)) if pair[0] != pair[1]),
            len(sql),
        )
        if longer and added <= at < added + longer:
            said = {sql.find(f"{option} = ", added): place for option, place in self.options.items()}
            before = max((begin for begin in said if 0 <= begin <= at), default=None)
            place = next(iter(self.options.values())) if before is None else said[before]
            return build_error(error.message, place, self.text, error.hint)
        return build_error(
            error.message, self.begin + (at if at < added else at - longer), self.text, error.hint
        )


def locate_in_file(error: TidelineError, text: str, begin: int) -> TidelineError:
    """Return an error of a statement at its place in the file, where the statement begins at a character."""
    if not isinstance(error, SqlError) or not error.line or error.sql == text:
        return error
    at = begin + find_offset(text[begin:], error.line, error.column)
    return build_error(error.message, at, text, error.hint)


def find_created_names(text: str) -> list[tuple[str, str]]:
    """Return name and kind of what a text can be seen to create, without those that no asset can have as its name."""
    words = ((one[2], " ".join(one[1].lower().split())) for one in _CREATE.finditer(text))
    found = [(parse_name(name, "spark"), _KINDS.get(kind, kind)) for name, kind in words]
    return [(name, kind) for name, kind in found if re.fullmatch(r"[A-Za-z0-9_]+", name)]
