"""Values that several expressions have in common: the same object in all of them, computed once for each batch.

Method: common subexpression elimination by hash consing, from the leaves up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from engine.operators.arrow.expressions import Memo, Value


class EqualValues:
    """Keeps one object of each value: values of equal kind, function and arguments become the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Value] = {}

    def merge(self, value: Value) -> Value:
        """Return the object that stands for all values like this one.

        Constants, and what a kernel is given, are told apart by their texts too: -0.0 equals 0.0, and is another number.
        """
        arguments = tuple(map(self.merge, value.arguments))
        if any(new is not old for new, old in zip(arguments, value.arguments, strict=True)):
            value = replace(value, arguments=arguments)
        kernel = value.kernel
        key = (
            *(value.kind, value.function, value.name, value.constant, repr(value.constant)),
            *(() if kernel is None else (kernel, repr(kernel.options))),
            *map(id, arguments),
        )
        try:
            return self._known.setdefault(key, value)
        except TypeError:  # it is given something that has no hash
            return value


def merge_equal(items: Iterable[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """Return named values in which equal parts are the same object."""
    known = EqualValues()
    return [(name, known.merge(value)) for name, value in items]


@dataclass(frozen=True)
class NamedValues:
    """Values of each row of a batch, by name; what they have in common is computed once."""

    items: tuple[tuple[str, Value], ...]

    def evaluate(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the values of a batch's rows; raises Inexact."""
        memo: Memo | None = dict.fromkeys(self._shared) if self._shared else None
        arrays = [value.evaluate(batch, memo) for _, value in self.items]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.items])

    @cached_property
    def _shared(self) -> frozenset[int]:
        """The ids of the values that are used more than once, but for columns, which cost nothing."""
        uses: Counter[int] = Counter()
        left = [value for _, value in self.items]
        while left:
            value = left.pop()
            if value.function == "column":
                continue
            uses[id(value)] += 1
            if uses[id(value)] == 1:
                left += value.arguments
        return frozenset(at for at, count in uses.items() if count > 1)
