"""The connectors that feed tables, each named at this one place."""

from __future__ import annotations

from engine.connectors.contract import Connector
from engine.connectors.delta_connector import DeltaConnector
from engine.connectors.landing_connector import LandingConnector
from engine.connectors.nexmark import NexmarkConnector
from engine.connectors.offers import Offers
from engine.errors import SourceError

OWN = (LandingConnector, NexmarkConnector, DeltaConnector)
CONNECTORS: Offers[Connector] = Offers("tideline.connectors", OWN, SourceError)


def register(connector: Connector) -> None:
    """Offer a connector in this process; an installed package offers one to all by an entry point."""
    CONNECTORS.register(connector)
