"""JSON files in batches; numbers stay the text that they were written as.

Objects stand one a line, in one array, or behind each other with any space between them, a record separator too (RFC 7464).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from engine.connectors.formats.debezium import CHANGE, SEQUENCE, DebeziumChange, parse_change
from engine.connectors.formats.file_format import (
    OTHER_ENCODING,
    BadLine,
    FileOptions,
    FileRows,
    MalformedFile,
    format_raw,
)
from engine.connectors.formats.read_limits import SETTING, ReadLimits, format_bytes
from engine.connectors.formats.text_blocks import TextBlocks
from engine.sql.column_names import ColumnMatch, match_columns
from engine.sql.typing.json_values import DECODER, format_json, names_of, object_of

ITEMS_AT_ONCE = 10_000
_SHOWN_NAMES = 20
_MOST_NAMES = _MOST_SHAPES = 1000
_SPACE = " \t\n\r"
_SEPARATOR = "\x1e"
_NO_COLUMN = {CHANGE, SEQUENCE}
_NO_OBJECT = "not a JSON object"
_HALF_PAIR = "not JSON: it holds half of a surrogate pair"
_TOO_DEEP = "lists or objects are nested too deeply"


# Numbers stay texts; where lists and objects are written out again, they are distinguished from texts.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, object_pairs_hook=object_of)


@dataclass(frozen=True)
class _JsonItem:
    """One line, or one element of an array: its place, its text, and its object or what is wrong with it."""

    line: int
    raw: bytes | str
    value: dict[str, Any] | str


def read_json(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0) -> Iterator[FileRows]:
    """Yield the rows of a JSON file from record `skip` on; raises MalformedFile for an array that is not whole."""
    items = _choose_item_reader(file, options, limits)
    if items is None:
        yield from _read_lines(file, options, limits, skip)
        return
    for _ in items(file, limits):
        pass  # what is no lines is one document: nothing of it is taken unless it ends as it should
    file.seek(0)
    left = islice(items(file, limits), skip, None)
    while batch := _take_batch(left, limits.block):
        yield _build_batch(batch, options)


def read_objects(
    texts: Sequence[bytes], places: Sequence[int], options: FileOptions, limits: ReadLimits
) -> FileRows:
    """Return the rows of texts that hold an object each; `places` are what is told as their lines."""
    items = (_parse_line(at, raw, options, limits) for at, raw in zip(places, texts, strict=True))
    return _build_batch(items, options)


def _choose_item_reader(
    file: BinaryIO, options: FileOptions, limits: ReadLimits
) -> Callable[[BinaryIO, ReadLimits], Iterator[_JsonItem]] | None:
    """Return what reads the values of a file, None if they stand one a line."""
    if options.json == "lines":
        return None
    text, start = TextBlocks(file, limits.block), b""
    while b"\n" not in start and len(start) <= limits.row and (block := text.read_block()):
        start = (start + block).lstrip()
    file.seek(0)
    if start.startswith(b"["):
        return _read_array_items
    if options.json == "values" or start.startswith(_SEPARATOR.encode()):
        return _read_value_items
    return (
        _read_value_items
        if start.startswith(b"{") and _is_multiline(start) and _is_value_sequence(file, limits)
        else None
    )


def _is_multiline(text: bytes) -> bool:
    """Tell whether the first line of a text is not one object."""
    line = text.partition(b"\n")[0]
    try:
        _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return True
    return False


def _is_value_sequence(file: BinaryIO, limits: ReadLimits) -> bool:
    """Tell whether a file can be read as values behind each other, to its end; else its lines are reported one by one."""
    try:
        for _ in _read_value_items(file, limits):
            pass
    except (MalformedFile, OSError):  # what is damaged later on is reported where its lines are read
        return False
    finally:
        file.seek(0)
    return True


def _take_batch(items: Iterator[_JsonItem], size: int) -> list[_JsonItem]:
    batch: list[_JsonItem] = []
    length = 0
    for item in islice(items, ITEMS_AT_ONCE):
        batch.append(item)
        length += len(item.raw)
        if length >= size:
            break
    return batch


def _read_lines(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int) -> Iterator[FileRows]:
    text = TextBlocks(file, limits.block, limits.row)
    data, line = b"", 1
    while block := text.read_block():
        data += block
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].split(b"\n")[:-1]
        numbered = [(line + at, raw) for at, raw in enumerate(lines) if raw.strip()]
        passed, skip = min(skip, len(numbered)), max(skip - len(numbered), 0)
        if len(numbered) > passed:
            yield _build_batch(
                (_parse_line(at, raw, options, limits) for at, raw in numbered[passed:]), options
            )
        line += len(lines)
        data = data[whole:]


def _parse_line(line: int, raw: bytes, options: FileOptions, limits: ReadLimits) -> _JsonItem:
    if len(raw) > limits.row:
        return _JsonItem(
            line, raw, f"the line is longer than {format_bytes(limits.row)}, a share of {SETTING}"
        )
    try:
        return _JsonItem(line, raw, _expect_object(_DECODER.decode(raw.decode())))
    except UnicodeDecodeError as error:
        if options.encoding is not None:
            return _JsonItem(line, raw, f"the line is not {options.encoding}")
        byte = raw[error.start]
        return _JsonItem(line, raw, f"the line is not UTF-8: it holds the byte {byte:#04x}; {OTHER_ENCODING}")
    except RecursionError:
        return _JsonItem(line, raw, _TOO_DEEP)
    except ValueError as error:
        return _JsonItem(line, raw, f"not JSON: {error}")


def _expect_object(value: object) -> dict[str, Any] | str:
    return value if isinstance(value, dict) else _NO_OBJECT


def _read_array_items(file: BinaryIO, limits: ReadLimits) -> Iterator[_JsonItem]:
    """Yield the elements of an array, numbered from 1; holds no more than the longest of them."""
    window = _JsonCursor(file, limits)
    window.expect("[")
    if window.is_next("]"):
        window.expect("]")
    else:
        number = 0
        while True:
            number += 1
            value, raw = window.read_value()
            yield _JsonItem(number, raw, _expect_object(value))
            if not window.is_next(","):
                break
            window.expect(",")
        window.expect("]")
    window.expect("")


def _read_value_items(file: BinaryIO, limits: ReadLimits) -> Iterator[_JsonItem]:
    """Yield values that stand behind each other, each with the line on which it begins."""
    window = _JsonCursor(file, limits, _SPACE + _SEPARATOR, "JSON")
    while not window.is_next(""):
        line = window.find_line()
        value, raw = window.read_value()
        yield _JsonItem(line, raw, _expect_object(value))


class _JsonCursor:
    """The text of an array, or of values behind each other, from the place that is read on."""

    def __init__(
        self, file: BinaryIO, limits: ReadLimits, spaces: str = _SPACE, called: str = "a JSON array"
    ) -> None:
        self._spaces, self._called = spaces, called
        self._blocks, self._limits = TextBlocks(file, limits.block), limits
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._line = "", 0, 1
        self._ended = False

    def read_value(self) -> tuple[object, str]:
        """Read one value; returns it with its text."""
        self._skip_spaces()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise MalformedFile(f"{_TOO_DEEP} (line {self._count_line()})") from None
            except ValueError as error:
                if not self._extend_value():
                    raise MalformedFile(f"not {self._called}: {error} (line {self._count_line()})") from None
                continue
            if end < len(self._text) or not self._extend_value():
                raw, self._at = self._text[self._at : end], end
                return value, raw

    def find_line(self) -> int:
        """Return the line of the next character that is no space."""
        self._skip_spaces()
        return self._count_line()

    def is_next(self, sign: str) -> bool:
        """Tell whether the next character that is no space is this one; "" is the end."""
        self._skip_spaces()
        return self._text[self._at : self._at + 1] == sign

    def expect(self, sign: str) -> None:
        """Go behind this character, or to the end of the text; raises MalformedFile if something else stands there."""
        self._skip_spaces()
        found = self._text[self._at : self._at + 1]
        if found != sign:
            expected = f'"{sign}"' if sign else "the end"
            actual = f'"{found}"' if found else "the end"
            raise MalformedFile(
                f"not {self._called}: {expected} is expected, {actual} found (line {self._count_line()})"
            )
        self._at += len(sign)

    def _skip_spaces(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in self._spaces:
                self._at += 1
            if self._at < len(self._text) or not self._read_more():
                return

    def _extend_value(self) -> bool:
        """Read on within a value, at least as much as there is of it, so that reading it again costs no more than twice."""
        available = len(self._text) - self._at
        if available > self._limits.row:
            raise MalformedFile(
                f"a value of the file is longer than {format_bytes(self._limits.row)}, a share of {SETTING}"
            )
        grown = False
        while len(self._text) - self._at < max(2 * available, 1) and self._read_more():
            grown = True
        return grown

    def _read_more(self) -> bool:
        if self._ended:
            return False
        block = self._blocks.read_block()
        self._ended = not block
        try:
            text = self._decode.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n") + block.count(b"\n", 0, error.start)
            message = f"the file is not UTF-8: line {line} holds no UTF-8; {OTHER_ENCODING}"
            raise MalformedFile(message) from None
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + text, 0
        return not self._ended

    def _count_line(self) -> int:
        return self._line + self._text.count("\n", 0, self._at)


def _build_batch(items: Iterable[_JsonItem], options: FileOptions) -> FileRows:
    rows: list[dict[str, Any]] = []
    places: list[_JsonItem] = []
    bad: list[BadLine] = []
    names, keys, passed = dict[str, None](), _KeyMatcher(options), 0
    for item in items:
        row = _read_row(item, keys, names)
        if row is None:
            passed += 1
        elif isinstance(row, str):
            bad.append(BadLine(item.line, row, format_raw(item.raw)))
        else:
            rows.append(row)
            places.append(item)
    columns, absent = {}, {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        columns[name] = pa.array([_format_value(row.get(name)) for row in rows], pa.string())
        absent[name] = np.array([at for at, row in enumerate(rows) if name not in row], dtype=np.int64)

    def locate_row(row: int) -> tuple[int, str]:
        return places[row].line, format_raw(places[row].raw)

    foreign = [at for at, row in enumerate(rows) if row.keys() <= _NO_COLUMN and places[at].value]
    known = (*columns, *islice((name for name in names if name not in columns), _SHOWN_NAMES))
    return FileRows(
        columns,
        len(rows),
        locate_row,
        tuple(bad),
        known,
        len(rows) + len(bad) + passed,
        absent,
        lines=np.array([item.line for item in places], dtype=np.int64),
        by_row=True,
        foreign=np.array(foreign, dtype=np.int64),
    )


class _KeyMatcher:
    """Which name in an object is which column: each object has names of its own, most have the same.

    In an `envelope` a json or jsonb column is a text, as in CSV.
    """

    def __init__(self, options: FileOptions) -> None:
        self._columns, self.envelope, self.order = options.columns, options.envelope, options.order
        self.documents = options.documents if options.envelope is None else frozenset[str]()
        self._known: dict[tuple[str, ...], ColumnMatch] = {}

    def match(self, names: tuple[str, ...]) -> ColumnMatch:
        """Return where the columns that are asked for stand among an object's names."""
        found = self._known.get(names)
        if found is None:
            columns = dict.fromkeys(names) if self._columns is None else self._columns
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            found = self._known[names] = match_columns(columns, names)
        return found


