"""What becomes of the nodes of another tool's project: as what each is taken, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dagster_tideline.models.loader import Model

CHECK = "check"
LANDED = ("source", "table")
"""The kinds of nodes that stand for tables which somebody else writes."""


@dataclass(frozen=True)
class NodeReading:
    """What becomes of a node: the relation that stands for it, as what it is `taken`, empty if it is not, and why."""

    unique_id: str
    kind: str
    name: str
    relation: str = ""
    taken: str = ""
    reason: str = ""


def refuse_nodes(nodes: Sequence[NodeReading], refused: Mapping[str, str]) -> tuple[NodeReading, ...]:
    """Return readings with nodes as not taken whose relations a store refuses, by why."""
    return tuple(
        replace(
            node,
            taken="",
            reason=f"{node.relation} is not taken" if node.taken == CHECK else refused[node.relation],
        )
        if node.taken and node.kind not in LANDED and node.relation in refused
        else node
        for node in nodes
    )


def add_upstream_reasons(readings: Sequence[NodeReading], models: Sequence[Model]) -> Iterator[NodeReading]:
    """Yield readings, those that read what is not taken as not taken themselves; models come inputs first."""
    broken: dict[str, str] = {}
    for model in models:
        if model.error is not None:
            broken[model.name] = ""
            continue
        read = [name for name in model.reads if name in broken]
        if read:
            broken[model.name] = f"it reads {', '.join(read)}, which is not taken"
    for reading in readings:
        if not reading.taken or reading.relation not in broken:
            yield reading
        elif reading.taken == CHECK:
            yield replace(reading, taken="", reason=f"{reading.relation} is not taken")
        else:
            yield replace(reading, taken="", reason=broken[reading.relation])
