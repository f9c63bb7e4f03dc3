"""Whether a source can be connected to, read and resumed, in words, before anything is written."""

from __future__ import annotations

from typing import NamedTuple

from engine.connectors.contract.connector import Spark, get_connector_name
from engine.connectors.registry import CONNECTORS
from engine.errors import TidelineError
from engine.hummock import Hummock
from engine.sql.catalog import Relation


class Finding(NamedTuple):
    """What was asked of a source, whether it can, and in words what was found or what is wrong."""

    asked: str
    works: bool
    words: str


def try_source(store: Hummock, relation: Relation, spark: Spark) -> list[Finding]:
    """Ask whether a source can be connected to, read and resumed; what fails ends it. Nothing is written.

    The table need not exist: then it is said where the source would begin.
    """
    found: list[Finding] = []
    left = ["connect", "read", "resume"]
    try:
        for words in CONNECTORS.find(get_connector_name(relation)).try_source(store, relation, spark):
            found.append(Finding(left.pop(0), True, words))
    except (TidelineError, OSError) as error:
        found.append(Finding(left.pop(0), False, str(error)))
    return found
