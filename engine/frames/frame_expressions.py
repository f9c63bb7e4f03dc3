"""Expressions of Spark frames as SQL: the columns of Spark Connect are trees of calls by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from engine.arrow import format_day, format_moment
from engine.errors import SqlError
from engine.spark_internals import render_connect_type
from engine.sql.expression.spark_sql import quote
from engine.sql.statements.options.option_text import render_literal

Resolve = Callable[[int, str | None], str | None]
"""What a frame is called where a column of it stands (None: all of them): None where they need no name before them."""

_BINARY = {
    **{sign: sign for sign in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "<=>", "&", "|", "^")},
    **{"==": "=", "!=": "<>", "and": "AND", "or": "OR", "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE"},
}
_PREFIX_OPERATORS = {"not": "NOT ", "!": "NOT ", "negative": "- ", "~": "~ "}
_POSTFIX_OPERATORS = {"isnull": " IS NULL", "isnotnull": " IS NOT NULL"}
_OF_UNITS = ("timestampadd", "timestampdiff")
"""Calls whose first argument is a word in SQL, and a text in frames."""
_FRAMES = {1: "ROWS", 2: "RANGE"}
_NAME = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def build_frame_error(what: str, hint: str) -> SqlError:
    """Return the error for a part of a frame that no view can be made of."""
    return SqlError(f"the frame has {what}", hint=hint)


def quote_identifier(text: str) -> str:
    """Return the name of a column, as Spark's frames write it, with its parts in quotes."""
    return ".".join(map(quote, _split_parts(text)))


def get_first_part(text: str) -> str:
    """Return the column of a name: what follows it are fields in it."""
    return _split_parts(text)[0]


def get_last_part(text: str) -> str:
    """Return what a column is called after it was selected by a name."""
    return _split_parts(text)[-1]


def get_field_path(text: str, names: Collection[str]) -> str:
    """Return what Spark calls a column that stands in a call: with its fields, without one of `names` before it."""
    first, *rest = _split_parts(text)
    return (
        ".".join(rest)
        if rest and first.lower() in {name.lower() for name in names}
        else ".".join((first, *rest))
    )


def _split_parts(text: str) -> list[str]:
    return [
        found[1].replace("``", "`") if found[1] is not None else found[2] for found in _NAME.finditer(text)
    ]


