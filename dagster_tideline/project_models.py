"""The models of a project: those of its folder, and those of its dbt project or its pipeline, if it has one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from dagster_tideline.dbt.project import read_project
from dagster_tideline.models.loader import Model, load_models, order_models
from dagster_tideline.models.node_readings import NodeReading
from dagster_tideline.pipelines.project import list_known_tables, read_pipeline_models
from dagster_tideline.settings import Settings
from engine.errors import TidelineError
from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.sql.catalog import Relation

_LOG = logging.getLogger(__name__)


def load_project_models(settings: Settings, said: Mapping[str, str] | None = None) -> tuple[Model, ...]:
    """Return all models that settings name, inputs before their readers; `said` is what holds where a model says nothing.

    Raises ManifestError for a dbt project, and PipelineError for a pipeline, of which nothing can be read; what of one is not
    taken is told in the log.
    """
    models = [*load_models(settings.assets, said)]
    if settings.dbt is not None:
        dbt = read_project(settings.dbt, said)
        models += dbt.models
        _tell_refused("dbt's", (one for one in dbt.nodes if not one.kind.startswith("model")), dbt.models)
    if settings.pipeline is not None:
        known = list_known_tables(read_stored_relations(settings.store), models)
        pipeline = read_pipeline_models(settings.pipeline, known, said)
        models += pipeline.models
        _tell_refused("the pipeline's", pipeline.nodes, pipeline.models)
    return order_models(models)


def _tell_refused(whose: str, nodes: Iterable[NodeReading], models: Iterable[Model]) -> None:
    """Say in the log which nodes are not taken that no model shows."""
    declared = {model.name for model in models}
    for node in nodes:
        if not node.taken and node.relation not in declared:
            _LOG.info("%s %s %s is not taken: %s", whose, node.kind, node.name, node.reason)


def read_stored_relations(url: str) -> Mapping[str, Relation]:
    """Return what the store holds, for column types in the UI; nothing if the store can't be opened now."""
    try:
        with Hummock.open(url, create=False) as store:
            return load_catalog(store.refresh()).catalog.relations
    except (TidelineError, OSError):
        return {}
