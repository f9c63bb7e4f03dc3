"""A bound plan cut into fragments by the reference rules, against which the fast ones are tested."""

from __future__ import annotations

import msgspec

from engine.sql.expression.nodes import Column
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.group_keys import add_global_key, project_keys
from engine.sql.incremental.lowering import Lowering
from engine.sql.incremental.rules import ReferenceRecompute
from engine.sql.incremental.states.partials import GLOBAL_KEY
from engine.sql.incremental.states.table_columns import sanitize_names
from engine.sql.plan import Aggregate, Join, Node, Over, Project, Scan, TopN, list_children

Keyed = Join | Aggregate | TopN | Over


def _match_keyed(node: Node) -> Keyed | None:
    """Return a node that has a key under which it can be computed again, else None; a temporal join cannot be at all."""
    at_arrival = isinstance(node, Join) and node.at_arrival
    return node if isinstance(node, Keyed) and not at_arrival else None


class ReferenceLowering(Lowering):
    """Every join, aggregate, window and choice of first rows is a table of its own, kept by keyed recompute."""

    def add_view_fragment(self, top: Node) -> None:
        """Add the fragment of the view itself, after those that stand below it."""
        if isinstance(top, Project) and (keyed := _match_keyed(top.input)) is not None:
            self._add_keyed(self.view, Project(self._lower_inputs(keyed), top.items))
            return
        super().add_view_fragment(top)

    def _lower(self, node: Node) -> Node:
        keyed = _match_keyed(node)
        if keyed is None:
            return super()._lower(node)
        node = self._lower_inputs(keyed)  # first, since a whole aggregate below brings a key column along
        names = sanitize_names(node.columns)
        self._add_keyed(
            None, Project(node, tuple((names[column], Column(column)) for column in node.columns))
        )
        table, key = self.fragments[-1].table, self.fragments[-1].key
        items = ((f"{old}:{table}" if old == GLOBAL_KEY else old, new) for old, new in names.items())
        return Scan(table, tuple(items), key, key, node.append_only)

    def _is_windowed(self, node: Node) -> bool:
        return False  # calls over windows are kept as other operators are, and filters by themselves

    def _add_keyed(self, table: str | None, plan: Project) -> None:
        why = "touched keys are computed before and after"
        self._add_fragment(
            Fragment(table or self._make_state_name(), ReferenceRecompute(), plan, plan.key, plan.key, why)
        )

    def _lower_inputs(self, node: Keyed) -> Keyed:
        """Return the operator over inputs that can be read by its key."""
        match node:
            case Join():
                on = tuple(zip(*node.on, strict=True)) or ((), ())
                left, right = (
                    self._lower_by_key(side, by) for side, by in zip(list_children(node), on, strict=True)
                )
                return msgspec.structs.replace(node, left=left, right=right)
            case Aggregate():
                keyed, source = project_keys(add_global_key(node), self._lower(node.input))
                by = tuple(expr.columns[0] for _, expr in keyed.keys if expr.columns)
                return msgspec.structs.replace(keyed, input=self._make_reachable(source, by))
            case TopN() | Over():
                return msgspec.structs.replace(node, input=self._lower_by_key(node.input, node.partition))

    def _lower_by_key(self, node: Node, by: tuple[str, ...]) -> Node:
        return self._make_reachable(self._lower(node), by)

    def _make_reachable(self, node: Node, by: tuple[str, ...]) -> Node:
        return self._make_accessible(node, by, null_safe=True) if by else node
