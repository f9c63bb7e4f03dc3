"""All sources of a store together: what an epoch run polls, and what the sensor finds pending."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from engine.connectors import landing
from engine.connectors.delta import pending_delta, poll_delta
from engine.connectors.landing import LandingReport
from engine.connectors.nexmark import pending_nexmark, poll_nexmark
from engine.hummock import Hummock
from engine.sql.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def poll_all(
    catalog: Catalog,
    store: Hummock,
    tables: Collection[str] | None = None,
    spark: Callable[[], SparkSession] | None = None,
) -> list[LandingReport]:
    """Poll every source of the catalog (or of `tables`); one that fails is told in its report, the others go on.

    `spark` is asked for a session only where a Delta table has something to read.
    """
    reports = [*landing.poll_all(catalog, store, tables), *poll_nexmark(catalog, store, tables)]
    return [*reports, *poll_delta(catalog, store, tables, spark)]


def pending_digest(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> tuple[int, str]:
    """Return how many files, generators and Delta tables are pending, and a digest of it that lasts until it is taken."""
    count, digest = landing.pending_digest(catalog, store, tables)
    waiting = (*pending_nexmark(catalog, store, tables), *pending_delta(catalog, store, tables))
    if not waiting:
        return count, digest
    text = digest + "".join(f"{name}\0{number}\n" for name, number in waiting)
    return count + len(waiting), hashlib.sha256(text.encode()).hexdigest()[:16]
