"""A panic of delta-rs is an error like its others; what is no panic stays what it is."""

from __future__ import annotations

import pytest
from deltalake.exceptions import DeltaError

from engine.connectors.delta.sink.panics import panics_as_errors


def test_a_panic_is_an_error() -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    with pytest.raises(DeltaError, match="delta-rs has panicked: index out of bounds"), panics_as_errors():
        raise panic("index out of bounds")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError, DeltaError])
def test_what_is_no_panic_stays_what_it_is(failure: type[BaseException]) -> None:
    with pytest.raises(failure, match=r"^plain$"), panics_as_errors():
        raise failure("plain")
