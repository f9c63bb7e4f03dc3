"""Questions about rows as a job: why one is there or is not, what changed it, and what changed in a whole view.

The op's config is the question, and the answer stands in the metadata of an event, as tables.
"""

import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_tideline.io.hummock_resource import HummockResource
from dagster_tideline.io.spark_resource import SparkResource
from dagster_tideline.naming import Naming
from dagster_tideline.runs.epoch_events import Metadata
from dagster_tideline.upkeep.maintenance import GROUP, SHOWN_ROWS, build_one_op_job, render_table
from engine.arrow import as_rows
from engine.errors import TidelineError
from engine.hummock.epoch import format_epoch, format_epoch_time
from engine.runtime.answers.asked_row import parse_key
from engine.sql.catalog import Relation

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.runtime.answers.blame import RowHistory
    from engine.runtime.answers.diff import TableDiff
    from engine.runtime.answers.trace import TraceStep
    from engine.runtime.answers.why import RowOrigin
    from engine.runtime.answers.why_not import RowAbsence
    from engine.session import Session

ANSWERS = "answers"


class Ask(Enum):
    """What is asked about a row, or with `diff` about a whole table or view."""

    why = "why"
    why_not = "why_not"
    blame = "blame"
    diff = "diff"


class Question(dg.Config):
    """What is asked of which view: `key` as on the command line, values in the key's order or column=value.

    `at` is an epoch or a time, none the newest; for `diff` the earlier of two moments, and `to` the later one.
    """

    ask: Ask = Ask.why
    view: str
    key: list[str] = Field(default_factory=list)
    at: str = ""
    to: str = ""


def answer(
    context: dg.OpExecutionContext,
    config: Question,
    hummock: HummockResource,
    spark: SparkResource,
    naming: Naming,
) -> Iterator[dg.AssetMaterialization]:
    """Answer a question about rows; fails with what is wrong with it."""
    started = time.perf_counter()
    with hummock.session(spark) as session:
        try:
            relation = session.catalog.get(config.view)
            found = _find_answer(session, relation, config)
        except TidelineError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
    asked: dict[str, Metadata] = {
        "view": relation.name,
        "question": config.ask.value,
        "key": ", ".join(config.key),
    }
    spent: dict[str, Metadata] = {"seconds": round(time.perf_counter() - started, 3)}
    context.log.info(
        f"{config.ask.value} {relation.name} {' '.join(config.key)}: {found.get('reason', 'answered')}"
    )
    yield dg.AssetMaterialization(naming.build_upkeep_key(ANSWERS), metadata=asked | found | spent)


def _find_answer(session: "Session", relation: Relation, config: Question) -> dict[str, Metadata]:
    """Return the answer as metadata."""
    at = config.at or None
    match config.ask:
        case Ask.why:
            return describe_origin(session.why(relation.name, parse_key(relation, config.key), at))
        case Ask.why_not:
            return describe_absence(session.why_not(relation.name, parse_key(relation, config.key), at))
        case Ask.blame:
            return describe_history(session.blame(relation.name, parse_key(relation, config.key)))
        case Ask.diff:
            diff = session.diff(relation.name, config.at, config.to or None, limit=SHOWN_ROWS)
            return describe_diff(diff)


def describe_origin(origin: "RowOrigin") -> dict[str, Metadata]:
    """Return why a row is there: the row, the steps, and by table how many rows make it, and the first of these."""
    found: dict[str, Metadata] = {"epoch": format_epoch(origin.epoch), "row": render_rows(origin.row)}
    for name, rows in origin.sources.items():
        found |= {f"{name}_rows": rows.num_rows, name: render_rows(rows)}
    return found | {"steps": _render_steps(origin.steps)}


def describe_absence(absence: "RowAbsence") -> dict[str, Metadata]:
    """Return why a row is not there: the reason, what loses it on each way in, and the rows that decide it."""
    losses = [(loss.relation, loss.operator, loss.reason, loss.text) for loss in absence.losses]
    found: dict[str, Metadata] = {
        "epoch": format_epoch(absence.epoch),
        "reason": f"{absence.loss.operator} in {absence.loss.relation}: {absence.loss.reason}",
        "losses": render_table(("in", "operator", "reason", "text"), losses),
        "steps": _render_steps(absence.steps),
    }
    if absence.loss.rows.num_rows:
        found["rows"] = render_rows(absence.loss.rows)
    return found


def describe_history(history: "RowHistory") -> dict[str, Metadata]:
    """Return in which epochs a row changed, newest first."""
    from engine.cli.answers.row_changes import describe_author, describe_change

    changes = [
        (format_epoch_time(change.epoch), change.operation, describe_author(change), describe_change(change))
        for change in history.changes
    ]
    known = (
        "from its creation on"
        if history.known_from is None
        else f"from epoch {format_epoch(history.known_from)} on"
    )
    return {
        "epoch": format_epoch(history.epoch),
        "known": known,
        "number_of_changes": len(changes),
        "changes": render_table(("epoch (UTC)", "what", "by", "cells"), changes),
    }


def describe_diff(diff: "TableDiff") -> dict[str, Metadata]:
    """Return what changed between two moments: counts, by column too, and the first changed rows."""
    from engine.cli.answers.row_changes import COUNTS

    columns = [(name, count) for name, count in diff.changed_columns.items() if count]
    found: dict[str, Metadata] = {name: getattr(diff, name) for name in COUNTS}
    return {
        "from_epoch": format_epoch(diff.from_epoch),
        "to_epoch": format_epoch(diff.to_epoch),
        **found,
        "changed_columns": render_table(("column", "rows updated"), columns),
        **({"not_compared": ", ".join(diff.not_compared)} if diff.not_compared else {}),
        "rows": render_rows(diff.rows),
    }


def render_rows(rows: "pa.Table") -> dg.MarkdownMetadataValue:
    """Return Arrow rows as a table to look at; of very many the first, with how many more there are."""
    from engine.cli.printing import format_cell

    first = as_rows(rows.slice(0, SHOWN_ROWS))
    cells: list[Sequence[object]] = [[format_cell(value) for value in row.values()] for row in first]
    return render_table(rows.column_names, cells, rows.num_rows)


def _render_steps(steps: "Sequence[TraceStep]") -> dg.MarkdownMetadataValue:
    lines = [(step.relation, step.operator, step.rows, step.text) for step in steps]
    return render_table(("in", "step", "rows", "text"), lines)


def build_answers_job(naming: Naming) -> dg.JobDefinition:
    """Return the job that answers the question in its op's config."""
    description = (
        "Answers why a row of a view is there or is not, what changed it, or what changed in a view."
    )
    return build_one_op_job(ANSWERS, answer, description, naming, retry=None)


def build_answers_asset(naming: Naming) -> dg.AssetSpec:
    """Return the asset whose events are the answers."""
    return dg.AssetSpec(
        naming.build_upkeep_key(ANSWERS),
        group_name=GROUP,
        kinds={"tideline"},
        description="Answers about rows: why one is there or is not, and what changed.",
    )
