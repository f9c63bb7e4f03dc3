"""The connectors that feed tables, each named at this one place."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.contract.connector import Connector, Spark, get_connector_name
from engine.connectors.delta.connector import DeltaConnector
from engine.connectors.kafka.connector import KafkaConnector
from engine.connectors.landing.connector import LandingConnector
from engine.connectors.nexmark.source import NexmarkConnector
from engine.connectors.plugins import PluginRegistry
from engine.connectors.postgres.connector import PostgresConnector
from engine.errors import SourceError
from engine.hummock import Hummock, Version
from engine.hummock.version import Run
from engine.runtime.source_rows import register_source_reader
from engine.sql.catalog import Relation

OWN = (LandingConnector, NexmarkConnector, DeltaConnector, PostgresConnector, KafkaConnector)
CONNECTORS: PluginRegistry[Connector] = PluginRegistry("tideline.connectors", OWN, SourceError)


def register(connector: Connector) -> None:
    """Offer a connector in this process; an installed package offers one to all by an entry point."""
    CONNECTORS.register(connector)


class _ConnectorRowReader:
    """Reads sources where they are, each by its connector."""

    def rows(
        self, session: SparkSession, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> pa.Table | DataFrame:
        return (
            CONNECTORS.find(get_connector_name(relation))
            .open_source(store, relation)
            .read_rows_at(version, epoch, session)
        )

    def runs(
        self, spark: Spark, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> tuple[Run, ...]:
        return (
            CONNECTORS.find(get_connector_name(relation))
            .open_source(store, relation)
            .write_runs_at(version, epoch, spark)
        )


register_source_reader(_ConnectorRowReader())
