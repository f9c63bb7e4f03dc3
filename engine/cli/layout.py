"""Columns of text laid out in a width: no value is ever broken; what does not fit is left out by rank, and reported."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = "  "
INDENT = "    "
LEAST_NOTE = 30
WIDE_ONLY = 9
"""The rank of columns that only --wide shows: numbers for pasting."""


@dataclass(frozen=True)
class TextColumn:
    """One column: of those that do not fit together the one of the highest rank is left out first, rank 0 never."""

    name: str
    values: Sequence[str]
    right: bool = False
    rank: int = 0

    @property
    def width(self) -> int:
        """The cells that its longest value needs."""
        return max(cell_len(text) for text in (self.name, *self.values))


def render_columns(
    columns: Sequence[TextColumn], width: int | None, notes: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines of a table that is `width` cells wide at most, None for any width.

    Each row is followed by its note, wrapped between words. Where not even the columns of rank 0 and 1 fit beside each other the
    first stands on a line of its own.
    """
    fitted = _fit_columns(columns, width)
    head = fitted[0]
    alone = width is not None and _compute_width(fitted) > width and len(fitted) > 1
    if alone:
        fitted = _fit_columns((TextColumn("", [""] * len(head.values)), *columns[1:]), width)
    yield head.name if alone else _format_line(fitted, [column.name for column in fitted])
    yield GAP.join("─" * column.width for column in fitted if column.width) if not alone else "─" * head.width
    for at in range(len(head.values)):
        if alone:
            yield head.values[at]
        yield _format_line(fitted, [column.values[at] for column in fitted])
        if notes and notes[at]:
            room = max(LEAST_NOTE, width) if width is not None else 10**6
            for line in notes[at].splitlines():
                yield from _wrap_line(line, room)
    left_out = [column.name for column in columns[1:] if column.name not in {one.name for one in fitted}]
    if left_out:
        yield ""
        yield from textwrap.wrap(f"--wide shows {', '.join(left_out)} too", width or 10**6)


def _wrap_line(line: str, room: int) -> list[str]:
    """Return a line of a note between words, all of it indented as it was."""
    indent = INDENT + line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        room,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_duration(seconds: float) -> str:
    """Return a span of time in its largest unit, e.g. `3 s`, `12 min`, `5 h`, `4 d`."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    for unit, seconds_each, upto in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < upto:
            return f"{seconds / seconds_each:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def format_ago(seconds: float) -> str:
    """Return how long ago something was."""
    return f"{format_duration(max(seconds, 0.0))} ago"


def format_size(count: float) -> str:
    """Return bytes in their largest unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _fit_columns(columns: Sequence[TextColumn], width: int | None) -> list[TextColumn]:
    fitted = list(columns)
    while width is not None and _compute_width(fitted) > width:
        worst = max(fitted, key=lambda column: (column.rank, fitted.index(column)))
        if worst.rank == 0:
            break
        fitted.remove(worst)
    return fitted


def _compute_width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _format_line(columns: Sequence[TextColumn], texts: Sequence[str]) -> str:
    parts = []
    for column, text in zip(columns, texts, strict=True):
        space = " " * (column.width - cell_len(text))
        parts.append(space + text if column.right else text + space)
    return GAP.join(parts).rstrip()
