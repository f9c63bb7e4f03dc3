"""Why a row of a view is not there: which condition or missing partner keeps it out, and by what values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.arrow import build_arrow_table
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.runtime.answers.asked_row import AskedKey, convert_values, describe_asked, read_rows, resolve_key
from engine.runtime.answers.question import Question
from engine.runtime.answers.row_loss import LossFinder, RowLoss
from engine.runtime.answers.trace import TraceStep
from engine.runtime.rows import to_visible_names


@dataclass(frozen=True, eq=False)
class RowAbsence:
    """Why a view has no row with the `asked` values at an epoch: what loses it on each way in, first where it gets furthest.

    `steps` are the operators from the view down to these, with the number of rows with the asked values that come into each.
    """

    view: str
    asked: pa.Table
    epoch: int
    losses: tuple[RowLoss, ...]
    steps: tuple[TraceStep, ...]

    @property
    def loss(self) -> RowLoss:
        """What loses the row on the way on which it comes furthest."""
        return self.losses[0]


def explain_absence(
    store: Hummock,
    open_spark: Callable[[], SparkSession],
    view: str,
    key: AskedKey,
    at: int | str | None = None,
) -> RowAbsence:
    """Return why a view has no row with the values of a key, at an epoch or a time, None the newest of the view and its inputs.

    Raises SqlError where it has one, or cannot be traced, EpochFailed for an epoch at which there is no content, and EpochExpired
    for one that was let go.
    """
    question = Question.open(store, open_spark, view, at)
    tables, relation = question.tables, question.relation
    asked = resolve_key(relation, key)
    if not asked:
        raise SqlError(
            f"nothing is said of the row that {relation.name} lacks", hint="name values, as column=value"
        )
    wanted = convert_values(relation, asked)
    if read_rows(tables, relation, wanted).num_rows:
        raise SqlError(
            f"{relation.name} has a row with {describe_asked(asked)} at epoch {format_epoch(question.epoch)}",
            hint=f"ask why it is there: tideline why {relation.name}",
        )
    row = build_arrow_table(wanted)
    with question.name_errors():
        finder = LossFinder(tables, question.configure(question.count_rows()), question.define)
        losses = finder.explain_view(relation.name, row)
    shown = to_visible_names(relation, row)
    return RowAbsence(relation.name, shown, question.epoch, tuple(losses), tuple(finder.steps))
