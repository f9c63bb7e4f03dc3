"""Parameters of which `make test` takes the first ones, and `make long` the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mark_rest_long(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """Return the values as parameters; all but the first `keep` are marked `long`. A tuple has a value for each argument."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if number < keep else pytest.mark.long,
        )
        for number, value in enumerate(values)
    ]
