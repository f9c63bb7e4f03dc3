"""The connectors of sinks, each named at this one place."""

from __future__ import annotations

from engine.connectors.delta.sink.connector import DeltaSinkConnector
from engine.connectors.kafka.sink.connector import KafkaSinkConnector
from engine.connectors.plugins import PluginRegistry
from engine.connectors.postgres.sink.connector import PostgresSinkConnector
from engine.connectors.sinks.contract import SinkConnector
from engine.connectors.sinks.files import FileSinkConnector
from engine.connectors.sinks.options import SinkOptions
from engine.connectors.sinks.tables import TableSinkConnector
from engine.errors import SinkError
from engine.sql.catalog import Relation

OWN = (FileSinkConnector, DeltaSinkConnector, PostgresSinkConnector, KafkaSinkConnector)
SINKS: PluginRegistry[SinkConnector] = PluginRegistry("tideline.sinks", OWN, SinkError)
INTO = TableSinkConnector()
"""That of sinks INTO a table, which name none."""


def register(connector: SinkConnector) -> None:
    """Offer a connector of sinks in this process; an installed package offers one to all by an entry point."""
    SINKS.register(connector)


def find_sink_connector(relation: Relation) -> SinkConnector:
    """Return the connector of a sink; raises SinkError for one that this process lacks."""
    name = SinkOptions.of(relation.options).connector
    return INTO if name == INTO.name else SINKS.find(name)
