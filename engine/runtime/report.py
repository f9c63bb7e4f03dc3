"""What an epoch run tells: one report per view, numbers first."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import EpochFailed


@dataclass(frozen=True)
class ViewReport:
    """What one run did for one view; `rows_in` are upper bounds of changed input rows, seconds are wall time by stage.

    A view that was left alone on purpose says in `waits_for` why.
    """

    view: str
    epoch: int | None
    previous_epoch: int | None
    rows_in: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    state_bytes: int = 0
    input_epochs: dict[str, int] = field(default_factory=dict)
    lag_seconds: float = 0.0
    rule: str = ""
    error: str | None = None
    skipped: bool = False
    waits_for: str | None = None

    @property
    def rows_out(self) -> int:
        """How many rows of the view changed."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class FlushReport:
    """The reports of one run, inputs before their readers; a failing view does not stop the others."""

    views: tuple[ViewReport, ...]
    seconds: float = 0.0

    def __getitem__(self, view: str) -> ViewReport:
        return next(report for report in self.views if report.view == view)

    @property
    def failed(self) -> tuple[ViewReport, ...]:
        """The reports of the views that failed."""
        return tuple(report for report in self.views if report.error is not None)

    def raise_for_errors(self) -> None:
        """Raise EpochFailed that names every view that failed and why; do nothing if none did."""
        if self.failed:
            raise EpochFailed("\n".join(f"view {r.view}: {r.error}" for r in self.failed))
