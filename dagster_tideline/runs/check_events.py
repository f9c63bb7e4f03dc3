"""Checks of views as Dagster's: one of an asset for each, and how they came out as events of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from engine.hummock.epoch import format_epoch
from engine.meta.status.check_results import find_check_results

if TYPE_CHECKING:
    from engine.hummock import Version

_SEVERITY = {"error": dg.AssetCheckSeverity.ERROR, "warn": dg.AssetCheckSeverity.WARN}


def build_check_specs(models: Sequence[Model], naming: Naming) -> list[dg.AssetCheckSpec]:
    """Return the checks of models; a failing one stops its view, and nothing else, so none is blocking."""
    return [
        dg.AssetCheckSpec(name, asset=naming.get_key(model.name), description=text)
        for model in models
        for name, text in model.checks.items()
    ]


def find_planned_checks(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, naming: Naming
) -> set[str]:
    """Return the views of which a run has planned checks: in the UI they come with the assets, else none is."""
    keys = context.selected_asset_check_keys if isinstance(context, dg.AssetExecutionContext) else ()
    return naming.find_names(key.asset_key for key in keys)


def build_check_events(model: Model, version: Version) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield how the checks of a view came out at its newest epoch, be it one that a check has stopped."""
    found = find_check_results(version, model.name)
    if found is None:
        return
    table = version.tables.get(model.name)
    epoch = found.stopped or (table.committed_epoch if table is not None else None)
    for name, text in model.checks.items():
        if name not in found.results:
            continue
        result = found.results[name]
        metadata: dict[str, Metadata] = {"rows": result.rows, "check": text}
        if epoch is not None:
            metadata["epoch"] = format_epoch(epoch)
        if not result.passed:
            metadata["told"] = result.text
            metadata["stops"] = "yes" if result.severity == "error" else "no"
        if result.sample:
            metadata["sample"] = dg.MetadataValue.md("\n".join(f"- {key}" for key in result.sample))
        yield dg.AssetCheckEvaluation(
            dg.AssetKey(model.name),
            name,
            passed=result.passed,
            severity=_SEVERITY[result.severity],
            metadata=metadata,
            description=None if result.passed else text,
        )
