"""What this project's runs use: its store, and the Spark on which its views are computed."""

from __future__ import annotations

from typing import Any

import dagster as dg

from dagster_tideline import HummockResource, Settings, SparkResource

__all__ = ["HummockResource", "SparkResource", "project_resources"]


def project_resources(settings: Settings) -> dict[str, dg.ConfigurableResource[Any]]:
    """Return the resources by the names under which runs ask for them."""
    return {"hummock": HummockResource(url=settings.store), "spark": SparkResource(target=settings.spark)}
