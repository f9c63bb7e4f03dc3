"""Which relation of the store stands for a table of a dbt project: names of models, seeds and sources, kept apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dagster_tideline.dbt.manifest import DbtNode, Manifest, ManifestError

TABLES = ("model", "seed", "snapshot")
"""The kinds of nodes that dbt keeps as tables or views."""
_NAME = re.compile(r"[a-z0-9_]+")
T = TypeVar("T")
Place = tuple[str, str, str]
"""Database, schema and identifier of a table, in lower case."""


@dataclass(frozen=True)
class RelationNames:
    """The relations of a project's tables: their names by unique id, and whose table stands at a place.

    `errors` are of nodes that have no name of their own, by unique id.
    """

    names: Mapping[str, str]
    places: Mapping[Place, DbtNode]
    errors: Mapping[str, str] = field(default_factory=dict)
    plain: Mapping[Place, str] = field(default_factory=dict)
    """Relations for tables that texts name, and no source does, by what is said under `sources`."""

    def find(self, parts: Sequence[str]) -> DbtNode | None:
        """Return whose table a name of a compiled text means, which may leave the database out."""
        return find_place(self.places, parts)

    def find_plain(self, parts: Sequence[str]) -> str | None:
        """Return the relation that stands for a table which is no source."""
        return find_place(self.plain, parts)


def find_place(places: Mapping[Place, T], parts: Sequence[str]) -> T | None:
    """Return what stands at a place, of which the database may be left out; none where two would be meant."""
    wanted = tuple(part.lower() for part in parts)
    if len(wanted) == 3 and wanted in places:
        return places[wanted]
    if len(wanted) < 2:
        return None
    found = [value for place, value in places.items() if _fits(place, wanted)]
    return found[0] if len(found) == 1 else None


def _fits(place: Place, wanted: tuple[str, ...]) -> bool:
    """Tell whether a name means a place; where one of them has no database, the schema and the identifier decide."""
    if place[-2:] != wanted[-2:]:
        return False
    return len(wanted) == 2 or not place[0]


def build_names(manifest: Manifest, sources: Mapping[str, str]) -> RelationNames:
    """Return the relations of all tables; `sources` says those of sources: `raw.orders`, or the name of a table in the database.

    A model's relation has the name of its table in lower case, a source's too. Where several have the same, a model or seed
    keeps it before sources; sources have that of their source before it, and models and seeds that of their schema.
    """
    nodes = [node for node in manifest.nodes.values() if node.kind in TABLES]
    places = {_find_place_of(source): source for source in manifest.sources.values()}
    places |= {
        _find_place_of(node): node for node in nodes
    }  # a source that names a model's table means the model
    own = [source for source in manifest.sources.values() if places[_find_place_of(source)] is source]
    said, plain = _match_sources(own, sources)
    names = _name_nodes(nodes)
    taken = set(names.values())
    names |= said
    names |= _name_sources([source for source in own if source.unique_id not in said], taken)
    return RelationNames(names, places, _find_errors([*nodes, *own], names, said), plain)


def _find_place_of(node: DbtNode) -> Place:
    return node.database.lower(), node.schema.lower(), node.identifier.lower()


def _match_sources(
    own: Sequence[DbtNode], said: Mapping[str, str]
) -> tuple[dict[str, str], dict[Place, str]]:
    """Return the names that are said of sources, and of tables that are none; raises ManifestError for a word that is no name."""
    names: dict[str, str] = {}
    plain: dict[Place, str] = {}
    for key, name in said.items():
        matched = [source for source in own if key.lower() in _list_keys(source)]
        names |= {source.unique_id: name for source in matched}
        parts = key.lower().split(".")
        if not matched and len(parts) not in (2, 3):
            raise ManifestError(
                f"sources: {key} is no source of the manifest: write source.table, or schema.table for one that no source names"
            )
        if not matched:
            plain["" if len(parts) == 2 else parts[0], parts[-2], parts[-1]] = name
    return names, plain


def _list_keys(source: DbtNode) -> tuple[str, ...]:
    database, schema, identifier = _find_place_of(source)
    return (
        f"{source.source_name}.{source.name}".lower(),
        f"{schema}.{identifier}",
        f"{database}.{schema}.{identifier}",
    )


def _name_nodes(nodes: Sequence[DbtNode]) -> dict[str, str]:
    groups = _group_by_name(nodes)
    return {
        node.unique_id: name if len(group) == 1 else f"{node.schema.lower()}_{name}"
        for name, group in groups.items()
        for node in group
    }


def _name_sources(sources: Sequence[DbtNode], taken: set[str]) -> dict[str, str]:
    groups = _group_by_name(sources)
    found: dict[str, str] = {}
    for name, group in groups.items():
        alone = len({_find_place_of(source) for source in group}) == 1 and name not in taken
        found |= {
            source.unique_id: name if alone else f"{source.source_name.lower()}_{name}" for source in group
        }
    return found


def _group_by_name(nodes: Sequence[DbtNode]) -> dict[str, list[DbtNode]]:
    groups: dict[str, list[DbtNode]] = defaultdict(list)
    for node in nodes:
        groups[node.identifier.lower()].append(node)
    return groups


def _find_errors(
    nodes: Sequence[DbtNode], names: Mapping[str, str], said: Mapping[str, str]
) -> dict[str, str]:
    """Return why nodes have no relation of their own: a name that no asset can have, or that of another table."""
    errors: dict[str, str] = {}
    by_name: dict[str, list[DbtNode]] = defaultdict(list)
    for node in nodes:
        name = names[node.unique_id]
        by_name[name].append(node)
        if node.unique_id not in said and _NAME.fullmatch(name) is None:
            hint = (
                "say another under `sources`"
                if node.kind == "source"
                else "give it an alias of letters, digits and _"
            )
            errors[node.unique_id] = f'"{name}" is no name of a relation: {hint}'
    for name, group in by_name.items():
        made = [node for node in group if node.kind != "source"]
        first = made[0] if made else group[0]
        for node in group:
            same = _find_place_of(node) == _find_place_of(first)
            if node is not first and not same and node.unique_id not in said:
                hint = "give one of them an alias" if made else "say which relation each is under `sources`"
                errors[node.unique_id] = (
                    f"the relation {name} is that of {first.label} ({first.unique_id}): {hint}"
                )
    return errors
