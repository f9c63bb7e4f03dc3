"""Where the records of a CSV text begin and end, and which lines are none: RFC 4180, and what is done where a text breaks it.

A quoted field begins with a quote at the start of a field, may hold delimiters, line breaks and doubled quotes, and ends with a
quote that a delimiter or the line's end follows. A record with line breaks must have the header's number of fields. Where a
quote opens and that does not hold, the line on which it opens is the bad one, and reading goes on at the next line; of the
lines in between, up to the one that showed it, each is read for itself. So every byte is looked at a bounded number of times.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from engine.connectors.formats.read_limits import LONGEST_QUOTED_LINES

QUOTE, NEWLINE = ord('"'), ord("\n")
WRONG_QUOTE = "a quote is not closed, or is in the middle of a field"


@dataclass(frozen=True)
class CsvRecords:
    """The records of a text: where each begins and ends, its line in the text (from 0), its fields (-1: its quotes are wrong).

    `used` is the length of the text that they take up; what follows is no whole record yet.
    """

    starts: np.ndarray
    ends: np.ndarray
    lines: np.ndarray
    fields: np.ndarray
    used: int

    def __len__(self) -> int:
        return len(self.starts)

    def skip_first(self, first: int) -> CsvRecords:
        """Return the records but for the first ones."""
        return CsvRecords(
            self.starts[first:], self.ends[first:], self.lines[first:], self.fields[first:], self.used
        )


def find_records(data: bytes, width: int, delimiter: bytes, longest: int, final: bool) -> CsvRecords:
    """Find the records of a text whose lines end with a newline; with `final` nothing follows the text.

    `width` 0 takes any number of fields. A record over several lines has at most `longest` bytes.
    """
    found = _find_well_formed(data, width, delimiter[0], longest, final)
    return (
        found if found is not None else _RecordWalk(data, width, delimiter, longest, final).collect_records()
    )


def _find_well_formed(
    data: bytes, width: int, delimiter: int, longest: int, final: bool
) -> CsvRecords | None:
    """Find the records of a text without a wrong quote, vectorised; None if the text has to be walked through."""
    codes = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(codes == NEWLINE)
    quotes = np.flatnonzero(codes == QUOTE)
    delimiters = np.flatnonzero(codes == delimiter)
    ends = newlines
    if len(quotes):
        outside = np.searchsorted(quotes, newlines) % 2 == 0
        ends = newlines[outside]
        used = int(ends[-1]) + 1 if len(ends) else 0
        if used < len(data) and (final or _is_too_long(data, used, longest)):
            return None
        quotes = quotes[quotes < used]
        if _has_wrong_quotes(codes, quotes, delimiter):
            return None
        delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    fields = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
    lines = np.searchsorted(newlines, starts)
    used = int(ends[-1]) + 1 if len(ends) else 0
    found = CsvRecords(starts, ends, lines, fields, used)
    if len(ends) < len(newlines) and (
        _has_wrong_record(codes, found, width, longest)
        or _may_have_lone_quotes(codes, quotes, delimiter, found)
    ):
        return None
    some = ends > starts
    return CsvRecords(starts[some], ends[some], lines[some], fields[some], used)


def _is_too_long(data: bytes, start: int, longest: int) -> bool:
    """Tell whether a record that begins here and has not ended is too long already."""
    return len(data) - start > longest or data.count(b"\n", start) >= LONGEST_QUOTED_LINES


def _has_wrong_quotes(codes: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Every other quote opens and must stand at the start of a field, or double the one before it; the others close."""
    opening, closing = quotes[0::2], quotes[1::2]
    before = np.where(opening > 0, codes[opening - 1], NEWLINE)
    after = codes[closing + 1]
    opens = (before == delimiter) | (before == NEWLINE) | (before == QUOTE)
    closes = (after == delimiter) | (after == NEWLINE) | (after == QUOTE)
    return not (opens.all() and closes.all())


