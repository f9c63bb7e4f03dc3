"""Claims: how often they are checked, and what a false one looks like."""

from __future__ import annotations

import pickle

import pytest

from engine.errors import EnvironmentNotReady, TidelineError
from engine.verification import VARIABLE, Assumption, build_assumption_error, should_verify

CLAIM = Assumption("two is even", "two can be halved", "arithmetic", "halving it")


@pytest.mark.parametrize(("setting", "expected"), [("", False), ("0", False), ("1", True), ("1.0", True)])
def test_the_setting_says_whether_claims_are_checked(
    monkeypatch: pytest.MonkeyPatch, setting: str, expected: bool
) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    assert all(should_verify() is expected for _ in range(100))


def test_a_share_checks_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0.5")
    assert {should_verify() for _ in range(200)} == {True, False}


@pytest.mark.parametrize("setting", ["yes", "2", "-1", "nan"])
def test_a_setting_that_is_no_share_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(EnvironmentNotReady, match=VARIABLE):
        should_verify()


def test_a_false_claim_tells_what_it_says_and_who_made_it_also_after_a_journey_between_processes() -> None:
    error = pickle.loads(pickle.dumps(build_assumption_error(CLAIM, "2 / 2 left a rest")))
    assert isinstance(error, TidelineError)
    assert error.claim == "two is even"
    for part in ("two is even", "2 / 2 left a rest", "two can be halved", "arithmetic"):
        assert part in str(error)
