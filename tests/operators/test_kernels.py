"""What tasks compute on Arrow is what Spark computes, for every function that the compiler takes, at the edges of its types."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.operators.kernel_differences import (
    differences,
    fold_differences,
    key_differences,
    window_differences,
)
from tests.operators.kernels import fold_kernels, kernels, one_of_each, window_calls

FORMS = 300
"""So many expressions are asked of Spark at once."""


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_expressions_at_the_edges_of_their_types(
    spark: SparkSession, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    every = kernels()
    found = every if whole else one_of_each(every)[::3]
    parts = [differences(spark, found[n : n + FORMS]) for n in range(0, len(found), FORMS)]
    wrong, compared = [text for texts, _ in parts for text in texts], sum(count for _, count in parts)
    with capsys.disabled():
        names = len({kernel.name for kernel in every})
        print(
            f"\n{names} functions, {len(found)} of {len(every)} forms, {compared} values compared: {len(wrong)} differ"
        )
    assert names > 30
    assert not wrong, "\n".join(wrong)


def test_folds_and_keys_of_groups_at_the_edges_of_their_types(spark: SparkSession) -> None:
    found = fold_kernels()
    assert len(found) > 20
    folds, compared = fold_differences(spark, found)
    keys, kinds = key_differences(spark)
    assert compared > 100 and kinds > 6
    assert not folds + keys, "\n".join(folds + keys)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_calls_over_windows_at_the_edges_of_their_types(spark: SparkSession, whole: bool) -> None:
    found = window_calls(whole)
    assert len({type(call.call) for call, _ in found}) == 1 and len(found) > 50
    wrong, compared = window_differences(spark, found)
    assert compared > 5_000
    assert not wrong, "\n".join(wrong)
