"""WITH options of tables and sources: an unknown connector or option is refused when the table is made, with its place."""

from __future__ import annotations

import difflib

from engine.connectors import landing, nexmark
from engine.connectors.landing_options import wrong_option
from engine.sql.parsing.refusals import refusal
from engine.sql.statements.statement_types import CreateTable

_OPTIONS = {landing.CONNECTOR: landing.OPTIONS, nexmark.CONNECTOR: nexmark.OPTIONS}
_CONNECTOR = "connector"
_OF_ROWS = ("retention_seconds", "ttl", "ttl_seconds")
"""How other systems call the time that rows live."""


def check_table_options(statement: CreateTable) -> None:
    """Raise UnsupportedSql, with the place, for a connector or an option of CREATE TABLE or CREATE SOURCE that there is not."""
    options = statement.options
    connector = options.get(_CONNECTOR)
    if connector is None:
        for name in options:
            raise _wrong(statement, name, *_without_connector(name))
        return
    if connector not in _OPTIONS:
        hint = _near(connector, tuple(_OPTIONS)) or f"connectors are {', '.join(_OPTIONS)}"
        raise _wrong(statement, _CONNECTOR, f"there is no connector '{connector}'", hint)
    known = _OPTIONS[connector]
    for name in options:
        if name not in known:
            hint = _near(name, tuple(known)) or f"options are {', '.join(known)}"
            raise _wrong(statement, name, f"the connector {connector} has no option {name}", hint)
    if connector == landing.CONNECTOR and not options.get("path"):
        hint = "WITH (connector = 'landing', path = 'folder')"
        raise _wrong(statement, _CONNECTOR, "the connector landing needs a path", hint)
    if connector == landing.CONNECTOR and (wrong := wrong_option(options)) is not None:
        raise _wrong(statement, wrong.option, wrong.message, wrong.hint)


def _without_connector(name: str) -> tuple[str, str]:
    """Return what is wrong with an option of a table that names no connector, and what was probably meant."""
    if difflib.get_close_matches(name, (_CONNECTOR,), 1, 0.8):
        return f"there is no option {name} of a table", f"did you mean {_CONNECTOR}?"
    if name in _OF_ROWS:
        hint = "views would keep what they have taken of them: DELETE FROM t WHERE … takes rows out of both"
        return f"{name} is not offered: no row of a table goes by itself", hint
    owners = [connector for connector, known in _OPTIONS.items() if name in known]
    if owners:
        return f"{name} is an option of connectors", f"add connector = '{owners[0]}', or leave it out"
    return f"there is no option {name} of a table", "a table without a connector has no options"


def _near(name: str, known: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(name.lower(), known, 1)
    return f"did you mean {found[0]}?" if found else ""


def _wrong(statement: CreateTable, option: str, message: str, hint: str) -> Exception:
    return refusal(message, statement.sql, statement.places.get(option, 0), hint)
