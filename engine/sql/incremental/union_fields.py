"""Which unions would mix fields of structs up: Spark matches these by their places, whatever their names."""

from __future__ import annotations

from engine.errors import SqlError
from engine.sql.incremental.states.lookup_states import Analyzer
from engine.sql.plan import Node, UnionAll, list_nodes
from engine.sql.typing.types import find_moved_field


def check_union_fields(plan: Node, analyzer: Analyzer, sql: str) -> None:
    """Raise SqlError for a union of structs, one of whose fields stands at another place in another branch."""
    for union in (node for node in list_nodes(plan) if isinstance(node, UnionAll)):
        if not any("struct<" in kind for kind in analyzer.infer_types(union).values()):
            continue
        branches = [analyzer.infer_types(branch) for branch in union.inputs]
        first = union.inputs[0].columns
        for branch, types in zip(union.inputs[1:], branches[1:], strict=True):
            for n, (one, other) in enumerate(zip(first, branch.columns[: len(union.names)], strict=False), 1):
                moved = find_moved_field(branches[0].get(one), types.get(other))
                if moved is not None:
                    raise SqlError(
                        f"field {moved} of column {n} stands at another place in another branch of the union",
                        sql=sql,
                        line=1,
                        column=1,
                        hint="write the fields of both in one order: Spark takes them by their places, not by their names",
                    )
