"""PostgreSQL as a judge: the statements of a session, asked by psql in a database of their own."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import uuid
from dataclasses import dataclass

from tests.transcripts.script import Row, Step

_NULL, _END = "␀", "=====end of a statement====="
_MEANINGLESS = re.compile(r"(FLUSH|RECOVER|WAIT|REFRESH|SET\s+rw_\w+)\b", re.IGNORECASE)
_VIEWS = re.compile(
    r"\b(CREATE|DROP|ALTER|COMMENT\s+ON)(\s+OR\s+REPLACE)?\s+MATERIALIZED\s+VIEW\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Answer:
    """What the judge answered: the types of its columns and its rows, None if it gives none; or its error."""

    types: list[str] | None
    rows: list[Row]
    error: str | None


def asked(step: Step) -> str:
    """Return what the judge is asked: materialized views are views, and what it has no word for is left out."""
    if "judge" in step.marks:
        return step.marks["judge"].rstrip(";")
    if "only" in step.marks or _MEANINGLESS.match(step.text):
        return ""
    return _VIEWS.sub(lambda found: f"{found[1]}{found[2] or ''} VIEW", step.text).rstrip().rstrip(";")


def answers(steps: list[Step]) -> list[Answer | None]:
    """Run the statements of a session in a new database; None for those that the judge is not asked."""
    name = f"transcript_{uuid.uuid4().hex[:8]}"
    _psql("postgres", f"CREATE DATABASE {name};")
    try:
        return _answers(name, steps)
    finally:
        _psql("postgres", f"DROP DATABASE {name};")


def _answers(database: str, steps: list[Step]) -> list[Answer | None]:
    script = [f"\\pset null {_NULL}", "\\pset format csv", "\\set QUIET on", "SET intervalstyle = postgres;"]
    texts = [asked(step) for step in steps]
    for text in texts:
        if text:
            *before, last = _statements(text)
            script += [f"{part};" for part in before]
            script += [last, "\\gdesc", f"\\echo {_END}", last, ";", f"\\echo {_END}"]
            script += [
                "\\echo :LAST_ERROR_MESSAGE",
                "\\if :ERROR",
                "\\echo failed",
                "\\endif",
                f"\\echo {_END}",
            ]
    parts = iter(_psql(database, "\n".join(script)).split(f"{_END}\n"))
    return [_answer(next(parts), next(parts), next(parts)) if text else None for text in texts]


def _statements(text: str) -> list[str]:
    """Return the statements of one text; a semicolon at the end of a line ends one."""
    return [part for part in re.split(r";\s*\n|;(?=\s+[A-Z])", text) if part.strip()]


def _answer(described: str, rows: str, output: str) -> Answer:
    if output.rstrip().endswith("failed"):
        return Answer(None, [], output.strip().rsplit("\n", 1)[0])
    columns = list(csv.reader(io.StringIO(described)))
    if columns[:1] != [["Column", "Type"]]:
        return Answer(None, [], None)
    found = list(csv.reader(io.StringIO(rows)))
    return Answer(
        [kind for _, kind in columns[1:]],
        [[None if v == _NULL else v for v in row] for row in found[1:]],
        None,
    )


def _psql(database: str, script: str) -> str:
    command = ["psql", "-X", "-q", "-U", "postgres", "-d", database, "-f", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout
