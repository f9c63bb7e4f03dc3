"""What becomes of the nodes of another tool's project as columns for people and as records for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dagster_tideline.models.node_readings import NodeReading
from engine.cli.layout import TextColumn
from engine.cli.listings.status import Listing

REFUSED = "not taken"


def build_project_listing(nodes: Sequence[NodeReading]) -> Listing:
    """Return a row for each node: what it is, as what it is taken, and why not."""
    columns = (
        TextColumn("node", [node.name for node in nodes]),
        TextColumn("kind", [node.kind for node in nodes], rank=2),
        TextColumn("relation", [node.relation for node in nodes], rank=1),
        TextColumn("taken as", [node.taken or REFUSED for node in nodes]),
    )
    notes = [node.reason for node in nodes]
    return Listing(columns, notes, [build_record(node) for node in nodes], "no node", format_summary(nodes))


def build_record(node: NodeReading) -> dict[str, Any]:
    """Return a node as programs read it."""
    return {
        "unique_id": node.unique_id or None,
        "kind": node.kind,
        "name": node.name,
        "relation": node.relation or None,
        "taken": node.taken or None,
        "reason": node.reason or None,
    }


def format_summary(nodes: Sequence[NodeReading]) -> str:
    """Return how many nodes of each kind are taken, in a line."""
    kinds = dict.fromkeys(node.kind.split(",")[0] for node in nodes)
    taken = Counter(node.kind.split(",")[0] for node in nodes if node.taken)
    counts = Counter(node.kind.split(",")[0] for node in nodes)
    return "taken: " + ", ".join(_format_count(kind, taken[kind], counts[kind]) for kind in kinds)


def _format_count(kind: str, taken: int, count: int) -> str:
    plural = {"saved query": "saved queries", "analysis": "analyses"}.get(kind, f"{kind}s")
    return f"{taken} of {count} {kind if count == 1 else plural}"
