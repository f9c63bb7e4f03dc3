"""What a view's options make of its tables: how long their history stays, and into how many groups of vnodes they are cut."""

from __future__ import annotations

import dataclasses

import msgspec

from engine.hummock import Table, Version
from engine.hummock.compaction.pickers.vnode import VNODES
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.domain import Domain, find_parallelism
from engine.meta.domains.mutation import Control
from engine.sql.statements.options.view_options import parse_retention

RETENTION = "retention"


def place_table(table: Table, owner: str, stored: StoredCatalog, control: Control) -> Table:
    """Return a table of the view `owner` with the options that it is to have.

    Each of `vnode_groups` tasks writes one range of vnodes, and compaction cuts files at their bounds.
    """
    relation = stored.catalog.relations.get(owner)
    options = relation.options if relation is not None else {}
    retention = parse_retention(options[RETENTION]) if RETENTION in options and table.name == owner else None
    tasks = find_parallelism(owner, stored, control)
    groups = None if tasks is None else min(tasks, VNODES)
    changed = msgspec.structs.replace(table.options, vnode_groups=groups, retention_seconds=retention)
    return dataclasses.replace(table, options=changed)


def find_misplaced_tables(
    version: Version, stored: StoredCatalog, domain: Domain, control: Control
) -> dict[str, Table]:
    """Return the tables of a domain that are to get other options, as a commit alters them."""
    found = {}
    for owner, fragment in domain.fragments:
        known = version.tables.get(fragment.table)
        table = place_table(known.table, owner, stored, control) if known is not None else None
        if known is not None and table is not None and table != known.table:
            found[fragment.table] = table
    return found
