"""The line of a statement at which an error stands, without the passwords that may stand in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

HIDDEN = "***"
_QUOTED = r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)"
_ESCAPED = r"'(?:[^'\\]|\\.|'')*\\?(?:'|\Z)|\"(?:[^\"\\]|\\.|\"\")*\\?(?:\"|\Z)"
"""Texts in quotes, without and with escapes: dialects differ, and what may be a password by either is none to show."""
_LINE_PARTS = re.compile(rf"{_QUOTED}|[^'\"]+")
_COMMENTS = r"--[^\n]*|/\*.*?(?:\*/|\Z)"
_STATEMENT_PARTS = tuple(
    re.compile(rf"{_COMMENTS}|{quoted}|(?:(?!--|/\*)[^'\"])+", re.DOTALL) for quoted in (_QUOTED, _ESCAPED)
)
_WORD = re.compile(r"[\w.-]+")
_SECRET = re.compile(
    "passw|secret|jaas|(?:^|[._-])(?:token|api[_-]?key|access[_-]?key|credentials?)$", re.IGNORECASE
)
_GAP = r"\s*(?:(?:--[^\n]{0,200}\n|/\*.{0,200}?\*/)\s*){0,4}"
_EQUALS = re.compile(rf"[`\"']?{_GAP}(?:=[=>]?|:=|:(?!:)){_GAP}", re.DOTALL)
_BESIDE = re.compile(r"\s+(?='|\$\w*\$)")
_NAMED = re.compile(r"secret\s+['\"\w]", re.IGNORECASE)
_VALUES = tuple(
    re.compile(
        rf"\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)|(?:[A-Za-z]&?)?(?:{quoted})(?:\s+(?:{quoted}))*|[^\s,()'\"]+",
        re.DOTALL,
    )
    for quoted in (_QUOTED, _ESCAPED)
)
_NAME = re.compile(r"['\"]?[A-Za-z_][A-Za-z0-9_]*['\"]?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TOKEN = re.compile(r"[^\s,;()]+")
_PUNCTUATION = re.compile("[=:/]")
_PARAMETER = re.compile(r"[^\s&;'\"]+")
MOST_LETTERS = 400
"""Of a longer line what stands around the mark is shown."""


def show_place(sql: str, line: int, column: int) -> str:
    """Return the line of a statement with a mark below a column, both from 1; passwords in it are hidden."""
    lines = sql.splitlines(keepends=True)
    is_there = 0 < line <= len(lines)
    text = "".join(lines[line - 1].splitlines()) if is_there else ""
    shown, at, done = "", max(column - 1, 0), 0
    mark = at
    spans = _find_secrets(sql, sum(map(len, lines[: line - 1])), text) if is_there else []
    for begin, end in _join(sorted(spans)):
        shown += text[done:begin] + HIDDEN
        done = end
        if at >= end:
            mark += len(HIDDEN) - (end - begin)
        elif at > begin:
            mark -= at - begin
    shown += text[done:]
    if len(shown) > MOST_LETTERS:
        begin = max(0, min(mark - MOST_LETTERS // 2, len(shown) - MOST_LETTERS))
        before, after = "…" if begin else "", "…" if begin + MOST_LETTERS < len(shown) else ""
        shown = f"{before}{shown[begin : begin + MOST_LETTERS]}{after}"
        mark = min(mark - begin + len(before), len(shown))
    return f"{shown}\n    {' ' * mark}^"


def _find_secrets(sql: str, start: int, line: str) -> Iterator[tuple[int, int]]:
    """Yield where values begin and end, in a line that has a `start` in a statement, that may be passwords.

    They are values of options called so, and what stands before the @ of addresses. Such a value may begin lines before; by the
    line alone it is found where the quotes before it are none.
    """
    yield from _find_options(line)
    yield from _find_addresses(line, _LINE_PARTS)
    found = [_find_options(sql), *(_find_addresses(sql, parts) for parts in _STATEMENT_PARTS)]
    for begin, end in itertools.chain.from_iterable(found):
        begin, end = max(begin - start, 0), min(end - start, len(line))
        if begin < end:
            yield begin, end


def _find_options(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of options begin and end whose names tell of a password."""
    at = 0
    while (word := _WORD.search(text, at)) is not None:
        at = word.end()
        if (kind := _SECRET.search(word[0])) is None:
            continue
        gap = _EQUALS.match(text, at)
        if gap is None and kind[0].lower() != "secret":
            gap = _BESIDE.match(text, at)
        if gap is None or _NAMED.match(text, gap.end()):
            continue
        begin = gap.end()
        end = max(
            (found.end() for pattern in _VALUES if (found := pattern.match(text, begin))), default=begin
        )
        value, at = text[begin:end], max(at, end)
        if not value or (word[0].lower().endswith("_variable") and _NAME.fullmatch(value)):
            continue
        quotes = 1 if value[0] in "'\"" else 0
        closed = quotes and len(value) > 1 and value[-1] == value[0]
        yield begin + quotes, end - (1 if closed else 0)


def _find_addresses(text: str, parts: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield where users and passwords stand before the @ of addresses, in parts of a text that are in quotes or not."""
    for part in parts.finditer(text):
        if part[0][:1] not in ("'", '"'):
            for token in _TOKEN.finditer(text, part.start(), part.end()):
                yield from _find_before_at(token[0], token.start())
            continue
        inner = part[0][1:]
        scheme = _SCHEME.match(inner)
        begin, end = scheme.end() if scheme else 0, inner.rfind("@")
        if ":" in inner[begin : max(end, begin)]:
            yield part.start() + 1 + begin, part.start() + 1 + end
        for begin, end in _find_options(inner):  # of an address: commas do not end it
            rest = _PARAMETER.match(inner, end)
            yield part.start() + 1 + begin, part.start() + 1 + (end if rest is None else rest.end())


def _find_before_at(token: str, offset: int) -> Iterator[tuple[int, int]]:
    """Yield where a user and a password stand before the last @ of a token that is in no quotes."""
    end, begin = token.rfind("@"), 0
    while begin < end:
        scheme = _SCHEME.match(token, begin)
        if scheme and ":" in token[scheme.end() : end]:
            yield offset + scheme.end(), offset + end
            return
        found = _PUNCTUATION.search(token, begin, end)
        if found is None:
            return
        if found[0] == ":":
            yield offset + begin, offset + end
            return
        begin = found.end()


def _join(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans in order, those that overlap as one."""
    begin = end = -1
    for first, last in spans:
        if first > end:
            if end > begin:
                yield begin, end
            begin, end = first, last
        end = max(end, last)
    if end > begin:
        yield begin, end
