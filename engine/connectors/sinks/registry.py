"""The connectors of sinks, each named at this one place."""

from __future__ import annotations

from engine.connectors.offers import Offers
from engine.connectors.sinks.contract import SinkConnector
from engine.connectors.sinks.delta_connector import DeltaSinks
from engine.connectors.sinks.files import FileSinks
from engine.connectors.sinks.options import SinkOptions
from engine.connectors.sinks.tables import TableSinks
from engine.errors import SinkError
from engine.sql.catalog import Relation

OWN = (FileSinks, DeltaSinks)
SINKS: Offers[SinkConnector] = Offers("tideline.sinks", OWN, SinkError)
INTO = TableSinks()
"""That of sinks INTO a table, which name none."""


def register(connector: SinkConnector) -> None:
    """Offer a connector of sinks in this process; an installed package offers one to all by an entry point."""
    SINKS.register(connector)


def connector_of_sink(relation: Relation) -> SinkConnector:
    """Return the connector of a sink; raises SinkError for one that this process lacks."""
    name = SinkOptions.of(relation.options).connector
    return INTO if name == INTO.name else SINKS.named(name)
