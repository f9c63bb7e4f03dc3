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
from engine.meta.catalog_store import StoredCatalog
from engine.meta.domain import Domain
from engine.sql.incremental.arrivals import arriving
from engine.sql.incremental.fragments import Fragment
from engine.sql.plan import scans


def arrival_stops(domain: Domain, version: Version, stored: StoredCatalog, upto: int) -> list[int]:
    """Return the epochs below `upto`, ascending, at which a domain stops for the temporal joins that it has or that read it."""
    found: set[int] = set()
    own = set(domain.tables)
    for fragment in stored.arrivals:
        held = version.tables.get(fragment.table)
        if held is None:
            continue  # its first content is of one epoch
        if not own.isdisjoint(ancestors((fragment.table,), stored.inputs)):
            found |= stops_within(fragment, version, stored.inputs, (held.committed_epoch, upto))
    return sorted(found)


def stops_within(
    fragment: Fragment, version: Version, inputs: Mapping[str, Sequence[str]], within: tuple[int, int]
) -> set[int]:
    """Return the changes of the left side within (after, upto) that have to be taken in before what comes after them."""
    base, (after, upto) = arriving(fragment.plan), within
    left = {scan.table for scan in scans(base)}
    right = {table for table in fragment.inputs if table not in left} | _on_the_right(fragment, left)
    comes = list(_entries(ancestors(left, inputs), version, after, upto - 1))
    epochs = {entry.epoch for entry in comes}
    only_new = not any(inputs.get(table) for table in left) and all(
        sst.new_keys for entry in comes for sst in entry.ssts
    )
    if not (base.append_only or only_new):
        return epochs  # a row that changes twice, and back, has met the right side twice
    changes = {entry.epoch for entry in _entries(ancestors(right, inputs), version, after, upto)}
    return _last_before(sorted(epochs), changes)


def _last_before(epochs: Sequence[int], changes: Collection[int]) -> set[int]:
    """Return for each of some changes the last of the epochs before it.

    >>> sorted(_last_before([1, 2, 5, 7], {3, 4, 5, 8}))
    [2, 7]
    """
    places = (bisect.bisect_left(epochs, change) for change in changes)
    return {epochs[at - 1] for at in places if at}


def _on_the_right(fragment: Fragment, left: Collection[str]) -> set[str]:
    """Return the tables of the left side that are joined with themselves."""
    places = [scan.table for scan in scans(fragment.plan)]
    first = [scan.table for scan in scans(arriving(fragment.plan))]
    return {table for table in left if places.count(table) > first.count(table)}


def _entries(tables: Collection[str], version: Version, after: int, upto: int) -> Iterator[LogEntry]:
    for name in tables:
        if name in version.tables:
            yield from (entry for entry in version.tables[name].log if after < entry.epoch <= upto)


def ancestors(tables: Collection[str], inputs: Mapping[str, Sequence[str]]) -> set[str]:
    """Return tables and all that they are computed from."""
    found: set[str] = set()
    queue = list(tables)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += inputs.get(name, ())
    return found
