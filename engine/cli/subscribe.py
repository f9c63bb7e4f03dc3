"""`tideline subscribe`: the changes of a subscription, a table or a view, printed as they come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.arrow import as_rows
from engine.cli.printing import (
    UNKNOWN_WIDTH,
    Format,
    find_output_width,
    format_json,
    format_result,
)
from engine.hummock.epoch import format_epoch, format_epoch_time
from engine.runtime.subscriptions.starts import OPERATION

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.runtime.subscriptions.feed import EpochReading
    from engine.runtime.subscriptions.subscriber import Subscriber


def print_changes(subscriber: Subscriber, output: Format, limit: int | None) -> None:
    """Print changes until there are no more, or `limit` of them, or Ctrl-C; an epoch that is printed whole is acknowledged."""
    left = limit
    try:
        while left != 0 and (reading := subscriber.read_next()) is not None:
            left, is_whole = _print_epoch(reading, output, left)
            if is_whole:
                subscriber.acknowledge()
        if left != 0:
            subscriber.acknowledge()
    except KeyboardInterrupt:
        return


def _print_epoch(reading: EpochReading, output: Format, left: int | None) -> tuple[int | None, bool]:
    """Print the changes of an epoch, at most `left`; return how many may still be printed, and whether these were all."""
    if output is not Format.json:
        what = ", all rows" if reading.snapshot else ""
        _write(f"── epoch {format_epoch(reading.epoch)}{what}")
    for rows in reading.parts:
        if left == 0:
            return left, False
        shown = rows if left is None else rows.slice(0, left)
        _print_rows(reading, shown, output)
        left = None if left is None else left - shown.num_rows
        if shown.num_rows < rows.num_rows:
            return left, False
    return left, True


def _print_rows(reading: EpochReading, rows: pa.Table, output: Format) -> None:
    names = [name for name in rows.column_names if name != OPERATION]
    if output is not Format.json:
        width = find_output_width() or UNKNOWN_WIDTH
        _write("\n".join(format_result(rows.select([OPERATION, *names]), width)))
        return
    operations = rows.column(OPERATION)
    lines = [
        format_json(
            {
                "epoch": reading.epoch,
                "time": format_epoch_time(reading.epoch),
                "snapshot": reading.snapshot,
                "op": str(operation),
                "row": row,
            }
        )
        for operation, row in zip(operations, as_rows(rows.select(names)), strict=True)
    ]
    _write("\n".join(lines))


def _write(text: str) -> None:
    """Print a text whole, or raise BrokenPipeError: an unbuffered output, as of PYTHONUNBUFFERED, takes a part without a word.

    What its reader did not get would count as taken.
    """
    sys.stdout.flush()
    left = memoryview(f"{text}\n".encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict"))
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()
