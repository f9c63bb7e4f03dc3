"""A store in every kind of trouble, as values: what the listings are tried on."""

from __future__ import annotations

from engine.hummock.epoch import epoch_at
from engine.meta.domains.creation import Creation
from engine.meta.domains.quarantine import PartitionStatus
from engine.meta.status.relation_status import RelationStatus
from engine.meta.status.waits import DomainWait

NOW = 1_795_330_744.767
EPOCH = epoch_at(NOW - 3)
ERROR = (
    "view cancellations_by_airport: a row of flight cannot be computed: Division by zero. Use `try_divide` to tolerate divisor "
    "being 0 and return NULL instead; the row is {flight: 4711, day: 2013-12-16} (failed 3 times in a row; tried again after "
    "07:02:10 UTC, or by FLUSH at once)"
)


def _relation(
    name: str, kind: str, lag: float = 0.0, error: str | None = None, epoch: int | None = EPOCH
) -> RelationStatus:
    return RelationStatus(name, kind, epoch, EPOCH, lag, lag > 0, 12_345_678, 987_654_321, 42, error)


STATUSES = (
    _relation("flight", "table"),
    _relation("cancellations_by_airport", "materialized view", 4000.0, ERROR),
    _relation("departures_in_weather", "materialized view", 12.0),
    _relation("route_carriers", "materialized view", epoch=None),
    _relation("delay_by_carrier_day", "materialized view"),
    _relation("to_the_lake", "sink", 86_400.0 * 3),
)
WAITS = (
    DomainWait("cancellations_by_airport", "failed", ERROR, NOW - 4000, NOW + 86),
    DomainWait(
        "departures_in_weather",
        "paused",
        "paused at 06:58:52 UTC; RESUME continues it",
        NOW - 12,
        NOW + 7200,
    ),
    DomainWait(
        "route_carriers", "backfill", "backfilling: 400000 of about 1000000 rows (40 %)", NOW - 30, None
    ),
    DomainWait("delay_by_carrier_day", "quarantined", "partition 2013-12-16 at epoch …", NOW - 50, NOW + 10),
)
CREATIONS = {
    "route_carriers": Creation(EPOCH, ("route_carriers",), NOW - 30, 1_000_000, rows=400_000, updated=NOW)
}
PARTITIONS = (
    PartitionStatus("2013-12-16", EPOCH, ERROR, 3, NOW + 10),
    PartitionStatus("2013-12-15", EPOCH),
)
