"""The types of whole numbers, the narrowest first."""

from __future__ import annotations

WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""How many bits each has."""
INTEGRAL = tuple(WIDTHS)
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""How many digits the decimal has that each becomes beside decimals."""
