"""Sizes that a variable of the environment gives as a number of MiB."""

from __future__ import annotations

from engine.errors import EnvironmentNotReady

_MIB = 1 << 20


def parse_mebibytes(variable: str, text: str | None, default_mib: float) -> int:
    """Return the bytes of a text that is a number of MiB, the default's for none; raises EnvironmentNotReady for others."""
    try:
        size = float(text) if text else default_mib
    except ValueError:
        size = -1.0
    if not 0 <= size < 1 << 40:
        raise EnvironmentNotReady(
            f'{variable} is "{text}": set it to a number of MiB, such as {default_mib:g}'
        )
    return int(size * _MIB)
