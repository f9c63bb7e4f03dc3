"""TUMBLE, HOP, CUMULATE and SESSION of FROM: a relation's rows with the windows of time that they are in, as a subquery.

Applies in all dialects. TUMBLE is a projection (`fixed_windows.py`), HOP and CUMULATE unnest the windows of each row, SESSION is
calls over windows (`session_windows.py`). A row without a time is in no window: TUMBLE keeps it with nulls, the others drop it.
"""

from __future__ import annotations

from datetime import timedelta

import sqlglot.expressions as exp

from engine.sql.parsing.dialect_readers import PARTITIONED
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import find_relation, item_name, normalize_identifier
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import is_time_window
from engine.sql.rewrites.contract import ParsedExample, QueryText
from engine.sql.rewrites.queries.fixed_windows import (
    MOST_WINDOWS,
    build_interval,
    compute_ends,
    compute_last_start,
    compute_starts,
    read_length,
)
from engine.sql.rewrites.queries.session_windows import build_session_windows

EXAMPLE = ParsedExample(
    before="SELECT window_start, count(*) AS n FROM TUMBLE(stay, since, INTERVAL '5' MINUTE) GROUP BY 1",
    after="SELECT window_start, COUNT(*) AS n FROM (SELECT _rel.*, (_rel.since) - INTERVAL '0 00:00:00.000001' DAY TO SECOND * "
    "PMOD(UNIX_MICROS(CAST((_rel.since) AS TIMESTAMP_LTZ)), 300000000) AS window_start, (_rel.since) - INTERVAL "
    "'0 00:00:00.000001' DAY TO SECOND * PMOD(UNIX_MICROS(CAST((_rel.since) AS TIMESTAMP_LTZ)), 300000000) + INTERVAL "
    "'0 00:05:00.000000' DAY TO SECOND AS window_end FROM stay AS _rel) AS stay GROUP BY 1",
)

_FORMS = {
    "tumble": "TUMBLE(relation, time column, INTERVAL 'size' [, INTERVAL 'offset'])",
    "hop": "HOP(relation, time column, INTERVAL 'slide', INTERVAL 'size' [, INTERVAL 'offset'])",
    "cumulate": "CUMULATE(relation, time column, INTERVAL 'step', INTERVAL 'size' [, INTERVAL 'offset'])",
    "session": "SESSION(relation [PARTITION BY column, …], time column, INTERVAL 'gap')",
}
_SPANS = {
    "tumble": ("size", "offset"),
    "hop": ("slide", "size", "offset"),
    "cumulate": ("step", "size", "offset"),
    "session": ("gap",),
}
_PARTS = {"this", "version", "when", *exp.Subquery.arg_types}
_MICROSECOND = timedelta(microseconds=1)
_TIMES = ("date", "timestamp", "timestamp_ntz")
_RELATION = "_rel"
_WINDOWS = "_windows"


