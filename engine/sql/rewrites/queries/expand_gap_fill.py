"""GAP_FILL of FROM: a relation's rows, and between each and the next in time one row a step, as a subquery.

Applies in all dialects. What a column has in the rows between is null (KEEPNULL), the value of the row before (LOCF), or on the
line from there to the row behind (INTERPOLATE; whole numbers are rounded). The row behind is that of LEAD, among the rows that
have the same values in the columns of PARTITION_BY, which rows between have too. The times between are unnested; so a change
computes again what calls over windows do, and no rule of its own is needed. Rows so far from each other that there would be more
than MOST_BETWEEN between them fail.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.catalog import Relation, RelationColumn
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import find_relation, normalize_identifier
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import is_gap_fill
from engine.sql.rewrites.contract import ParsedExample, QueryText
from engine.sql.rewrites.queries.fixed_windows import build_interval, read_length
from engine.sql.typing.whole_numbers import INTEGRAL

EXAMPLE = ParsedExample(
    before="SELECT * FROM GAP_FILL(stay, since, INTERVAL '1' HOUR, LOCF(guests))",
    after="SELECT * FROM (SELECT _between.`gap:time` AS `since`, _told.`guests` AS `guests` FROM (SELECT _rel.*, "
    "IF(UNIX_MICROS(CAST((GREATEST((_rel.`since`), COALESCE((LEAD(_rel.`since`) OVER (ORDER BY _rel.`since`)) - INTERVAL"
    " '0 00:00:00.000001' DAY TO SECOND, (_rel.`since`)))) AS TIMESTAMP_LTZ)) - UNIX_MICROS(CAST((_rel.`since`) AS "
    "TIMESTAMP_LTZ)) > 3600000000000000, RAISE_ERROR('GAP_FILL: more than 1,000,000 rows would be between two rows; "
    "use a longer step, or correct the time that is far from the others'), SEQUENCE((_rel.`since`), "
    "(GREATEST((_rel.`since`), COALESCE((LEAD(_rel.`since`) OVER (ORDER BY _rel.`since`)) - INTERVAL '0 00:00:00.000001'"
    " DAY TO SECOND, (_rel.`since`)))), (INTERVAL '0 01:00:00.000000' DAY TO SECOND))) AS `gap:times` FROM stay AS _rel "
    "WHERE NOT _rel.`since` IS NULL) AS _told LATERAL VIEW EXPLODE(_told.`gap:times`) _between AS `gap:time`) AS `stay`",
)

_FORM = (
    "GAP_FILL(relation, time column, INTERVAL 'step' [, LOCF(column), INTERPOLATE(column), KEEPNULL(column) …] "
    "[, PARTITION_BY(column, …)])"
)
MOST_FILLED = 1_000_000
_TOO_MANY = (
    f"GAP_FILL: more than {MOST_FILLED:,} rows would be between two rows; use a longer step, or correct the time "
    "that is far from the others"
)
_TIMES = ("timestamp", "timestamp_ntz")
_FILLS = ("locf", "interpolate", "keepnull")
_PARTITION = "partition_by"
_RELATION, _SPANS, _FILLED = "_rel", "_told", "_between"
_TIME, _TIMES_TO = "gap:time", "gap:times"
_MICROSECOND = "INTERVAL '0 00:00:00.000001' DAY TO SECOND"


def expand_gap_fill(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with each GAP_FILL as a subquery; raises SqlError with the place of what is wrong."""
    for table in list(tree.find_all(exp.Table)):
        if is_gap_fill(table.this):
            table.replace(_GapFill(table, text).build_query())
    return tree


