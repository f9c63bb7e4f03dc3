"""What Dagster loads: the models of assets/ as assets, with the sensor and the jobs that keep them up to date."""

from pathlib import Path

from dagster_tideline import Settings, build_definitions
from resources import project_resources

settings = Settings.of_environment(Path(__file__).parents[1])
defs = build_definitions(settings, project_resources(settings))
