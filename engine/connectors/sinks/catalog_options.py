"""The options of CREATE SINK as the catalog keeps them."""

from __future__ import annotations

import difflib

from engine.connectors.sinks.option_parsing import (
    build_option_error,
    parse_boolean,
    parse_count,
    parse_retention,
)
from engine.connectors.sinks.options import COMMON_OPTIONS, TYPES
from engine.connectors.sinks.registry import INTO, SINKS
from engine.log_store.sink import VNODES
from engine.sql.statements.ddl.sink_statements import CreateSink


def resolve_options(statement: CreateSink, append_only: bool) -> dict[str, str]:
    """Return the options of a new sink as the catalog keeps them; `append_only` says what its view is. Raises SqlError."""
    options = statement.options
    name = options.get("connector", "table" if statement.into else "")
    if (name != INTO.name) if statement.into else (name not in SINKS.list_plugins()):
        named = [f"connector = '{one}'" for one in SINKS.list_plugins()]
        offered = " or ".join(SINKS.list_plugins())
        hint = f"{' or '.join(named)} with its options, or INTO a table without connector"
        misspelt = next((one for one in options if not name and _find_near(one, ("connector",), 0.8)), "")
        if misspelt:
            raise build_option_error(
                statement, misspelt, f"a sink has no option {misspelt}", "did you mean connector?"
            )
        raise build_option_error(statement, "connector", f"the connector of a sink is {offered}", hint)
    connector = INTO if statement.into else SINKS.find(name)
    known = {**COMMON_OPTIONS, **connector.options}
    for option in options:
        if option not in known:
            near = _find_near(option, tuple(known))
            hint = f"did you mean {near}?" if near else f"options are {', '.join(known)}"
            raise build_option_error(statement, option, f"a sink has no option {option}", hint)
    kind = options.get("type", TYPES[1] if append_only else TYPES[0]).lower()
    if kind not in TYPES:
        hint = f"write type = '{TYPES[0]}' or type = '{TYPES[1]}'"
        raise build_option_error(
            statement, "type", f'a sink is of type upsert or append-only, not "{kind}"', hint
        )
    found = {
        "type": kind,
        "force_append_only": parse_boolean(statement, "force_append_only", "false"),
        "snapshot": parse_boolean(statement, "snapshot", "true"),
        "retention": str(parse_retention(statement)),
        "vnode_groups": str(parse_count(statement, "vnode_groups", 1, VNODES)),
    }
    return {**found, **connector.resolve_options(statement)}


def _find_near(name: str, known: tuple[str, ...], least: float = 0.6) -> str:
    """Return what was probably meant, "" if that cannot be guessed."""
    return next(iter(difflib.get_close_matches(name, known, 1, least)), "")
