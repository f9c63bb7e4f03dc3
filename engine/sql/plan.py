"""The bound plan of a query: a tree of typed, immutable nodes over named columns, printable, serialisable, free of any engine.

Every node says its output `columns` (internal names, unique in the node), its stream `key` (names of output columns that identify
a row, derived as RisingWave derives them) and whether it is `append_only` (never retracts).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.sql.expression.change_columns import ROW
from engine.sql.expression.clock import TIME_AT, TIME_IN, TIME_PART, reads_clock
from engine.sql.expression.monotone_steps import MonotoneStep
from engine.sql.expression.nearest import Nearest
from engine.sql.expression.nodes import Call, Column, Expr
from engine.sql.window_calls import SortKey, WindowCall

JoinKind = Literal["inner", "left", "semi", "anti"]


class Scan(msgspec.Struct, frozen=True, tag=True):
    """All rows of a table, or its `changes`; `items` maps output names to its columns. Rows of one that `expires` hide,
    of one that `passes` only the changes are in the store."""

    table: str
    items: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    distribution_key: tuple[str, ...]
    append_only: bool = False
    changes: bool = False
    expires: bool = False
    passes: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.items)

    @property
    def key(self) -> tuple[str, ...]:
        by_column = {column: name for name, column in self.items}
        return tuple(by_column[column] for column in ((ROW,) if self.changes else self.primary_key))


class Filter(msgspec.Struct, frozen=True, tag=True):
    """The rows for which `predicate` is true."""

    input: Node
    predicate: Expr

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def append_only(self) -> bool:
        return self.input.append_only and not reads_clock(self.predicate)  # or rows go as time passes


class Project(msgspec.Struct, frozen=True, tag=True):
    """Named expressions over each row; the input's key columns that no item carries are added under their own names."""

    input: Node
    items: tuple[tuple[str, Expr], ...]

    def __post_init__(self) -> None:
        carried = {expr.column for _, expr in self.items}
        names = {name for name, _ in self.items}
        missing = tuple(column for column in self.input.key if column not in carried)
        extra = tuple((name if name not in names else f"_key_{name}", Column(name)) for name in missing)
        msgspec.structs.force_setattr(self, "items", self.items + extra)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.items)

    @property
    def key(self) -> tuple[str, ...]:
        by_column: dict[str, str] = {}
        for name, expr in self.items:
            if expr.column is not None:
                by_column.setdefault(expr.column, name)
        return tuple(by_column[column] for column in self.input.key)

    @property
    def append_only(self) -> bool:
        return self.input.append_only


class Unnest(msgspec.Struct, frozen=True, tag=True):
    """One row per element of an array: the input's columns, the element as `item` and its position from 0 as `ordinal`.

    `outer` keeps a row of nulls (position 0) where the array is empty or null. One that `closes` takes no row back.
    """

    input: Node
    array: Expr
    item: str
    ordinal: str
    outer: bool = False
    closes: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, self.item, self.ordinal)

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.input.key, self.ordinal)

    @property
    def append_only(self) -> bool:
        return self.closes or self.input.append_only


class Values(msgspec.Struct, frozen=True, tag=True):
    """Constant rows, which never change; the column `ordinal`, added to each, is the row's number from 0."""

    names: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]
    ordinal: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.names, self.ordinal)

    @property
    def key(self) -> tuple[str, ...]:
        return (self.ordinal,)

    @property
    def append_only(self) -> bool:
        return True


class AggCall(msgspec.Struct, frozen=True):
    """One aggregate: Spark's function name, its arguments (none for count(*)), DISTINCT and FILTER.

    `whole` is the call as an expression where it has another shape: WITHIN GROUP, ORDER BY inside, a function around the call.
    """

    name: str
    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    where: Expr | None = None
    whole: Expr | None = None

    @property
    def expression(self) -> Expr:
        """The call as an expression over the input's columns."""
        if self.whole is not None:
            return self.whole
        return Call(self.function, self.arguments, self.distinct, where=self.where)


class Aggregate(msgspec.Struct, frozen=True, tag=True):
    """One row per distinct value of `keys`; without keys one row always. Without calls it is SELECT DISTINCT."""

    input: Node
    keys: tuple[tuple[str, Expr], ...]
    calls: tuple[AggCall, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys) + tuple(call.name for call in self.calls)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def append_only(self) -> bool:
        return not self.calls and bool(self.keys) and self.input.append_only


class Join(msgspec.Struct, frozen=True, tag=True):
    """Pairs of rows with equal `on` columns that satisfy `residual`; `left` keeps unmatched left rows.

    `semi` gives each left row that has a match, `anti` each that has none. Null equals nothing, unless `null_safe`: then null
    equals null in every pair of `on`. Without `on` every pair of rows is tried. Column names of the two sides are disjoint.
    With `at_arrival` a left row meets the right side as it stood when the row came, and keeps what it found; with `nearest` it
    meets one of the right rows at most.
    """

    left: Node
    right: Node
    kind: JoinKind
    on: tuple[tuple[str, str], ...]
    residual: Expr | None = None
    position: tuple[int, int] = (0, 0)
    null_safe: bool = False
    at_arrival: bool = False
    nearest: Nearest | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns if self.kind in ("semi", "anti") else self.left.columns + self.right.columns

    @property
    def key(self) -> tuple[str, ...]:
        if self.kind in ("semi", "anti") or self.nearest is not None:
            return self.left.key
        if set(self.right.key) <= {right for _, right in self.on}:
            return self.left.key  # at most one right row for each left row
        if self.kind == "inner" and not self.at_arrival and set(self.left.key) <= {a for a, _ in self.on}:
            return self.right.key
        return self.left.key + self.right.key

    @property
    def append_only(self) -> bool:
        grows = self.kind in ("inner", "semi") and self.right.append_only and self.nearest is None
        return (self.at_arrival or grows) and self.left.append_only


