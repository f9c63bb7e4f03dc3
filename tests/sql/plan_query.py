"""A bound plan as one Spark SQL query: the plainest meaning of each node, to hold results of plans against other engines."""

from __future__ import annotations

import itertools

from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.plan import (
    Aggregate,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TopN,
    UnionAll,
    Unnest,
    Values,
)
from engine.sql.window_calls import SortKey

_numbers = itertools.count(1)
_KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}


def plan_query(node: Node, columns: tuple[tuple[str, str], ...]) -> str:
    """Return the query of a plan; `columns` = (output name, the plan's column)."""
    shown = ", ".join(f"{quote(internal)} AS {quote(name)}" for name, internal in columns)
    return f"SELECT {shown} FROM {_source(node)}"


def _source(node: Node) -> str:
    return f"({_query(node)}) AS n{next(_numbers)}"


def _query(node: Node) -> str:
    match node:
        case Scan():
            return f"SELECT {', '.join(f'{quote(c)} AS {quote(n)}' for n, c in node.items)} FROM {node.table}"
        case Filter():
            return f"SELECT * FROM {_source(node.input)} WHERE {render_spark_sql(node.predicate)}"
        case Project():
            items = (
                ", ".join(f"{render_spark_sql(expr)} AS {quote(name)}" for name, expr in node.items)
                or "1 AS nothing"
            )
            return f"SELECT {items} FROM {_source(node.input)}"
        case Aggregate():
            items = [f"{render_spark_sql(expr)} AS {quote(name)}" for name, expr in node.keys]
            items += [f"{render_spark_sql(call.expression)} AS {quote(call.name)}" for call in node.calls]
            by = (
                f" GROUP BY {', '.join(render_spark_sql(expr) for _, expr in node.keys)}"
                if node.keys and node.calls
                else ""
            )
            distinct = "DISTINCT " if node.keys and not node.calls else ""
            return (
                f"SELECT {distinct}{', '.join(items) or 'count(1) AS nothing'} FROM {_source(node.input)}{by}"
            )
        case Join():
            equal = "<=>" if node.null_safe else "="
            parts = [f"{quote(a)} {equal} {quote(b)}" for a, b in node.on]
            parts += [f"({render_spark_sql(node.residual)})"] if node.residual is not None else []
            condition = " AND ".join(parts) or "TRUE"
            return (
                f"SELECT * FROM {_source(node.left)} {_KINDS[node.kind]} {_source(node.right)} ON {condition}"
            )
        case UnionAll():
            return " UNION ALL ".join(_branch(node, i) for i in range(len(node.inputs)))
        case Unnest():
            call = f"posexplode{'_outer' if node.outer else ''}({render_spark_sql(node.array)})"
            inner = f"SELECT *, {call} AS (`_pos`, {quote(node.item)}) FROM {_source(node.input)}"
            others = ", ".join(quote(c) for c in (*node.input.columns, node.item))
            return f"SELECT {others}, coalesce(`_pos`, 0) AS {quote(node.ordinal)} FROM ({inner})"
        case Values():
            rows = [
                ", ".join(
                    [
                        *(
                            f"{render_spark_sql(e)} AS {quote(n)}"
                            for n, e in zip(node.names, row, strict=True)
                        ),
                        f"{i} AS {quote(node.ordinal)}",
                    ]
                )
                for i, row in enumerate(node.rows)
            ]
            return " UNION ALL ".join(f"SELECT {row}" for row in rows)
        case TopN():
            return _top(node)
        case Over():
            return _over(node)
    raise AssertionError(type(node).__name__)


def _branch(node: UnionAll, i: int) -> str:
    own = node.inputs[i]
    items = [f"{quote(c)} AS {quote(n)}" for n, c in zip(node.names, own.columns, strict=False)]
    items.append(f"{i} AS `_branch`")
    for j, other in enumerate(node.inputs):
        items += [
            f"{quote(c) if i == j else 'NULL'} AS {quote(f'_key{j}_{n}')}" for n, c in enumerate(other.key)
        ]
    return f"SELECT {', '.join(items)} FROM {_source(own)}"


def _top(node: TopN) -> str:
    order = _order(node.order)
    order += [f"{quote(column)} ASC NULLS FIRST" for column in node.key]
    partition = f"PARTITION BY {', '.join(quote(c) for c in node.partition)} " if node.partition else ""
    over = f"row_number() OVER ({partition}{'ORDER BY ' + ', '.join(order) if order else 'ORDER BY 1'})"
    last = "" if node.limit is None else f" AND `_rank` <= {node.offset + node.limit}"
    columns = ", ".join(quote(c) for c in node.columns)
    ranked = f"SELECT *, {over} AS `_rank` FROM {_source(node.input)}"
    return f"SELECT {columns} FROM ({ranked}) WHERE `_rank` > {node.offset}{last}"


def _order(keys: tuple[SortKey, ...]) -> list[str]:
    return [
        f"{quote(k.column)} {'DESC' if k.descending else 'ASC'} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
        for k in keys
    ]


def _over(node: Over) -> str:
    """Calls over windows, each by itself; their orders tell all rows apart, or rows that are equal in them do not differ."""
    partition = f"PARTITION BY {', '.join(quote(c) for c in node.partition)} " if node.partition else ""
    items = []
    for call in node.calls:
        by = f"ORDER BY {', '.join(_order(call.order))} " if call.order else ""
        frame = ""
        if call.frame is not None and call.order:
            ends = (call.frame.start, call.frame.end)
            texts = [
                "CURRENT ROW"
                if end.side == "current row"
                else f"{'UNBOUNDED' if end.offset is None else render_spark_sql(end.offset)} {end.side.upper()}"
                for end in ends
            ]
            frame = f"{call.frame.unit.upper()} BETWEEN {texts[0]} AND {texts[1]}"
        items.append(f"{render_spark_sql(call.call)} OVER ({partition}{by}{frame}) AS {quote(call.name)}")
    return f"SELECT *, {', '.join(items)} FROM {_source(node.input)}"
