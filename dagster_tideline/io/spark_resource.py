"""The Spark session as a Dagster resource: started by the first view that needs it, never by loading the definitions."""

from __future__ import annotations

import os

import dagster as dg


class SparkResource(dg.ConfigurableResource[None]):
    """Where views are computed; `target` is `local[2]`, `spark://…`, `sc://…`, or empty for SPARK_REMOTE, else local[*]."""

    target: str = ""

    @property
    def address(self) -> str | None:
        """The target to connect to; None leaves the choice to the engine."""
        return self.target or os.environ.get("SPARK_REMOTE") or None

    def in_process(self) -> SparkResource:
        """Return the same where computing is done by a session of the run's own process: a driver keeps one warm."""
        served = (self.address or "sc://").startswith("sc://")
        return SparkResource(target="local[*]") if served else self
