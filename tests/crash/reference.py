"""A small reference executor: the same plans and storage as in production, every fragment recomputed in process by DuckDB.

It follows the definition and nothing else: the change of a table is its query over the new inputs less what the table holds.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import duckdb
import msgspec
import pyarrow as pa
import sqlglot

from engine.errors import RowFailed
from engine.hummock import Hummock, TableVersion
from engine.hummock.epoch import micros_of
from engine.hummock.rows.expiry import expiry_at
from engine.operators.grouping.aggregate import list_partials
from engine.operators.materialize import write_change
from engine.operators.temporal_filter import filter_at_moment
from engine.runtime.executor import FragmentTask, TaskResult
from engine.sql.catalog import Catalog
from engine.sql.expression.nodes import Expr
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.partials import GLOBAL_KEY
from engine.sql.incremental.rules import StoredPartials
from engine.sql.incremental.state_expiry import find_closing_filters
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalFilter,
    UnionAll,
    list_children,
    list_scans,
)
from engine.sql.typing.types import to_arrow
from engine.sql.window_calls import FrameEnd, WindowCall

LOWEST = -(1 << 63)
POISON = "poison"
"""What a query says by raise_error of a row that cannot be computed."""
Source = Callable[[Scan], str | None]


def node_sql(node: Node, source: Source) -> str | None:
    """Return a node as Spark SQL over the tables that `source` names; None for a node without rows."""
    match node:
        case Scan():
            table = source(node)
            items = ", ".join(f"{quote(column)} AS {quote(name)}" for name, column in node.items)
            return None if table is None else f"SELECT {items} FROM {table}"
        case Filter():
            below = node_sql(node.input, source)
            return (
                None
                if below is None
                else f"SELECT * FROM ({below}) AS f WHERE {render_spark_sql(node.predicate)}"
            )
        case Project():
            below = node_sql(node.input, source)
            items = ", ".join(f"{render_spark_sql(expr)} AS {quote(name)}" for name, expr in node.items)
            return None if below is None else f"SELECT {items} FROM ({below}) AS p"
        case Join():
            left, right = node_sql(node.left, source), node_sql(node.right, source)
            if left is None or right is None:
                return None
            condition = " AND ".join(f"{quote(a)} = {quote(b)}" for a, b in node.on)
            condition += f" AND ({render_spark_sql(node.residual)})" if node.residual is not None else ""
            kind = {"inner": "JOIN", "left": "LEFT JOIN"}[node.kind]
            if node.nearest is not None:  # its right side has no rows that are level
                kind = f"ASOF {kind}"
                near = node.nearest
                condition = " AND ".join(
                    part
                    for part in (condition, f"{quote(near.left)} {near.operator} {quote(near.right)}")
                    if part
                )
            return f"SELECT * FROM ({left}) AS l {kind} ({right}) AS r ON {condition}"
        case UnionAll():
            return _union_sql(node, source)
        case Over():
            below = node_sql(node.input, source)
            calls = ", ".join(f"{_window_sql(node, call)} AS {quote(call.name)}" for call in node.calls)
            return None if below is None else f"SELECT *, {calls} FROM ({below}) AS w"
        case DynamicFilter():
            return _closed_sql(node, source)
        case TemporalFilter():
            return node_sql(node.input, source)  # which of the rows are there is computed of what this gives
        case Aggregate():
            calls = [(call.name, render_spark_sql(call.expression)) for call in node.calls]
            below = node_sql(node.input, source)
            return None if below is None else _group_sql(node, below, calls)
    raise AssertionError(f"the reference has no form of {type(node).__name__}")


def _closed_sql(node: DynamicFilter, source: Source) -> str | None:
    """Return the rows below a watermark, none as long as there is none."""
    (bound,) = node.bounds
    assert node.closes and not bound.steps, "the reference has filters against the watermark itself"
    below, marks = node_sql(node.input, source), source(bound.scan)
    limit = f"(SELECT max({quote(bound.column)}) FROM {marks})"
    return (
        None
        if below is None
        else f"SELECT * FROM ({below}) AS d WHERE {quote(node.at)} {node.operator} {limit}"
    )


def _window_sql(node: Over, call: WindowCall) -> str:
    order = [
        f"{quote(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in call.order
    ]
    order += [quote(column) for column in node.key if column not in {key.column for key in call.order}]
    by = f"PARTITION BY {', '.join(quote(column) for column in node.partition)} " if node.partition else ""
    frame = (
        "" if call.frame is None else f" {call.frame.unit.upper()} BETWEEN {_end_sql(call.frame.start)} AND "
    )
    frame += "" if call.frame is None else _end_sql(call.frame.end)
    return f"{render_spark_sql(call.call)} OVER ({by}ORDER BY {', '.join(order)}{frame})"


def _end_sql(end: FrameEnd) -> str:
    if end.side == "current row":
        return "CURRENT ROW"
    return f"{'UNBOUNDED' if end.offset is None else render_spark_sql(end.offset)} {end.side.upper()}"


def timed(node: TemporalFilter, rows: pa.Table, epoch: int) -> pa.Table:
    """Return the rows that a filter on now() holds at the moment of an epoch, with the columns of its state."""
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return pa.Table.from_batches([filter_at_moment(batch, node, micros_of(epoch))])


def _union_sql(node: UnionAll, source: Source) -> str | None:
    keys = [(i, j) for i, child in enumerate(node.inputs) for j in range(len(child.key))]
    branches = []
    for i, child in enumerate(node.inputs):
        below = node_sql(child, source)
        if below is None:
            continue
        items = [f"{quote(o)} AS {quote(n)}" for o, n in zip(child.columns, node.names, strict=False)]
        items.append(f"{i} AS `_branch`")
        items += [f"{quote(child.key[j]) if k == i else 'NULL'} AS `_key{k}_{j}`" for k, j in keys]
        branches.append(f"SELECT {', '.join(items)} FROM ({below}) AS u{i}")
    return " UNION ALL ".join(branches) or None


def _group_sql(node: Aggregate, below: str, calls: list[tuple[str, str]]) -> str:
    is_global = tuple(name for name, _ in node.keys) == (GLOBAL_KEY,)
    results = [f"{sql} AS {quote(name)}" for name, sql in calls]
    if is_global:
        return f"SELECT 0 AS {quote(GLOBAL_KEY)}, {', '.join(results)} FROM ({below}) AS g"
    keys = [f"{render_spark_sql(expr)} AS {quote(name)}" for name, expr in node.keys]
    by = ", ".join(render_spark_sql(expr) for _, expr in node.keys)
    return f"SELECT {', '.join(keys + results)} FROM ({below}) AS g GROUP BY {by}"


def fragment_sql(fragment: Fragment, source: Source) -> str | None:
    """Return the whole content of a fragment's table as Spark SQL, the columns of stored partials included.

    Results are those of the calls themselves: what makes them of partials is for Spark, whose decimals are not DuckDB's.
    """
    top, rule = fragment.plan, fragment.rule
    if not isinstance(rule, StoredPartials):
        return node_sql(top, source)
    assert isinstance(top, Project) and isinstance(top.input, Aggregate)
    below = node_sql(top.input.input, source)
    if below is None:
        return None
    partials = list_partials(rule.partials)
    weighted = f"SELECT *, CAST(1 AS BIGINT) AS `_w` FROM ({below}) AS w"
    direct = {call.name: f"_direct_{call.name}" for call in top.input.calls}
    calls = [(direct[call.name], render_spark_sql(call.expression)) for call in top.input.calls]
    groups = _group_sql(
        top.input, weighted, [*((p.name, render_spark_sql(p.delta)) for p in partials), *calls]
    )
    keys = [quote(name) for name, _ in top.input.keys]
    stored = [quote(p.name) for p in partials]
    results = [f"{quote(direct[call.call])} AS {quote(call.call)}" for call in rule.partials]
    computed = f"SELECT {', '.join(keys + results + stored)} FROM ({groups}) AS c"
    items = [f"{render_spark_sql(expr)} AS {quote(name)}" for name, expr in top.items]
    return f"SELECT {', '.join(items + stored)} FROM ({computed}) AS t"


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """One DuckDB a process: starting one costs ten queries of a program."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    for name, factor in (("timestamp_seconds", 1_000_000), ("timestamp_micros", 1)):
        connection.execute(f"CREATE MACRO {name}(n) AS make_timestamp(CAST(n AS BIGINT) * {factor})")
    connection.execute("CREATE MACRO pmod(a, n) AS ((a % n) + n) % n")
    hashes = ", ".join(
        f"({names}) AS CAST(hash({names}) % 65536 AS BIGINT)" for names in ("a", "a, b", "a, b, c")
    )
    connection.execute(f"CREATE MACRO xxhash64{hashes}")
    atexit.register(connection.close)
    return connection


