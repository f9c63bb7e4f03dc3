"""Tideline's views as Dagster assets: what a project's definitions are made of."""

from dagster_tideline.component import TidelineModelsComponent
from dagster_tideline.dbt.component import TidelineDbtComponent
from dagster_tideline.dbt.project import DbtProject
from dagster_tideline.definitions import build_definitions, build_resources
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.io_manager import TidelineIOManager
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.change_plan import ChangePlan, PlannedChange, plan_models
from dagster_tideline.models.loader import Model, load_models
from dagster_tideline.models.python_models import materialized_view
from dagster_tideline.models.translator import TidelineTranslator
from dagster_tideline.pipelines.component import TidelinePipelineComponent
from dagster_tideline.pipelines.project import PipelineProject
from dagster_tideline.settings import Settings
from dagster_tideline.sync import sync_models

__all__ = [
    "ChangePlan",
    "DbtProject",
    "HummockResource",
    "Model",
    "PipelineProject",
    "PlannedChange",
    "Settings",
    "SparkResource",
    "TidelineDbtComponent",
    "TidelineIOManager",
    "TidelineModelsComponent",
    "TidelinePipelineComponent",
    "TidelineTranslator",
    "build_definitions",
    "build_resources",
    "load_models",
    "materialized_view",
    "plan_models",
    "sync_models",
]
