"""What moving bounds mean to a domain's run: which rows of states nobody needs any more."""

from __future__ import annotations

from engine.hummock import Reader, Version
from engine.meta.domains.domain import Domain
from engine.operators.lookups.moving_bounds import read_bound


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
