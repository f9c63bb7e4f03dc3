"""How much of a landing file is held at once: all bounds follow from one setting."""

from __future__ import annotations

import os
from dataclasses import dataclass

from engine.errors import EnvironmentNotReady
from engine.runtime.mebibytes import MebibyteSetting

SETTING = "TIDELINE_LANDING_MEMORY"
DEFAULT_MIB = 256
LONGEST_QUOTED_LINES = 1000
MOST_EXPANSION = 1000


@dataclass(frozen=True)
class ReadLimits:
    """Bytes that a poll holds of what it reads: `memory` of typed rows before they are committed; the others are shares of it."""

    memory: int = DEFAULT_MIB << 20

    @classmethod
    def from_environment(cls) -> ReadLimits:
        """Return the bounds that TIDELINE_LANDING_MEMORY sets, in MiB; raises EnvironmentNotReady for no number above 0."""
        memory = MebibyteSetting(SETTING, DEFAULT_MIB).read()
        if not memory:
            raise EnvironmentNotReady(
                f"{SETTING} is {os.environ[SETTING]}: a poll has to hold rows, in {DEFAULT_MIB} MiB for one"
            )
        return cls(max(memory, 64))

    @property
    def block(self) -> int:
        """Bytes of a text file that are read and parsed at once."""
        return self.memory // 64

    @property
    def row(self) -> int:
        """The longest row: a CSV record, a JSON line or an element of an array, a row of Parquet."""
        return self.memory // 16

    @property
    def column_chunk(self) -> int:
        """The largest column of a Parquet row group, not compressed: a page of it can be as large."""
        return self.memory * 4

    def is_bomb(self, decoded: int, stored: int) -> bool:
        """Tell whether rows take so much more room than their file that it is a decompression bomb."""
        return decoded > self.memory and decoded > stored * MOST_EXPANSION

    def describe_bomb(self, decoded: int, stored: int) -> str:
        """Say why a decompression bomb is not read."""
        return (
            f"the file takes {format_bytes(stored)}, its rows more than {format_bytes(decoded)}: such a "
            f"decompression bomb is not "
            f"read; write it with less compression, or raise {SETTING} ({self})"
        )

    def __str__(self) -> str:
        return f"{SETTING}={self.memory / (1 << 20):g}"


def format_bytes(count: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{count / (1 << 20):,.1f} MiB" if count >= 1 << 20 else f"{count:,} bytes"
