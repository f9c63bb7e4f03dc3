"""The list of claims: each says who makes it and how it is checked, and each is checked somewhere."""

from __future__ import annotations

from pathlib import Path

from engine import assumptions
from engine.verification import Assumption

ENGINE = Path(assumptions.__file__).parent


def test_every_claim_says_who_makes_it_and_how_it_is_checked() -> None:
    assert len({claim.name for claim in assumptions.ASSUMPTIONS}) == len(assumptions.ASSUMPTIONS)
    assert all(claim.says and claim.made_by and claim.checked_by for claim in assumptions.ASSUMPTIONS)
    assert {c for c in vars(assumptions).values() if isinstance(c, Assumption)} == set(
        assumptions.ASSUMPTIONS
    )


def test_every_claim_is_checked_in_the_engine_or_by_programs_worlds_or_tests_of_its_own() -> None:
    checks = [path for path in ENGINE.rglob("*.py") if path != Path(assumptions.__file__)]
    text = "".join(path.read_text() for path in checks).replace("\n", "").replace(" ", "")
    names = {name for name, value in vars(assumptions).items() if isinstance(value, Assumption)}
    assert {
        name
        for name in names
        if f"build_assumption_error({name}," not in text
        and f"check_recomputed(self._store.reader,task,{name}," not in text
    } == {
        "EMPTY",
        "NO_CHANGE",
        "SAME_PLAN",
    }
