"""How a Delta table's changes are found, and what that costs, as one line for people."""

from __future__ import annotations

from engine.connectors.delta.log import VECTORS, Metadata

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


def describe_way(metadata: Metadata) -> str:
    """Return how changes are found where a table has no feed, "" where it has one."""
    if metadata.has_feed:
        return ""
    if metadata.tracks_rows:
        return BY_ROW_IDS
    return BY_VECTORS if metadata.configuration.get(VECTORS, "").lower() == "true" else BY_KEY
