"""Functions of PostgreSQL that are written out by several of Spark's: `array_replace(a, 1, 2)` and the like.

Those of `SETS` give rows: each is translated to the array of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.strings.quote_ident import QUOTED_NAME
from engine.sql.dialects.postgres.strings.regexp_matches import extract_matches
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import read_text

ENTRIES = ("jsonb_each", "json_each", "jsonb_each_text", "json_each_text")
SETS = (
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "generate_subscripts",
    "jsonb_array_elements",
    "json_array_elements",
    "jsonb_array_elements_text",
    "json_array_elements_text",
    "jsonb_object_keys",
    "json_object_keys",
    *ENTRIES,
)


def _make_call(count: int, text: str) -> Callable[[list[exp.Expr]], exp.Expr | None]:
    """Return the translation of a call with `count` arguments; with another number of them it is no such call."""
    return lambda arguments: fill_tree(text, *arguments) if len(arguments) == count else None


def _make_sum(text: str) -> Callable[[list[exp.Expr]], exp.Expr | None]:
    def build(arguments: list[exp.Expr]) -> exp.Expr | None:
        parts = " + ".join(text.format(f"_p{n}") for n in range(len(arguments)))
        return fill_tree(f"({parts})", *arguments) if arguments else None

    return build


def _make_utf8_call(text: str) -> Callable[[list[exp.Expr]], exp.Expr | None]:
    def build(arguments: list[exp.Expr]) -> exp.Expr | None:
        if len(arguments) != 2:
            return None
        name = read_text(arguments[1], "an encoding").lower().replace("-", "")
        if name != "utf8":
            raise Untranslatable(f"the encoding {name}", "texts are UTF-8: write 'UTF8'")
        return fill_tree(text, arguments[0])

    return build


def _make_dimension_call(text: str) -> Callable[[list[exp.Expr]], exp.Expr | None]:
    def build(arguments: list[exp.Expr]) -> exp.Expr | None:
        if len(arguments) != 2:
            return None
        if arguments[1].sql() != "1":
            raise Untranslatable("a second dimension of an array", "take an element, and its dimension")
        return fill_tree(text, arguments[0])

    return build


def _split_to_table(arguments: list[exp.Expr]) -> exp.Expr | None:
    """Return the parts of a text between separators that are taken as they stand; an empty text has none."""
    if len(arguments) != 2:
        return None
    pattern = exp.Literal.string(
        re.sub(r"([^\w\s])", r"[\1]", read_text(arguments[1], "a separator")).replace("[^]", "\\^")
    )
    if "[\\]" in pattern.name:
        raise Untranslatable("a backslash in a separator", "write regexp_split_to_table(text, pattern)")
    return fill_tree("filter(split(_p0, _p1, -1), _e -> _p0 <> '')", arguments[0], pattern)


CALLS: Mapping[str, Callable[[list[exp.Expr]], exp.Expr | None]] = {
    # ---- values ---------------------------------------------------------------------------------------------
    "num_nulls": _make_sum("if({} IS NULL, 1, 0)"),
    "num_nonnulls": _make_sum("if({} IS NULL, 0, 1)"),
    "isfinite": _make_call(1, "if(_p0 IS NULL, NULL, TRUE)"),
    # ---- texts and bytes ------------------------------------------------------------------------------------
    "quote_nullable": _make_call(
        1, r"coalesce(concat('\'', replace(CAST(_p0 AS STRING), '\'', '\'\''), '\''), 'NULL')"
    ),
    "quote_literal": _make_call(
        1,
        r"concat(if(contains(CAST(_p0 AS STRING), '\\'), 'E', ''), '\'', "
        r"replace(replace(CAST(_p0 AS STRING), '\'', '\'\''), '\\', '\\\\'), '\'')",
    ),
    "quote_ident": _make_call(1, QUOTED_NAME),
    "convert_from": _make_utf8_call("decode(_p0, 'UTF-8')"),
    "convert_to": _make_utf8_call("encode(_p0, 'UTF-8')"),
    "get_byte": _make_call(2, "CAST(conv(hex(substring(_p0, _p1 + 1, 1)), 16, 10) AS INT)"),
    # ---- spans and moments ----------------------------------------------------------------------------------
    "proctime": _make_call(0, "current_timestamp()"),
    # ---- arrays ---------------------------------------------------------------------------------------------
    "array_positions": _make_call(
        2, "filter(transform(_p0, (_e, _i) -> if(_e <=> _p1, _i + 1, NULL)), _e -> _e IS NOT NULL)"
    ),
    "array_replace": _make_call(3, "transform(_p0, _e -> if(_e <=> _p1, _p2, _e))"),
    "array_lower": _make_dimension_call("if(size(_p0) > 0, 1, NULL)"),
    "array_upper": _make_dimension_call("nullif(size(_p0), 0)"),
    "trim_array": _make_call(2, "slice(_p0, 1, greatest(size(_p0) - _p1, 0))"),
    "array_flatten": _make_call(1, "flatten(_p0)"),
    # ---- rows -----------------------------------------------------------------------------------------------
    "regexp_matches": extract_matches,
    "regexp_split_to_table": _make_call(2, "split(_p0, _p1, -1)"),
    "string_to_table": _split_to_table,
    "generate_subscripts": _make_dimension_call("transform(_p0, (_e, _i) -> _i + 1)"),
}