class _GapFill:
    """One call; `fills` says by column how the rows between are filled, `partition` which rows are gone through together."""

    def __init__(self, table: exp.Table, text: QueryText) -> None:
        self.table, self.call, self.text = table, table.this, text
        arguments = list(self.call.expressions)
        if len(arguments) < 3:
            raise self._build_error(f"GAP_FILL has {len(arguments)} arguments", self.call)
        self.relation = self._resolve_relation(arguments[0])
        self.columns = self.relation.visible_columns
        self.time = self._resolve_time(arguments[1])
        self.step = read_length(arguments[2], "the step of GAP_FILL", self._build_error)
        self.fills: dict[str, str] = {}
        self.partition: tuple[str, ...] = ()
        for argument in arguments[3:]:
            if isinstance(argument, exp.Anonymous) and argument.name.lower() == _PARTITION:
                self._record_partition(argument)
        for argument in arguments[3:]:
            if not (isinstance(argument, exp.Anonymous) and argument.name.lower() == _PARTITION):
                self._record_fill(argument)

    def build_query(self) -> exp.Subquery:
        alias = self.table.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(self.call.expressions[0].name, quoted=True)
        )
        rows = exp.Unnest(expressions=[_build_column(_SPANS, _TIMES_TO)])
        named = exp.TableAlias(
            this=exp.to_identifier(_FILLED), columns=[exp.to_identifier(_TIME, quoted=True)]
        )
        items = [exp.alias_(self._build_value(column), column.name, quoted=True) for column in self.columns]
        inner = exp.Subquery(
            this=self._select_with_next(), alias=exp.TableAlias(this=exp.to_identifier(_SPANS))
        )
        join = exp.Join(this=exp.Lateral(this=rows, alias=named), kind="CROSS")
        query = exp.Select(expressions=items).from_(inner, copy=False).join(join, copy=False)
        return copy_location(exp.Subquery(this=query, alias=alias), self.call)

    def _select_with_next(self) -> exp.Select:
        """Return the rows with the times from each to the next, and what is interpolated with its next value."""
        time = _build_column(_RELATION, self.time.name)
        last = fill_tree(
            f"GREATEST(_p0, COALESCE(_p1 - {_MICROSECOND}, _p0))", time, self._build_lead(self.time.name)
        )
        text = (
            f"IF({_render_micros('_p1')} - {_render_micros('_p0')} > {MOST_FILLED * self.step}, "
            f"RAISE_ERROR('{_TOO_MANY}'), SEQUENCE(_p0, _p1, _p2))"
        )
        times = fill_tree(text, time, last, build_interval(self.step))
        items: list[exp.Expr] = [exp.Column(this=exp.Star(), table=exp.to_identifier(_RELATION))]
        items.append(exp.alias_(times, _TIMES_TO, quoted=True))
        for name in (name for name, fill in self.fills.items() if fill == "interpolate"):
            items.append(exp.alias_(self._build_lead(name), f"gap:next {name}", quoted=True))
        source = self.call.expressions[0].copy()
        source.set("alias", exp.TableAlias(this=exp.to_identifier(_RELATION)))
        known = exp.Not(this=exp.Is(this=time.copy(), expression=exp.Null()))
        return exp.Select(expressions=items).from_(source, copy=False).where(known, copy=False)

    def _build_lead(self, name: str) -> exp.Window:
        order = exp.Order(
            expressions=[exp.Ordered(this=_build_column(_RELATION, self.time.name), nulls_first=True)]
        )
        by = [_build_column(_RELATION, column) for column in self.partition]
        return exp.Window(
            this=exp.Lead(this=_build_column(_RELATION, name)), partition_by=by, order=order, over="OVER"
        )

    def _build_value(self, column: RelationColumn) -> exp.Expr:
        if column.name == self.time.name:
            return _build_column(_FILLED, _TIME)
        if column.name in self.partition:
            return _build_column(_SPANS, column.name)
        own, time, at = (
            _build_column(_SPANS, column.name),
            _build_column(_SPANS, self.time.name),
            _build_column(_FILLED, _TIME),
        )
        match self.fills.get(column.name, "keepnull"):
            case "locf":
                return own
            case "interpolate":
                steps = f"CAST(({_render_micros('_p1')} - {_render_micros('_p0')}) / {self.step} AS BIGINT)"
                wide = "CAST(_p2 AS DECIMAL(20, 0))" if column.type in INTEGRAL else "_p2"
                line = f"{wide} + (_p3 - {wide}) * {steps} / SIZE(_p4)"
                line = f"ROUND({line})" if column.type in INTEGRAL else line
                text = f"IF(_p0 = _p1, _p2, CAST({line} AS {column.type}))"
                following = _build_column(_SPANS, f"gap:next {column.name}")
                return fill_tree(text, time, at, own, following, _build_column(_SPANS, _TIMES_TO))
            case _:
                return fill_tree("IF(_p0 = _p1, _p2, NULL)", time, at, own)

    # ---- arguments -------------------------------------------------------------------------------------------
    def _resolve_relation(self, node: exp.Expr) -> Relation:
        found = (
            find_relation(node, self.text.catalog)
            if isinstance(node, exp.Table) and not node.args.get("db")
            else None
        )
        if found is None or found.kind == "view":
            message = "the first argument of GAP_FILL is no table or materialized view"
            raise self._build_error(message, node, "make the query a materialized view, and name it here")
        return found

    def _resolve_column(self, node: exp.Expr) -> RelationColumn:
        name = normalize_identifier(node.this) if isinstance(node, exp.Column) else node.sql()
        found = next((column for column in self.columns if column.name.lower() == name.lower()), None)
        if found is None or not isinstance(node, exp.Column):
            hint = f"its columns are {', '.join(column.name for column in self.columns)}"
            raise self._build_error(f"{self.relation.name} has no column {name}", node, hint)
        return found

    def _resolve_time(self, node: exp.Expr) -> RelationColumn:
        found = self._resolve_column(node)
        if found.type not in _TIMES:
            times = ", ".join(column.name for column in self.columns if column.type in _TIMES)
            hint = (
                f"its columns of time are {times}" if times else "CAST a column in a materialized view below"
            )
            raise self._build_error(
                f"{found.name} is {found.type}: GAP_FILL goes along a TIMESTAMP", node, hint
            )
        return found

    def _record_partition(self, node: exp.Anonymous) -> None:
        """Take note of the columns of PARTITION_BY."""
        if self.partition:
            raise self._build_error("PARTITION_BY occurs twice", node, "write all its columns in one")
        names = [self._resolve_column(argument).name for argument in node.expressions]
        if not names or self.time.name in names or len({*names}) < len(names):
            message = "PARTITION_BY names columns other than the time, each once"
            raise self._build_error(message, node)
        self.partition = tuple(names)

    def _record_fill(self, node: exp.Expr) -> None:
        word = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if word not in _FILLS or len(node.expressions) != 1:
            raise self._build_error(f"{node.sql()} does not say how a column is filled", node)
        column = self._resolve_column(node.expressions[0])
        if column.name in (self.time.name, *self.fills, *self.partition):
            what = "told already" if column.name in self.fills else "told by PARTITION_BY"
            what = "the time itself" if column.name == self.time.name else what
            raise self._build_error(f"how {column.name} is filled is {what}", node, "leave it out")
        numeric = (*INTEGRAL, "float", "double")
        if word == "interpolate" and column.type not in numeric and not column.type.startswith("decimal"):
            raise self._build_error(
                f"{column.name} is {column.type}: only numbers are interpolated",
                node,
                "write LOCF or KEEPNULL",
            )
        self.fills[column.name] = word

    def _build_error(self, message: str, node: exp.Expr, hint: str | None = None) -> Exception:
        return sql_error(message, node, self.text.sql, hint or f"write {_FORM}")


def _render_micros(time: str) -> str:
    return f"unix_micros(CAST({time} AS TIMESTAMP_LTZ))"


def _build_column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table))
