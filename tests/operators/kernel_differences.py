"""What Spark gives for the functions that tasks compute on Arrow; of a row that Arrow leaves to Spark nothing is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.operators.arrow.expressions import Inexact
from engine.operators.arrow.over_windows import ArrowCall, ComputeWindows
from engine.operators.grouping.windows import batch as by_spark
from engine.operators.lookups.scan import derive_spark_schema
from engine.sql.expression.nodes import Call, Column
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import Over, Scan
from engine.sql.window_calls import WindowCall
from tests.operators.kernels import EDGES, ROWS, FoldKernel, Kernel, compiler, rows


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return rows as a frame; without a schema times without a zone would get one."""
    return spark.createDataFrame(table, derive_spark_schema(table.schema))


def by_arrow(kernel: Kernel) -> tuple[pa.Array[Any], np.ndarray]:
    """Return what Arrow gives of each row, and of which rows it gives something."""
    batch = rows().combine_chunks().to_batches()[0]
    try:
        return kernel.value.evaluate(batch), np.ones(ROWS, dtype=bool)
    except Inexact:
        pass
    parts, given = [], np.zeros(ROWS, dtype=bool)
    for n in range(ROWS):
        try:
            parts.append(kernel.value.evaluate(batch.slice(n, 1)))
            given[n] = True
        except Inexact:
            continue
    places = np.where(given, np.cumsum(given) - 1, 0)
    empty = kernel.value.evaluate(batch.slice(0, 0)) if not parts else pa.concat_arrays(parts)
    return empty.take(pa.array(places, pa.int64(), mask=~given)), given


def differences(spark: SparkSession, found: Sequence[Kernel]) -> tuple[list[str], int]:
    """Return where Spark gives something else, and how many values were compared."""
    computed = [(kernel, *by_arrow(kernel)) for kernel in found]
    masks = np.stack([given for _, _, given in computed], axis=1)
    table = rows().append_column("given", pa.array(list(masks), pa.list_(pa.bool_())))
    texts = [
        f"if(`given`[{n}], {render_spark_sql(kernel.expr)}, NULL) AS `r{n}`" for n, kernel in enumerate(found)
    ]
    try:
        spark_rows = _frame(spark, table).selectExpr("id", *texts).toArrow().sort_by("id")
    except PySparkException as error:
        if len(found) > 1:
            half = len(found) // 2
            parts = [differences(spark, part) for part in (found[:half], found[half:])]
            return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        return [f"{render_spark_sql(found[0].expr)}: Spark fails: {str(error)[:200]}"], 0
    wrong = []
    for n, (kernel, values, given) in enumerate(computed):
        there = spark_rows.column(f"r{n}").combine_chunks()
        wrong += _unlike(render_spark_sql(kernel.expr), kernel.expr.columns, values, there, given)
    return wrong, int(masks.sum())


def _unlike(
    text: str, columns: Sequence[str], here: pa.Array[Any], there: pa.Array[Any], given: np.ndarray
) -> list[str]:
    if here.type != there.type:
        return [f"{text}: {here.type}, and of Spark {there.type}"]
    pairs = zip(plain(here), plain(there), strict=True)
    bad = [n for n, (one, other) in enumerate(pairs) if one != other and given[n]]
    if not bad:
        return []
    n, table = bad[0], rows()
    read = ", ".join(f"{name} = {plain(table.column(name).combine_chunks())[n]}" for name in columns)
    return [f"{text}: {len(bad)} rows, as {read}: {plain(here)[n]}, of Spark {plain(there)[n]}"]


def plain(values: pa.Array[Any]) -> list[Any]:
    """Return values that can be compared: times as numbers, floats as texts, which tell zeros apart."""
    kind = values.type
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in values.to_pylist()]
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).to_pylist()
    return values.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(kind) else values.to_pylist()


