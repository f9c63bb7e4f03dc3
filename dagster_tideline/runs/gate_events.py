"""What a run says of the gates of views: whether one holds up a change, as an event of the view's check."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.models.loader import Model
from engine.meta.catalog.successions import list_successions
from engine.meta.status.waits import format_gate_remedy
from engine.sql.statements.options.gate_bounds import GATE

if TYPE_CHECKING:
    from engine.hummock import Version

CHECK = "gate"


def build_gate_event(view: str, version: Version) -> dg.AssetCheckEvaluation:
    """Return the check of a view's gate: it fails, as a warning, while a change is held up."""
    pending = list_successions(version).get(view)
    held = "" if pending is None else pending.held
    change = "none waits" if pending is None else "is held up" if held else "is being built, or takes over"
    return dg.AssetCheckEvaluation(
        dg.AssetKey(view),
        CHECK,
        passed=not held,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"change": change},
        description=f"{held}; {format_gate_remedy(view)}" if held else None,
    )


def report_gates(
    models: Sequence[Model], version: Version, moved: Collection[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks of gates of the views that have moved, and of those whose change is held up."""
    pending = list_successions(version)
    for model in models:
        is_held = model.name in pending and bool(pending[model.name].held)
        if GATE in model.options and (is_held or model.name in moved):
            yield build_gate_event(model.name, version)
