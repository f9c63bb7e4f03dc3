"""A short slice of `make state-machine`."""

from __future__ import annotations

from tests.hummock.state_machine.machine import run


def test_any_verb_in_any_order_reads_as_the_dictionary_of_versions() -> None:
    assert run(100) >= 100
