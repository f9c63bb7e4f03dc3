"""`tideline status --watch`: where everything stands, shown anew as the store changes, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from engine.cli.layout import TextColumn
from engine.cli.listings.status import Listing, build_status_listing
from engine.cli.printing import UNKNOWN_WIDTH, find_output_width, format_listing

if TYPE_CHECKING:
    from engine.hummock import Hummock, Version

EVERY_SECONDS = 1.0


class EpochCounter:
    """Counts the epochs that each relation has committed since one began to look."""

    def __init__(self) -> None:
        self._progress: dict[str, tuple[int, int]] = {}

    def count_epochs(self, version: Version) -> dict[str, int]:
        """Return by table how many commits have been seen; several between two looks count as one."""
        for name, table in version.tables.items():
            count, epoch = self._progress.get(name, (0, table.committed_epoch))
            self._progress[name] = (count + (epoch != table.committed_epoch), table.committed_epoch)
        return {name: count for name, (count, _) in self._progress.items()}


def watch_store(
    store: Hummock,
    *,
    waits: bool,
    wide: bool,
    rest: Callable[[float], None] = time.sleep,
) -> None:
    """Show a store until Ctrl-C: in place on a terminal, else a listing after each change."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    width = find_output_width()
    console = Console(width=width or UNKNOWN_WIDTH, highlight=False)
    frames = render_frames(store, waits=waits, wide=wide, width=None if wide else width or UNKNOWN_WIDTH)
    try:
        if not console.is_terminal:
            last = -1
            for number, lines in frames:
                if number != last:
                    typer.echo("\n".join([*lines, ""]))
                last = number
                rest(EVERY_SECONDS)
        with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            for _, lines in frames:
                live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
                rest(EVERY_SECONDS)
    except KeyboardInterrupt:
        return


def render_frames(
    store: Hummock, *, waits: bool, wide: bool, width: int | None
) -> Iterator[tuple[int, list[str]]]:
    """Yield without end a version's number and the lines to show: time and store, then what stands or waits."""
    epochs = EpochCounter()
    while True:
        version = store.refresh()
        now = time.time()
        listing = build_status_listing(version, store.reader, now, waits=waits)
        counted = epochs.count_epochs(version)
        if not waits:
            listing = _add_epochs_column(listing, counted)
        clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        yield version.number, [f"{clock}  {store.url}  (Ctrl-C ends it)", *format_listing(listing, width)]


def _add_epochs_column(listing: Listing, counted: dict[str, int]) -> Listing:
    """Return a listing of relations with a column of the epochs that each has committed meanwhile."""
    named = [str(record["name"]) for record in listing.records]
    epochs = TextColumn("epochs", [f"{counted.get(name, 0):,}" for name in named], right=True, rank=3)
    columns = [*listing.columns]
    columns.insert(4, epochs)
    return Listing(columns, listing.notes, listing.records, listing.empty, listing.footer)
