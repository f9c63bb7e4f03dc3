"""The line of a statement at which an error stands, without the passwords that may stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

HIDDEN = "***"
_QUOTED = r"'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)"
_PARTS = re.compile(rf"{_QUOTED}|[^'\"]+")
_WORD = re.compile(r"[\w.-]+")
_SECRET = re.compile("passw|secret|jaas", re.IGNORECASE)
_VALUE = re.compile(rf"[`\"']?\s*=\s*(?!secret\s+['\"\w])(?P<value>{_QUOTED}|[^\s,()'\"]+)", re.IGNORECASE)
_NAME = re.compile(r"['\"]?[A-Za-z_][A-Za-z0-9_]*['\"]?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TOKEN = re.compile(r"[^\s,;()]+")
_PUNCTUATION = re.compile("[=:/]")
MOST_LETTERS = 400
"""Of a longer line what stands around the mark is shown."""


def show_place(sql: str, line: int, column: int) -> str:
    """Return the line of a statement with a mark below a column, both from 1; passwords in it are hidden."""
    lines = sql.splitlines()
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    shown, at, done = "", max(column - 1, 0), 0
    mark = at
    for begin, end in _join(sorted(_find_secrets(text))):
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


def _find_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where values begin and end that may be passwords: of options called so, and before the @ of addresses."""
    for word in _WORD.finditer(text):
        option = _VALUE.match(text, word.end()) if _SECRET.search(word[0]) else None
        if option is None or (word[0].lower().endswith("_variable") and _NAME.fullmatch(option["value"])):
            continue
        quotes = 1 if option["value"][:1] in "'\"" else 0
        closed = quotes and len(option["value"]) > 1 and option["value"][-1:] == option["value"][:1]
        yield option.start("value") + quotes, option.end("value") - (1 if closed else 0)
    for part in _PARTS.finditer(text):
        if part[0][:1] not in ("'", '"'):
            for token in _TOKEN.finditer(text, part.start(), part.end()):
                yield from _find_before_at(token[0], token.start())
            continue
        inner = part[0][1:]
        scheme = _SCHEME.match(inner)
        begin, end = scheme.end() if scheme else 0, inner.rfind("@")
        if ":" in inner[begin : max(end, begin)]:
            yield part.start() + 1 + begin, part.start() + 1 + end


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
