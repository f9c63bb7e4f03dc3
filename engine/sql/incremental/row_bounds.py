"""The bound that a column of a table's one row is, found through the projections above the table."""

from __future__ import annotations

from engine.sql.plan import Bound, Node, Project, Scan


def bound_of_row(node: Node, column: str) -> Bound:
    """Return the bound that is a column of a plan, which hands columns of a scan on as they are."""
    while isinstance(node, Project):
        found = dict(node.items)[column].column
        assert found is not None, f"{column} is computed"
        node, column = node.input, found
    assert isinstance(node, Scan)
    return Bound(node, dict(node.items)[column])
