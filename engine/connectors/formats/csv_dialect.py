"""How a CSV text is written where it is not RFC 4180: delimiters of several bytes, other quotes or none, escapes, no header.

Records are found in a *plain* text of the same length: what is escaped, and quotes that are none, are letters there, and the
quote is a double one. A delimiter of several bytes is first folded into one that no text in UTF-8 has.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.text_blocks import TextBlocks

FOLDED, NOT_FOLDED = b"\xff", b"\xfe"
"""What stands for a delimiter of several bytes, and what for this byte where a text has it: neither is in UTF-8."""
_LETTER = ord("x")
_OF_NO_DELIMITER = 0
_NEWLINE, _QUOTE = ord("\n"), ord('"')
_SPARE = [chr(code) for code in range(1, 32) if chr(code) not in "\t\n\r"]


@dataclass(frozen=True)
class CsvDialect:
    """The delimiter, quote and escape of a text, "" where it has none."""

    delimiter: str
    quote: str
    escape: str

    @classmethod
    def of_options(cls, options: FileOptions) -> CsvDialect:
        """Return the dialect that options name."""
        return cls(options.delimiter or ",", options.quote, options.escape)

    @property
    def is_multibyte(self) -> bool:
        """Whether the delimiter has several bytes."""
        return self.delimiter_size > 1

    @property
    def delimiter_size(self) -> int:
        """How many bytes the delimiter has: a line may have so many times fewer once delimiters are folded."""
        return len(self.delimiter.encode())

    @property
    def delimiter_byte(self) -> bytes:
        """The byte that stands between fields once delimiters are folded."""
        return FOLDED if self.is_multibyte else self.delimiter.encode()

    def normalize(self, data: bytes, *, final: bool = False) -> bytes:
        """Return a text of the same length that is written as RFC 4180, where records begin and end at the same bytes."""
        if self.escape:
            data = self._mask_escaped(data, final=final)
        if self.quote == '"':
            return data
        other = bytes.maketrans(b'"' + self.quote.encode(), b"x" + (b'"' if self.quote else b""))
        return data.translate(other)

    def _mask_escaped(self, data: bytes, *, final: bool) -> bytes:
        active = _find_active_escapes(data, ord(self.escape))
        if not len(active):
            return data
        codes = np.frombuffer(data, np.uint8).copy()
        codes[active] = _LETTER
        codes[self.find_escaped(data)] = _LETTER
        if final:  # the line's end that was added to a last line without one is not escaped
            codes[-1] = _NEWLINE
        return codes.tobytes()

    def find_escaped(self, data: bytes) -> np.ndarray:
        """Return the places of a text that stand behind an escape."""
        behind = _find_active_escapes(data, ord(self.escape)) + 1 if self.escape else np.zeros(0, np.int64)
        return behind[behind < len(data)]

    def ends_in_escape(self, data: bytes) -> bool:
        """Tell whether nothing follows an escape at the end of a last line, behind which a line's end was added."""
        active = _find_active_escapes(data, ord(self.escape)) if self.escape else np.zeros(0, np.int64)
        return bool(len(active) and active[-1] == len(data) - 2)

    def parse_header(self, raw: bytes) -> list[str] | None:
        """Return the fields of a header, None if it can't be read; raises UnicodeDecodeError."""
        delimiter, text = self.delimiter, raw
        if self.is_multibyte:
            delimiter = _find_spare_character(raw) or ""
            text = raw.replace(FOLDED, delimiter.encode())
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        try:
            found = next(
                csv.reader(
                    io.StringIO(text.decode(), newline=""),
                    delimiter=delimiter,
                    quotechar=self.quote or None,
                    escapechar=self.escape or None,
                    quoting=quoting,
                    strict=True,
                ),
                None,
            )
        except (csv.Error, TypeError):
            return None
        return None if found is None else [name.strip().replace(delimiter, self.delimiter) for name in found]

    def select_nulls(self, nulls: tuple[str, ...]) -> list[str]:
        """Return the texts that mean null once nothing is escaped any more."""
        return [null for null in nulls if not self.escape or not null.startswith(self.escape)]

    def prepare_for_arrow(self, text: bytes, nulls: tuple[str, ...]) -> tuple[bytes, str]:
        """Return a text whose delimiters are of one ASCII character, and that character; raises ArrowInvalid if none is left."""
        if self.escape and not self.quote:
            text = self._clear_nulls(text, nulls)
        if not self.is_multibyte:
            return text, self.delimiter
        spare = _find_spare_character(text)
        if spare is None:
            raise pa.ArrowInvalid("it holds every control character")
        return text.replace(FOLDED, spare.encode()), spare

    def _clear_nulls(self, text: bytes, nulls: tuple[str, ...]) -> bytes:
        r"""Return a text in which fields that are an escaped text for null, as \N, are empty."""
        escaped = [null.encode() for null in nulls if null.startswith(self.escape)]
        if not any(null in text for null in escaped):
            return text
        plain = self._mask_escaped(text, final=True)
        ends = np.flatnonzero(
            np.isin(np.frombuffer(plain, np.uint8), np.frombuffer(self.delimiter_byte + b"\n", np.uint8))
        )
        parts, start = [], 0
        for end in ends.tolist():
            parts += [b"" if text[start:end] in escaped else text[start:end], text[end : end + 1]]
            start = end + 1
        return b"".join(parts)

    def restore_delimiters(
        self, column: pa.Array[pa.StringScalar] | pa.ChunkedArray[pa.StringScalar], delimiter: str
    ) -> pa.Array[pa.StringScalar] | pa.ChunkedArray[pa.StringScalar]:
        """Return values in which a delimiter that stood in quotes is what it was."""
        return (
            pc.replace_substring(column, delimiter, self.delimiter)
            if self.is_multibyte and self.quote
            else column
        )

    def restore_bytes(self, raw: bytes) -> bytes:
        """Return bytes of a text as they stood in the file."""
        return raw.replace(FOLDED, self.delimiter.encode()) if self.is_multibyte else raw


