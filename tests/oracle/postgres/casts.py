"""Casts between all pairs of types: `python -m tests.oracle.postgres.casts` records what PostgreSQL makes of each value.

An answer is a text, null, or an error: of the pair of types (REFUSED) or of the value (FAILS).
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.transcripts.postgres import answers
from tests.transcripts.script import Step

RECORDED = Path(__file__).parent / "casts.json"
REFUSED, FAILS = "!refused", "!fails"
VALUES: dict[str, tuple[str, ...]] = {
    "smallint": ("0", "-7", "32767"),
    "int": ("1", "-2147483648", "70000"),
    "bigint": ("5", "-9223372036854775808", "4000000000"),
    "numeric(12,3)": ("0", "2.5", "-12345678.999"),
    "real": ("0.5", "-1.5", "1e20"),
    "double precision": ("2.5", "NaN", "-1e-7"),
    "text": ("42", "t", "2024-02-29 10:00:00"),
    "boolean": ("t", "f", "t"),
    "date": ("2024-02-29", "1969-12-31", "9999-01-01"),
    "timestamp": ("2024-02-29 23:59:59.5", "1969-12-31 00:00:00", "2001-01-01 12:00:00.000001"),
    "timestamptz": ("2024-02-29 23:59:59.5+00", "1969-12-31 00:00:00+00", "2001-01-01 12:00:00+00"),
    "time": ("00:00:00", "23:59:59.999999", "12:30:00"),
    "bytea": ("\\x00ff", "\\x", "\\x6162"),
    "jsonb": ('{"a": 1}', "5", '"x"'),
    "int[]": ("{1,2}", "{}", "{NULL,3}"),
}
TYPES = tuple(VALUES)
TABLE = (
    "CREATE TABLE given (id int PRIMARY KEY, "
    + ", ".join(f"c{n} {kind}" for n, kind in enumerate(TYPES))
    + ")"
)
INSERT = "INSERT INTO given VALUES " + ", ".join(
    f"({row}, " + ", ".join("'" + VALUES[kind][row] + "'" for kind in TYPES) + ")" for row in range(3)
)
Answers = dict[str, list[str | None]]


def pairs() -> list[tuple[str, str]]:
    """Return all pairs of different types."""
    return [(one, other) for one in TYPES for other in TYPES if one != other]


def cast(one: str, other: str) -> str:
    """Return a cast of the column of one type to another."""
    return f"CAST(c{TYPES.index(one)} AS {other})"


def asked() -> Answers:
    """Return what PostgreSQL answers for each pair, value by value."""
    texts = [TABLE, INSERT]
    for one, other in pairs():
        texts += [f"SELECT {cast(one, other)} FROM given WHERE id = {row}" for row in range(3)]
    found = iter(answers([Step([text], text, {}) for text in texts])[2:])
    result: Answers = {}
    for one, other in pairs():
        cells: list[str | None] = []
        for _ in range(3):
            answer = next(found)
            assert answer is not None
            error = answer.error or ""
            cells.append(
                REFUSED if error.startswith("cannot cast type") else FAILS if error else answer.rows[0][0]
            )
        result[f"{one} -> {other}"] = cells
    return result


def recorded() -> Answers:
    """Return what PostgreSQL has answered."""
    found: Answers = json.loads(RECORDED.read_text())
    return found


if __name__ == "__main__":
    lines = (f"{json.dumps(pair)}: {json.dumps(cells)}" for pair, cells in asked().items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
