"""A bound plan cut into fragments by the fast rules: aggregates by stored partials where they can be, joins by lookups."""

from __future__ import annotations

import msgspec

from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.template import as_columns
from engine.sql.incremental.access_paths import build_arrange_key, is_chain, is_found_by, list_join_columns
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.group_keys import add_global_key, is_global, project_keys, rename_global_key
from engine.sql.incremental.rules import (
    ChangelogRows,
    FirstRows,
    JoinedOnArrival,
    KeyedRecompute,
    StoredPartials,
    WindowReach,
    WindowRecompute,
)
from engine.sql.incremental.states.changelogs import KEY, build_changelog_plan
from engine.sql.incremental.states.counted_values import (
    CountedValues,
    OverValues,
    ValueState,
    aggregate_over_values,
    find_counted_values,
)
from engine.sql.incremental.states.filter_states import build_filter_state, build_timed_state
from engine.sql.incremental.states.lookup_states import LookupStates
from engine.sql.incremental.states.partials import Partials, build_partials
from engine.sql.incremental.states.table_columns import (
    add_hidden_columns,
    copy_order_column,
    rename_columns,
    sanitize_names,
)
from engine.sql.incremental.temporal_filters import has_moment_bounds, split_bounds
from engine.sql.incremental.temporal_joins import find_arriving_side, is_temporal_join, replace_arriving_side
from engine.sql.incremental.window_reach import measure_reach, put_in_one_partition
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TopN,
    UnionAll,
    Values,
)  # fmt: skip

_BY_VALUES = (
    "the change is added to stored partials; distinct values and extremes follow the states of values"
)


def _describe_first_rows(node: TopN) -> str:
    """Return in words what an epoch costs that changes the lowered input of first rows."""
    groups = "touched groups" if node.partition else "all rows"
    if node.follows_from_stored and (node.partition or is_found_by(node.input, ())):
        return f"rows that come are held against the stored ones; {groups} are ordered again where too few of these are left"
    return f"{groups} are ordered again" if node.partition else "all rows are ordered again in each epoch"


