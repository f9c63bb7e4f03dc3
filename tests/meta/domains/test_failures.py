"""When what failed is tried again: a domain and a partition by one rule, from what the store remembers of them."""

from __future__ import annotations

import pytest

from engine.meta.domains.failures import RETRIES, Failure
from engine.meta.domains.quarantine import QuarantinedPartition

NOW = 1_800_000_000.0


@pytest.mark.parametrize("attempts", [1, 5, 50])
def test_a_failing_domain_and_a_partition_wait_by_one_rule(attempts: int) -> None:
    domain = Failure("no", attempts, NOW - 7.0, NOW)
    partition = QuarantinedPartition(None, "no", 1, attempts, NOW - 7.0, NOW)
    assert domain.tries == partition.tries
    assert domain.tries.is_waiting(NOW) and not domain.tries.is_waiting(NOW + RETRIES.longest)
