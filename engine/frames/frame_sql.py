"""The query that a Spark frame is: frames of Spark Connect are trees of operators that nobody has to compute, or even analyse.

Each operator adds to a SELECT as long as SQL's order of clauses allows it, and reads it as a subquery from there on. What needs
to know all of a frame's columns is refused unless its source says them, or a select below has named them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlglot
from sqlglot import exp

from engine.errors import SqlError
from engine.frames.frame_expressions import (
    FrameExpressions,
    build_frame_error,
    get_field_path,
    get_last_part,
    quote_identifier,
)
from engine.frames.frame_scopes import FrameScope
from engine.sql.expression.spark_sql import quote

_JOINS = {
    1: "JOIN",
    2: "FULL JOIN",
    3: "LEFT JOIN",
    4: "RIGHT JOIN",
    5: "LEFT ANTI JOIN",
    6: "LEFT SEMI JOIN",
    7: "CROSS JOIN",
}
_LEFT_ALONE = (5, 6)
_LEFT_STAYS, _RIGHT_STAYS = (1, 3, 5, 6), (1, 4)
"""Joins USING some columns after which those are the left side's, or the right side's."""
_LEFT_GIVEN, _RIGHT_GIVEN = (1, 3, 5, 6), (4,)
"""Joins USING some columns that give those of the left side, or of the right side: where both are equal, one is given."""
_SETS = {1: "INTERSECT", 2: "UNION", 3: "EXCEPT"}
_NAMED_CALLS = ("sum", "avg", "min", "max", "count")
"""Aggregates whose columns Spark calls as they are written, if they are of one column."""
_FROM, _WHERE, _SELECT, _ORDER, _LIMIT = range(5)
_SELECT_HINT = (
    "select the columns that you want by their names first: a table's own are not known where models are read"
)


@dataclass(frozen=True)
class FrameSource:
    """What stands in FROM for a source of a frame, a relation's name or a query in brackets, and its columns if known.

    `left_out` are columns, in lower case, that the query was written without.
    """

    text: str
    columns: tuple[str, ...] | None = None
    left_out: frozenset[str] = frozenset()


ReadSource = Callable[[Any], FrameSource]
"""Returns what stands for an operator that reads a table, files or a text of SQL; raises SqlError for what nothing stands for."""


@dataclass(frozen=True)
class _FrameQuery:
    """A SELECT under construction; `done` is the last of its clauses that is written.

    `places` says of each frame in it, by Spark's number, where its columns stand. `items` counts what stands in FROM. `columns`
    are the names of what it gives, None where they are not known or two are equal; `sides` are those of each item in FROM, by its
    name. It is `mixed` if it reads what is ordered, without saying how.
    """

    source: str
    places: Mapping[int, FrameScope]
    items: int = 1
    done: int = _FROM
    where: tuple[str, ...] = ()
    select: str = "*"
    group: str = ""
    order: str = ""
    limit: int | None = None
    offset: int = 0
    mixed: bool = False
    columns: tuple[str, ...] | None = None
    twice: frozenset[int] = frozenset()
    sides: tuple[tuple[str, tuple[str, ...]], ...] | None = None

    @property
    def text(self) -> str:
        """The whole SELECT."""
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        limit = f" LIMIT {self.limit}" if self.limit is not None else ""
        offset = f" OFFSET {self.offset}" if self.offset else ""
        return f"SELECT {self.select} FROM {self.source}{where}{self.group}{self.order}{limit}{offset}"


@dataclass
class _FrameWriter:
    read_source: ReadSource | None = None
    left_out: frozenset[str] = frozenset()
    names: int = 0
    left: set[str] = field(default_factory=set)

    def build_query(self, relation: Any) -> _FrameQuery:
        """Return the SELECT that an operator of a frame is."""
        kind = relation.WhichOneof("rel_type")
        write: Callable[[Any], _FrameQuery] | None = getattr(self, f"_{kind}", None)
        if write is None:
            label = str(kind).replace("_", " ")
            hint = "use select, filter, join, groupBy with agg, union, orderBy with limit, distinct, withColumn or drop"
            raise build_frame_error(f"the operator {label}, which views do not support", hint)
        found = write(getattr(relation, kind))
        number = relation.common.plan_id
        if number in found.places:
            return found
        called = next(iter(found.places.values())).alias if found.items == 1 else None
        return replace(found, places={**found.places, number: FrameScope(called)})

    # ---- what stands in FROM ---------------------------------------------------------------------------------
    def _make_name(self) -> str:
        self.names += 1
        return f"frame_{self.names}"

    def _read(self, node: Any) -> _FrameQuery:
        if self.read_source is not None:
            return self._build_source(self.read_source(node))
        if node.WhichOneof("read_type") != "named_table" or node.is_streaming or node.named_table.options:
            raise build_frame_error("a source of its own", "read what the function has as its parameters")
        return self._build_source(FrameSource(quote_identifier(node.named_table.unparsed_identifier)))

    def _sql(self, node: Any) -> _FrameQuery:
        if self.read_source is None:
            raise build_frame_error(
                "a text of SQL", "return the text alone, or read what the function has as its parameters"
            )
        return self._build_source(self.read_source(node))

    def _range(self, node: Any) -> _FrameQuery:
        numbers = f"range({node.start}L, {node.end}L, {node.step}L)"
        return self._build_source(FrameSource(numbers, ("id",)))

    def _build_source(self, source: FrameSource) -> _FrameQuery:
        self.left |= source.left_out
        name = self._make_name()
        sides = None if source.columns is None else ((name, source.columns),)
        text = f"{source.text} AS {quote(name)}"
        return _FrameQuery(text, {-1: FrameScope(name)}, columns=_tell_apart(source.columns), sides=sides)

    def _subquery_alias(self, node: Any) -> _FrameQuery:
        return self._wrap_query(self.build_query(node.input), node.alias)

    def _wrap_query(self, query: _FrameQuery, name: str) -> _FrameQuery:
        """Return a query as one item of FROM under a name."""
        if query.done == _FROM and query.items == 1:
            source = f"{query.source.rpartition(' AS ')[0]} AS {quote(name)}"
        else:
            source = f"({query.text}) AS {quote(name)}"
        places = {number: place.nest(name) for number, place in query.places.items()}
        mixed = query.mixed or bool(query.order)
        sides = None if query.columns is None else ((name, query.columns),)
        return _FrameQuery(source, places, columns=query.columns, twice=query.twice, mixed=mixed, sides=sides)

    def _open_clause(self, relation: Any, clause: int) -> _FrameQuery:
        """Return an operator's input as a SELECT to which a clause can be added."""
        query = self.build_query(relation)
        return query if query.done <= clause else self._wrap_query(query, self._make_name())

    def _join(self, node: Any) -> _FrameQuery:
        if node.join_type not in _JOINS:
            raise build_frame_error(
                "a join of no kind", "name one: inner, left, right, full, semi, anti or cross"
            )
        left, right = self._open_clause(node.left, _FROM), self._open_clause(node.right, _FROM)
        if right.items > 1:
            right = self._wrap_query(right, self._make_name())
        shared = {number for number in left.places.keys() & right.places.keys() if number != -1}
        inner = node.join_type == 1 and not node.using_columns and not node.HasField("join_condition")
        word = "CROSS JOIN" if inner else _JOINS[node.join_type]
        places = {**right.places, **left.places}
        for side, stay in ((left, _LEFT_STAYS), (right, _RIGHT_STAYS)):
            if node.using_columns and node.join_type not in stay:
                places |= {n: one.merge_columns(node.using_columns) for n, one in side.places.items()}
        for side, own in ((left, _LEFT_GIVEN), (right, _RIGHT_GIVEN)):
            if node.using_columns and node.join_type not in own:
                places |= {
                    n: places[n].hide_columns(node.using_columns) for n in side.places if n not in shared
                }
        joined = _FrameQuery(
            "",
            places,
            left.items + 1,
            twice=left.twice | right.twice | shared,
            columns=_join_columns(left.columns, right.columns, node.using_columns),
            sides=None
            if node.using_columns or left.sides is None or right.sides is None
            else (*left.sides, *right.sides),
        )
        on = ""
        if node.using_columns:
            on = f" USING ({', '.join(map(quote, node.using_columns))})"
        elif node.HasField("join_condition"):
            on = f" ON {self._bind_expressions(joined).render(node.join_condition)}"
        source = f"{left.source} {word} {right.source}{on}"
        if node.join_type in _LEFT_ALONE:
            columns = _join_columns(left.columns, (), node.using_columns)
            return replace(left, source=source, items=left.items + 1, mixed=False, columns=columns)
        return replace(joined, source=source)

    # ---- clauses ---------------------------------------------------------------------------------------------
    def _bind_expressions(self, query: _FrameQuery) -> FrameExpressions:
        def resolve(number: int, name: str | None) -> str | None:
            if number in query.twice:
                hint = "give each its own name: a = t.alias('a'), and col('a.x') for its column"
                raise build_frame_error("a column of a frame that is joined with itself", hint)
            if number not in query.places:
                hint = "take columns of the frame itself, or by name: col('x')"
                raise build_frame_error("a column of another frame than those that it is made of", hint)
            place = query.places[number]
            if not place.has_column(name):
                hint = "take it along in the select, or say which one is meant by its name alone: col('x')"
                what = "all columns" if name is None else f"the column {name}"
                raise build_frame_error(
                    f"{what} of a frame from before a select or join that made others of them", hint
                )
            if name is None and query.items > 1 and place.alias is None:
                raise build_frame_error("all columns of a joined frame beside those of another", _SELECT_HINT)
            return place.alias if query.items > 1 else None

        return FrameExpressions(resolve)

    def _filter(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        condition = self._bind_expressions(query).render(node.condition)
        return replace(query, where=(*query.where, condition), done=_WHERE)

    def _project(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        return self._set_select_list(query, [self._render_item(query, one) for one in node.expressions])

    def _set_select_list(
        self, query: _FrameQuery, items: Sequence[tuple[str, str | None]], group: str = ""
    ) -> _FrameQuery:
        """Return a query with its SELECT list: texts, and names where they are known; without columns that are left out."""
        stay = [one for one in items if one[1] is None or one[1].lower() not in self.left_out]
        self.left |= {str(name).lower() for _, name in items} & self.left_out
        items = stay or items
        listed = [query.columns if text == "*" else None if name is None else (name,) for text, name in items]
        known = _tell_apart(None if None in listed else tuple(name for one in listed for name in one or ()))
        places = {number: place.select(items, query.items > 1) for number, place in query.places.items()}
        select = ", ".join(text for text, _ in items)
        return replace(query, select=select, places=places, columns=known, group=group, done=_SELECT)

    def _render_item(self, query: _FrameQuery, expr: Any) -> tuple[str, str | None]:
        """Return an expression of a SELECT list, and what it is called; None for a star."""
        write, kind = self._bind_expressions(query), expr.WhichOneof("expr_type")
        match kind:
            case "unresolved_star":
                return write.render(expr), None
            case "unresolved_attribute":
                return write.render(expr), get_last_part(expr.unresolved_attribute.unparsed_identifier)
            case "expression_string":
                return _parse_item(expr.expression_string.expression)
            case "alias":
                if len(expr.alias.name) != 1:
                    raise build_frame_error("a column with several names", "name one: alias('x')")
                name = expr.alias.name[0]
                return f"{write.render(expr.alias.expr)} AS {quote(name)}", name
            case "cast" if expr.cast.expr.WhichOneof("expr_type") == "unresolved_attribute":
                path = get_field_path(
                    expr.cast.expr.unresolved_attribute.unparsed_identifier, _list_aliases(query)
                )
                name = get_last_part(expr.cast.expr.unresolved_attribute.unparsed_identifier)
                if path != name:
                    hint = "name it: alias('x')"
                    raise build_frame_error(f"a cast of the field {path} without a name", hint)
                return f"{write.render(expr)} AS {quote(name)}", name
            case "unresolved_function":
                name = _find_call_name(expr.unresolved_function, _list_aliases(query))
                if name is not None:
                    return f"{write.render(expr)} AS {quote(name)}", name
        raise build_frame_error(f"a column without a name, {write.render(expr)}", "name it: alias('x')")

    def _aggregate(self, node: Any) -> _FrameQuery:
        words = {1: "", 2: "ROLLUP", 3: "CUBE"}
        if node.group_type not in words:
            raise build_frame_error(
                "a pivot, or sets of groups",
                "use groupBy, rollup or cube; a pivot is one sum(when(…)) a column",
            )
        query = self._open_clause(node.input, _WHERE)
        write = self._bind_expressions(query)
        keys = []
        for expr in node.grouping_expressions:
            plain = expr.alias.expr if expr.WhichOneof("expr_type") == "alias" else expr
            if plain.WhichOneof("expr_type") == "literal":
                raise build_frame_error("a group by a constant", "leave it out")
            keys.append(write.render(plain))
        items = [
            self._render_item(query, one) for one in (*node.grouping_expressions, *node.aggregate_expressions)
        ]
        listed = ", ".join(keys)
        group = (
            f" GROUP BY {words[node.group_type]}({listed})"
            if words[node.group_type]
            else f" GROUP BY {listed}"
        )
        return replace(self._set_select_list(query, items, group if keys else ""), mixed=False)

    def _with_columns(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        added = [self._render_item(query, _wrap_alias(alias)) for alias in node.aliases]
        taken = {name.lower() for name in query.columns or ()}
        if query.columns is None or all(name is not None and name.lower() not in taken for _, name in added):
            return self._set_select_list(query, [("*", None), *added])
        new = {name.lower(): (text, name) for text, name in added if name is not None}
        known = {name.lower() for name in query.columns}
        items = [new.get(name.lower(), (quote(name), name)) for name in query.columns]
        return self._set_select_list(
            query, [*items, *(one for name, one in new.items() if name not in known)]
        )

    def _with_columns_renamed(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        if query.columns is None:
            raise build_frame_error("a renamed column", f"select it by alias, or {_SELECT_HINT}")
        names = list(query.columns)
        for one in node.renames:  # one after the other, as Spark does it
            names = [one.new_col_name if name.lower() == one.col_name.lower() else name for name in names]
        return self._set_select_list(
            query, [_render_renamed(*pair) for pair in zip(query.columns, names, strict=True)]
        )

    def _to_df(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        if query.columns is None or len(query.columns) != len(node.column_names):
            raise build_frame_error("new names for all columns", _SELECT_HINT)
        pairs = zip(query.columns, node.column_names, strict=True)
        return self._set_select_list(query, [_render_renamed(*pair) for pair in pairs])

    def _drop(self, node: Any) -> _FrameQuery:
        query = self._open_clause(node.input, _WHERE)
        gone = {*node.column_names}
        texts: set[str] = set()
        for expr in node.columns:
            if expr.WhichOneof("expr_type") != "unresolved_attribute":
                raise build_frame_error("a dropped expression", "drop columns by their names")
            if _is_unseen(query, expr.unresolved_attribute):
                continue  # a column of its name is another frame's
            # of another frame, a column of this name is another one
            texts.add(self._bind_expressions(query).render(expr).lower())
            gone.add(get_last_part(expr.unresolved_attribute.unparsed_identifier))
        if query.columns is None and query.sides is not None:
            by_name = {name.lower() for name in node.column_names} | {text.strip("`") for text in texts}
            items = [(f"{quote(side)}.{quote(name)}", name) for side, names in query.sides for name in names]
            kept = [one for one in items if one[0].lower() not in texts and one[1].lower() not in by_name]
            return self._set_select_list(query, kept)
        if query.columns is None:
            raise build_frame_error(f"dropped columns, {', '.join(sorted(gone))}", _SELECT_HINT)
        left = {name.lower() for name in gone}
        return self._set_select_list(query, [(quote(n), n) for n in query.columns if n.lower() not in left])

    def _deduplicate(self, node: Any) -> _FrameQuery:
        if not node.all_columns_as_keys or node.within_watermark:
            hint = "say which row stays: filter row_number() over a window with an order"
            raise build_frame_error("dropDuplicates of some columns, of whose rows any may stay", hint)
        query = self._wrap_query(self.build_query(node.input), self._make_name())
        return replace(query, select="DISTINCT *", done=_SELECT, mixed=False)

    def _set_op(self, node: Any) -> _FrameQuery:
        left, right = (
            self._wrap_query(self.build_query(side), self._make_name())
            for side in (node.left_input, node.right_input)
        )
        if node.by_name:
            left, right = self._match_by_name(left, right, node.allow_missing_columns)
        word = f"{_SETS[node.set_op_type]}{' ALL' if node.is_all else ''}"
        both = f"({left.text} {word} {right.text})"
        return _FrameQuery(
            f"{both} AS {quote(name := self._make_name())}", {-1: FrameScope(name)}, columns=left.columns
        )

    def _match_by_name(
        self, left: _FrameQuery, right: _FrameQuery, fills: bool
    ) -> tuple[_FrameQuery, _FrameQuery]:
        """Return the two sides of a union by name with their columns in one order."""
        if left.columns is None or right.columns is None:
            raise build_frame_error("unionByName", _SELECT_HINT)
        names = [{name.lower() for name in side.columns or ()} for side in (left, right)]
        if names[0] != names[1] and not fills:
            others = ", ".join(sorted(names[0] ^ names[1]))
            raise build_frame_error(
                f"a unionByName of which one side lacks {others}", "select the same columns on both sides"
            )
        order = [*left.columns, *(name for name in right.columns if name.lower() not in names[0])]
        first, second = (
            self._set_select_list(
                side, [(quote(n) if n.lower() in own else f"NULL AS {quote(n)}", n) for n in order]
            )
            for side, own in ((left, names[0]), (right, names[1]))
        )
        return first, second

    def _sort(self, node: Any) -> _FrameQuery:
        if not node.is_global:
            raise build_frame_error(
                "sortWithinPartitions", "use orderBy: a view has no partitions of Spark's"
            )
        query = self._open_clause(node.input, _WHERE)
        write = self._bind_expressions(query)
        orders = []
        for one in node.order:
            plain = one.child.WhichOneof("expr_type") == "literal"
            if plain:
                raise build_frame_error("an order by a constant", "leave it out")
            orders.append(write.render_order(one))
        return replace(query, order=f" ORDER BY {', '.join(orders)}", mixed=False, done=_ORDER)

    def _offset(self, node: Any) -> _FrameQuery:
        query = self._open_limit(node.input)
        left = None if query.limit is None else max(query.limit - node.offset, 0)
        return replace(query, offset=query.offset + node.offset, limit=left)

    def _limit(self, node: Any) -> _FrameQuery:
        query = self._open_limit(node.input)
        return replace(query, limit=node.limit if query.limit is None else min(query.limit, node.limit))

    def _open_limit(self, relation: Any) -> _FrameQuery:
        """Return an operator's input as a SELECT of which the first rows can be taken, or left out."""
        query = self.build_query(relation)
        if query.mixed:
            hint = "put orderBy right before limit or offset; select or filter before orderBy or after limit"
            raise build_frame_error(
                "a limit or an offset of what was ordered before it was selected or filtered", hint
            )
        return replace(query, done=_LIMIT)

    # ---- what says how, not what -----------------------------------------------------------------------------
    def _repartition(self, node: Any) -> _FrameQuery:
        return self.build_query(node.input)

    def _repartition_by_expression(self, node: Any) -> _FrameQuery:
        return self.build_query(node.input)

    def _hint(self, node: Any) -> _FrameQuery:
        return self.build_query(node.input)


def render_frame_query(
    relation: Any, read_source: ReadSource | None = None, left_out: frozenset[str] = frozenset()
) -> str:
    """Return the query that a frame's tree of Spark Connect is, in Spark's SQL; raises SqlError for what no view is made of.

    `read_source` says what stands for the sources that a frame reads; without it these are tables of their names. Columns that
    are `left_out`, by names in lower case, are computed nowhere in it; SqlError is raised for one that it would not compute.
    """
    writer = _FrameWriter(read_source, left_out)
    query = writer.build_query(relation)
    for name in sorted(left_out - writer.left):
        raise build_frame_error(f"no column {name} that could be left out", "name one that it computes")
    return query.text


def _is_unseen(query: _FrameQuery, node: Any) -> bool:
    """Tell whether a column of a frame is none of those that a query gives, as a join gives that of the other side."""
    place = query.places.get(node.plan_id) if node.HasField("plan_id") else None
    return place is not None and get_last_part(node.unparsed_identifier).lower() in place.unseen


def _tell_apart(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return names of columns if each is there once; None if they are not known, or two could not be told apart."""
    if names is None or len({name.lower() for name in names}) < len(names):
        return None
    return names


def _join_columns(
    left: tuple[str, ...] | None, right: tuple[str, ...] | None, using: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the columns of a join in Spark's order: those that it is USING, then the others of each side."""
    if left is None or right is None:
        return None
    shared = {name.lower() for name in using}
    first = [next((name for name in left if name.lower() == one.lower()), one) for one in using]
    return _tell_apart((*first, *(name for name in (*left, *right) if name.lower() not in shared)))


def _list_aliases(query: _FrameQuery) -> set[str]:
    """Return what stands in FROM is called."""
    return {place.alias for place in query.places.values() if place.alias is not None}


def _find_call_name(node: Any, aliases: Collection[str]) -> str | None:
    """Return what Spark calls the column of an aggregate that was given no name; None for one that is called otherwise.

    The `aliases` are of what stands in FROM, and are no part of it.
    """
    name, arguments = node.function_name, list(node.arguments)
    if name not in _NAMED_CALLS or len(arguments) != 1:
        return None
    (one,) = arguments
    match one.WhichOneof("expr_type"):
        case "unresolved_attribute":
            column = get_field_path(one.unresolved_attribute.unparsed_identifier, aliases)
            return f"{name}({'DISTINCT ' if node.is_distinct else ''}{column})"
        case "unresolved_star" if name == "count" and not node.is_distinct:
            return "count(1)"
    return None


def _render_renamed(old: str, new: str) -> tuple[str, str]:
    """Return a column under another name as an item of a SELECT list."""
    return (quote(old) if old == new else f"{quote(old)} AS {quote(new)}"), new


def _wrap_alias(alias: Any) -> Any:
    """Return an alias as an expression of its own."""
    found = type(alias.expr)()
    found.alias.CopyFrom(alias)
    return found


def _parse_item(text: str) -> tuple[str, str | None]:
    """Return an item that is written in SQL, and its name."""
    try:
        found = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except sqlglot.errors.ParseError as error:
        raise SqlError(f"the frame has the expression {text}, which is no SQL", hint="correct it") from error
    (item,) = (
        found.expressions if isinstance(found, exp.Select) and len(found.expressions) == 1 else (exp.Null(),)
    )
    if isinstance(item, exp.Column | exp.Alias) and not isinstance(item.this, exp.Star):
        return text, item.alias_or_name
    if isinstance(item, exp.Cast) and isinstance(item.this, exp.Column):
        return f"{text} AS {quote(item.this.name)}", item.this.name
    raise build_frame_error(f"a column without a name, {text}", "name it: expr('… AS x')")
