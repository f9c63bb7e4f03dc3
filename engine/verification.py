"""Claims: what is taken for true so that work can be left out, and whether it is checked against the data as one goes.

`TIDELINE_VERIFY` says how often: unset or 0 never, 1 always, a number between them that share of the times.
"""

from __future__ import annotations

import functools
import os
import random
from dataclasses import dataclass

from engine.errors import ClaimBroken, EnvironmentNotReady

VARIABLE = "TIDELINE_VERIFY"


@dataclass(frozen=True)
class Assumption:
    """Something that is taken for true: what it `says`, who it is `made_by`, and what it is `checked_by`."""

    name: str
    says: str
    made_by: str
    checked_by: str


def should_verify() -> bool:
    """Tell whether the claim at hand is to be checked; raises EnvironmentNotReady for a setting that is no share."""
    share = _parse_share(os.environ.get(VARIABLE, ""))
    return share > 0 and (share >= 1 or random.random() < share)


def build_assumption_error(assumption: Assumption, detail: str) -> ClaimBroken:
    """Return the error for a claim that the data do not bear out; `detail` says where, and what was found instead."""
    message = (
        f'{detail}. It says: "{assumption.says}", and is made by {assumption.made_by}. This is a fault of Tideline: '
        f"please report it with what led to it"
    )
    return ClaimBroken(assumption.name, message)


@functools.lru_cache(maxsize=16)
def _parse_share(text: str) -> float:
    try:
        share = float(text or 0)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise EnvironmentNotReady(
            f'{VARIABLE}="{text}" is no share: set it to 0 (no assumption is checked), 1 (all are), or a number between'
        )
    return share
