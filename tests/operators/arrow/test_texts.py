"""Texts are changed as Spark changes them, letter by letter."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.operators.arrow.compiler import Compiler
from engine.operators.arrow.expressions import Inexact
from engine.operators.lookups.scan import derive_spark_schema
from engine.sql.expression.parser import parse_expression


def test_each_letter_that_is_changed_here_is_the_one_of_spark(spark: SparkSession) -> None:
    letters = [chr(n) for n in (*range(0x3000), *range(0x4E00, 0x4F00), *range(0xAC00, 0xAD00), 0x1F600)]
    rows = pa.table({"k": letters, "word": [f"x{letter}y" for letter in letters]})
    compiler = Compiler(derive_spark_schema(rows.schema), lambda: True)
    for text in ("upper(k)", "lower(k)", "upper(word)", "lower(word)"):
        value = compiler.compile_value(parse_expression(text))
        assert value is not None
        expected = spark.createDataFrame(rows).selectExpr(f"{text} AS r").toArrow().column("r").to_pylist()
        known = 0
        for place, batch in enumerate(rows.to_batches(max_chunksize=1)):
            try:
                assert value.evaluate(batch).to_pylist() == [expected[place]], letters[place].encode()
            except Inexact:
                continue
            known += 1
        assert known > 1200


@pytest.mark.parametrize(("text", "there"), [("ß", None), ("Straße", None), ("Éжи", "ÉЖИ"), ("漢字", "漢字")])
def test_a_letter_with_rules_of_its_own_is_left_to_spark(text: str, there: str | None) -> None:
    rows = pa.table({"k": [text, None]})
    value = Compiler(derive_spark_schema(rows.schema), lambda: True).compile_value(
        parse_expression("upper(k)")
    )
    assert value is not None
    (batch,) = rows.to_batches()
    if there is not None:
        assert value.evaluate(batch).to_pylist() == [there, None]
        return
    with pytest.raises(Inexact):
        value.evaluate(batch)


@pytest.mark.parametrize(
    "expression",
    [
        "length(k)",
        "k LIKE '_'",
        "reverse(k)",
        "upper(k)",
        "substring(k, -1)",
        "trim(k)",
        "instr(k, k)",
        "md5(k)",
    ],
)
@pytest.mark.parametrize("raw", [b"\xff", b"\x80a", b"\xe4\xb8"])
def test_bytes_that_are_no_letters_are_left_to_spark(expression: str, raw: bytes) -> None:
    given = pa.array([raw, b"ok"])
    batch = pa.record_batch({"k": pa.Array.from_buffers(pa.string(), 2, given.buffers())})
    value = Compiler(derive_spark_schema(batch.schema), lambda: True).compile_value(
        parse_expression(expression)
    )
    assert value is not None
    with pytest.raises(Inexact):
        value.evaluate(batch)
