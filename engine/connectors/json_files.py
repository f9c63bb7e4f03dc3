"""JSON files in batches; numbers stay the text that they were written as.

Objects stand one a line, in one array, or behind each other with any space between them, a record separator too (RFC 7464).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from engine.connectors.change_envelopes import changed_row
from engine.connectors.file_formats import BadLine, FileOptions, FileRows, MalformedFile, shown
from engine.connectors.read_limits import SETTING, ReadLimits, shown_bytes
from engine.connectors.text_blocks import TextBlocks

ITEMS_AT_ONCE = 10_000
_SHOWN_NAMES = 20
_SPACE = " \t\n\r"
_SEPARATOR = "\x1e"
_NO_OBJECT = "not a JSON object"
_HALF_PAIR = "not JSON: it holds half of a surrogate pair"
_TOO_DEEP = "not JSON that is read: lists or objects stand in each other too deep"


class _Number(str):
    """A number as it was written."""


# Numbers stay texts; where lists and objects are written out again, they are told from texts.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)
_NESTED_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number)


@dataclass(frozen=True)
class _Item:
    """One line, or one element of an array: its place, its text, and its object or what is wrong with it."""

    line: int
    raw: bytes | str
    value: dict[str, Any] | str


def read(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int = 0) -> Iterator[FileRows]:
    """Yield the rows of a JSON file from record `skip` on; raises MalformedFile for an array that is not whole."""
    items = _items_of(file, options, limits)
    if items is None:
        yield from _read_lines(file, options, limits, skip)
        return
    for _ in items(file, limits):
        pass  # what is no lines is one document: nothing of it is taken unless it ends as it should
    file.seek(0)
    left = islice(items(file, limits), skip, None)
    while batch := _bounded(left, limits.block):
        yield _batch(batch, options)


def _items_of(
    file: BinaryIO, options: FileOptions, limits: ReadLimits
) -> Callable[[BinaryIO, ReadLimits], Iterator[_Item]] | None:
    """Return what reads the values of a file, None if they stand one a line."""
    if options.json == "lines":
        return None
    text, begun = TextBlocks(file, limits.block), b""
    while b"\n" not in begun and len(begun) <= limits.row and (block := text.more()):
        begun = (begun + block).lstrip()
    file.seek(0)
    if begun.startswith(b"["):
        return _array_items
    if options.json == "values" or begun.startswith(_SEPARATOR.encode()):
        return _value_items
    return (
        _value_items if begun.startswith(b"{") and _is_no_line(begun) and _are_values(file, limits) else None
    )


def _is_no_line(text: bytes) -> bool:
    """Tell whether the first line of a text is not one object."""
    line = text.partition(b"\n")[0]
    try:
        _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return True
    return False


def _are_values(file: BinaryIO, limits: ReadLimits) -> bool:
    """Tell whether a file can be read as values behind each other, to its end; else its lines are told one by one."""
    try:
        for _ in _value_items(file, limits):
            pass
    except (MalformedFile, OSError):  # what is damaged later on is told where its lines are read
        return False
    finally:
        file.seek(0)
    return True


def _bounded(items: Iterator[_Item], size: int) -> list[_Item]:
    taken: list[_Item] = []
    length = 0
    for item in islice(items, ITEMS_AT_ONCE):
        taken.append(item)
        length += len(item.raw)
        if length >= size:
            break
    return taken


def _read_lines(file: BinaryIO, options: FileOptions, limits: ReadLimits, skip: int) -> Iterator[FileRows]:
    text = TextBlocks(file, limits.block, limits.row)
    data, line = b"", 1
    while block := text.more():
        data += block
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].split(b"\n")[:-1]
        numbered = [(line + at, raw) for at, raw in enumerate(lines) if raw.strip()]
        passed, skip = min(skip, len(numbered)), max(skip - len(numbered), 0)
        if len(numbered) > passed:
            yield _batch((_line_item(at, raw, options, limits) for at, raw in numbered[passed:]), options)
        line += len(lines)
        data = data[whole:]


def _line_item(line: int, raw: bytes, options: FileOptions, limits: ReadLimits) -> _Item:
    if len(raw) > limits.row:
        return _Item(line, raw, f"the line is longer than {shown_bytes(limits.row)}, a share of {SETTING}")
    try:
        return _Item(line, raw, _object(_DECODER.decode(raw.decode())))
    except UnicodeDecodeError as error:
        if options.encoding is not None:
            return _Item(line, raw, f"the line is not {options.encoding}")
        return _Item(line, raw, f"the line is not UTF-8: it holds the byte {raw[error.start]:#04x}")
    except RecursionError:
        return _Item(line, raw, _TOO_DEEP)
    except ValueError as error:
        return _Item(line, raw, f"not JSON: {error}")


def _object(value: object) -> dict[str, Any] | str:
    return value if isinstance(value, dict) else _NO_OBJECT


def _array_items(file: BinaryIO, limits: ReadLimits) -> Iterator[_Item]:
    """Yield the elements of an array, numbered from 1; holds no more than the longest of them."""
    window = _Window(file, limits)
    window.expect("[")
    if window.next_is("]"):
        window.expect("]")
    else:
        number = 0
        while True:
            number += 1
            value, raw = window.value()
            yield _Item(number, raw, _object(value))
            if not window.next_is(","):
                break
            window.expect(",")
        window.expect("]")
    window.expect("")


def _value_items(file: BinaryIO, limits: ReadLimits) -> Iterator[_Item]:
    """Yield values that stand behind each other, each with the line on which it begins."""
    window = _Window(file, limits, _SPACE + _SEPARATOR, "JSON")
    while not window.next_is(""):
        line = window.line()
        value, raw = window.value()
        yield _Item(line, raw, _object(value))


class _Window:
    """The text of an array, or of values behind each other, from the place that is read on."""

    def __init__(
        self, file: BinaryIO, limits: ReadLimits, spaces: str = _SPACE, called: str = "a JSON array"
    ) -> None:
        self._spaces, self._called = spaces, called
        self._blocks, self._limits = TextBlocks(file, limits.block), limits
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._line = "", 0, 1
        self._ended = False

    def value(self) -> tuple[object, str]:
        """Read one value; returns it with its text."""
        self._to_text()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise MalformedFile(f"{_TOO_DEEP} (line {self._here()})") from None
            except ValueError as error:
                if not self._more_of_a_value():
                    raise MalformedFile(f"not {self._called}: {error} (line {self._here()})") from None
                continue
            if end < len(self._text) or not self._more_of_a_value():
                raw, self._at = self._text[self._at : end], end
                return value, raw

    def line(self) -> int:
        """Return the line of the next character that is no space."""
        self._to_text()
        return self._here()

    def next_is(self, sign: str) -> bool:
        """Tell whether the next character that is no space is this one; "" is the end."""
        self._to_text()
        return self._text[self._at : self._at + 1] == sign

    def expect(self, sign: str) -> None:
        """Go behind this character, or to the end of the text; raises MalformedFile if something else stands there."""
        self._to_text()
        found = self._text[self._at : self._at + 1]
        if found != sign:
            wanted = f'"{sign}"' if sign else "the end"
            told = f'"{found}"' if found else "the end"
            raise MalformedFile(
                f"not {self._called}: {wanted} is expected, {told} found (line {self._here()})"
            )
        self._at += len(sign)

    def _to_text(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in self._spaces:
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return

    def _more_of_a_value(self) -> bool:
        """Read on within a value, at least as much as there is of it, so that reading it again costs no more than twice."""
        held = len(self._text) - self._at
        if held > self._limits.row:
            raise MalformedFile(
                f"a value of the file is longer than {shown_bytes(self._limits.row)}, a share of {SETTING}"
            )
        grown = False
        while len(self._text) - self._at < max(2 * held, 1) and self._more():
            grown = True
        return grown

    def _more(self) -> bool:
        if self._ended:
            return False
        block = self._blocks.more()
        self._ended = not block
        try:
            text = self._decode.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n") + block.count(b"\n", 0, error.start)
            raise MalformedFile(f"the file is not UTF-8: line {line} holds no UTF-8") from None
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + text, 0
        return not self._ended

    def _here(self) -> int:
        return self._line + self._text.count("\n", 0, self._at)


def _batch(items: Iterable[_Item], options: FileOptions) -> FileRows:
    rows: list[dict[str, Any]] = []
    places: list[_Item] = []
    bad: list[BadLine] = []
    passed = 0
    for item in items:
        value = _row(item, options)
        if value is None:
            passed += 1
        elif isinstance(value, str):
            bad.append(BadLine(item.line, value, shown(item.raw)))
        else:
            rows.append(value)
            places.append(item)
    names = dict.fromkeys(chain.from_iterable(rows))
    columns, absent = {}, {}
    for name in filter(options.wants, names):
        columns[name] = pa.array([_text(row.get(name)) for row in rows], pa.string())
        absent[name] = np.array([at for at, row in enumerate(rows) if name not in row], dtype=np.int64)

    def place(row: int) -> tuple[int, str]:
        return places[row].line, shown(places[row].raw)

    known = (*columns, *islice((name for name in names if name not in columns), _SHOWN_NAMES))
    return FileRows(
        columns, len(rows), place, tuple(bad), known, len(rows) + len(bad) + passed, absent, by_row=True
    )


def _row(item: _Item, options: FileOptions) -> dict[str, Any] | str | None:
    """Return the columns of an item, or why it has none; None if it says nothing."""
    if options.envelope is None:
        return item.value if isinstance(item.value, str) else _storable(item.value, item.raw, _itself)
    if item.value == _NO_OBJECT and _decoded(_DECODER, item.raw) is None:
        return None  # a tombstone: the deletion came before it
    if isinstance(item.value, str):
        return item.value
    row = changed_row(item.value)
    return row if isinstance(row, str | None) else _storable(row, item.raw, changed_row)


def _itself(value: Any) -> Any:
    return value


def _decoded(decoder: json.JSONDecoder, raw: bytes | str) -> Any:
    return decoder.decode((raw if isinstance(raw, str) else raw.decode()).strip(_SPACE))


def _storable(
    item: dict[str, Any], raw: bytes | str, row_of: Callable[[dict[str, Any]], Any]
) -> dict[str, Any] | str:
    """Return an object with its lists and objects as texts, or why it can't be stored; `row_of` finds it in what is read."""
    nested = [name for name, value in item.items() if isinstance(value, list | dict)]
    try:
        if nested:
            numbers = row_of(_decoded(_NESTED_DECODER, raw))
            item = item | {name: _json(numbers[name]) for name in nested}
        escapes = b"\\u" in raw if isinstance(raw, bytes) else "\\u" in raw
        if escapes:  # only an escape can give half of a pair
            "".join([*item, *(value for value in item.values() if isinstance(value, str))]).encode()
    except RecursionError:
        return _TOO_DEEP
    except UnicodeEncodeError:
        return _HALF_PAIR
    return item


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _json(value: object) -> str:
    """Write a value as JSON, numbers as they were read."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case _Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case dict():
            pairs = (f"{json.dumps(name, ensure_ascii=False)}: {_json(item)}" for name, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:  # NaN and infinities, which Python's JSON knows
            return str(value)
