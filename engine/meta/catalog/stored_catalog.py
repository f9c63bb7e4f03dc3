"""The catalog in the store: relations and incremental plans as entries of the manifests, changed only by commits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import pyarrow as pa

from engine.errors import UnsupportedSql
from engine.hummock import Table, Version
from engine.hummock.manifests.preconditions import Precondition, require
from engine.hummock.version import TableOptions
from engine.meta.catalog.plan_upgrade import PLANS
from engine.meta.catalog.records import Prefix, Record, encode_json
from engine.sql.catalog import Catalog, Relation, watermark_name
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import JoinedOnArrival
from engine.sql.statements.ddl.macros import decode_python, decode_replaced
from engine.sql.typing.types import to_arrow


@dataclass(frozen=True)
class StoredCatalog:
    """The relations and plans of one version."""

    catalog: Catalog
    plans: Mapping[str, IncrementalPlan]

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The view or index that each fragment's table belongs to."""
        return {f.table: name for name, plan in self.plans.items() for f in plan.fragments}

    @cached_property
    def fragments(self) -> Mapping[str, Fragment]:
        """Every fragment by its table."""
        return {f.table: f for plan in self.plans.values() for f in plan.fragments}

    @cached_property
    def arrivals(self) -> tuple[Fragment, ...]:
        """The fragments of temporal joins."""
        return tuple(f for f in self.fragments.values() if isinstance(f.rule, JoinedOnArrival))

    @cached_property
    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """What each table is computed from; nothing for a source table."""
        found: dict[str, tuple[str, ...]] = {
            name: ()
            for name, relation in self.catalog.relations.items()
            if relation.kind in ("table", "source")
        }
        for plan in self.plans.values():
            for fragment in plan.fragments:
                found[fragment.table] = plan.list_dependencies(fragment)
        return found

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All tables, inputs before what is computed from them."""
        done: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in done:
                for upstream in self.inputs[name]:
                    visit(upstream)
                done[name] = None

        for name in self.inputs:
            visit(name)
        return tuple(done)


def load_catalog(version: Version) -> StoredCatalog:
    """Return the catalog that a version holds; the same object as long as its entries stay the same."""
    return version.catalog.derive(_decode_catalog)


def _decode_catalog(entries: Mapping[str, str], before: StoredCatalog | None) -> StoredCatalog:
    relations, plans = RELATIONS.decode_all(entries), PLANS.decode_all(entries)
    if before is not None and relations == before.catalog.relations and plans == before.plans:
        return before
    return StoredCatalog(Catalog(relations), plans)


MOST_NESTED = 340
"""How deeply an entry may be nested: the reader recurses, and Python allows a thousand frames, of which callers have some."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def _decode_relation(text: str) -> Relation:
    found = msgspec.json.decode(text, type=Relation)
    if found.kind == "function":  # what plans call by the names of their content
        decode_python(found)
        decode_replaced(found)
    if found.kind == "check" or found.name.startswith(watermark_name("")):
        # stores that were made before columns of users could begin with _ do not say how these are stored
        columns = tuple(msgspec.structs.replace(one, stored=one.stored or one.name) for one in found.columns)
        return msgspec.structs.replace(found, columns=columns)
    return found


RELATIONS = Record(Prefix.RELATION, _decode_relation, encode_json)


def require_absent_relation(name: str) -> Precondition:
    """Return the precondition that no relation has a name."""
    return RELATIONS.require_absent(name, f"{name} was created by another process at the same time")


def list_definitions(version: Version) -> dict[str, str]:
    """Return the catalog entries that define relations and plans, without what is recorded about their runs."""
    prefixes = (RELATIONS.prefix, PLANS.prefix)
    return {key: text for key, text in version.catalog.items() if key.startswith(prefixes)}


def has_same_plans(version: Version, stored: StoredCatalog, owners: Collection[str]) -> bool:
    """Tell whether views and indexes have the same plans in a version as in `stored`: none was dropped, or made anew."""
    for owner in owners:
        plan = PLANS.read(version, owner)
        if plan is None or plan != stored.plans.get(owner):
            return False
    return True


def require_same_plans(stored: StoredCatalog, owners: Collection[str]) -> Precondition:
    """Return the precondition that `has_same_plans` still holds: what is computed for a view must not outlive it."""
    message = f"{', '.join(owners)}: dropped or planned again by another process at the same time"
    return require(lambda version: has_same_plans(version, stored, owners), message)


def encode_entries(
    relations: Mapping[str, Relation | None], plans: Mapping[str, IncrementalPlan | None]
) -> dict[str, str | None]:
    """Return the catalog entries of a commit that adds or replaces these relations and plans; None removes one."""
    found: dict[str, str | None] = {}
    for name, relation in relations.items():
        found |= RELATIONS.remove(name) if relation is None else RELATIONS.record(name, relation)
    for name, plan in plans.items():
        found |= PLANS.remove(name) if plan is None else PLANS.record(name, plan)
    for text in found.values():
        _check_depth(text or "")
    return found


def _check_depth(text: str) -> None:
    """Raise UnsupportedSql if an entry is nested so deeply that not every process could read it."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        mark = found[0]
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    if deepest > MOST_NESTED:
        hint = "take it apart: WITH items do not help, materialized views of the inner parts do; IN (…) instead of many ORs"
        raise UnsupportedSql("the statement is nested too deeply", hint=hint)


def build_table(fragment: Fragment) -> Table:
    """Return the storage table of a fragment."""
    schema = pa.schema([pa.field(name, to_arrow(kind)) for name, kind in fragment.columns])
    options = TableOptions(watermark_column=None if fragment.expiry is None else fragment.expiry.column)
    return Table(fragment.table, schema, tuple(fragment.key), tuple(fragment.distribution_key), options)


def require_same_catalog(base: Version) -> Precondition:
    """Return the precondition that nobody changed the catalog since `seen`."""
    before = list_definitions(base)
    message = "the catalog was changed by another process at the same time; try again"
    return require(lambda version: list_definitions(version) == before, message)