def fold_differences(spark: SparkSession, found: Sequence[FoldKernel]) -> tuple[list[str], int]:
    """Return where Spark's aggregates of a group are others, and how many were compared."""
    folds: list[dict[int, Any]] = []
    given = np.zeros((ROWS, len(found)), dtype=bool)
    groups = rows().column("g").to_numpy()
    for n, kernel in enumerate(found):
        folds.append({})
        for group in np.unique(groups):
            (batch,) = rows().filter(pa.array(groups == group)).combine_chunks().to_batches()
            try:
                (folded,) = kernel.body(iter([batch]))
            except Inexact:
                continue
            folds[n][int(group)] = folded.column("r")
            given[groups == group, n] = True
    table = rows().append_column("given", pa.array(list(given), pa.list_(pa.bool_())))
    texts = [
        f"{render_spark_sql(each.expr)} FILTER (WHERE `given`[{n}]) AS `r{n}`" for n, each in enumerate(found)
    ]
    _frame(spark, table).createOrReplaceTempView("kernel_rows")
    by_g = spark.sql(f"SELECT g, {', '.join(texts)} FROM kernel_rows GROUP BY g").toArrow()
    wrong = []
    for n, kernel in enumerate(found):
        for at, group in enumerate(by_g.column("g").to_pylist()):
            here, there = folds[n].get(group), by_g.column(f"r{n}").combine_chunks().slice(at, 1)
            if here is not None and (here.type != there.type or plain(here) != plain(there)):
                wrong.append(
                    f"{render_spark_sql(kernel.expr)} of group {group}: {plain(here)}, of Spark {plain(there)}"
                )
    return wrong, sum(map(len, folds))


def key_differences(spark: SparkSession) -> tuple[list[str], int]:
    """Return of which types other values make a group than for Spark, and how many types were looked at."""
    known, wrong, seen = compiler(), [], []
    (batch,) = rows().combine_chunks().to_batches()
    for kind in EDGES:
        grouped = known.compile_groups([("k", Column(f"a:{kind}"))], [("n", Call("count"))])
        if grouped is None:
            continue
        (folded,) = grouped[0](iter([batch]))
        numbers = dict(zip(plain(folded.column("k")), folded.column("n").to_pylist(), strict=True))
        if len(numbers) < folded.num_rows:
            wrong.append(f"groups of {kind}: one comes twice")
        seen.append((kind, [numbers[value] for value in plain(batch.column(f"a:{kind}"))]))
    items = ", ".join(f"count(1) OVER (PARTITION BY `a:{kind}`) AS `{kind}`" for kind, _ in seen)
    _frame(spark, rows()).createOrReplaceTempView("kernel_rows")
    spark_rows = spark.sql(f"SELECT id, {items} FROM kernel_rows").toArrow().sort_by("id")
    wrong += [f"groups of {kind}" for kind, here in seen if spark_rows.column(kind).to_pylist() != here]
    return wrong, len(seen)


def window_differences(
    spark: SparkSession, found: Sequence[tuple[WindowCall, ArrowCall]]
) -> tuple[list[str], int]:
    """Return where Spark's calls over windows give others, and how many values were compared."""
    (batch,) = rows().combine_chunks().to_batches()
    computed: list[tuple[WindowCall, pa.Array[Any]]] = []
    for call, arrow in found:
        try:
            (answers,) = ComputeWindows(("g",), (arrow,))(iter([batch]))
        except Inexact:
            continue
        computed.append((call, answers.column(call.name)))
    names = tuple(rows().column_names)
    scan = Scan("kernels", tuple((name, name) for name in names), ("id",), ())
    over = Over(scan, ("g",), tuple(call for call, _ in computed))
    frame: Any = by_spark(over, _frame(spark, rows()))
    shown = frame.select("id", *(call.name for call, _ in computed)).toArrow().sort_by("id")
    wrong = []
    for call, here in computed:
        text = f"{render_spark_sql(call.call)} by {call.order} over {call.frame}"
        there = shown.column(call.name).combine_chunks()
        wrong += _unlike(text, call.call.columns, here, there, np.ones(ROWS, dtype=bool))
    return wrong, len(computed) * ROWS