def _count_line_breaks(codes: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return how many line breaks stand inside of each record."""
    newlines = np.flatnonzero(codes[: int(ends[-1]) + 1] == NEWLINE) if len(ends) else ends
    return np.bincount(np.searchsorted(ends, newlines), minlength=len(ends)) - 1


def _has_wrong_record(codes: np.ndarray, records: CsvRecords, width: int, longest: int) -> bool:
    """Tell whether a record over several lines has a wrong width or is too long."""
    breaks = _count_line_breaks(codes, records.ends)
    several = breaks > 0
    if width and (records.fields[several] != width).any():
        return True
    lengths = (records.ends - records.starts)[several]
    return bool((breaks[several] >= LONGEST_QUOTED_LINES).any() or (lengths > longest).any())


def _may_have_lone_quotes(codes: np.ndarray, quotes: np.ndarray, delimiter: int, records: CsvRecords) -> bool:
    """Tell whether a quote that closes a field over several lines may be the whole field of its line."""
    several = _count_line_breaks(codes, records.ends) > 0
    closing = quotes[1::2]
    closing = closing[codes[closing + 1] != QUOTE]
    suspects = closing[(closing > 0) & (codes[closing - 1] == delimiter)]
    return bool(several[np.searchsorted(records.ends, suspects)].any())


class _RecordWalk:
    """One pass through a text with wrong quotes."""

    def __init__(self, data: bytes, width: int, delimiter: bytes, longest: int, final: bool) -> None:
        self._data, self._width, self._delimiter = data, width, delimiter
        self._longest, self._final = longest, final
        self._whole = data.rfind(b"\n") + 1
        codes = np.frombuffer(data, np.uint8)[: self._whole]
        breaks = np.flatnonzero(codes == NEWLINE)
        self._starts = np.concatenate(
            [[0], breaks + 1]
        ).tolist()  # the last one is the end of the whole lines
        self._count = len(breaks)
        self._lone: set[int] = set()  # lines of which a field is a quote alone

    def collect_records(self) -> CsvRecords:
        """Return the records; a record that may go on behind the text is left."""
        found: list[tuple[int, int, int, int]] = []
        line = alone_until = 0
        while line < self._count:
            start, end = self._starts[line], self._starts[line + 1] - 1
            if start == end:
                line += 1
                continue
            if line in self._lone:
                found.append((start, end, line, -1))
                line += 1
                continue
            if self._data.find(b'"', start, end) < 0:
                found.append((start, end, line, self._data.count(self._delimiter, start, end) + 1))
                line += 1
                continue
            last, fields = self._read_record(line, line + 1 if line < alone_until else self._count)
            if last is None:
                break
            if fields < 0:
                alone_until = max(alone_until, last)
                last = line
            found.append((start, self._starts[last + 1] - 1, line, fields))
            line = last + 1
        columns = np.array(found, dtype=np.int64).reshape(-1, 4)
        return CsvRecords(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], self._starts[line])

    def _read_record(self, line: int, lines_end: int) -> tuple[int | None, int]:
        """Read the record that begins with a line: (its last line, its fields), or (the line that shows it is none, -1).

        (None, -1) if the text ends before that is known.
        """
        data, at, fields, current = self._data, self._starts[line], 0, line
        bound = min(line + LONGEST_QUOTED_LINES, lines_end)
        limit = max(min(self._starts[bound], at + self._longest), self._starts[line + 1])
        while True:
            fields += 1
            if data[at : at + 1] != b'"':
                at = data.find(self._delimiter, at, self._starts[current + 1] - 1) + 1
                if at == 0:
                    break
                continue
            close = self._find_closing_quote(at, limit)
            if close < 0:
                unknown = lines_end == self._count and self._can_continue(line)
                return (None, -1) if unknown else (self._find_line(limit - 1) + 1, -1)
            opened, current = current, self._find_line(close)
            after = data[close + 1 : close + 2]
            if current > opened == line and self._are_lone_quotes(at, close, current, fields - 1):
                self._lone.add(current)
                return current, -1
            if after == b"\n":
                break
            if after != self._delimiter:
                return current, -1
            at = close + 2
        wrong = current > line and self._width and fields != self._width
        return current, -1 if wrong else fields

    def _can_continue(self, line: int) -> bool:
        """Tell whether a record that begins with a line may end behind the text."""
        short = self._count < line + LONGEST_QUOTED_LINES and self._whole < self._starts[line] + self._longest
        return short and not self._final

    def _find_closing_quote(self, opening: int, limit: int) -> int:
        """Return where the quote is that closes a field, or -1."""
        at = opening + 1
        while True:
            at = self._data.find(b'"', at, limit)
            if at < 0 or self._data[at + 1] != QUOTE:
                return at
            at += 2

    def _are_lone_quotes(self, opening: int, close: int, line: int, before: int) -> bool:
        """Tell whether the quotes around a field over lines are each the whole field at one place of their lines.

        Then they are values, such as inches, that nobody has quoted: `1,"` and `2,"` are two bad rows, not one.
        """
        data = self._data
        if not before or data[opening + 1] not in (self._delimiter[0], NEWLINE):
            return False
        if data[close - 1 : close] != self._delimiter:
            return False
        if data.count(self._delimiter, self._starts[line], close) != before:
            return False
        _, fields = self._read_record(line, line + 1)  # a line that is a row by itself too proves nothing
        return fields < 0 or bool(self._width and fields != self._width)

    def _find_line(self, at: int) -> int:
        return bisect.bisect_right(self._starts, at) - 1