class UnionAll(msgspec.Struct, frozen=True, tag=True):
    """The rows of all inputs, matched by position; `names` are the output names of the inputs' first len(names) columns.

    The key is the branch number and every branch's own key, kept in hidden columns `_branch` and `_key<branch>_<n>`.
    """

    inputs: tuple[Node, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names + self.key

    @property
    def key(self) -> tuple[str, ...]:
        own = (f"_key{i}_{j}" for i, node in enumerate(self.inputs) for j in range(len(node.key)))
        return ("_branch", *own)

    @property
    def append_only(self) -> bool:
        return all(node.append_only for node in self.inputs)


MOST_FIRST_ROWS = 10_000
"""Of more first rows of a group not all are looked at for each change."""


class TopN(msgspec.Struct, frozen=True, tag=True):
    """The first `limit` rows from `offset` on of each group of equal `partition` columns; nulls are equal, no columns one group.

    The order is total: after `order` the input's key decides, ascending, nulls first. Without a `limit` all rows from `offset`.
    """

    input: Node
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0

    @property
    def follows_from_stored(self) -> bool:
        """Whether most changes can be held against the rows that it has given: the first ones of a group, and not too many."""
        return self.limit is not None and self.limit <= MOST_FIRST_ROWS and not self.offset

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def append_only(self) -> bool:
        return False


class Over(msgspec.Struct, frozen=True, tag=True):
    """Each row of the input with what `calls` compute over the rows of its partition; nulls are equal, no columns one partition.

    Where rows that are equal in the order of a call have to be distinguished, the input's key decides, ascending, nulls first.
    One that `closes` has rows behind which others come in all its orders, and right above it a filter that leaves out those whose
    frames are not whole yet, if there are any: what is shown is never taken back.
    """

    input: Node
    partition: tuple[str, ...]
    calls: tuple[WindowCall, ...]
    closes: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, *(call.name for call in self.calls))

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def append_only(self) -> bool:
        return self.closes


class TemporalFilter(msgspec.Struct, frozen=True, tag=True):
    """The rows of which the moment of the epoch has not reached `leave`; both bounds are columns of microseconds since 1970.
    One whose `enter` is not reached yet is there, but not `_time_in`; one with a null in a bound is not. `_time_at` is the bound
    that a row meets next, `_time_part` spreads rows."""

    input: Node
    enter: str | None
    leave: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        others = tuple(column for column in self.input.columns if column != self.enter)
        return (TIME_PART, TIME_AT, *others, *(() if self.enter is None else (TIME_IN,)))

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def append_only(self) -> bool:
        return False


class Bound(msgspec.Struct, frozen=True):
    """A number that changes from epoch to epoch: that of `column` in the one row of a table, after some steps."""

    scan: Scan
    column: str
    steps: tuple[MonotoneStep, ...] = ()


class DynamicFilter(msgspec.Struct, frozen=True, tag=True):
    """The rows whose number `at` compares with the least of `bounds` by `operator`; none while one of them is not known.
    Before it is lowered, it may be `against` the column of this name in the one row of a plan, after some `steps`.
    One that `closes` has watermarks for bounds: below them no row changes any more, so that none is ever taken back.
    """

    input: Node
    at: str
    bounds: tuple[Bound, ...]
    operator: Literal["<", "<=", ">", ">="] = "<"
    closes: bool = False
    against: Node | None = None
    steps: tuple[MonotoneStep, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.input.key

    @property
    def append_only(self) -> bool:
        return self.closes


class Recompute(msgspec.Struct, frozen=True, tag=True):
    """A query that is computed as a whole: Spark SQL in which `{t0}`, `{t1}`, … stand for the visible rows of `inputs`.

    `names` are its columns in their order. `numbered`, if given, is the expression of the hidden column `_occurrence`, which
    tells rows apart that are equal in all other columns of the key.
    """

    text: str
    inputs: tuple[Scan, ...]
    names: tuple[str, ...]
    key: tuple[str, ...]
    numbered: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.names, OCCURRENCE) if self.numbered is not None else self.names

    @property
    def append_only(self) -> bool:
        return False


OCCURRENCE = "_occurrence"
Node = (
    Scan | Values | Filter | Project | Unnest | Aggregate | Join | UnionAll | TopN | Over | TemporalFilter
    | DynamicFilter | Recompute
)  # fmt: skip


def list_children(node: Node) -> tuple[Node, ...]:
    """Return the inputs of a node, left to right."""
    match node:
        case Join():
            return (node.left, node.right)
        case UnionAll() | Recompute():
            return node.inputs
        case DynamicFilter(against=against):
            return (node.input, *([] if against is None else [against]), *(b.scan for b in node.bounds))
    return () if isinstance(node, Scan | Values) else (node.input,)


def list_nodes(node: Node) -> tuple[Node, ...]:
    """Return a node and every one below it, inputs left to right after what reads them."""
    return (node, *(part for child in list_children(node) for part in list_nodes(child)))


def list_scans(node: Node) -> tuple[Scan, ...]:
    """Return every scan below a node, left to right."""
    return tuple(part for part in list_nodes(node) if isinstance(part, Scan))
