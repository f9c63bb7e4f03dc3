"""BYTEA as Postgres reads and shows it: its hex format and its escape format.

Source: PostgreSQL's manual, "Binary Data Types".
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.parsing.location import copy_location
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import parse_tree

TypeOf = Callable[[exp.Expr], str | None]
_KIND = exp.DataType.Type
_BINARY = (_KIND.BINARY, _KIND.VARBINARY)
_TEXTS = (_KIND.TEXT, _KIND.VARCHAR, _KIND.CHAR, _KIND.NCHAR, _KIND.NVARCHAR)
_BINARY_OPERATORS = (
    exp.DPipe,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_HEX = "\\x"
_PAIRS = re.compile(r"(?:[ \n\t\r]*[0-9A-Fa-f]{2})*[ \n\t\r]*")
_ESCAPE = r"\\\\|\\[0-3][0-7][0-7]"
_ESCAPED = re.compile(rf"({_ESCAPE})|[^\\]+")

_OF_TEXT = parse_tree(
    r"""CASE
    WHEN startswith(_text, '\\x') THEN to_binary(IF(
        length(regexp_replace(_text, '[ \\n\\t\\r]', '')) % 2 = 0,
        regexp_replace(substring(_text, 3), '[ \\n\\t\\r]', ''), _text), 'hex')
    WHEN NOT contains(_text, '\\') THEN CAST(_text AS BINARY)
    ELSE to_binary(IF(
        contains(regexp_replace(_text, '\\\\\\\\|\\\\[0-3][0-7][0-7]', ''), '\\'),
        _text,
        array_join(transform(
            regexp_extract_all(_text, '\\\\\\\\|\\\\[0-3][0-7][0-7]|[^\\\\]+', 0),
            _part -> CASE
                WHEN _part = '\\\\' THEN '5C'
                WHEN startswith(_part, '\\') THEN lpad(conv(substring(_part, 2), 8, 16), 2, '0')
                ELSE hex(_part) END), '')), 'hex') END""",
    "spark",
)
"""What a text means, which fails where it means nothing: the text itself, with its backslash, is no hex digits."""


def parse_bytea(text: str) -> bytes | None:
    """Return the bytes that a text means: hex digits after \\x, else characters, \\\\ and \\ooo; None if it is neither."""
    if text.startswith(_HEX):
        return bytes.fromhex(text[2:]) if _PAIRS.fullmatch(text, 2) else None
    parts, end = [], 0
    for found in _ESCAPED.finditer(text):
        if found.start() != end:
            return None
        end = found.end()
        parts.append(_decode_escape(found))
    return b"".join(parts) if end == len(text) else None


def _decode_escape(found: re.Match[str]) -> bytes:
    escape = found[1]
    if escape is None:
        return found[0].encode()
    return b"\\" if escape == "\\\\" else bytes((int(escape[1:], 8),))


def find_quoted_text(node: exp.Expr) -> str | None:
    """Return the text that a literal in quotes means, E'…' too, else None."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.ByteString) or (isinstance(inner, exp.Literal) and inner.is_string):
        return str(inner.name)
    return None


def explain_invalid_bytea(text: str) -> tuple[str, str]:
    """Return what is wrong with a text that means no bytes, and the remedy."""
    if text.startswith(_HEX):
        return f"'{text}' is no bytea", "write pairs of hex digits after \\x"
    return f"'{text}' is no bytea", "write a backslash as \\\\, a byte as \\ and three octal digits"


def convert_bytea_rows(
    rows: exp.Values | exp.Query, kinds: tuple[str, ...], sql: str
) -> exp.Values | exp.Query:
    """Return the rows of an INSERT in which texts in quotes are bytes where the columns, of `kinds` in their order, are.

    Raises SqlError, with the place, for a text that means no bytes.
    """
    if "binary" not in kinds:
        return rows
    found = rows.copy()
    if isinstance(found, exp.Values):
        for row in found.expressions:
            row.set("expressions", _convert_items(row.expressions, kinds, sql))
    elif isinstance(found, exp.Select):
        found.set("expressions", _convert_items(found.expressions, kinds, sql))
    return found


def _convert_items(items: list[exp.Expr], kinds: tuple[str, ...], sql: str) -> list[exp.Expr]:
    return [
        convert_for_column(item, kind, sql)
        for item, kind in zip(items, (*kinds, *[""] * len(items)), strict=False)
    ]


def convert_for_column(node: exp.Expr, kind: str, sql: str) -> exp.Expr:
    """Return what is given for a column of type `kind`: a text in quotes as bytes if the column holds bytes.

    Raises SqlError, with the place, for a text that means none.
    """
    cast = isinstance(node, exp.Cast) and node.to.this in _BINARY
    text = find_quoted_text(node.this if cast else node) if kind == "binary" else None
    if text is None:
        return node
    found = parse_bytea(text)
    if found is None:
        message, hint = explain_invalid_bytea(text)
        raise sql_error(message, node, sql, hint)
    return copy_location(exp.HexString(this=found.hex().upper()), node)


def convert_to_bytea(node: exp.Expr) -> exp.Expr:
    """Return a text in quotes as the bytes that it means, and anything else as it is; raises NotSaid if it means none."""
    text = find_quoted_text(node)
    if text is None:
        return node
    found = parse_bytea(text)
    if found is None:
        raise Untranslatable(*explain_invalid_bytea(text))
    return exp.HexString(this=found.hex().upper())


def translate_bytea(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a cast from or to BYTEA, or a comparison with one, as Spark says it; None for anything else."""
    if isinstance(node, exp.Cast):
        if node.to.this in _BINARY:
            return _parse_cast(node, type_of)
        return _format_cast(node, type_of)
    if isinstance(node, _BINARY_OPERATORS):
        _convert_operands(node, ("this", "expression"), type_of)
    if isinstance(node, exp.Between):
        _convert_operands(node, ("this", "low", "high"), type_of)
    if isinstance(node, exp.In) and node.expressions and type_of(node.this) == "binary":
        node.set("expressions", [convert_to_bytea(part) for part in node.expressions])
    return None


def _convert_operands(node: exp.Expr, sides: tuple[str, ...], type_of: TypeOf) -> None:
    """A text in quotes beside bytes is bytes itself. `b = '\\x01'` -> `b = X'01'`"""
    if any(type_of(node.args[side]) == "binary" for side in sides):
        for side in sides:
            node.set(side, convert_to_bytea(node.args[side]))


def _format_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr | None:
    """Bytes are shown in the hex format. `CAST(b AS TEXT)` -> `CAST('\\x' || LOWER(HEX(b)) AS TEXT)`"""
    if node.to.this not in _TEXTS or type_of(node.this) != "binary":
        return None
    text = exp.DPipe(this=exp.Literal.string(_HEX), expression=exp.Lower(this=exp.Hex(this=node.this.copy())))
    node.set("this", exp.Paren(this=text))
    return None  # the cast itself is another rule's


def _parse_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr | None:
    """`CAST('\\xAA' AS BYTEA)` -> `X'AA'`; the texts of a column are read row by row."""
    if find_quoted_text(node.this) is not None:
        return convert_to_bytea(node.this)
    if type_of(node.this) != "string":
        return None
    text = node.this
    read: exp.Expr = _OF_TEXT.transform(
        lambda part: text.copy() if isinstance(part, exp.Column) and part.name == "_text" else part
    )
    return read
