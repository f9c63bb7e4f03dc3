"""What could be followed at a place: each connector is asked whose address it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.connectors.contract.discovery import FoundTable
from engine.connectors.registry import CONNECTORS
from engine.errors import SourceError

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")


def discover_tables(
    place: str, options: Mapping[str, str], keys: Mapping[str, Sequence[str]] | None = None
) -> list[FoundTable]:
    """Return the tables that a place holds, each by another name; raises SourceError for an address that nothing here reads.

    `keys` names the columns of keys by tables, where the place does not tell them.

    A folder, or a prefix of a bucket, is one of Delta tables if it holds any, else one of files that land.
    """
    scheme = _SCHEME.match(place)
    kind = scheme[1].lower() if scheme else "file"
    asked = [one for one in CONNECTORS.list_plugins().values() if kind in one.schemes]
    if not asked:
        known = sorted(
            {name for one in CONNECTORS.list_plugins().values() for name in one.schemes} - {"file"}
        )
        raise SourceError(
            f"{kind}: is no address that tables are found at: write a folder, or one that begins with "
            f"{', '.join(f'{name}://' for name in known)}"
        )
    for connector in reversed(
        asked
    ):  # a Delta table is a folder of files, too: who knows more is named later
        found = list(connector.discover_tables(place, options))
        if found:
            return _set_keys(_name_apart(found), keys or {})
    return []


def _name_apart(tables: Sequence[FoundTable]) -> list[FoundTable]:
    """Return the tables, later ones of a name with a number behind it."""
    taken, found = set[str](), list[FoundTable]()
    for table in tables:
        name, number = table.name, 2
        while name in taken:
            name, number = f"{table.name}_{number}", number + 1
        taken.add(name)
        found.append(replace(table, name=name))
    return found


def _set_keys(tables: Sequence[FoundTable], keys: Mapping[str, Sequence[str]]) -> list[FoundTable]:
    names = [table.name for table in tables]
    for name in keys:
        if name not in names:
            raise SourceError(f"there is no table {name} to name a key of: there are {', '.join(names)}")
    return [table.set_key(keys[table.name]) if table.name in keys else table for table in tables]
