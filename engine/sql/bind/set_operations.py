"""UNION, INTERSECT and EXCEPT: the branches' rows are counted by side where duplicates matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.sql.expression.nodes import Arithmetic, Column, Comparison, Expr, Literal
from engine.sql.expression.template import call as call_of
from engine.sql.expression.template import fill_template
from engine.sql.plan import AggCall, Aggregate, Filter, Node, Project, Unnest
from engine.sql.rewrites.binding.build_full_join import build_union_all
from engine.sql.typing.expression_types import find_wider_type

Columns = tuple[tuple[str, str], ...]


class SetOperationBinder:
    """Combines bound branches of equal width; `types` are the certain types of columns."""

    def __init__(self, types: dict[str, str], fresh: Callable[[str], str]) -> None:
        self.types, self.fresh = types, fresh

    def build_union(self, branches: Sequence[tuple[Node, Columns]], distinct: bool) -> tuple[Node, Columns]:
        """Return the rows of all branches, each once if `distinct`."""
        plan, columns = self._concatenate(branches)
        return self._group_rows(plan, columns, ()) if distinct else (plan, columns)

    def build_intersect(
        self, left: tuple[Node, Columns], right: tuple[Node, Columns], every: bool
    ) -> tuple[Node, Columns]:
        """`INTERSECT` -> the groups with rows of both sides; ALL keeps as many copies as the lesser side has."""
        plan, columns, ours, theirs = self._count_by_side(left, right)
        if not every:
            return Filter(plan, fill_template(":ours > 0 AND :theirs > 0", ours=ours, theirs=theirs)), columns
        return self._repeat_rows(plan, call_of("least", ours, theirs)), columns

    def build_except(
        self, left: tuple[Node, Columns], right: tuple[Node, Columns], every: bool
    ) -> tuple[Node, Columns]:
        """`EXCEPT` -> the groups without rows of the right side; ALL takes one copy away for each of those."""
        plan, columns, ours, theirs = self._count_by_side(left, right)
        if not every:
            return Filter(plan, fill_template(":ours > 0 AND :theirs = 0", ours=ours, theirs=theirs)), columns
        return self._repeat_rows(plan, Arithmetic("-", (ours, theirs))), columns

    # ---- parts -----------------------------------------------------------------------------------------------
    def _concatenate(self, branches: Sequence[tuple[Node, Columns]]) -> tuple[Node, Columns]:
        inputs = []
        for plan, columns in branches:
            inputs.append(
                Project(plan, tuple((self.fresh(f"branch:{name}"), Column(c)) for name, c in columns))
            )
        outputs = tuple((name, self.fresh(f"union:{name}")) for name, _ in branches[0][1])
        for n, (_, internal) in enumerate(outputs):
            kind = self._find_widest_type([self.types.get(columns[n][1]) for _, columns in branches])
            if kind is not None:
                self.types[internal] = kind
        return build_union_all(inputs, tuple(internal for _, internal in outputs), self.fresh), outputs

    def _find_widest_type(self, kinds: list[str | None]) -> str | None:
        found = kinds[0]
        for kind in kinds[1:]:
            found = find_wider_type(found, kind) if found is not None and kind is not None else None
        return found

    def _count_by_side(
        self, left: tuple[Node, Columns], right: tuple[Node, Columns]
    ) -> tuple[Node, Columns, Column, Column]:
        """Return the distinct rows of both sides with their numbers in each."""
        side = self.fresh("side")
        sides = []
        for n, (plan, columns) in enumerate((left, right)):
            items = tuple((self.fresh(f"side:{name}"), Column(column)) for name, column in columns)
            marked = self.fresh("side")
            sides.append((Project(plan, (*items, (marked, Literal(str(n))))), items, marked))
        self.types[sides[0][2]] = self.types[sides[1][2]] = "int"
        for (_, columns), (_, items, _) in zip((left, right), sides, strict=True):
            for (_, old), (new, _) in zip(columns, items, strict=True):
                if old in self.types:
                    self.types[new] = self.types[old]
        names = [name for name, _ in left[1]]
        branches = [
            (plan, (*((n, i) for n, (i, _) in zip(names, items, strict=True)), (side, marked)))
            for plan, items, marked in sides
        ]
        plan, columns = self._concatenate(branches)
        *outputs, (_, which) = columns
        ours, theirs = self.fresh("rows:left"), self.fresh("rows:right")
        calls = tuple(
            AggCall(name, "count", (), where=Comparison("=", Column(which), Literal(str(n))))
            for n, name in enumerate((ours, theirs))
        )
        grouped, found = self._group_rows(plan, tuple(outputs), calls)
        return grouped, found, Column(ours), Column(theirs)

    def _group_rows(self, plan: Node, columns: Columns, calls: tuple[AggCall, ...]) -> tuple[Node, Columns]:
        keys = tuple((self.fresh(f"set:{name}"), Column(column)) for name, column in columns)
        for (key, _), (_, column) in zip(keys, columns, strict=True):
            if column in self.types:
                self.types[key] = self.types[column]
        found = tuple((name, key) for (name, _), (key, _) in zip(columns, keys, strict=True))
        return Aggregate(plan, keys, calls), found

    def _repeat_rows(self, plan: Node, number: Expr) -> Node:
        array = fill_template("if(:n > 0, sequence(1L, :n), CAST(array() AS array<bigint>))", n=number)
        return Unnest(plan, array, self.fresh("copy"), self.fresh("copy:ordinal"))
