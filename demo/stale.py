"""What Dagster itself says of the assets, as its page shows it: which it calls stale, or missing, and why."""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest


def find_stale(
    instance: dg.DagsterInstance, definitions: dg.Definitions, names: Collection[str]
) -> dict[str, list[str]]:
    """Return the assets of these keys that Dagster calls other than fresh, and the causes that it gives."""
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = {}
    for key in map(dg.AssetKey.from_user_string, sorted(names)):
        status = resolver.get_status(key)
        if status is not StaleStatus.FRESH:
            causes = [cause.reason for cause in resolver.get_stale_causes(key)]
            found[key.to_user_string()] = causes or [status.value]
    return found
