"""Views that are being created: how far their snapshot backfill is, kept in the store so that any process can go on with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from engine.hummock import TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require
from engine.meta.catalog.records import Prefix, Record

State = Literal["consuming_snapshot", "created"]
CONSUMING_SNAPSHOT: State = "consuming_snapshot"
CREATED: State = "created"
PHASES = ("consuming_snapshot", "consuming_log_store", "consume_upstream")


class Creation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The snapshot backfill of one domain: all its tables are computed at epoch `epoch`, which is pinned until then.

    `fragment`, `driver` and `position` say where to go on: the number of the table in `tables`, the number of the scan that is
    read in pieces, and the lowest hash not read yet. `sizes` are the inputs' rows at the start, which decide what drives; `rows`
    counts snapshot rows read so far, of `total` (an estimate). `log_rows` are those read from the inputs' change logs until the
    view had caught up for the first time, at the epoch `caught_up`, and `upstream_rows` those since. The commits that consume
    rows count them, so each counts once.
    """

    epoch: int
    tables: tuple[str, ...]
    started: float
    total: int
    sizes: dict[str, int] = {}
    state: State = CONSUMING_SNAPSHOT
    fragment: int = 0
    driver: int = 0
    position: int = -(1 << 63)
    step: int = 0
    rows: int = 0
    updated: float = 0.0
    log_rows: int = 0
    upstream_rows: int = 0
    caught_up: int = 0

    @property
    def phase(self) -> str:
        """What the view consumes now: the snapshot, the log of what changed meanwhile, or its inputs as any other view."""
        if self.state == CONSUMING_SNAPSHOT:
            return PHASES[0]
        return PHASES[2] if self.caught_up else PHASES[1]

    @property
    def consumed(self) -> dict[str, int]:
        """The rows consumed, by phase."""
        return dict(zip(PHASES, (self.rows, self.log_rows, self.upstream_rows), strict=True))

    def count_consumed(self, rows: int, epoch: int, newest: int) -> Creation:
        """Return this creation after a checkpoint at `epoch` that read `rows` changes; inputs have changes up to `newest`."""
        if self.caught_up:
            return msgspec.structs.replace(self, upstream_rows=self.upstream_rows + rows)
        caught_up = epoch if newest <= epoch else 0
        return msgspec.structs.replace(self, log_rows=self.log_rows + rows, caught_up=caught_up)

    @property
    def rate(self) -> float:
        """Snapshot rows read per second since the start."""
        return self.rows / max(self.updated - self.started, 0.001) if self.rows else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """The estimated time to the end of the snapshot; None before the first step."""
        return max(self.total - self.rows, 0) / self.rate if self.rate > 0 else None

    @property
    def text(self) -> str:
        """How far it is, in words."""
        share = 100 * min(1.0, self.rows / self.total) if self.total else 100.0
        left = self.remaining_seconds
        ending = "" if left is None else f", about {left:.0f} s left"
        return f"backfilling: {self.rows} of about {self.total} rows ({share:.0f} %), {self.rate:.0f} rows/s{ending}"


BACKFILLS = Record.of_json(Prefix.BACKFILL, Creation)


def list_creations(version: Version) -> Mapping[str, Creation]:
    """Return the backfills by domain, finished ones included."""
    return _read_creations(version)[0]


def list_incomplete_tables(version: Version) -> frozenset[str]:
    """Return the tables whose content is not complete yet: nobody may read them."""
    return _read_creations(version)[1]


def find_computed_table(version: Version, name: str) -> TableVersion | None:
    """Return a table that has been computed at least once as a whole, else None."""
    return None if name in list_incomplete_tables(version) else version.tables.get(name)


def require_same_computed(seen: Version, name: str, message: str) -> Precondition:
    """Return the precondition that a table that has been computed is the one of `seen`, or that there is none, as there."""
    before = _find_computed_id(seen, name)
    return require(lambda version: _find_computed_id(version, name) == before, message)


def require_same_builds(seen: Version, domains: Collection[str]) -> Precondition:
    """Return the precondition that no backfill of some domains has begun since `seen`, at first or anew."""
    before = {domain: _find_start(seen, domain) for domain in domains}

    def has_begun(version: Version) -> bool:
        now = {domain: _find_start(version, domain) for domain in domains}
        return any(start is not None and start != before[domain] for domain, start in now.items())

    return require(
        lambda version: not has_begun(version), "a view began to be built at the same time; try again"
    )


def _find_start(version: Version, domain: str) -> tuple[int, float] | None:
    creation = list_creations(version).get(domain)
    return None if creation is None else (creation.epoch, creation.started)


def _find_computed_id(version: Version, name: str) -> int | None:
    table = find_computed_table(version, name)
    return None if table is None else table.table_id


def encode_creation(domain: str, creation: Creation) -> dict[str, str | None]:
    """Return the catalog entry that keeps a backfill's progress."""
    return BACKFILLS.record(domain, creation)


def drop_creations(version: Version, gone: Collection[str]) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Return what dropping the tables `gone` does to backfills: catalog entries to change, and further tables to drop.

    A backfill under way that loses a table begins anew with those that are left.
    """
    changed: dict[str, str | None] = {}
    further: list[str] = []
    for domain, creation in list_creations(version).items():
        left = tuple(table for table in creation.tables if table not in gone)
        if len(left) == len(creation.tables):
            continue
        if creation.state == CONSUMING_SNAPSHOT:
            further += [table for table in left if table in version.tables]
        if creation.state == CONSUMING_SNAPSHOT or not left:
            changed |= BACKFILLS.remove(domain)
        else:
            changed |= encode_creation(domain, msgspec.structs.replace(creation, tables=left))
    return changed, tuple(further)


_Creations = tuple[Mapping[str, Creation], frozenset[str]]


def _read_creations(version: Version) -> _Creations:
    return version.catalog.derive(_decode_creations)


def _decode_creations(entries: Mapping[str, str], _: _Creations | None) -> _Creations:
    known = BACKFILLS.decode_all(entries)
    return known, frozenset(t for c in known.values() if c.state == CONSUMING_SNAPSHOT for t in c.tables)
