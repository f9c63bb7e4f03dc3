"""The published face: all that a user imports comes from `tideline`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tideline
from engine import errors, session

INTERNAL = {"ClaimBroken", "GroundLost"}
"""Errors that no user catches: what has failed is tried again, or a fault of Tideline's own."""


def test_every_name_is_there_and_every_error_that_a_user_can_catch() -> None:
    assert all(getattr(tideline, name) is not None for name in tideline.__all__)
    known = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.TidelineError)
    }
    assert known - INTERNAL <= set(tideline.__all__)
    assert set(session.__all__) <= set(tideline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        tideline.Nothing  # noqa: B018


def test_the_storage_engine_needs_no_spark() -> None:
    code = "import sys; from tideline import Hummock; sys.exit('pyspark' in sys.modules or 'sqlglot' in sys.modules)"
    root = Path(tideline.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
