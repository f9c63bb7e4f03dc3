"""Sizes that a variable of the environment gives as a number of MiB."""

from __future__ import annotations

import os
from dataclasses import dataclass

from engine.errors import EnvironmentNotReady

_MIB = 1 << 20


@dataclass(frozen=True)
class MebibyteSetting:
    """A variable of the environment that gives a size as a number of MiB, and what holds where it is not set."""

    variable: str
    default: float

    def read(self) -> int:
        """Return the size in bytes; raises EnvironmentNotReady for a text that is no size."""
        text = os.environ.get(self.variable)
        try:
            size = float(text) if text else self.default
        except ValueError:
            size = -1.0
        if not 0 <= size < 1 << 40:
            raise EnvironmentNotReady(
                f'{self.variable} is "{text}": set it to a number of MiB, such as {self.default:g}'
            )
        return int(size * _MIB)