@cache
def _translated(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0].replace("RAISE_ERROR(", "ERROR(")


def at_moment(sql: str, epoch: int) -> str:
    """Return Spark SQL with the time of an epoch in the place of now()."""
    return sql.replace("now()", f"timestamp_micros({micros_of(epoch)})")


def run(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run Spark SQL over Arrow tables in DuckDB."""
    with _duckdb().cursor() as cursor:
        for name, rows in tables.items():
            cursor.register(name, rows)
        return cursor.sql(_translated(sql)).to_arrow_table()


_SPARK_TYPES = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
}


def _spark_type(kind: pa.DataType) -> str:
    """Return the type of a column of DuckDB's; whole numbers are bigint, also the wide ones that sums of them are."""
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "bigint"
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _SPARK_TYPES[kind]


class DuckAnalyzer:
    """Types of plans by DuckDB over empty tables; whole numbers are bigint."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._fragments: dict[str, pa.Schema] = {}

    def infer_types(self, node: Node) -> Mapping[str, str]:
        """Return the Spark type of each column of `node`."""
        return self._types(node_sql(node, lambda scan: f"`{scan.table}`"), node)

    def add_fragment(self, fragment: Fragment) -> Fragment:
        """Take note of a fragment; return it with its table's columns."""
        types = self._types(fragment_sql(fragment, lambda scan: f"`{scan.table}`"), fragment.plan)
        partials = fragment.rule.partials if isinstance(fragment.rule, StoredPartials) else ()
        stored = {partial.name for partial in list_partials(partials)}
        types = {
            n: "decimal(38,0)" if n in stored and kind == "bigint" else kind for n, kind in types.items()
        }
        self._fragments[fragment.table] = pa.schema([(n, to_arrow(kind)) for n, kind in types.items()])
        return msgspec.structs.replace(fragment, columns=tuple(types.items()))

    def _types(self, sql: str | None, node: Node) -> dict[str, str]:
        assert sql is not None
        empty = {scan.table: self._schema(scan.table).empty_table() for scan in list_scans(node)}
        found = run(sql, empty)
        schema = (timed(node, found, 0) if isinstance(node, TemporalFilter) else found).schema
        return {field.name: _spark_type(field.type) for field in schema}

    def _schema(self, table: str) -> pa.Schema:
        if table in self._fragments:
            return self._fragments[table]
        return pa.schema([(c.name, to_arrow(c.type)) for c in self._catalog.get(table).columns])


class ReferenceExecutor:
    """Computes tasks one at a time; `before` is called with each task and may raise to make it fail."""

    parallelism = 1

    def __init__(self, store: Hummock, before: Callable[[FragmentTask], None] = lambda task: None) -> None:
        self._store, self._before = store, before

    def compute(self, task: FragmentTask) -> TaskResult:
        """Write the difference between a table's query over the new inputs and what it holds."""
        self._before(task)
        try:
            parts = self._difference(task, task.fragment, task.mine)
            if task.again is not None:
                parts += self._difference(task, task.again.fragment, task.again.mine)
        except duckdb.Error as error:
            if POISON not in str(error):
                raise
            raise RowFailed(str(error)) from error
        rows = pa.concat_tables(parts) if parts else None
        if rows is None or not rows.num_rows:
            return TaskResult(())
        return TaskResult((write_change(self._store.reader, task.table, rows),))

    def stop(self) -> None:
        """Nothing: whoever could ask for it waits in the same thread."""

    def partitions(self, task: FragmentTask, keys: Sequence[tuple[Scan, Expr]], most: int) -> tuple[str, ...]:
        """Return the partitions, at most `most`, of the rows that change in a task, or of all rows of a first build."""
        found: set[str] = set()
        for scan, key in keys:
            table = task.tables[scan.table]
            if task.piece is not None:
                rows = self._rows(table, task.new, task.piece[1]) if scan is task.piece[0] else None
            elif task.old is None:
                rows = self._rows(table, task.new, None)
            else:
                batches = list(self._store.reader.read_changes(table, task.old, task.new))
                rows = pa.Table.from_batches(batches) if batches else None
            if rows is not None:
                text = f"SELECT DISTINCT {render_spark_sql(key)} AS `key` FROM ({node_sql(scan, lambda _: 'changed')}) AS s"
                found.update(
                    key for key in run(text, {"changed": rows}).column("key").to_pylist() if key is not None
                )
        return tuple(sorted(found)[:most])

    def _difference(self, task: FragmentTask, fragment: Fragment, mine: Expr | None) -> list[pa.Table]:
        """Return the rows of a fragment over the new inputs as coming in, and those of its table that are `mine` as going out."""
        tables: dict[str, pa.Table] = {}
        aggregate = isinstance(fragment.rule, StoredPartials)

        def source(scan: Scan) -> str | None:
            within = None
            if task.piece is not None and scan is task.piece[0]:
                low, high = task.piece[1]
                within = (LOWEST if aggregate else low, high)
            elif task.piece is not None and self._has_no_change(task, scan):
                return None
            name = f"t{len(tables)}"
            tables[name] = self._rows(task.tables[scan.table], task.new, within)
            return name

        sql = fragment_sql(fragment, source)
        fresh = run(sql, tables) if sql is not None else None
        if fresh is not None and isinstance(fragment.plan, TemporalFilter):
            fresh = timed(fragment.plan, fresh, task.new)
        parts: list[pa.Table] = []
        own = task.tables.get(task.fragment.table)
        hiding = (
            None if task.old is None or own is None else expiry_at(own, max(task.old, own.committed_epoch))
        )
        if fresh is not None and hiding is not None:  # what a state has let go of does not come again
            fresh = fresh.filter(pa.array(~hiding.mark_hidden(fresh)))
        if fresh is not None and find_closing_filters(
            fragment.plan
        ):  # what was shown stays, though its states let go of it
            held = self._held(task)
            if held is not None:
                fresh = run(
                    "SELECT * FROM fresh EXCEPT ALL SELECT * FROM held", {"fresh": fresh, "held": held}
                )
            return [_signed(fresh, task, 1)]
        if fresh is not None:
            parts.append(_signed(fresh, task, 1))
        held = self._held(task) if task.piece is None or aggregate else None
        if held is not None:
            if mine is not None:
                held = run(f"SELECT * FROM own WHERE {render_spark_sql(mine)}", {"own": held})
            parts.append(_signed(held, task, -1))
        return parts

    def _held(self, task: FragmentTask) -> pa.Table | None:
        """Return what a task's own table holds, None if it was never computed."""
        if task.old is None:
            return None
        own = task.tables[task.fragment.table]
        return self._rows(own, max(task.old, own.committed_epoch), None)

    def _rows(self, table: TableVersion, epoch: int, within: tuple[int, int] | None) -> pa.Table:
        batches = list(self._store.reader.scan(table, epoch, hash_range=within))
        return pa.Table.from_batches(batches, schema=table.schema) if batches else table.schema.empty_table()

    @staticmethod
    def _has_no_change(task: FragmentTask, scan: Scan) -> bool:
        """Tell whether a scan brings no rows with a piece: it stands in another branch of a UNION ALL.

        What an aggregate has is taken off whole, so for it the branches that were read before the piece's count too.
        """
        assert task.piece is not None
        driver, cumulative = task.piece[0], isinstance(task.fragment.rule, StoredPartials)

        def beside(node: Node) -> bool:
            if isinstance(node, UnionAll):
                found = [{id(each) for each in list_scans(child)} for child in node.inputs]
                mine = next((i for i, ids in enumerate(found) if id(scan) in ids), None)
                piece = next((i for i, ids in enumerate(found) if id(driver) in ids), None)
                if mine is not None and piece is not None and mine != piece:
                    return mine > piece or not cumulative
            return any(beside(child) for child in list_children(node))

        return beside(task.fragment.plan)


def _signed(rows: pa.Table, task: FragmentTask, weight: int) -> pa.Table:
    arrays = [rows.column(field.name).cast(field.type) for field in task.table.schema]
    weights = pa.array([weight] * rows.num_rows, pa.int64())
    return pa.table([*arrays, weights], names=[*task.table.schema.names, "_w"])
