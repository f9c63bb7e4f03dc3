"""Freshness: how far behind each view is and why, a run that fails where that is too far, and the overview of all domains."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata, format_failures
from dagster_tideline.upkeep.job_lock import hold_job_lock
from dagster_tideline.upkeep.maintenance import GROUP, build_one_op_job, render_table
from dagster_tideline.upkeep.overview import build_overview
from engine.meta.epochs.time_boundary import load_present
from engine.meta.status.relation_status import list_statuses
from engine.meta.status.waits import count_stuck_seconds, group_waits, list_all_waits

if TYPE_CHECKING:
    from engine.hummock import Version
    from engine.meta.catalog.stored_catalog import StoredCatalog
    from engine.meta.status.waits import DomainWait

FRESHNESS = "freshness"
OVERVIEW = "overview"


class FreshnessConfig(dg.Config):
    """A view may lag for `max_lag_seconds`, unless it rests by its own option; a wait may be stuck for `stuck_seconds`."""

    max_lag_seconds: float = Field(default=900.0, gt=0)
    stuck_seconds: float = Field(default=900.0, gt=0)


@dataclass(frozen=True)
class Lag:
    """A view that lags, or waits: for how long, and why."""

    view: str
    seconds: float
    lagging: bool
    wait: "DomainWait | None"
    stuck: float

    @property
    def reason(self) -> str:
        """Why it lags, in words."""
        return "the next run does it" if self.wait is None else self.wait.reason

    def find_complaint(self, config: FreshnessConfig) -> str | None:
        """Return what is wrong with it, None if nothing is."""
        if self.stuck > config.stuck_seconds and self.wait is not None:
            return f"is stuck ({self.wait.kind}) for {self.stuck:.0f} s: {self.reason}"
        if self.seconds > config.max_lag_seconds and not (self.wait is not None and self.wait.by_choice):
            return f"lags by {self.seconds:.0f} s, more than {config.max_lag_seconds:g} s: {self.reason}"
        return None


def find_lags(version: "Version", stored: "StoredCatalog", now: float) -> tuple[Lag, ...]:
    """Return the views that lag or wait, the one that lags most first."""
    waiting = group_waits(list_all_waits(version, stored, now), stored)
    found = []
    for one in list_statuses(version, stored, {}, now):
        wait = waiting.get(one.name)
        if one.kind == "materialized view" and (one.lagging or wait is not None):
            stuck = 0.0 if wait is None else count_stuck_seconds(wait, version, now)
            found.append(Lag(one.name, one.lag_seconds, one.lagging, wait, stuck))
    return tuple(sorted(found, key=lambda lag: (-lag.seconds, lag.view)))


def look_at_freshness(
    context: dg.OpExecutionContext, config: FreshnessConfig, hummock: HummockResource, naming: Naming
) -> Iterator[dg.AssetMaterialization]:
    """Tell how far behind the views are; fail with the names of those that are too far, or whose wait is stuck."""
    with hold_job_lock(context), hummock.open() as store:
        started = time.perf_counter()
        now = store.clock()
        version, stored = load_present(store, now)
        found = find_lags(version, stored, now)
        complaints = {lag.view: text for lag in found if (text := lag.find_complaint(config)) is not None}
        views = [r for r in stored.catalog.relations.values() if r.kind == "materialized view"]
        numbers: dict[str, Metadata] = {
            "views": len(views),
            "views_lagging": sum(lag.lagging for lag in found),
            "views_late_or_stuck": len(complaints),
            "oldest_lag_seconds": round(found[0].seconds, 1) if found else 0.0,
            "longest_stuck_seconds": round(max((lag.stuck for lag in found), default=0.0), 1),
            "seconds": round(time.perf_counter() - started, 3),
        }
        if found:
            rows = [
                (lag.view, f"{lag.seconds:.1f}", "" if lag.wait is None else lag.wait.kind, lag.reason)
                for lag in found
            ]
            numbers["lags"] = render_table(("view", "lag in s", "kind", "why"), rows)
        yield dg.AssetMaterialization(naming.build_upkeep_key(FRESHNESS), metadata=numbers)
        yield dg.AssetMaterialization(
            naming.build_upkeep_key(OVERVIEW),
            metadata=build_overview(version, stored, now, context.instance, naming),
        )
    if complaints:
        raise dg.Failure(format_failures(complaints), metadata=dict(complaints), allow_retries=False)


def build_freshness_job(naming: Naming) -> dg.JobDefinition:
    """Return the job."""
    description = "Reports how far the views lag, and fails if that is too far."
    return build_one_op_job(FRESHNESS, look_at_freshness, description, naming, retry=None)


def build_freshness_assets(naming: Naming) -> list[dg.AssetSpec]:
    """Return the assets whose events say how far behind the views are, and what all domains do."""
    return [
        dg.AssetSpec(
            naming.build_upkeep_key(FRESHNESS),
            group_name=GROUP,
            kinds={"tideline"},
            description="How far the views lag, and why.",
        ),
        dg.AssetSpec(
            naming.build_upkeep_key(OVERVIEW),
            group_name=GROUP,
            kinds={"tideline"},
            description="All domains: what they read, how far they lag, their last epochs, their last errors.",
        ),
    ]
