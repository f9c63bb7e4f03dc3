"""The models of a project: those of its folder, and those of its dbt project, if it has one."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from dagster_tideline.dbt.project import read_project
from dagster_tideline.models.loader import Model, load_models, order_models
from dagster_tideline.settings import Settings

_LOG = logging.getLogger(__name__)


def load_project_models(settings: Settings, said: Mapping[str, str] | None = None) -> tuple[Model, ...]:
    """Return all models that settings name, inputs before their readers; `said` is what holds where a model says nothing.

    Raises ManifestError for a dbt project of which nothing can be read; what of one is not taken is told in the log.
    """
    own = load_models(settings.assets, said)
    if settings.dbt is None:
        return own
    reading = read_project(settings.dbt, said)
    declared = {model.name for model in reading.models}
    for node in reading.nodes:
        if not node.taken and node.relation not in declared and not node.kind.startswith("model"):
            _LOG.info("dbt's %s %s is not taken: %s", node.kind, node.name, node.reason)
    return order_models([*own, *reading.models])
