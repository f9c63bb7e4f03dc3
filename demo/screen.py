"""The demo on a terminal: a live table of the views and a progress bar, or plain lines where the output is no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.watch import ViewLine
from engine.hummock.epoch import format_epoch_time

PLAIN_TABLE_EVERY = 8
PLAIN_WIDTH = 120


class Screen:
    """Shows progress; use as a `with` block."""

    def __init__(self, steps: int) -> None:
        self.console = Console()
        if not self.console.is_terminal:
            self.console = Console(width=PLAIN_WIDTH)
        self.live: Live | None = None
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )
        self.task = self.progress.add_task("starting", total=steps)
        self.lines: Sequence[ViewLine] = ()

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=4, transient=False)
            self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the live table standing and go on with plain output."""
        if self.live is not None:
            self.live.__exit__(None, None, None)
            self.live = None

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self.console.print(text, highlight=False)

    def show_progress(self, text: str, lines: Sequence[ViewLine]) -> None:
        """Show what is under way."""
        self.lines = lines
        self.progress.update(self.task, description=text)
        self._draw()

    def show_done(self, number: int, text: str, lines: Sequence[ViewLine]) -> None:
        """Tell that a step is done: a line where the output is no terminal, a move of the bar where it is."""
        self.lines = lines
        self.progress.update(self.task, completed=number)
        if self.live is None:
            self.say(text)
            if number % PLAIN_TABLE_EVERY == 0:
                self.console.print(build_view_table(lines))
        self._draw()

    def _draw(self) -> None:
        if self.live is not None:
            self.live.update(Group(build_view_table(self.lines), self.progress))


def build_view_table(lines: Sequence[ViewLine]) -> Table:
    """Return the table of the views."""
    table = Table(title="views", title_justify="left")
    table.add_column("view", no_wrap=True)
    for name in ("epoch (UTC)", "rows changed", "seconds", "freshness s", "lag s"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            "-" if line.epoch is None else format_epoch_time(line.epoch).partition(" ")[2],
            f"{line.changed:,}",
            f"{line.seconds:.2f}",
            f"{line.freshness:.1f}",
            f"{line.lag:.1f}" if line.lag else "0",
        )
    return table
