"""What moving bounds mean to a domain's run: how many rows they pass, and which rows of states nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.hummock import Reader, TableVersion, Version
from engine.meta.domains.domain import Domain
from engine.operators.dynamic_filter import count_moved_rows, find_bound_move
from engine.operators.lookups.moving_bounds import read_bound
from engine.sql.plan import DynamicFilter, Node, Scan, list_children


def count_passed_rows(
    reader: Reader, tables: Mapping[str, TableVersion], plan: Node, epochs: tuple[int, int]
) -> int:
    """Return an upper bound of the rows that bounds of a plan pass between two epochs; only the bounds are read."""
    rows = 0
    for node in _list_dynamic_filters(plan):
        old, new = (read_bound(reader, tables.get, node.bounds, epoch) for epoch in epochs)
        passed = find_bound_move(node, old, new)
        if passed is not None and isinstance(node.input, Scan) and node.input.table in tables:
            rows += count_moved_rows(reader, tables[node.input.table], node, epochs[0], passed)
    return rows


def find_expired_watermarks(reader: Reader, version: Version, domain: Domain, epoch: int) -> dict[str, int]:
    """Return the watermarks of a domain's states at an epoch, as far as they have moved: rows below are looked at no more."""
    found: dict[str, int] = {}
    for _, fragment in domain.fragments:
        if fragment.expiry is None or fragment.table not in version.tables:
            continue
        sources = [version.tables.get(bound.scan.table) for bound in fragment.expiry.bounds]
        if any(source is not None and source.safe_epoch > epoch for source in sources):
            continue  # where it stood then is not known any more: the next run lets go
        number = read_bound(reader, version.tables.get, fragment.expiry.bounds, epoch)
        before = version.tables[fragment.table].watermarks
        if number is not None and (not before or number > before[-1][1]):
            found[fragment.table] = number
    return found


def _list_dynamic_filters(node: Node) -> Iterator[DynamicFilter]:
    if isinstance(node, DynamicFilter):
        yield node
    for child in list_children(node):
        yield from _list_dynamic_filters(child)
