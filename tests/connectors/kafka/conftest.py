"""An empty topic, and a store beside it."""

from __future__ import annotations

import pytest

from tests.connectors.kafka.server import Topic, make_topic


@pytest.fixture
def topic() -> Topic:
    """A topic with one partition."""
    return make_topic()
