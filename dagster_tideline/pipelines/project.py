"""A project of Spark Declarative Pipelines as models: its materialized views and streaming tables are kept as views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from dagster_tideline.models.header import Header, HeaderLine
from dagster_tideline.models.loader import EXTERNAL_KINDS, Model, build_model, name_group, order_models
from dagster_tideline.models.node_readings import NodeReading
from engine.errors import TidelineError
from engine.pipelines.names import KnownTable
from engine.pipelines.project import PipelineReading, PipelineView, read_pipeline
from engine.sql.catalog import ROWS_LIVE, Relation
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.reader import CreateTable, parse_statement

_READ = ("table", "source", "materialized view", "view")


class PipelineProject(BaseModel):
    """A project of Spark Declarative Pipelines as it is: its spec, and the tables that stand for what it reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: Path
    """`spark-pipeline.yml`, or the folder that has it."""
    tables: Mapping[str, str] = {}
    """The tables that stand for others, for files, or for its datasets: `raw.orders: orders`, `/data/items: items`."""
    leave_out: tuple[str, ...] = ()
    """Columns that datasets are kept without, such as the time of a run: `silver_orders.processed_at`."""


@dataclass(frozen=True)
class PipelineModels:
    """A pipeline as it was read: its models, inputs first, and what became of each of its elements."""

    models: tuple[Model, ...]
    nodes: tuple[NodeReading, ...]


def read_pipeline_models(
    project: PipelineProject, known: Iterable[KnownTable] = (), said: Mapping[str, str] | None = None
) -> PipelineModels:
    """Return a pipeline's models and what became of its elements; raises PipelineError where nothing of it can be read.

    `known` are tables that are there, `said` is what the headers of models say that do not say it themselves.
    """
    reading = read_pipeline(project.spec, project.tables, known, project.leave_out)
    models = order_models([_build_view(view, reading, said or {}) for view in reading.views])
    nodes = tuple(
        NodeReading(
            f"{one.place} {one.name}".strip(), one.kind, one.name, one.relation, one.taken, one.reason
        )
        for one in reading.elements
    )
    errors = {model.name: model.error for model in models if model.error is not None}
    return PipelineModels(models, tuple(_correct_node(node, errors) for node in nodes))


def list_known_tables(stored: Mapping[str, Relation], models: Sequence[Model] = ()) -> list[KnownTable]:
    """Return the tables that a store has and that models declare, as a pipeline reads them."""
    found = {
        name: KnownTable(
            name,
            tuple(column.name for column in one.visible_columns),
            one.append_only and one.row_lifetime is None and not (one.watermark and one.watermark.ttl),
            one.options.get("connector", ""),
            one.options.get("path", "") or one.options.get("url", ""),
        )
        for name, one in stored.items()
        if one.kind in _READ
    }
    for model in models:
        if model.kind in EXTERNAL_KINDS and model.error is None:
            found[model.name] = _read_table(model, found.get(model.name))
    return list(found.values())


def _read_table(model: Model, stored: KnownTable | None) -> KnownTable:
    """Return the table that a model declares; columns that it does not say are those of the store."""
    statement = parse_statement(model.sql, model.dialect)
    names = tuple(column.name for column in model.columns if not column.hidden)
    columns = names or (None if stored is None else stored.columns)
    path = model.options.get("path", "") or model.options.get("url", "")
    lasts = isinstance(statement, CreateTable) and ROWS_LIVE not in statement.options
    ttl = isinstance(statement, CreateTable) and statement.watermark is not None and statement.watermark.ttl
    appends = isinstance(statement, CreateTable) and statement.append_only and lasts and not ttl
    return KnownTable(model.name, columns, appends, model.options.get("connector", ""), path)


def _build_view(view: PipelineView, reading: PipelineReading, said: Mapping[str, str]) -> Model:
    """Return the model of a dataset; one that is not taken shows why."""
    dataset = view.dataset
    path = dataset.place.rpartition(":")[0]
    group = name_group(Path(path))
    metadata = {
        "pipelines/pipeline": reading.spec.name,
        "pipelines/dataset": ".".join(dataset.name),
        "pipelines/kind": dataset.kind,
        "pipelines/place": dataset.place,
    }
    word = "VIEW" if view.is_plain else "MATERIALIZED VIEW"
    text = f"CREATE {word} {quote(view.relation)} AS\n{view.query.strip()}"
    error = view.error
    if not error:
        lines = {**said, "group": group, **({"description": dataset.comment} if dataset.comment else {})}
        header = Header({key: HeaderLine(value) for key, value in lines.items()}, [])
        try:
            model = build_model(text, path, "spark", header, "")
            return replace(model, metadata=metadata, foreign_inputs=view.foreign)
        except TidelineError as refused:
            error = str(refused)
    return Model(
        view.relation,
        word.lower(),
        "",
        path,
        group=group,
        description=dataset.comment,
        error=f"{dataset.place}: {error}",
        metadata=metadata,
    )


def _correct_node(node: NodeReading, errors: Mapping[str, str]) -> NodeReading:
    """Return a node as not taken whose text is none of a model."""
    if not node.taken or node.relation not in errors or node.kind == "table":
        return node
    return replace(node, taken="", reason=errors[node.relation])
