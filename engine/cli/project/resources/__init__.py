"""What this project's runs use: its store, and the Spark on which its views are computed."""

from dagster_tideline import HummockResource, Settings, SparkResource


def project_resources(settings: Settings) -> dict[str, object]:
    """Return the resources by the names under which runs ask for them."""
    return {"hummock": HummockResource(url=settings.store), "spark": SparkResource(target=settings.spark)}
