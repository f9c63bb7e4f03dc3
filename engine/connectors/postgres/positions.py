"""How far a slot is taken: a place in the write-ahead log, and the snapshot whose transactions are taken beyond it.

A snapshot of PostgreSQL is no place in the log: it sees some transactions that are committed around it, and not others. A table
that has been read by one has taken all transactions up to `lsn`, and of those behind it the ones that the snapshot sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.errors import SourceError

_OFFSET = re.compile(
    r"(?P<lsn>[0-9A-F]+/[0-9A-F]+)( seen (?P<seen>\S+) upto (?P<upto>\S+))?( of (?P<oid>\d+))?( without (?P<left>\[.*\]))?"
)
_HALF = 1 << 31


def parse_lsn(text: str) -> int:
    """Return a place in the log as a number, so that two of them compare.

    >>> parse_lsn("1/0") > parse_lsn("0/FFFFFFFF")
    True
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return a place in the log as PostgreSQL writes it.

    >>> format_lsn(parse_lsn("16/B374D848"))
    '16/B374D848'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class SeenTransactions(NamedTuple):
    """The transactions that a snapshot sees, as `pg_current_snapshot()` writes it; all of them end at `upto` or before."""

    text: str
    upto: int

    def sees(self, xid: int) -> bool:
        """Tell whether the snapshot sees a transaction, of whose number the log has the lower 32 bits."""
        low, high, running = self.text.split(":")
        xmin, xmax = int(low), int(high)
        full = (xmax & ~0xFFFFFFFF) | xid
        if full - xmax > _HALF:
            full -= 1 << 32
        elif xmax - full > _HALF:
            full += 1 << 32
        return full < xmin or (full < xmax and str(full) not in running.split(","))


class SlotPosition(NamedTuple):
    """All transactions that end at `lsn` or before are taken, and those that `seen` tells of."""

    lsn: int
    seen: SeenTransactions | None = None

    def has_taken(self, xid: int, commit_lsn: int) -> bool:
        """Tell whether a transaction is taken, whose commit is the record at `commit_lsn`: positions lie between records."""
        seen = self.seen
        return commit_lsn < self.lsn or (seen is not None and commit_lsn < seen.upto and seen.sees(xid))

    def move_to(self, lsn: int) -> SlotPosition:
        """Return the position behind all transactions that end up to there."""
        keeps = self.seen is not None and lsn < self.seen.upto
        return SlotPosition(lsn, self.seen if keeps else None)


class TableOffset(NamedTuple):
    """Where one table stands, the number of PostgreSQL's table, and its columns that are known to be left out."""

    position: SlotPosition
    oid: int = 0
    left: tuple[str, ...] = ()


def encode_offset(offset: TableOffset) -> str:
    """Return an offset as the store keeps it.

    >>> encode_offset(TableOffset(SlotPosition(256)))
    '0/100'
    """
    (lsn, seen), oid, left = offset
    parts = [format_lsn(lsn)]
    if seen is not None:
        parts.append(f"seen {seen.text} upto {format_lsn(seen.upto)}")
    if oid:
        parts.append(f"of {oid}")
    if left:
        parts.append(f"without {json.dumps(left, ensure_ascii=False)}")
    return " ".join(parts)


def decode_offset(text: str) -> TableOffset:
    """Return the offset that the store keeps; raises SourceError for a text that is none."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise SourceError(f'"{text}" is no position in the log of PostgreSQL')
    seen = SeenTransactions(found["seen"], parse_lsn(found["upto"])) if found["seen"] else None
    left: Sequence[str] = json.loads(found["left"]) if found["left"] else ()
    return TableOffset(SlotPosition(parse_lsn(found["lsn"]), seen), int(found["oid"] or 0), tuple(left))
