"""The table of conversions against Spark's ANSI store assignment: nothing differs but what the page lists."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.sql.typing.spark_conversions import NESTED, VALUES, compare, report
from tools.conversions import DIFFERENCES, find_reason

SAMPLE = ("boolean", "int", "bigint", "float", "double", "decimal(10,2)", "string", "date", "timestamp")


@pytest.mark.spark
def test_a_sample_of_pairs_is_converted_as_spark_does(spark: SparkSession) -> None:
    found = compare(spark, SAMPLE)
    assert (found.pairs, found.unexplained) == (len(SAMPLE) ** 2, []), report(found)


@pytest.mark.long
@pytest.mark.spark
def test_all_pairs_are_converted_as_spark_does_but_for_what_the_page_lists(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compare(spark, [*VALUES, *NESTED])
    with capsys.disabled():
        print(f"\n{report(found).splitlines()[0]}, {sum(found.differences.values())} that the page lists")
    assert found.unexplained == []
    seen = {
        find_reason(*pair.split(" -> "), what) for (pair, what) in found.differences if what != "value"
    }  # digits depend on the Java
    assert seen == {reason for (_, _, what), reason in DIFFERENCES.items() if what != "value"}
