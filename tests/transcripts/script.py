"""A session as a file: statements, each with what is expected of it in the comment lines below.

    SELECT id, name FROM t ORDER BY id;
    --: integer text
    --> ["1", "Ann"]

`--:` tells the types of the columns, `-->` is a row as the judge's texts, `--!` a part of the message of the error that is expected.
Comment lines before a statement may mark it: `-- judge: …` is what the judge is asked instead (nothing: it is not asked),
`-- only: tideline, why` and `-- differs: why` keep what the file expects, whatever the judge says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "sessions"
_MARK = re.compile(r"-- (judge|only|differs): ?(.*)")
Row = list[str | None]


@dataclass
class Step:
    """A statement (or several, as one text), its marks, and what is expected: types and rows, or an error's fragment."""

    lines: list[str]
    text: str
    marks: dict[str, str]
    types: list[str] | None = None
    rows: list[Row] = field(default_factory=list)
    error: str | None = None
    place: int = 0

    @property
    def ordered(self) -> bool:
        """Tell whether the order of its rows counts: where ORDER BY stands outside of all parentheses."""
        depth, plain = 0, re.sub(r"'[^']*'", "''", self.text)
        for word in re.finditer(r"[()]|ORDER\s+BY", plain, re.IGNORECASE):
            depth += {"(": 1, ")": -1}.get(word[0], 0)
            if depth == 0 and word[0] not in "()":
                return True
        return False


@dataclass
class Script:
    """The statements of one session, and what stands before them."""

    head: list[str]
    dialect: str
    steps: list[Step]

    def written(self) -> str:
        """Return the file's text."""
        return "\n".join([*self.head, *(f"\n{part}" for part in map(_written, self.steps))]) + "\n"


def read(path: Path) -> Script:
    """Read a session's file."""
    blocks = list(_blocks(path.read_text().splitlines()))
    (_, head), *rest = blocks
    dialect = next(line.split(":")[1].strip() for line in head if line.startswith("-- dialect:"))
    return Script(head, dialect, [_step(lines, place) for place, lines in rest])


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    found: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            found.append(line.rstrip())
        elif found:
            yield number - len(found), found
            found = []


def _step(lines: list[str], place: int) -> Step:
    kept = [line for line in lines if not line.startswith(("--:", "-->", "--!"))]
    sql = [line for line in kept if not line.startswith("--")]
    marks = {m[1]: m[2] for line in kept if (m := _MARK.match(line))}
    step = Step(kept, "\n".join(sql), marks, place=place)
    for line in lines:
        if line.startswith("--:"):
            step.types = [part.strip() for part in line[3:].split("|")] if line[3:].strip() else []
        elif line.startswith("-->"):
            step.rows.append(json.loads(line[3:]))
        elif line.startswith("--!"):
            step.error = line[3:].strip()
    return step


def _written(step: Step) -> str:
    lines = list(step.lines)
    if step.error is not None:
        return "\n".join([*lines, f"--! {step.error}"])
    if step.types is not None:
        lines.append(f"--: {' | '.join(step.types)}")
        lines += [f"--> {json.dumps(row, ensure_ascii=False)}" for row in step.rows]
    return "\n".join(lines)