class Lowering(LookupStates):
    """Cuts one view into fragments, inputs first; `indexes` are the shared ones that their lookups need."""

    # ---- the view itself -------------------------------------------------------------------------------------
    def add_view_fragment(self, top: Node) -> None:
        """Add the fragment of the view itself, after those that stand below it."""
        match top:
            case Project(input=Aggregate()):
                self._add_aggregate(self.view, top)
            case Project() if self._is_windowed(top.input):
                self._add_over(self.view, top)
            case Project() if is_temporal_join(top):
                self._add_arrivals(self.view, top)
            case _:
                plan = self._lower(top)
                self._emit_fragment(self.view, plan, plan.key)

    # ---- nodes below the top ---------------------------------------------------------------------------------
    def _lower(self, node: Node) -> Node:
        """Return the node with every aggregate replaced by a scan of a state table of its own."""
        if isinstance(node, Scan | Values):
            return self._lower_changes(node) if isinstance(node, Scan) and node.changes else node
        if isinstance(node, Aggregate):
            return self._add_aggregate_state(node)
        if isinstance(node, TopN):
            return self._add_top_n_state(node)
        if self._is_windowed(node):
            return self._add_over_state(node)
        if has_moment_bounds(node):
            return self._lower_temporal(node)
        if isinstance(node, DynamicFilter):
            return self._lower_dynamic(node)
        if is_temporal_join(node):
            return self._add_arrivals_state(node)
        if isinstance(node, Join):
            return self._lower_nearest(node) if node.nearest is not None else self._lower_join(node)
        if isinstance(node, Filter) and isinstance(node.input, Join) and node.input.nearest is None:
            return msgspec.structs.replace(node, input=self._lower_join(node.input, (node.predicate,)))
        if isinstance(node, UnionAll):
            return UnionAll(tuple(self._lower(child) for child in node.inputs), node.names)
        assert not isinstance(node, Recompute)  # it is the whole of a plan that is not lowered
        return msgspec.structs.replace(node, input=self._lower(node.input))

    def _lower_join(self, join: Join, conditions: tuple[Expr, ...] = ()) -> Join:
        """Return a join over sides that can be looked up; `conditions` are those of a filter right above it."""
        left, right = self._lower(join.left), self._lower(join.right)
        (left_by, right_by), null_safe = list_join_columns(join), join.null_safe
        goes = self._find_releasable(join, conditions, left, right)
        if goes[1] is not None:
            right = self._build_releasing_state(right, right_by, *goes[1])
        else:
            right = self._prepare_right_side(right, join)
        if goes[0] is not None:
            left = self._build_releasing_state(left, left_by, *goes[0])
        elif not join.on:  # whole sides are read, not looked up
            left = self._make_lasting(left)
        else:
            left = self._make_accessible(left, left_by, null_safe)
        return msgspec.structs.replace(join, left=left, right=right)

    def _add_top_n_state(self, node: TopN) -> Scan:
        source = self._lower(node.input)
        by = node.partition
        source = self._make_accessible(source, by, null_safe=True) if by else self._make_lasting(source)
        top = msgspec.structs.replace(node, input=source)
        names = sanitize_names(
            top.columns
        )  # tables below may bring key columns along that the node did not have
        plan = Project(top, tuple((names[column], Column(column)) for column in top.columns))
        table = self._make_state_name()
        by = tuple(names[column] for column in node.partition)
        key = build_arrange_key(by, plan.key)
        why = _describe_first_rows(top)
        self._add_fragment(Fragment(table, FirstRows(top.partition), plan, key, by or key, why))
        return Scan(table, tuple((old, new) for old, new in names.items()), key, by or key)

    # ---- changes as rows -------------------------------------------------------------------------------------
    def _lower_changes(self, node: Scan) -> Scan:
        """Return a scan of a state with the changes of a table."""
        plan, names = build_changelog_plan(node)
        table = self._make_state_name()
        why = "each change is a row, commit by commit"
        self._add_fragment(Fragment(table, ChangelogRows(), plan, KEY, KEY[:1], why))
        items = tuple((old, new) for old, new in names.items())
        return Scan(table, items, KEY[1:], (), append_only=True)

    # ---- as-of joins -----------------------------------------------------------------------------------------
    def _lower_nearest(self, join: Join) -> Node:
        """Return an as-of join over states of its sides, each in the order of what is compared."""
        assert join.nearest is not None
        (left_by, right_by), nearest = zip(*join.on, strict=True), join.nearest
        left, before = copy_order_column(self._lower(join.left), nearest.left, left_by)
        right, behind = copy_order_column(self._lower(join.right), nearest.right, right_by)
        left, right = self._arrange(left, left_by, (before,)), self._arrange(right, right_by, (behind,))
        nearest = msgspec.structs.replace(nearest, left=before, right=behind)
        lowered = msgspec.structs.replace(join, left=left, right=right, nearest=nearest)
        return lowered if nearest == join.nearest else Project(lowered, as_columns(join.columns))

    # ---- windows ---------------------------------------------------------------------------------------------
    def _is_windowed(self, node: Node) -> bool:
        """Tell whether the node is calls over windows, or a filter right above some."""
        if has_moment_bounds(node):
            return False
        return isinstance(node, Over) or (isinstance(node, Filter) and isinstance(node.input, Over))

    # ---- filters that ask for the moment ---------------------------------------------------------------------
    def _lower_temporal(self, node: Node) -> Node:
        """Return the rows of a filter on now(), which a state holds in the order in which they come and go."""
        assert isinstance(node, Filter)
        bounds = split_bounds(node.predicate)
        below = node.input if bounds.rest is None else Filter(node.input, bounds.rest)
        source = self._lower(below)
        fragment, rows = build_timed_state(source, bounds, self._make_state_name())
        self._add_fragment(fragment)
        return rows

    def _lower_dynamic(self, node: DynamicFilter) -> DynamicFilter:
        """Return a filter over a state that holds its input in the order of what is compared."""
        source = self._lower(node.input)
        row = None if node.against is None else self._lower_bound(node.against, node.at)
        fragment, filtered = build_filter_state(node, source, row, self._make_state_name())
        self._add_fragment(fragment)
        return filtered

    def _lower_bound(self, node: Node, at: str) -> Node:
        """Return the one row that a filter is against, in a state of its own where its column `at` is computed."""
        row = self._lower(node)
        assert isinstance(row, Project)
        return row if dict(row.items)[at].column is not None else self._arrange(row, row.key)

    # ---- temporal joins --------------------------------------------------------------------------------------
    def _add_arrivals_state(self, node: Node) -> Scan:
        """Return a scan of a state table with the rows of a temporal join, which nothing could compute again."""
        self._add_arrivals(None, rename_columns(node))
        return self._scan_last_state(node.append_only)

    def _add_arrivals(self, table: str | None, top: Project) -> None:
        """Add the fragment of temporal joins in a row; without a name it is a state, numbered after all that stands below it."""
        came = self._lower(find_arriving_side(top))
        if not is_chain(came):  # what comes and goes has to be net: a row that stays must not be joined anew
            came = self._arrange(came, came.key)
        below = replace_arriving_side(self._lower_arrivals(top.input), came)
        plan = add_hidden_columns(top, below, below.key)
        by, key = plan.key[: len(came.key)], plan.key
        name = table or self._make_state_name()
        why = "rows are joined as they come, and keep what they have found"
        self._add_fragment(Fragment(name, JoinedOnArrival(by), plan, build_arrange_key(by, key), by, why))

    def _lower_arrivals(self, node: Node) -> Node:
        """Return temporal joins in a row over right sides that can be looked up."""
        if not is_temporal_join(node):
            return node
        if isinstance(node, Join):
            right = self._prepare_right_side(self._lower(node.right), node)
            return msgspec.structs.replace(node, left=self._lower_arrivals(node.left), right=right)
        assert isinstance(node, Filter | Project)
        return msgspec.structs.replace(node, input=self._lower_arrivals(node.input))

    def _scan_last_state(self, append_only: bool = False) -> Scan:
        """Return a scan of the state that was added last, which renames what it holds, under the columns' first names."""
        state = self.fragments[-1]
        assert isinstance(state.plan, Project)
        found = {expr.columns[0]: name for name, expr in state.plan.items}
        return Scan(
            state.table, rename_global_key(state.table, found), state.key, state.distribution_key, append_only
        )

    def _add_over_state(self, node: Node) -> Scan:
        """Return a scan of a state table with the rows of calls over windows, or of a filter right above them."""
        self._add_over(None, rename_columns(node))
        return self._scan_last_state(node.append_only)

    def _add_over(self, table: str | None, top: Project) -> None:
        """Add the fragment of calls over windows; without a name it is a state, numbered after all that stands below it."""
        node = top.input.input if isinstance(top.input, Filter) else top.input
        assert isinstance(node, Over)
        node, reach = self._lower_over_input(node)
        below = msgspec.structs.replace(top.input, input=node) if isinstance(top.input, Filter) else node
        plan = add_hidden_columns(top, below, (*node.partition, *node.key))
        carried = {expr.column: name for name, expr in reversed(plan.items) if expr.column is not None}
        by = tuple(carried[column] for column in node.partition)
        why = "touched partitions are computed again" if by else "all rows are one partition, computed again"
        if reach is not None:
            why = f"rows up to {reach.rows} from a change are computed again"
        name, key = table or self._make_state_name(), build_arrange_key(by, plan.key)
        self._add_fragment(Fragment(name, WindowRecompute(node.partition, reach), plan, key, by or key, why))

    def _lower_over_input(self, node: Over) -> tuple[Over, WindowReach | None]:
        """Return calls over windows over an input that can be looked up, and how far they look where it is in their order."""
        source = self._lower(node.input)
        found = measure_reach(node, self.analyzer.infer_types(source))
        if found is None:
            by = node.partition
            source = self._make_accessible(source, by, null_safe=True) if by else self._make_lasting(source)
            return msgspec.structs.replace(node, input=source), None
        node, source = put_in_one_partition(node, source)
        state = self._arrange(source, node.partition, (found.order,))
        return msgspec.structs.replace(node, input=state), found.of_state(state)

    # ---- aggregates ------------------------------------------------------------------------------------------
    def _add_aggregate_state(self, node: Aggregate) -> Scan:
        node = add_global_key(node)
        names = sanitize_names(node.columns)
        plan = Project(node, tuple((names[column], Column(column)) for column in node.columns))
        table = self._add_aggregate(None, plan)
        key = tuple(names[column] for column in node.key)
        return Scan(table, rename_global_key(table, names), key, key, node.append_only)

    def _add_aggregate(self, table: str | None, top: Project) -> str:
        """Add the fragment of an aggregate; without a name it is a state, numbered after all that stands below it."""
        assert isinstance(top.input, Aggregate)
        node = add_global_key(top.input)
        top = Project(node, top.items)
        source = self._lower(node.input)
        fast, why = self._find_partials(node, source)
        if fast is not None:
            table = table or self._make_state_name()
            plan: Node = msgspec.structs.replace(top, input=msgspec.structs.replace(node, input=source))
            self._add_fragment(Fragment(table, StoredPartials(fast), plan, top.key, top.key, why))
            return table
        over = self._aggregate_over_values(node, source)
        if not isinstance(over, str):
            table = table or self._make_state_name()
            plan = msgspec.structs.replace(top, input=over.node)
            self._add_fragment(
                Fragment(table, StoredPartials(over.partials), plan, top.key, top.key, _BY_VALUES)
            )
            return table
        why = over or why
        keyed, source = project_keys(node, source)
        by = () if is_global(keyed) else tuple(expr.columns[0] for _, expr in keyed.keys)
        source = self._make_accessible(source, by, null_safe=True) if by else self._make_lasting(source)
        table = table or self._make_state_name()
        plan = msgspec.structs.replace(top, input=msgspec.structs.replace(keyed, input=source))
        self._add_fragment(Fragment(table, KeyedRecompute(by), plan, top.key, top.key, why))
        return table

    def _find_partials(self, node: Aggregate, source: Node) -> tuple[tuple[Partials, ...] | None, str]:
        found = []
        for i, (call, kinds) in enumerate(
            zip(node.calls, self._infer_argument_types(node, source), strict=True)
        ):
            partials, why_not = build_partials(i, call, kinds, source.append_only)
            if partials is None:
                return None, why_not
            found.append(partials)
        return tuple(found), "the change is added to stored partials"

    def _infer_argument_types(self, node: Aggregate, source: Node) -> list[tuple[str, ...]]:
        arguments = tuple(
            (f"_argument_{i}_{j}", argument)
            for i, call in enumerate(node.calls)
            for j, argument in enumerate(call.arguments)
        )
        types = self.analyzer.infer_types(Project(source, arguments)) if arguments else {}
        return [
            tuple(types[f"_argument_{i}_{j}"] for j in range(len(call.arguments)))
            for i, call in enumerate(node.calls)
        ]

    def _aggregate_over_values(self, node: Aggregate, source: Node) -> OverValues | str:
        """Return the aggregate over states that count its values, or why it has to be computed from its rows."""
        node = msgspec.structs.replace(node, input=source)
        kinds = self._infer_argument_types(node, source)
        needed: dict[int, CountedValues] = {}
        for i, call in enumerate(node.calls):
            if build_partials(i, call, kinds[i], source.append_only)[0] is not None:
                continue
            values, why_not = find_counted_values(call, kinds[i])
            if values is None:
                return why_not
            needed[i] = values
        key_types = self.analyzer.infer_types(Project(source, node.keys))
        types = [key_types[name] for name, _ in node.keys]
        ordered = {values.identity for values in needed.values() if values.ordered}
        plans = {
            values.identity: ValueState(
                node, msgspec.structs.replace(values, ordered=values.identity in ordered)
            )
            for values in needed.values()
        }
        names = {text: f"_state_{self.view}_{len(self.fragments) + n}" for n, text in enumerate(plans, 1)}

        def scan_state(text: tuple[Expr, ...]) -> Scan:
            state, key = plans[text], plans[text].plan.key
            return state.scan(names[text], key, f"{names[text]}:")

        states = {i: (plans[values.identity], scan_state(values.identity)) for i, values in needed.items()}
        over = aggregate_over_values(node, states, kinds, types)
        if isinstance(over, str):
            return over
        for text, state in plans.items():
            plan = Project(state.plan, as_columns(state.plan.columns))
            by = state.by if state.values.ordered else plan.key
            why = f"how often each value occurs in its group{', in order' if state.values.ordered else ''}"
            self._add_fragment(Fragment(names[text], StoredPartials(), plan, plan.key, by, why))
        return over