def _read_row(item: _JsonItem, keys: _KeyMatcher, unknown: dict[str, None]) -> dict[str, Any] | str | None:
    """Return the columns of an item, or why it has none; None if it says nothing."""
    if keys.envelope is None:
        return (
            item.value if isinstance(item.value, str) else _read_columns(item.value, item.raw, keys, unknown)
        )
    if item.value == _NO_OBJECT and _decode_text(_DECODER, item.raw) is None:
        return None  # a tombstone: the deletion came before it
    change = item.value if isinstance(item.value, str) else parse_change(item.value)
    if not isinstance(change, DebeziumChange):
        return change
    row = _read_columns(change.row, item.raw, keys, unknown)
    if isinstance(row, str):
        return row
    order = {} if keys.order is None else {SEQUENCE: change.at(keys.order)}
    return row | {CHANGE: change.word} | order


def _read_columns(
    item: dict[str, Any], raw: bytes | str, keys: _KeyMatcher, unknown: dict[str, None]
) -> dict[str, Any] | str:
    """Return an object's values by their columns, lists and objects as texts, or why it can't be stored.

    Names in it that are no columns are added to those that were `seen`.
    """
    names = names_of(item)
    found = keys.match(names)
    if found.twice:
        return f"the object names {found.describe_ambiguity()}"
    row = {column: item[names[at]] for column, at in found.found.items()}
    nested = [name for name, value in row.items() if _is_kept_json(value, name in keys.documents)]
    try:
        if nested:
            numbers = _decode_text(DECODER, raw)
            if keys.envelope is not None and isinstance(change := parse_change(numbers), DebeziumChange):
                numbers = change.row
            row |= {name: format_json(numbers[names[found.found[name]]]) for name in nested}
        escapes = b"\\u" in raw if isinstance(raw, bytes) else "\\u" in raw
        if escapes:  # only an escape can give half of a pair
            "".join([*names, *(value for value in row.values() if isinstance(value, str))]).encode()
    except RecursionError:
        return _TOO_DEEP
    except UnicodeEncodeError:
        return _HALF_PAIR
    if len(row) < len(names) and len(unknown) < _MOST_NAMES:
        matched = set(found.places)
        unknown.update((name, None) for at, name in enumerate(names) if at not in matched)
    return row


def _decode_text(decoder: json.JSONDecoder, raw: bytes | str) -> Any:
    return decoder.decode(raw if isinstance(raw, str) else raw.decode())


def _is_kept_json(value: object, document: bool) -> bool:
    """Tell whether a value is kept as JSON: lists and objects are, and each value of a json or jsonb column but null."""
    return isinstance(value, list | dict) or (document and isinstance(value, str))


def _format_value(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
