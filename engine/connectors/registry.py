"""The connectors that feed tables, each named at this one place."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.contract import Connector, Spark, connector_of
from engine.connectors.delta_connector import DeltaConnector
from engine.connectors.landing_connector import LandingConnector
from engine.connectors.nexmark import NexmarkConnector
from engine.connectors.offers import Offers
from engine.errors import SourceError
from engine.hummock import Hummock, Version
from engine.hummock.version import Run
from engine.runtime.source_rows import offer
from engine.sql.catalog import Relation

OWN = (LandingConnector, NexmarkConnector, DeltaConnector)
CONNECTORS: Offers[Connector] = Offers("tideline.connectors", OWN, SourceError)


def register(connector: Connector) -> None:
    """Offer a connector in this process; an installed package offers one to all by an entry point."""
    CONNECTORS.register(connector)


class _Reader:
    """Reads sources where they are, each by its connector."""

    def rows(
        self, session: SparkSession, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> pa.Table | DataFrame:
        return (
            CONNECTORS.named(connector_of(relation)).source(store, relation).rows_at(version, epoch, session)
        )

    def runs(
        self, spark: Spark, store: Hummock, relation: Relation, version: Version, epoch: int
    ) -> tuple[Run, ...]:
        return CONNECTORS.named(connector_of(relation)).source(store, relation).runs_at(version, epoch, spark)


offer(_Reader())
