"""ALTER MATERIALIZED VIEW … RESYNC: a view is computed anew from its inputs, and gets the difference, in one commit.

What is computed anew is a successor with the view's own plan. It has states of its own, so neither rows nor states of the view
are believed.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from engine.hummock import Commit, Hummock, TableVersion, Version
from engine.hummock.manifests.commit_merge import merge_commits
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.upkeep.fingerprints import move_on, sum_range
from engine.hummock.version import Fingerprint
from engine.meta.catalog.replaced_queries import mark_replaced
from engine.meta.catalog.stored_catalog import (
    StoredCatalog,
    encode_entries,
    load_catalog,
    require_same_catalog,
)
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions, name_successor
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import find_domain_name
from engine.runtime.relations import build_name_error, resolve_relation
from engine.runtime.statements.create.replace_view import build_plan_change
from engine.runtime.statements.create.view_change import find_resync_reasons
from engine.runtime.statements.succession.begin import check_not_succeeded, rename_to_successor
from engine.sql.catalog import Relation
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.partitions import is_partitioned
from engine.sql.statements.options.gate_bounds import GATE


def begin_resync(store: Hummock, name: str, sql: str) -> bool:
    """Begin to compute a view anew; returns whether a successor is built for it, which an earlier RESYNC may have begun.

    There is none for a view that commits together with others, or has partitions: its next epoch computes it from its inputs
    alone. Raises SqlError where the inputs do not have all rows any more that the view stands for, and for a view that is being
    changed.
    """
    version = store.refresh()
    stored = load_catalog(version)
    view = resolve_relation(stored, "materialized view", name, sql)
    pending = list_successions(version).get(view.name)
    if pending is not None and pending.resync and not pending.copied:
        return True
    check_not_succeeded(version, view.name, sql)
    if reasons := find_resync_reasons(version, stored, view):
        is_there = find_computed_table(version, view.name) is not None
        anew = "read it as it is, or DROP it and CREATE it again: it begins with what its inputs hold then"
        hint = anew if is_there else f"WAIT FOR {view.name} first, or run FLUSH"
        message = f"{view.name} cannot be computed anew beside its rows: {'; '.join(reasons)}"
        raise build_name_error(message, view.name, sql, hint)
    if find_domain_name(stored, view.name) == view.name and not is_partitioned(view.options):
        store.commit(_build_beginning(version, stored, view))
        return True
    if GATE in view.options:
        hint = f"take the gate away: ALTER MATERIALIZED VIEW {view.name} SET (gate = default)"
        message = f"{view.name} has partitions, or commits together with others: its gate cannot be asked"
        raise build_name_error(message, view.name, sql, hint)
    store.commit(_build_anew(store, version, stored, view))
    return False


def _build_beginning(version: Version, stored: StoredCatalog, view: Relation) -> Commit:
    """Return the commit after which later runs build a view's successor, by its own plan."""
    owners = _list_owners(stored, view)
    relations = {owner: stored.catalog.get(owner) for owner in owners}
    plans = {owner: stored.plans[owner] for owner in owners}
    hidden, hidden_plans = rename_to_successor(view.name, relations, plans)
    succession = Succession(
        name_successor(view.name), dict(view.options), resync=True, begun=uuid.uuid4().hex
    )
    changed = f"{view.name} was changed by another process at the same time"
    return Commit(
        catalog=encode_entries(hidden, hidden_plans)
        | SUCCESSIONS.record(view.name, succession)
        | _mark_indexes(version, stored, owners),
        precondition=require_all(
            require_same_catalog(version), SUCCESSIONS.require_absent(view.name, changed)
        ),
    )


def _build_anew(store: Hummock, version: Version, stored: StoredCatalog, view: Relation) -> Commit:
    """Return the commit after which a view's next epoch computes it from its inputs: its states go, its rows are compared."""
    own, owners = version.tables[view.name], _list_owners(stored, view)
    beside = {fragment.table for owner in owners[1:] for fragment in stored.plans[owner].fragments}
    notes = _mark_indexes(version, stored, owners)
    for table in beside & version.tables.keys():
        notes |= mark_replaced(table)
    commit = build_plan_change(version, stored, view.name, notes)
    if own.fingerprint is None:
        return commit
    found = Fingerprint(own.committed_epoch, _sum_rows(store, own, own.committed_epoch), own.table.form)
    return merge_commits(commit, Commit(fingerprints={view.name: found}))


def _list_owners(stored: StoredCatalog, view: Relation) -> list[str]:
    """Return a view and the hidden views of its checks, with the indexes of these that the checks look rows up in."""
    checks = [n for n in stored.catalog.list_dependents(view.name) if stored.catalog.get(n).kind == "check"]
    own = {view.name, *checks}
    used = {
        index_name(table, by) for one in checks for table, by in stored.plans[one].indexes if table in own
    }
    return [view.name, *(name for name in stored.catalog.sort_by_dependency() if name in {*checks, *used})]


def _mark_indexes(version: Version, stored: StoredCatalog, owners: Sequence[str]) -> dict[str, str | None]:
    """Return the catalog entries by which indexes are compared with their tables: a view's, and those that it looks up in."""
    used = {index_name(table, by) for owner in owners for table, by in stored.plans[owner].indexes}
    relations = stored.catalog.relations.items()
    used |= {name for name, one in relations if one.kind == "index" and owners[0] in one.depends_on}
    found: dict[str, str | None] = {}
    for name in sorted(used & stored.plans.keys()):
        if find_computed_table(version, name) is not None:
            found |= mark_replaced(name)
    return found


def derive_fingerprint(store: Hummock, version: Version, view: str, successor: str) -> Fingerprint | None:
    """Return the fingerprint of a view that holds the rows of its successor; None for one that keeps none.

    That which was kept counts rows that may never have been there: it was moved by the difference to what was found.
    """
    own, other = version.tables[view], version.tables[successor]
    if own.fingerprint is None:
        return None
    known = move_on(store.reader, other) or other.fingerprint
    value = _sum_rows(store, other, other.committed_epoch) if known is None else known.value
    return Fingerprint(own.committed_epoch, value, own.table.form)


def _sum_rows(store: Hummock, table: TableVersion, epoch: int) -> int:
    return sum_range(store.reader, table, epoch, None, lambda rows: None)[0]
