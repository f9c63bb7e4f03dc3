"""Successors: hidden views that are built beside views which got another query, and take their place once they are whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from engine.hummock import Version
from engine.hummock.manifests.preconditions import Precondition, require_all
from engine.meta.catalog.records import Prefix, Record
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import RELATIONS, StoredCatalog, encode_entries, load_catalog
from engine.meta.status.copy_columns import change_copy_columns
from engine.meta.status.sinks import list_copies
from engine.sql.catalog import Relation, carry_comments

_SUCCESSOR = "_next_"


class Succession(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of a view: the rows and the plan of `successor`, with these `options`.

    It is `copied` once the view is planned as a copy of the successor: its next epoch commits the difference. `held` says why the
    view's gate holds it up, until somebody has `approved` it; a gate that could not be asked yet (`unasked`) is asked again. A
    `resync` has the view's own query, whose rows are computed anew. `begun` tells one change of a view
    from the next.
    """

    successor: str
    options: dict[str, str]
    copied: bool = False
    held: str = ""
    approved: bool = False
    unasked: bool = False
    resync: bool = False
    begun: str = ""


SUCCESSIONS = Record.of_json(Prefix.SUCCESSION, Succession)


def name_successor(view: str) -> str:
    """Return the name of the hidden view that is built beside a view."""
    return _SUCCESSOR + view


def find_succeeded_view(name: str) -> str | None:
    """Return the view beside which a hidden view is built, None for the name of any other relation."""
    return name.removeprefix(_SUCCESSOR) if name.startswith(_SUCCESSOR) else None


def explain_release(readers: Collection[str], drop: str) -> str:
    """Return what a user does about `readers` that stand in the way: `drop` says it of those that users made, and a next query
    is given up.
    """
    next_ones = [view for view in map(find_succeeded_view, readers) if view is not None]
    given_up = [
        f"ALTER MATERIALIZED VIEW {view} DISCARD gives up the next query of {view}" for view in next_ones
    ]
    return "; ".join([drop] * (len(next_ones) < len(readers)) + given_up)


def list_successions(version: Version) -> Mapping[str, Succession]:
    """Return the views that have a successor, by name."""
    return SUCCESSIONS.list(version)


def group_successions(stored: StoredCatalog, views: Collection[str]) -> list[tuple[str, ...]]:
    """Return the views, those together of which one reads another, over others or not: their successors take over together."""
    readers = {
        view: {
            find_succeeded_view(name) or name
            for read in (view, name_successor(view))
            if read in stored.catalog.relations
            for name in stored.catalog.list_dependents(read)
        }
        for view in views
    }
    found: list[set[str]] = []
    for view in views:
        touching = [
            group for group in found if any(view in readers[one] or one in readers[view] for one in group)
        ]
        found = [group for group in found if group not in touching] + [{view}.union(*touching)]
    return [tuple(name for name in stored.catalog.sort_by_dependency() if name in group) for group in found]


def end_successions(version: Version, gone: Collection[str]) -> dict[str, str | None]:
    """Return the catalog entries that go as views, or their successors, are dropped."""
    ended = (v for v, one in list_successions(version).items() if v in gone or one.successor in gone)
    return SUCCESSIONS.remove(*ended)


def show_columns(version: Version, tables: Collection[str]) -> dict[str, str | None]:
    """Return the catalog entries by which views that are brought on as copies of their successors show the columns of these.

    Their Delta tables are to have them, too. The commit that has the entries requires `require_shown`.
    """
    return encode_entries(_list_shown(version, tables), {})


def require_shown(version: Version, tables: Collection[str]) -> Precondition:
    """Return the precondition that nobody has changed the relations that `show_columns` replaces: a comment would be lost."""
    message = "{} was changed by another process at the same time"
    names = _list_shown(version, tables)
    return require_all(*(RELATIONS.require_same(version, name, message.format(name)) for name in names))


def _list_shown(version: Version, tables: Collection[str]) -> dict[str, Relation]:
    stored = load_catalog(version)
    catalog, found = stored.catalog, dict[str, Relation]()
    for view, succession in list_successions(version).items():
        if view in tables and succession.copied and view in list_replaced_tables(version):
            before, after = catalog.get(view), catalog.get(succession.successor)
            if before.columns != after.columns:
                shown = msgspec.structs.replace(before, columns=carry_comments(after, before))
                copies = list_copies(stored, view)
                found |= {view: shown} | {copy.name: change_copy_columns(copy, shown) for copy in copies}
    return found
