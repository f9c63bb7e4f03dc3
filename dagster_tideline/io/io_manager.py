"""Tables and views as inputs and outputs of other assets: read at one epoch as Arrow, pandas or Spark, written as rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import dagster as dg
import pandas as pd
import pyarrow as pa
from pydantic import PrivateAttr
from pyspark.sql import DataFrame
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.asset_spec import RELATION
from engine.errors import EpochFailed, UnknownTable
from engine.meta.epochs.content import Content
from engine.meta.epochs.query_policy import check_has_content
from engine.session import Session
from engine.sql.catalog import Catalog
from engine.sql.expression.spark_sql import quote

FRAMES = (DataFrame, ConnectFrame)


class TidelineIOManager(dg.ConfigurableIOManager):
    """Hands a table or view to an asset by the annotation of its parameter, and writes what an asset returns to its table.

    All inputs of one asset are read at one epoch, the newest at which each of them has content. `write_mode` says what becomes
    of a row whose key is known: see `Session.write`.
    """

    hummock: HummockResource
    spark: SparkResource
    write_mode: Literal["insert", "upsert", "delete"] = "upsert"
    _session: Session | None = PrivateAttr(default=None)
    _epochs: dict[tuple[str, str], int] = PrivateAttr(default_factory=dict)

    def load_input(self, context: dg.InputContext) -> Any:
        """Return the rows of an upstream asset in the form that the parameter is annotated with; Arrow without one."""
        name, session = _find_relation_name(context, context.asset_key), self._open_session()
        epoch = self._resolve_epoch(context, session)
        context.add_input_metadata({"epoch": str(epoch)})
        form = context.dagster_type.typing_type
        if form in FRAMES:
            reader = session.spark.read.format("tideline").option("store", session.url)
            return reader.option("epoch", str(epoch)).load(name)
        found = session.sql(f"SELECT * FROM {quote(name)}", policy=str(epoch))
        assert found is not None
        if form is pd.DataFrame:
            return found.to_pandas(types_mapper=pd.ArrowDtype)
        if form in (pa.Table, Any, None):
            return found
        raise dg.DagsterInvariantViolationError(
            f"{name} can't be handed over as {form}: annotate the parameter as pyarrow.Table, pandas.DataFrame or "
            "pyspark.sql.DataFrame"
        )

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the rows that an asset returns to the table of its name; None writes nothing."""
        if obj is None:
            return
        name, session = _find_relation_name(context, context.asset_key), self._open_session()
        if name not in session.catalog.relations:
            raise UnknownTable(
                f"there is no table {name}: declare it with CREATE TABLE in a file of assets/, and run the project once"
            )
        rows = _to_arrow(obj)
        epoch = session.write(name, rows, self.write_mode)
        context.add_output_metadata({"rows": rows.num_rows, "epoch": str(epoch)})
        if not context.has_asset_partitions:  # views that read the table name its content by this epoch
            context.step_context.set_data_version(context.asset_key, dg.DataVersion(str(epoch)))

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the session; Spark frames are read by then."""
        if self._session is not None:
            self._session.close()

    def _open_session(self) -> Session:
        if self._session is None:
            self._session = self.hummock.session(self.spark)
        return self._session

    def _resolve_epoch(self, context: dg.InputContext, session: Session) -> int:
        """Return the epoch of a step's inputs, which the first of them to be loaded settles."""
        step = context.step_context
        key = (step.run_id, step.step.key)
        if key not in self._epochs:
            asset = step.assets_def
            keys = asset.keys_by_input_name.values() if asset is not None else (context.asset_key,)
            stored = session.stored
            names = {_find_relation_name(context, key) for key in keys} & stored.catalog.relations.keys()
            content = Content(session.store.version, stored.inputs)
            own = _find_relation_name(context, context.asset_key)
            tables = sorted(_find_tables(names | {own}, stored.catalog))
            epoch = content.find_common(tables, session.store.version.epoch)
            if epoch is None:
                for name in tables:  # tells of one that was not computed yet
                    check_has_content(content, name, session.store.version.epoch)
                raise EpochFailed(f"{', '.join(tables)} have no epoch in common yet: run the project once")
            self._epochs[key] = epoch
        return self._epochs[key]


def _find_tables(names: Collection[str], catalog: Catalog) -> set[str]:
    """Return the relations that have rows of their own, below plain views too."""
    found: set[str] = set()
    for name in names:
        relation = catalog.relations.get(name)
        if relation is None:
            raise UnknownTable(f"there is no table or view {name} in the store: run the project once")
        found |= _find_tables(relation.depends_on, catalog) if relation.kind == "view" else {name}
    return found


def _to_arrow(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pd.DataFrame):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, FRAMES):
        return rows.toArrow()
    raise dg.DagsterInvariantViolationError(
        f"rows are written from pyarrow.Table, pandas.DataFrame or a Spark frame, not from {type(rows).__name__}"
    )


def _find_relation_name(context: dg.InputContext | dg.OutputContext, key: dg.AssetKey) -> str:
    """Return the table or view of an asset: what its metadata says, else the last part of its key."""
    assets = context.step_context.job_def.asset_layer
    said = assets.get(key).metadata.get(RELATION) if assets.has(key) else None
    return said.value if isinstance(said, dg.TextMetadataValue) else key.path[-1]
