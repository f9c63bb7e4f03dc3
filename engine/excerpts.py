"""The line of a statement at which an error stands, without the passwords that may stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

HIDDEN = "***"
_QUOTED = r"'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)"
_PARTS = re.compile(rf"{_QUOTED}|[^'\"]+")
_OPTION = re.compile(
    rf"(?P<name>[\w.-]*(?:passw|secret|jaas)[\w.-]*)[`\"']?\s*=\s*(?!secret\s+['\"\w])"
    rf"(?P<value>{_QUOTED}|[^\s,()'\"]+)",
    re.IGNORECASE,
)
_NAME = re.compile(r"['\"]?[A-Za-z_][A-Za-z0-9_]*['\"]?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BARE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^\s,;()=:/]*:[^\s,;()]*)@")


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
    return f"{shown}{text[done:]}\n    {' ' * mark}^"


def _find_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where values begin and end that may be passwords: of options called so, and before the @ of addresses."""
    for option in _OPTION.finditer(text):
        is_name = option["name"].lower().endswith("_variable") and _NAME.fullmatch(option["value"])
        if not is_name:
            quotes = 1 if option["value"][:1] in "'\"" else 0
            closed = quotes and len(option["value"]) > 1 and option["value"][-1:] == option["value"][:1]
            yield option.start("value") + quotes, option.end("value") - (1 if closed else 0)
    for part in _PARTS.finditer(text):
        if part[0][:1] not in ("'", '"'):
            yield from (found.span(1) for found in _BARE.finditer(text, part.start(), part.end()))
            continue
        inner = part[0][1:]
        scheme = _SCHEME.match(inner)
        begin, end = scheme.end() if scheme else 0, inner.rfind("@")
        if ":" in inner[begin : max(end, begin)]:
            yield part.start() + 1 + begin, part.start() + 1 + end


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
