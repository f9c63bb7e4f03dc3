"""Gates of views as checks, and the job that approves or discards a change that one holds up.

A gate that holds a change up keeps the view as it is: its check fails as a warning, and shows by what the next query would change
the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import dagster as dg

from dagster_tideline.answers import describe_diff
from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.models.loader import Model
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from dagster_tideline.runs.gate_events import CHECK, build_gate_event
from dagster_tideline.upkeep.maintenance import SHOWN_ROWS, build_one_op_job
from engine.errors import TidelineError
from engine.meta.catalog.successions import list_successions
from engine.sql.statements.options.gate_bounds import GATE

if TYPE_CHECKING:
    from engine.session import Session

CHANGE_GATE = "change_gate"


class Decision(Enum):
    """What becomes of a change that a gate holds up: it takes over, or its next query is dropped."""

    approve = "approve"
    discard = "discard"


class GateConfig(dg.Config):
    """Whose change is decided on, and how."""

    view: str
    decision: Decision


def decide_gate(
    context: dg.OpExecutionContext,
    config: GateConfig,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Approve or discard a change; fails with what is wrong with that. The next epoch run does what was decided."""
    with hummock.session(spark) as session:
        try:
            name = session.catalog.get(config.view).name
            if config.decision is Decision.approve:
                session.approve(name)
            else:
                session.discard(name)
        except TidelineError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        version = session.store.refresh()
    context.log.info(f"{config.decision.value} of the change of {name}: the next epoch run does it")
    if naming.is_known(name):
        yield naming.translate_event(build_gate_event(name, version))


def check_gates(
    context: dg.AssetCheckExecutionContext, hummock: HummockResource, spark: SparkResource, naming: Naming
) -> Iterator[dg.AssetCheckResult]:
    """Say of the views that are asked for whether a gate holds up a change, and by what that would change the rows."""
    views = sorted(naming.find_names(key.asset_key for key in context.selected_asset_check_keys))
    with hummock.session(spark) as session:
        version = session.store.refresh()
        for view in views:
            event = build_gate_event(view, version)
            yield dg.AssetCheckResult(
                asset_key=naming.get_key(view),
                check_name=CHECK,
                passed=event.passed,
                severity=event.severity,
                metadata={**event.metadata, **_describe_pending(session, view)},
                description=event.description,
            )


def _describe_pending(session: Session, view: str) -> Mapping[str, Metadata]:
    """Return by what the next query of a view would change its rows; nothing where none waits, or is computed yet."""
    if view not in list_successions(session.store.version):
        return {}
    try:
        return describe_diff(session.diff_pending(view, limit=SHOWN_ROWS))
    except TidelineError as error:
        return {"change": str(error)}


def build_gate_job(naming: Naming) -> dg.JobDefinition:
    """Return the job that decides on a change, by its op's config."""
    description = "Approves or discards a change of a view that its gate holds up."
    return build_one_op_job(CHANGE_GATE, decide_gate, description, naming, retry=None)


def build_gate_checks(models: Sequence[Model], naming: Naming) -> list[dg.AssetChecksDefinition]:
    """Return the checks of the views that have a gate; none where no model has one."""
    specs = [
        dg.AssetCheckSpec(CHECK, asset=naming.get_key(model.name), description=f"gate: {model.options[GATE]}")
        for model in models
        if GATE in model.options and model.kind == "materialized view" and model.error is None
    ]
    if not specs:
        return []
    make = dg.multi_asset_check(name=naming.format_name(f"{CHECK}s"), specs=specs, can_subset=True)
    return [make(naming.bind(check_gates, naming=naming))]