class FoldedBlocks:
    """The blocks of a text with its delimiters folded; `breaks` says of each newline of the last one what it was in the file."""

    def __init__(self, text: TextBlocks, dialect: CsvDialect) -> None:
        self._text, self._dialect = text, dialect
        self._delimiter = dialect.delimiter.encode() if dialect.is_multibyte else b""
        self._pending = b""  # it may be the beginning of a delimiter, or an escape: no line ends in it

    @property
    def breaks(self) -> np.ndarray:
        """What each newline of the last block was."""
        return self._text.breaks

    def read_block(self) -> bytes:
        """Return the next block, b"" at the end."""
        if not self._delimiter:
            return self._text.read_block()
        while block := self._text.read_block():
            data, self._pending = self._fold(self._pending + block.replace(FOLDED, NOT_FOLDED))
            if data:
                return data
        data, self._pending = self._pending, b""
        return data

    def _fold(self, data: bytes) -> tuple[bytes, bytes]:
        """Return a text folded, and what of it may go on in the next block; what is escaped is of no delimiter."""
        escape = self._dialect.escape.encode()
        if not escape or escape not in data:
            folded = data.replace(self._delimiter, FOLDED)
            at = self._find_partial_delimiter(folded)
            return folded[:at], folded[at:]
        codes = np.frombuffer(data, np.uint8)
        masked = codes.copy()
        masked[self._dialect.find_escaped(data)] = _OF_NO_DELIMITER
        plain = masked.tobytes().replace(self._delimiter, FOLDED)
        open_escape = _find_active_escapes(data, ord(escape))[-1:] == len(data) - 1
        at = len(plain) - 1 if open_escape.any() else self._find_partial_delimiter(plain)
        found = np.frombuffer(plain, np.uint8).copy()
        found[found == _OF_NO_DELIMITER] = codes[masked == _OF_NO_DELIMITER]
        folded = found.tobytes()
        return folded[:at], folded[at:]

    def _find_partial_delimiter(self, data: bytes) -> int:
        """Return where a delimiter begins that may go on in the next block."""
        for size in range(min(len(self._delimiter) - 1, len(data)), 0, -1):
            if data.endswith(self._delimiter[:size]):
                return len(data) - size
        return len(data)


def _find_active_escapes(data: bytes, escape: int) -> np.ndarray:
    """Return where escapes stand that are not escaped themselves."""
    places = np.flatnonzero(np.frombuffer(data, np.uint8) == escape)
    if not len(places):
        return places
    begins = np.concatenate([[True], np.diff(places) != 1])
    first = places[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    found: np.ndarray = places[(places - first) % 2 == 0]
    return found


def _find_spare_character(text: bytes) -> str | None:
    return next((mark for mark in _SPARE if mark.encode() not in text), None)
