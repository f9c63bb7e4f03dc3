"""Spark SQL text -> tokens, and the values of those that are literals."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.sql.expression.nodes import Literal

_TOKEN = re.compile(
    r"""\s+
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?P<suffix>BD|[LSYDF])?(?!\w))
    |(?P<raw>r'[^']*')
    |(?P<hex>x'[0-9A-F]*')
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<hole>:[^\W\d]\w*)
    |(?P<word>[^\W\d]\w*)
    |(?P<symbol><=>|<>|!=|<=|>=|==|>>>|>>|<<|->|\|\||::|[-+*/%&|^~!<>=(),.\[\]:])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[01][0-7]{2}|.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SUFFIXES = {"L": "bigint", "S": "smallint", "Y": "tinyint", "D": "double", "F": "float", "BD": "decimal"}


class Unreadable(ValueError):
    """A text that is no expression, or one of a form that has no tree; the message shows where."""


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"no expression of Spark SQL from {text[at : at + 40]!r} on")
        if match.lastgroup is not None:
            kind = "number" if match["number"] else match.lastgroup
            found.append(Token(kind, match[0], at, match.end()))
        at = match.end()
    return [*found, Token("", "", at, at)]


def parse_number(text: str) -> Literal:
    found = _TOKEN.match(text)
    suffix = (found["suffix"] or "") if found is not None else ""
    digits = text.removesuffix(suffix) if suffix else text
    return Literal(digits, _SUFFIXES[suffix.upper()] if suffix else "number")


def unescape(token: str) -> str:
    """Return the value of a text, by the rules of Spark's parser."""

    def unescape_character(found: re.Match[str]) -> str:
        code = found[1]
        if code is None:
            return "'" if token.startswith("'") else "''"
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(unescape_character, token[1:-1])


def normalize_type(text: str) -> str:
    """Return a type without the blanks after its marks."""
    return re.sub(r"([(,:<])\s+", r"\1", text)
