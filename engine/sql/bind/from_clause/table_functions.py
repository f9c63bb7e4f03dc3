"""Functions that give several rows for one: each becomes an Unnest of an array that Spark computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.expression.nodes import Column, Expr, Field, Literal, annotate
from engine.sql.expression.template import as_columns, fill_template
from engine.sql.expression.template import call as call_of
from engine.sql.functions import is_table_function
from engine.sql.plan import Node, Project, Unnest
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.typing.types import element_type, field_names, field_type

_REMEDY = "use UNNEST, explode, posexplode, inline or generate_series"


@dataclass(frozen=True)
class BoundTableCall:
    """A bound table function: what it does to the rows before it, and the columns that it adds."""

    apply: Callable[[Node], Node]
    columns: tuple[tuple[str, str], ...]


def is_table_call(node: exp.Expr | None) -> bool:
    """Tell whether an item of FROM is a call of a function."""
    if isinstance(node, exp.Values | exp.Query | exp.Table):
        return False
    return isinstance(node, exp.Unnest | exp.Func)


class TableFunctionBinder:
    """Binds table functions over the columns that their SELECT has in scope."""

    def __init__(
        self,
        expressions: ExpressionBinder,
        fresh: Callable[[str], str],
        note: Callable[[str, str | None], None],
    ) -> None:
        self.expressions, self.fresh, self.note = expressions, fresh, note

    def bind(self, call: exp.Expr, *, numbered: bool = False, outer: bool = False) -> BoundTableCall:
        """Bind a call; `numbered` adds a column that counts from 1, `outer` keeps a row of nulls where it gives none."""
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        match call:
            case exp.Unnest(expressions=[_, _, *_]):
                return self._bind_zip(call, numbered, outer)
            case exp.Unnest():
                return self._bind_array(self._bind_argument(call.expressions[0]), "unnest", numbered, outer)
            case exp.Posexplode():
                outer = outer or isinstance(call, exp.PosexplodeOuter)
                return self._bind_positions(self._bind_argument(call.this), outer)
            case exp.Inline():
                return self._bind_structs(self._bind_argument(call.this), call, outer)
            case exp.Explode():
                outer = outer or isinstance(call, exp.ExplodeOuter)
                return self._bind_explode(self._bind_argument(call.this), numbered, outer)
            case exp.ExplodingGenerateSeries() | exp.GenerateSeries():
                parts = [call.args.get(part) for part in ("start", "end", "step")]
                return self._bind_series(
                    [part for part in parts if part is not None], "generate_series", numbered, outer
                )
            case exp.Anonymous() if name == "range":
                arguments = call.expressions
                start = [exp.Literal.number(0)] if len(arguments) == 1 else []
                return self._bind_series([*start, *arguments[:3]], "id", numbered, outer, upto=False)
            case exp.Anonymous() if name in ("inline_outer", "explode_outer", "posexplode_outer", "unnest"):
                array = self._bind_argument(call.expressions[0])
                if name == "inline_outer":
                    return self._bind_structs(array, call, True)
                if name == "posexplode_outer":
                    return self._bind_positions(array, True)
                return self._bind_explode(array, numbered, name != "unnest")
        text = call.sql()[:40]
        if not is_table_function(call):
            raise self.expressions.refuse(f"{text} in FROM", call, _REMEDY)
        raise self.expressions.refuse(f"the table function {text}", call, _REMEDY)

    def _bind_argument(self, node: exp.Expr) -> Expr:
        return self.expressions.bind_scalar(node, "a table function")

    def _infer_element_type(self, array: Expr) -> str | None:
        """Return the type of an array's elements."""
        return element_type(get_expr_type(array, self.expressions.types) or "")

    def _unnest_array(self, array: Expr, outer: bool) -> tuple[str, str, Callable[[Node], Node]]:
        item, ordinal = self.fresh("unnest:item"), self.fresh("unnest:ordinal")
        self.note(item, self._infer_element_type(array))
        self.note(ordinal, "int")
        attach = self.expressions.subqueries.attach
        return item, ordinal, lambda plan: Unnest(attach(plan), array, item, ordinal, outer)

    def _append_columns(
        self, apply: Callable[[Node], Node], added: list[tuple[str, Expr]]
    ) -> Callable[[Node], Node]:
        def apply_columns(plan: Node) -> Node:
            below = apply(plan)
            return Project(below, (*as_columns(below.columns), *added))

        return apply_columns

    def _add_number(
        self,
        apply: Callable[[Node], Node],
        ordinal: str,
        columns: tuple[tuple[str, str], ...],
        numbered: bool,
        over: Expr | None,
    ) -> BoundTableCall:
        """Add the number if it is asked for; `over` is the array if a row of nulls, which has none, stands for an empty one."""
        if not numbered:
            return BoundTableCall(apply, columns)
        number = self.fresh("unnest:number")
        self.note(number, "bigint")
        expr = fill_template("CAST(:ordinal + 1 AS BIGINT)", ordinal=Column(ordinal))
        if over is not None:
            text = "if(coalesce(size(:array), 0) = 0, CAST(NULL AS BIGINT), :number)"
            expr = fill_template(text, array=over, number=expr)
        return BoundTableCall(
            self._append_columns(apply, [(number, expr)]), (*columns, ("ordinality", number))
        )

    def _bind_array(self, array: Expr, name: str, numbered: bool, outer: bool) -> BoundTableCall:
        item, ordinal, apply = self._unnest_array(array, outer)
        return self._add_number(apply, ordinal, ((name, item),), numbered, array if outer else None)

    def _bind_explode(self, array: Expr, numbered: bool, outer: bool) -> BoundTableCall:
        kind = get_expr_type(array, self.expressions.types) or ""
        if kind.startswith("map<"):
            entries = annotate(call_of("map_entries", array), position=array.position)
            item, ordinal, apply = self._unnest_array(entries, outer)
            fields = self._list_fields(item, ("key", "value"))
            over = entries if outer else None
            return self._add_number(
                self._append_columns(apply, fields[1]), ordinal, fields[0], numbered, over
            )
        return self._bind_array(array, "col", numbered, outer)

    def _bind_positions(self, array: Expr, outer: bool) -> BoundTableCall:
        item, ordinal, apply = self._unnest_array(array, outer)
        position = self.fresh("unnest:pos")
        self.note(position, "int")
        value: Expr = Column(ordinal)
        if outer:
            text = "if(:item IS NULL AND coalesce(size(:array), 0) = 0, NULL, :ordinal)"
            value = fill_template(text, item=Column(item), array=array, ordinal=value)
        return BoundTableCall(
            self._append_columns(apply, [(position, value)]), (("pos", position), ("col", item))
        )

    def _list_fields(
        self, item: str, names: tuple[str, ...], kind: str = ""
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, Expr]]]:
        columns, added = list[tuple[str, str]](), list[tuple[str, Expr]]()
        for name in names:
            internal = self.fresh(f"unnest:{name}")
            self.note(internal, field_type(kind, name))
            columns.append((name, internal))
            added.append((internal, Field(Column(item), name)))
        return tuple(columns), added

    def _bind_structs(self, array: Expr, call: exp.Expr, outer: bool) -> BoundTableCall:
        kind = self._infer_element_type(array) or ""
        names = field_names(kind)
        if not names:
            raise self.expressions.refuse(
                "inline of an array whose fields are not known", call, "use explode"
            )
        item, _, apply = self._unnest_array(array, outer)
        columns, added = self._list_fields(item, names, kind)
        return BoundTableCall(self._append_columns(apply, added), columns)

    def _bind_zip(self, call: exp.Unnest, numbered: bool, outer: bool) -> BoundTableCall:
        arrays = [self._bind_argument(part) for part in call.expressions]
        sizes = [fill_template("coalesce(size(:array), 0)", array=array) for array in arrays]
        places = fill_template(
            "if(:longest > 0, sequence(0, :length - 1), CAST(array() AS array<int>))",
            longest=call_of("greatest", *sizes),
            length=call_of("greatest", *sizes, Literal("1")),
        )
        item, ordinal, apply = self._unnest_array(places, outer)
        columns, added = list[tuple[str, str]](), list[tuple[str, Expr]]()
        for n, array in enumerate(arrays, 1):
            internal = self.fresh(f"unnest:{n}")
            self.note(internal, self._infer_element_type(array))
            columns.append((f"unnest_{n}", internal))
            added.append((internal, call_of("get", array, Column(item))))
        over = places if outer else None
        return self._add_number(self._append_columns(apply, added), ordinal, tuple(columns), numbered, over)

    def _bind_series(
        self, parts: list[exp.Expr], name: str, numbered: bool, outer: bool, upto: bool = True
    ) -> BoundTableCall:
        if len(parts) > 2 and isinstance(parts[2], exp.Literal) and parts[2].name.strip("0.") == "":
            raise self.expressions.scope.build_error(
                f"a {name} with a step of 0", parts[2], "write another step"
            )
        start, end, *steps = [self._bind_argument(part) for part in parts]
        step = steps[0] if steps else Literal("1")
        last = end if upto else fill_template("if(:step > 0, :end - 1, :end + 1)", end=end, step=step)
        operands = {"start": start, "last": last, "step": step}
        if steps and isinstance(parts[2], exp.Interval):
            forward = not parts[2].name.startswith("-")
            holds = fill_template(":start <= :last" if forward else ":start >= :last", **operands)
        else:  # Spark's own sequence would count down where there is nothing to count
            holds = fill_template("if(:step > 0, :start <= :last, :start >= :last)", **operands)
        text = "if(:holds, sequence(:start, :last, :step), filter(array(:start), x -> FALSE))"
        array = fill_template(text, holds=holds, **operands)
        kind = get_expr_type(start, self.expressions.types)
        array = annotate(array, type=None if kind is None else f"array<{kind}>", position=start.position)
        return self._bind_array(array, name, numbered, outer)
