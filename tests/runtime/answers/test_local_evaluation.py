"""Operators over a few rows give, computed without Spark, what Spark gives of them."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.arrow import as_rows
from engine.operators.compile import compute_over
from engine.operators.context import EpochContext
from engine.runtime.answers import local_evaluation
from engine.runtime.answers.local_evaluation import LocalEvaluation
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation
from engine.runtime.answers.question import Question
from engine.runtime.rows import create_frame
from engine.session import Session
from engine.sql.expression.nodes import Column, Comparison, Expr
from engine.sql.plan import Join, JoinKind, Scan
from tests.long_rest import mark_rest_long
from tests.runtime.answers.views import VIEWS, create_tables, create_views, load_rows, make_rows

COMPUTED_BY_SPARK = {"places", "per_price", "parts", "wholly"}
"""Views with an operator that tasks do not compute by themselves: DISTINCT calls, arrays, a query that is computed as a whole."""


def count_rows(rows: pa.Table) -> Counter[str]:
    return Counter(repr([normalize(value) for value in row.values()]) for row in as_rows(rows))


def normalize(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return value


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_views_are_computed_as_they_are_kept(tmp_path: object, spark: SparkSession, seed: int) -> None:
    with Session(f"file://{tmp_path}", spark) as session:
        create_tables(session)
        load_rows(session, make_rows(seed, bids=60))
        create_views(session, list(VIEWS))
        locally = set()
        for view in VIEWS:
            question = Question.open(session.store, lambda: spark, view, None)
            node = question.define(view)
            found = NarrowEvaluation(question.tables, question.configure(100)).evaluate(node, {})
            locally |= {view} if found.rows is not None else set()
            shown = question.relation.visible_storage_names
            kept = session.sql(f"SELECT * FROM {view}")
            assert kept is not None
            assert count_rows(found.to_arrow().select(shown)) == count_rows(kept), view
        assert set(VIEWS) - locally <= COMPUTED_BY_SPARK


def make_side(draw: random.Random, prefix: str, rows: int) -> pa.Table:
    doubles = [0.0, -0.0, math.nan, -math.nan, math.inf, None, 1.0, 1.5]
    texts = ["", "a", "A", "é", "e\u0301", None]
    return pa.table(
        {
            f"{prefix}d": pa.array([draw.choice(doubles) for _ in range(rows)], pa.float64()),
            f"{prefix}t": pa.array([draw.choice(texts) for _ in range(rows)], pa.string()),
            f"{prefix}n": pa.array([draw.choice([None, 0, 1, 2, 3]) for _ in range(rows)], pa.int64()),
        }
    )


def make_scan(table: str, rows: pa.Table) -> Scan:
    names = tuple(rows.column_names)
    return Scan(table, tuple((name, name) for name in names), names[:1], names[:1])


@pytest.mark.parametrize("kind", get_args(JoinKind))
@pytest.mark.parametrize("null_safe", mark_rest_long([False, True]))
@pytest.mark.parametrize("on", [(), ("d",), ("t",), ("d", "t")])
def test_joins_pair_rows_as_spark_does(
    spark: SparkSession, kind: JoinKind, null_safe: bool, on: tuple[str, ...]
) -> None:
    draw = random.Random(f"{kind} {null_safe} {on}")
    conditions: list[Expr | None] = [None, Comparison("<", Column("ln"), Column("rn"))]
    context = EpochContext(spark, "", {}, {}, None, 1, 2, 100)
    for rows, residual in [(12, conditions[0]), (12, conditions[1]), (0, conditions[1])]:
        left, right = make_side(draw, "l", 12), make_side(draw, "r", rows)
        pairs = tuple((f"l{name}", f"r{name}") for name in on)
        node = Join(make_scan("l", left), make_scan("r", right), kind, pairs, residual, null_safe=null_safe)
        for sides in ((left, right), (left.slice(0, 0), right)):
            found = LocalEvaluation(context).compute(node, sides)
            assert found is not None
            frames = [create_frame(spark, side) for side in sides]
            assert count_rows(found) == count_rows(compute_over(node, frames, context).toArrow())


def test_what_cannot_be_computed_here_is_left_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = EpochContext(spark, "", {}, {}, None, 1, 2, 100)
    rows = pa.table({"ln": pa.array([1, 2], pa.int64())})
    others = pa.table({"rn": pa.array([1.0, 2.0])})
    join = Join(make_scan("l", rows), make_scan("r", others), "inner", (("ln", "rn"),))
    assert LocalEvaluation(context).compute(join, (rows, others)) is None
    same = rows.rename_columns(["rn"])
    assert LocalEvaluation(context).compute(join, (rows, same)) is not None
    monkeypatch.setattr(local_evaluation, "MOST_PAIRS", 1)
    assert LocalEvaluation(context).compute(join, (rows, same)) is None
