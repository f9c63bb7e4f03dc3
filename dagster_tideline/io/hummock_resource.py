"""The store as a Dagster resource."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.io.spark_resource import SparkResource

if TYPE_CHECKING:
    from engine.hummock import Hummock
    from engine.session import Session


class HummockResource(dg.ConfigurableResource[None]):
    """The store at `url` (`file:///path` or `s3://bucket/prefix`)."""

    url: str

    def open(self) -> Hummock:
        """Open the store alone: no Spark, no SQL."""
        from engine.hummock import Hummock

        return Hummock.open(self.url)

    def open_cached(self) -> Hummock:
        """Return the store, opened once in this process and kept: for who looks at it again and again."""
        return _open_cached(self.url)

    def session(self, spark: SparkResource, epochs_in_flight: int | None = None) -> Session:
        """Open a session over the store; Spark starts when first needed. With `epochs_in_flight` it is a driver's."""
        from engine.session import Session

        return Session(self.url, spark.address, epochs_in_flight=epochs_in_flight)


@cache
def _open_cached(url: str) -> Hummock:
    return HummockResource(url=url).open()
