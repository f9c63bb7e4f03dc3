"""Panics of delta-rs: faults in its Rust code, which reach Python as a BaseException that `except Exception` lets pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

_PANICS = "pyo3_runtime"
"""The module that the class of panics says it is of; it cannot be imported."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise DeltaError in the place of a panic inside."""
    try:
        yield
    except BaseException as failure:
        if type(failure).__module__ == _PANICS:
            raise DeltaError(f"delta-rs has panicked: {failure}") from failure
        raise
