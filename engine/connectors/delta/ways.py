"""How a Delta table's changes are found, and what that costs, as one line for people."""

from __future__ import annotations

from engine.connectors.delta.frames import has_row_ids
from engine.connectors.delta.log import VECTORS, Metadata
from engine.connectors.delta.steps import ALL_MEANS, Means
from engine.sql.catalog import Relation

FEED_WAY = "with its change data feed: it costs what changes"
BY_ROW_IDS = (
    "the Delta table has no change data feed: its row tracking tells which rows of its new and removed files were changed; "
    "reading them costs those files"
)
BY_VECTORS = (
    "the Delta table has no change data feed: its new files and deletion vectors tell which rows were changed; reading them "
    "costs those files, and the keys of the files with rows that were deleted"
)
BY_KEY = (
    "the Delta table has no change data feed: the rows of its new files are compared by key with those of its removed files; "
    "ALTER TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true) makes it cost what changes"
)

NO_ROW_IDS = (
    "the row tracking of the Delta table is off, which tells the rows of a table without a PRIMARY KEY: ALTER TABLE … SET "
    "TBLPROPERTIES (delta.enableRowTracking = true) there, or create this table again with a PRIMARY KEY"
)


def list_means(relation: Relation) -> frozenset[Means]:
    """Return what may tell a table's changes: a feed has no ids of rows, so it is of no use to a table without a key."""
    return ALL_MEANS - {"feed"} if has_row_ids(relation) else ALL_MEANS


def describe_way(metadata: Metadata, keyless: bool) -> str:
    """Return how changes are found, "" by a feed; a table that is `keyless` needs the ids of rows."""
    if keyless and not metadata.tracks_rows:
        return NO_ROW_IDS
    if keyless:
        return BY_ROW_IDS.replace("has no change data feed", "is followed without a key")
    if metadata.has_feed:
        return ""
    if metadata.tracks_rows:
        return BY_ROW_IDS
    return BY_VECTORS if metadata.configuration.get(VECTORS, "").lower() == "true" else BY_KEY
