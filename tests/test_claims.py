"""The list of claims: each says who makes it and how it is checked, and each is checked somewhere."""

from __future__ import annotations

from pathlib import Path

from engine import claims
from engine.verification import Claim

ENGINE = Path(claims.__file__).parent


def test_every_claim_says_who_makes_it_and_how_it_is_checked() -> None:
    assert len({claim.name for claim in claims.CLAIMS}) == len(claims.CLAIMS)
    assert all(claim.says and claim.made_by and claim.checked_by for claim in claims.CLAIMS)
    assert {c for c in vars(claims).values() if isinstance(c, Claim)} == set(claims.CLAIMS)


def test_every_claim_is_checked_in_the_engine_or_by_crash_programs_or_random_worlds() -> None:
    checks = [path for path in ENGINE.rglob("*.py") if path != Path(claims.__file__)]
    text = "".join(path.read_text() for path in checks)
    names = {name for name, value in vars(claims).items() if isinstance(value, Claim)}
    assert {name for name in names if f"broken({name}" not in text.replace("\n", "").replace(" ", "")} == {
        "EMPTY",
        "NO_CHANGE",
    }
