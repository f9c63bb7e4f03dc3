"""The package of what tests need: its example runs."""

import doctest

from engine import testing
from engine.hummock import Hummock


def test_the_example_opens_a_store_in_memory() -> None:
    outcome = doctest.testmod(testing, extraglobs={"Hummock": Hummock})
    assert (outcome.failed, outcome.attempted) == (0, 2)