class FrameExpressions:
    """Writes the expressions of one operator of a frame; `resolve` says what the frames below it are called there."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._variables: dict[str, str] = {}

    def render(self, expr: Any) -> str:
        """Return an expression as SQL; raises SqlError for what SQL has no words for."""
        kind = expr.WhichOneof("expr_type")
        write = getattr(self, f"_{kind}", None)
        if write is None:
            label = str(kind).replace("_", " ")
            raise build_frame_error(
                f"an expression of the kind {label}", "write it with the functions of pyspark.sql.functions"
            )
        return str(write(getattr(expr, kind)))

    def render_list(self, exprs: Sequence[Any]) -> str:
        """Return expressions with commas between them."""
        return ", ".join(map(self.render, exprs))

    def _unresolved_attribute(self, node: Any) -> str:
        if node.is_metadata_column:
            raise build_frame_error(
                f"the metadata column {node.unparsed_identifier}", "select the table's own columns"
            )
        name = quote_identifier(node.unparsed_identifier)
        first = get_first_part(node.unparsed_identifier)
        place = self._resolve(node.plan_id, first) if node.HasField("plan_id") else None
        return f"{quote(place)}.{name}" if place else name

    def _unresolved_star(self, node: Any) -> str:
        if node.HasField("unparsed_target"):
            return f"{quote_identifier(node.unparsed_target.removesuffix('.*'))}.*"
        place = self._resolve(node.plan_id, None) if node.HasField("plan_id") else None
        return f"{quote(place)}.*" if place else "*"

    def _expression_string(self, node: Any) -> str:
        return f"({node.expression})"

    def _alias(self, node: Any) -> str:
        return self.render(node.expr)  # a name inside an expression means nothing

    def _cast(self, node: Any) -> str:
        kind = node.type_str or render_connect_type(node.type)
        word = "TRY_CAST" if node.eval_mode == 3 else "CAST"
        return f"{word}({self.render(node.expr)} AS {kind})"

    def _unresolved_extract_value(self, node: Any) -> str:
        return f"{self.render(node.child)}[{self.render(node.extraction)}]"

    def render_order(self, node: Any) -> str:
        """Return by what rows are ordered, and where nulls stand."""
        direction = "DESC" if node.direction == 2 else "ASC"
        nulls = {1: "FIRST", 2: "LAST"}.get(node.null_ordering, "LAST" if direction == "DESC" else "FIRST")
        return f"{self.render(node.child)} {direction} NULLS {nulls}"

    def _sort_order(self, node: Any) -> str:
        return self.render_order(node)

    def _call_function(self, node: Any) -> str:
        return f"{node.function_name}({self.render_list(node.arguments)})"

    def _unresolved_function(self, node: Any) -> str:
        name, arguments = node.function_name, list(node.arguments)
        if node.is_user_defined_function or node.is_internal:
            raise build_frame_error(f"a call of {name}", "use functions that SQL has")
        plain = name.lower()
        if node.is_distinct:
            return f"{name}(DISTINCT {self.render_list(arguments)})"
        if plain == "struct":  # whose fields are called as its arguments are
            return f"struct({', '.join(map(self._render_field, arguments))})"
        if plain == "arrays_zip" and any(one.WhichOneof("expr_type") == "alias" for one in arguments):
            raise build_frame_error(
                "a name inside arrays_zip", "give the lists their names in a select before"
            )
        if plain in _BINARY and len(arguments) == 2:
            return f"({self.render(arguments[0])} {_BINARY[plain]} {self.render(arguments[1])})"
        if plain in _PREFIX_OPERATORS and len(arguments) == 1:
            return f"({_PREFIX_OPERATORS[plain]}{self.render(arguments[0])})"
        if plain in _POSTFIX_OPERATORS and len(arguments) == 1:
            return f"({self.render(arguments[0])}{_POSTFIX_OPERATORS[plain]})"
        if plain == "in" and len(arguments) == 1:
            return "FALSE"  # not null either, as SQL has no list without a value
        if plain in _OF_UNITS and (unit := _find_unit(arguments)):
            return f"{name}({unit}, {self.render_list(arguments[1:])})"
        if plain == "nth_value" and len(arguments) == 3 and arguments[2].WhichOneof("expr_type") == "literal":
            of = " IGNORE NULLS" if arguments[2].literal.boolean else ""
            return f"{name}({self.render_list(arguments[:2])}){of}"
        if plain == "in":
            return f"({self.render(arguments[0])} IN ({self.render_list(arguments[1:])}))"
        if plain == "when":
            pairs = zip(arguments[::2], arguments[1::2], strict=False)
            cases = " ".join(f"WHEN {self.render(when)} THEN {self.render(then)}" for when, then in pairs)
            other = f" ELSE {self.render(arguments[-1])}" if len(arguments) % 2 else ""
            return f"CASE {cases}{other} END"
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
            raise build_frame_error(
                f"the operator {name}", "write it with the functions of pyspark.sql.functions"
            )
        return f"{name}({self.render_list(arguments)})"

    def _render_field(self, expr: Any) -> str:
        if expr.WhichOneof("expr_type") != "alias":
            return self.render(expr)
        return f"{self.render(expr.alias.expr)} AS {quote(expr.alias.name[0])}"

    def _lambda_function(self, node: Any) -> str:
        names = []
        used_names = {
            *re.findall(r"\w+", str(node).lower()),
            *self._variables.values(),
        }  # a column of the name would be hidden
        free = (name for number in count(1) if (name := f"x{number}") not in used_names)
        for argument in node.arguments:  # their own names count on from one process to the next
            name = next(free)
            self._variables[".".join(argument.name_parts)] = name
            names.append(name)
        heads = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{heads} -> {self.render(node.function)}"

    def _unresolved_named_lambda_variable(self, node: Any) -> str:
        return self._variables[".".join(node.name_parts)]

    def _common_inline_user_defined_function(self, node: Any) -> str:
        raise build_frame_error(
            f"the Python function {node.function_name}",
            "use functions of pyspark.sql.functions: what Python computes of a row is not followed",
        )

    def _window(self, node: Any) -> str:
        parts = [f"PARTITION BY {self.render_list(node.partition_spec)}"] if node.partition_spec else []
        if node.order_spec:
            parts.append("ORDER BY " + ", ".join(map(self.render_order, node.order_spec)))
        if node.HasField("frame_spec"):
            frame = node.frame_spec
            ends = f"{self._render_boundary(frame.lower, 'PRECEDING')} AND {self._render_boundary(frame.upper, 'FOLLOWING')}"
            parts.append(f"{_FRAMES[frame.frame_type]} BETWEEN {ends}")
        return f"{self.render(node.window_function)} OVER ({' '.join(parts)})"

    def _render_boundary(self, end: Any, unbounded: str) -> str:
        if end.WhichOneof("boundary") != "value":
            return "CURRENT ROW" if end.current_row else f"UNBOUNDED {unbounded}"
        value = end.value.literal
        number = int(getattr(value, value.WhichOneof("literal_type")))
        return f"{abs(number)} {'PRECEDING' if number < 0 else 'FOLLOWING'}"

    def _literal(self, node: Any) -> str:
        kind = node.WhichOneof("literal_type")
        value = getattr(node, kind)
        write = _LITERALS.get(kind)
        if kind == "null":
            known = render_connect_type(node.null)
            return "NULL" if known == "void" else f"CAST(NULL AS {known})"
        if kind in ("array", "specialized_array"):
            values = (
                value.elements if kind == "array" else getattr(value, value.WhichOneof("value_type")).values
            )
            items = (self._literal(one) if hasattr(one, "WhichOneof") else str(one) for one in values)
            return f"array({', '.join(items)})"
        if write is None:
            raise build_frame_error(
                f"a constant of the kind {kind.replace('_', ' ')}", "write it with expr('…')"
            )
        return write(value)


def _find_unit(arguments: Sequence[Any]) -> str | None:
    """Return the unit that is the first of some arguments, None for what is no plain word."""
    if not arguments or arguments[0].WhichOneof("expr_type") != "literal":
        return None
    word = arguments[0].literal.string
    return word if word.isascii() and word.isalpha() else None


def _make_number_writer(kind: str) -> Callable[[Any], str]:
    """Return how a number is written that is no plain one in SQL."""
    return lambda value: f"CAST('{value}' AS {kind})"


def _render_seconds(micros: int) -> str:
    return f"INTERVAL '{Decimal(micros) / 1_000_000:f}' SECOND"


_LITERALS: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "TRUE" if value else "FALSE",
    "byte": _make_number_writer("TINYINT"),
    "short": _make_number_writer("SMALLINT"),
    "integer": str,
    "long": lambda value: f"{value}L",
    "float": _make_number_writer("FLOAT"),
    "double": _make_number_writer("DOUBLE"),
    "decimal": lambda value: (
        f"{Decimal(value.value):f}BD"
    ),  # its type is that of its digits, whatever the client says
    "string": lambda value: render_literal(value, "spark"),
    "date": lambda days: f"DATE '{format_day(days)}'",
    "timestamp": lambda micros: f"TIMESTAMP '{format_moment(micros)}'",
    "timestamp_ntz": lambda micros: f"TIMESTAMP_NTZ '{format_moment(micros)}'",
    "day_time_interval": _render_seconds,
}
