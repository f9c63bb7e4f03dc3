"""Where runs stop on the way so that a temporal join meets the right side as it stood when a row of its left side came.

A domain takes all that it lacks as one range, in which a left row that came first would meet a right row that came after it.
So a domain with such a join, and every domain that it reads, stops at the changes of the left side after which the right side
has changed: what came together and what came one by one gives the same rows.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.hummock import Version
from engine.hummock.version import LogEntry
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.domain import Domain
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.temporal_joins import find_arriving_side
from engine.sql.plan import list_scans


def list_arrival_stops(domain: Domain, version: Version, stored: StoredCatalog, upto: int) -> list[int]:
    """Return the epochs below `upto`, ascending, at which a domain stops for the temporal joins that it has or that read it."""
    found: set[int] = set()
    own = set(domain.tables)
    for fragment in stored.arrivals:
        table_version = version.tables.get(fragment.table)
        if table_version is None:
            continue  # its first content is of one epoch
        if not own.isdisjoint(collect_ancestors((fragment.table,), stored.inputs)):
            found |= find_arrival_stops(
                fragment, version, stored.inputs, (table_version.committed_epoch, upto)
            )
    return sorted(found)


def find_arrival_stops(
    fragment: Fragment, version: Version, inputs: Mapping[str, Sequence[str]], within: tuple[int, int]
) -> set[int]:
    """Return the changes of the left side within (after, upto) that have to be taken in before what comes after them."""
    base, (after, upto) = find_arriving_side(fragment.plan), within
    left = {scan.table for scan in list_scans(base)}
    right = {table for table in fragment.inputs if table not in left} | _find_self_joined(fragment, left)
    comes = list(_read_log_entries(collect_ancestors(left, inputs), version, after, upto - 1))
    epochs = {entry.epoch for entry in comes}
    only_new = not any(inputs.get(table) for table in left) and all(
        sst.new_keys for entry in comes for sst in entry.ssts
    )
    if not (base.append_only or only_new):
        return epochs  # a row that changes twice, and back, has met the right side twice
    changes = {
        entry.epoch for entry in _read_log_entries(collect_ancestors(right, inputs), version, after, upto)
    }
    return _find_last_before(sorted(epochs), changes)


def _find_last_before(epochs: Sequence[int], changes: Collection[int]) -> set[int]:
    """Return for each of some changes the last of the epochs before it.

    >>> sorted(_find_last_before([1, 2, 5, 7], {3, 4, 5, 8}))
    [2, 7]
    """
    places = (bisect.bisect_left(epochs, change) for change in changes)
    return {epochs[at - 1] for at in places if at}


def _find_self_joined(fragment: Fragment, left: Collection[str]) -> set[str]:
    """Return the tables of the left side that are joined with themselves."""
    places = [scan.table for scan in list_scans(fragment.plan)]
    first = [scan.table for scan in list_scans(find_arriving_side(fragment.plan))]
    return {table for table in left if places.count(table) > first.count(table)}


def _read_log_entries(tables: Collection[str], version: Version, after: int, upto: int) -> Iterator[LogEntry]:
    for name in tables:
        if name in version.tables:
            yield from (entry for entry in version.tables[name].log if after < entry.epoch <= upto)


def collect_ancestors(tables: Collection[str], inputs: Mapping[str, Sequence[str]]) -> set[str]:
    """Return tables and all that they are computed from."""
    found: set[str] = set()
    queue = list(tables)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += inputs.get(name, ())
    return found