def expand_time_windows(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with each table function of windows as a subquery; raises SqlError with the place of what is wrong."""
    for table in reversed(
        list(tree.find_all(exp.Table, exp.Lateral, bfs=False))
    ):  # those inside others first
        if not is_time_window(table.this):
            continue
        if not isinstance(table, exp.Table):
            message = f"LATERAL before {table.this.name.upper()}, which reads no other item of FROM"
            raise sql_error(message, table.this, text.sql, "leave LATERAL out")
        table.replace(_TimeWindows(table, text).build_query())
    return tree


class _TimeWindows:
    """One call; `sizes` are its lengths in microseconds by their names."""

    def __init__(self, table: exp.Table, text: QueryText) -> None:
        self.table, self.call, self.text = table, table.this, text
        self.kind: str = self.call.name.lower().removesuffix(PARTITIONED.removeprefix("session"))
        self.form = _FORMS[self.kind]
        part = next((part for part, said in table.args.items() if said and part not in _PARTS), None)
        if part is not None:
            said = {"ordinality": "WITH ORDINALITY"}.get(part, part.upper().strip("_"))
            raise self._build_error(f"{said} of {self._word} is not offered", self.call, "leave it out")
        self.relation, self.keys, self.time, lengths = self._read_arguments()
        names = _SPANS[self.kind]
        self.sizes = {name: self._read_micros(name, node) for name, node in zip(names, lengths, strict=False)}
        self.offset = self.sizes.get("offset", 0)

    def build_query(self) -> exp.Subquery:
        source = self._resolve_source()
        time = self._qualify_column(self.time)
        match self.kind:
            case "tumble":
                query = self._build_tumble(source, time)
            case "hop":
                query = self._build_hop(source, time)
            case "cumulate":
                query = self._build_cumulate(source, time)
            case _:
                keys = [self._qualify_column(key) for key in self.keys]
                query = build_session_windows(source, keys, time, build_interval(self.sizes["gap"]))
        alias = self.table.args.get("alias")
        if alias is None and not isinstance(self.relation, exp.Subquery):
            alias = self.relation.args.get("alias") or exp.TableAlias(this=self.relation.this.copy())
        moved = ("this", "alias", "version", "when")
        clauses = {k: v for k, v in self.table.args.items() if k in exp.Subquery.arg_types and k not in moved}
        return copy_location(exp.Subquery(this=query, alias=alias, **clauses), self.call)

    # ---- windows ---------------------------------------------------------------------------------------------
    def _build_tumble(self, source: exp.Expr, time: exp.Column) -> exp.Select:
        size = self.sizes["size"]
        start = compute_last_start(time, size, self.offset)
        end = exp.Add(this=start.copy(), expression=build_interval(size))
        return self._select(source, exp.alias_(start, "window_start"), exp.alias_(end, "window_end"))

    def _build_hop(self, source: exp.Expr, time: exp.Column) -> exp.Select:
        slide, size = self.sizes["slide"], self.sizes["size"]
        rows = self._unnest(compute_starts(time, slide, size, self.offset), "window_start")
        start = exp.column("window_start", table=_WINDOWS)
        end = exp.Add(this=start.copy(), expression=build_interval(size))
        return self._select(source, start, exp.alias_(end, "window_end")).join(rows, copy=False)

    def _build_cumulate(self, source: exp.Expr, time: exp.Column) -> exp.Select:
        step, size = self.sizes["step"], self.sizes["size"]
        start = compute_last_start(time, size, self.offset)
        rows = self._unnest(compute_ends(time, step, size, self.offset), "window_end")
        end = exp.column("window_end", table=_WINDOWS)
        return self._select(source, exp.alias_(start, "window_start"), end).join(rows, copy=False)

    @staticmethod
    def _unnest(array: exp.Expr, name: str) -> exp.Join:
        rows = exp.Unnest(expressions=[array])
        alias = exp.TableAlias(this=exp.to_identifier(_WINDOWS), columns=[exp.to_identifier(name)])
        return exp.Join(this=exp.Lateral(this=rows, alias=alias), kind="CROSS")

    @staticmethod
    def _select(source: exp.Expr, *items: exp.Expr) -> exp.Select:
        every = exp.Column(this=exp.Star(), table=exp.to_identifier(_RELATION))
        return exp.Select(expressions=[every, *items]).from_(source, copy=False)

    # ---- arguments -------------------------------------------------------------------------------------------
    def _read_arguments(self) -> tuple[exp.Expr, list[exp.Expr], exp.Expr, list[exp.Expr]]:
        """Return the relation, the columns of PARTITION BY, the time column and the lengths."""
        found, names = list(self.call.expressions), _SPANS[self.kind]
        if not found or not isinstance(found[0], exp.Table | exp.Subquery):
            raise self._build_error(
                f"{self._word} needs a relation as its first argument", found[0] if found else self.call
            )
        keys: list[exp.Expr] = []
        if self.call.name == PARTITIONED:
            keys, found[1:-2] = found[1:-2], []
            keys = [
                part
                for key in keys
                for part in (key.expressions if isinstance(key, exp.Tuple) else [key.unnest()])
            ]
        least = len(names) + 1 if self.kind == "session" else len(names)
        if not least <= len(found) - 1 <= len(names) + 1:
            raise self._build_error(f"{self._word} has {len(found)} arguments", self.call)
        for column in (found[1], *keys):
            if not isinstance(column, exp.Column):
                message = f"{column.sql()} is no column of the relation"
                raise self._build_error(
                    message, column, "compute it in a subquery or a view, and name its column here"
                )
        return found[0], keys, found[1], found[2:]

    def _read_micros(self, name: str, node: exp.Expr) -> int:
        """Return a length in microseconds."""
        what = f"the {name} of {self._word}"
        return read_length(node, what, self._build_error, positive=name != "offset")

    @property
    def _word(self) -> str:
        return self.kind.upper()

    def _build_error(self, message: str, node: exp.Expr, hint: str | None = None) -> Exception:
        return sql_error(message, node, self.text.sql, hint or f"write {self.form}")

    def _qualify_column(self, column: exp.Expr) -> exp.Column:
        """Return a column of the relation under the name that the relation has inside."""
        inner = "" if isinstance(self.relation, exp.Subquery) else self.relation.alias_or_name
        names = [name for name in (inner, self.table.alias) if name]
        qualifier = column.args.get("table")
        if qualifier is not None and normalize_identifier(qualifier) not in (*names, *map(str.lower, names)):
            hint = f"name a column of {names[0] if names else 'the subquery'}"
            raise self._build_error(f"{column.sql()} is no column of the relation", column, hint)
        return copy_location(exp.Column(this=column.this.copy(), table=exp.to_identifier(_RELATION)), column)

    def _resolve_source(self) -> exp.Expr:
        """Return the relation as it stands in FROM; raises SqlError if it is known that its time column is none."""
        source = self.relation.copy()
        source.set("alias", exp.TableAlias(this=exp.to_identifier(_RELATION)))
        for part in ("version", "when"):
            if self.table.args.get(part) is not None:
                source.set(part, self.table.args[part])
        if isinstance(self.relation, exp.Table):
            self._check_time(self.relation)
        self._check_lengths()
        return source

    def _check_lengths(self) -> None:
        short, long = {"hop": ("slide", "size"), "cumulate": ("step", "size")}.get(self.kind, ("", ""))
        if not short:
            return
        if self.sizes[short] > self.sizes[long]:
            message = f"the {short} of {self._word} is longer than its {long}"
            hint = f"write the {short} first, then the {long}: {self.form}"
            raise self._build_error(message, self.call.expressions[2], hint)
        if self.sizes[long] > MOST_WINDOWS * self.sizes[short]:
            windows = -(-self.sizes[long] // self.sizes[short])
            message = f"a row would be in {windows:,} windows of {self._word}"
            raise self._build_error(
                message, self.call.expressions[2], f"take a longer {short}: {MOST_WINDOWS:,} are the most"
            )
        if self.kind == "cumulate" and self.sizes[long] % self.sizes[short]:
            message = "the size of CUMULATE is no multiple of its step"
            raise self._build_error(message, self.call.expressions[3], "take a step that divides the size")

    def _check_time(self, table: exp.Table) -> None:
        relation = None if table.args.get("db") else find_relation(table, self.text.catalog)
        if relation is None or _is_with_item(table):
            return
        if own := next(
            (c for c in relation.columns if c.name.lower() in ("window_start", "window_end")), None
        ):
            hint = f"give it another name in a subquery: {self._word}((SELECT …, {own.name} AS …), …)"
            raise self._build_error(f"{relation.name} has a column {own.name} already", table, hint)
        if relation.kind not in ("table", "source", "materialized view"):
            return
        name = normalize_identifier(self.time.this)
        visible = relation.visible_columns
        found = next((column for column in visible if column.name.lower() == name.lower()), None)
        times = ", ".join(column.name for column in visible if column.type in _TIMES)
        hint = (
            f"its columns of time are {times}"
            if times
            else "it has no column of time: CAST one in a subquery"
        )
        if found is None:
            raise self._build_error(f"{relation.name} has no column {name}", self.time, hint)
        if found.type not in _TIMES:
            message = f"{name} is {found.type}: windows are over DATE, TIMESTAMP and TIMESTAMPTZ"
            raise self._build_error(message, self.time, hint)


def _is_with_item(table: exp.Table) -> bool:
    """Tell whether a table is named by a WITH item of a query around it."""
    above = table.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and any(item_name(cte) == item_name(table) for cte in with_.expressions):
            return True
        above = above.parent
    return False
