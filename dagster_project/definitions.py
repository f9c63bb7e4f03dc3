"""What Dagster loads."""

from __future__ import annotations

from pathlib import Path

from dagster_tideline import Settings, build_definitions
from resources import project_resources

settings = Settings.of_environment(Path(__file__).parents[1])
defs = build_definitions(settings, project_resources(settings))
