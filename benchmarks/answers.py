"""Why rows are there, and why others are not: random rows of four projects, the seconds of each answer, and whether it is right.

`python -m benchmarks.answers [--rows 200] [--absences 40] [--seed 1] [--only flights,tpch] [--json FILE]`

The projects are the flights of the demo (two months), TPC-H at scale 0.01, Nexmark's queries and views over windows, these two
over 20,000 events. Of their views random rows are drawn in turn, and `why` is asked of each. The rows that it names are written
alone into another store with the same tables and views: the row must be there again. For absences a value of a random row is
replaced by one that no row has, and `why-not` is asked of that. Exit status 1: a row did not come again, a question could not be
answered, or 95 of 100 answers to `why` took longer than two seconds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import tpch
from demo.dataset import load_dataset, select_cancelled, select_flown
from engine.connectors.nexmark.events import NexmarkEvents
from engine.errors import TidelineError
from engine.runtime.answers.why import RowOrigin, are_equal
from engine.session import Session
from engine.sql.statements.reader import split_statements

FOLDER = Path(__file__).parent.parent
QUERIES, FLIGHTS = FOLDER / "tests" / "oracle", FOLDER / "assets" / "flights"
MOST_SECONDS = 2.0
MOST_DRAWS = 100
UNTRACEABLE = "cannot be traced"
"""What the answer says of views whose rows have no rows behind them that are known."""
EVENTS = 20_000
WINDOWS = {
    "per_minute": (
        "SELECT auction, window_start, count(*) AS n, max(price) AS best "
        "FROM TUMBLE(bid, date_time, INTERVAL '1 minute') GROUP BY auction, window_start"
    ),
    "sliding": (
        "SELECT bidder, window_start, sum(price) AS total "
        "FROM HOP(bid, date_time, INTERVAL '1 minute', INTERVAL '5 minutes') GROUP BY bidder, window_start"
    ),
    "visits": (
        "SELECT bidder, window_start, window_end, count(*) AS n "
        "FROM SESSION(bid PARTITION BY bidder, date_time, INTERVAL '30 seconds') "
        "GROUP BY bidder, window_start, window_end"
    ),
    "running": "SELECT id, sum(price) OVER (PARTITION BY auction ORDER BY date_time, id) AS spent FROM bid",
    "places": "SELECT id, rank() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid",
    "before": "SELECT id, lag(price, 2) OVER (PARTITION BY bidder ORDER BY date_time, id) AS earlier FROM bid",
    "highest": (
        "SELECT * FROM (SELECT id, auction, price, row_number() OVER "
        "(PARTITION BY auction ORDER BY price DESC, id) AS n FROM bid) WHERE n <= 3"
    ),
}
console = Console(width=140 if not sys.stdout.isatty() else None)


@dataclass(frozen=True)
class Project:
    """Tables with their rows, and views over them, inputs before their readers, by their statements."""

    tables: Sequence[str]
    views: Sequence[str]
    load: Callable[[Session], Mapping[str, pa.Table]]
    dialect: Literal["spark", "postgres"] = "spark"

    def create(self, session: Session) -> list[str]:
        """Create the tables and views, without a build, and return the views' names."""
        session.dialect = self.dialect
        for text in self.tables:
            session.sql(text)
        before = set(session.catalog.relations)
        for text in self.views:
            session.sql(text, build=False)
        relations = session.catalog.relations
        return [
            name for name in relations if name not in before and relations[name].kind == "materialized view"
        ]


@dataclass
class Answers:
    """What was asked of a project: the seconds of answers by view, and what went wrong."""

    why: dict[str, list[float]] = field(default_factory=dict)
    why_not: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    untraceable: dict[str, str] = field(default_factory=dict)
    """Views whose rows cannot be traced by design, and what is said of them."""

    def note_error(self, question: str, view: str, error: TidelineError) -> None:
        """Keep what was answered instead of an explanation."""
        if UNTRACEABLE in str(error):
            self.untraceable[view] = str(error)
        else:
            self.failures.append(f"{question}: {error}")


def read_flights() -> Project:
    """Return the demo's views over its tables, which are written here instead of landing."""
    tables = [
        re.sub(r"\)\s*WITH\s*\(connector.*", ")", text, flags=re.DOTALL)
        for text in split_statements((FLIGHTS / "sources.sql").read_text(), "spark")
    ]
    texts = {path.stem: path.read_text() for path in FLIGHTS.glob("*.sql") if path.stem != "sources"}
    return Project(tables, _put_in_order(texts), _load_flights)


def _put_in_order(texts: Mapping[str, str]) -> list[str]:
    """Return the statements of views, those that others read before these."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for other in texts:
            if other != name and re.search(rf"\b(FROM|JOIN) {other}\b", texts[name]):
                add(other)
        found.setdefault(name)

    for name in sorted(texts):
        add(name)
    return [texts[name] for name in found]


def _load_flights(session: Session) -> dict[str, pa.Table]:
    data = load_dataset()
    first, last = datetime.date(2013, 1, 1), datetime.date(2013, 2, 28)
    flights = data.select_flights(first, last)
    rows = {
        "airlines": data.airlines,
        "airports": data.airports,
        "planes": data.planes,
        "weather": data.select_weather(first, last),
        "flights": select_flown(flights),
        "cancellations": select_cancelled(flights),
    }
    found = {}
    for name, some in rows.items():
        schema = session.store.version.tables[name].schema
        columns = [some.column(field.name).cast(field.type) for field in schema]
        found[name] = pa.Table.from_arrays(columns, schema.names)
    return found


def read_tpch() -> Project:
    """Return the queries of TPC-H as views."""
    return Project(*_read_queries("tpch"), lambda _: tpch.generate_tables(0.01), "postgres")


def read_nexmark() -> Project:
    """Return the queries of Nexmark that do not read a bid's arrival as views."""
    return Project(*_read_queries("nexmark"), _load_events, "postgres")


def read_windows() -> Project:
    """Return views over windows of Nexmark's bids."""
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in WINDOWS.items()]
    return Project(_read_queries("nexmark")[0], views, _load_events, "postgres")


def _read_queries(kind: str) -> tuple[list[str], list[str]]:
    tables = split_statements((QUERIES / kind / "schema.sql").read_text(), "postgres")
    texts = {path.stem: path.read_text() for path in sorted((QUERIES / kind).glob("q*.sql"))}
    views = [
        f"CREATE MATERIALIZED VIEW {kind}_{name} AS {text}"
        for name, text in texts.items()
        if "p_time" not in text
    ]
    return tables, views


def _load_events(_: Session) -> dict[str, pa.Table]:
    source = NexmarkEvents(rate=10)
    rows = {kind: source.generate_rows(kind, 0, EVENTS) for kind in ("person", "auction", "bid")}
    keys = range(0, 10_000, 3)
    side = pa.table({"key": keys, "value": [f"value {key % 97}" for key in keys]})
    return {**rows, "side_input": side}


PROJECTS = {
    "flights": read_flights,
    "tpch": read_tpch,
    "nexmark": read_nexmark,
    "windows": read_windows,
}


def ask(project: Project, folder: str, rows: int, absences: int, seed: int) -> Answers:
    """Ask about random rows of a project's views."""
    found = Answers()
    with Session(f"file://{folder}/whole") as whole, Session(f"file://{folder}/copy") as copy:
        views = project.create(whole)
        project.create(copy)
        tables = project.load(whole)
        for name, some in tables.items():
            whole.write(name, some)
        for session in (whole, copy):
            session.flush().raise_for_errors()
        draw = random.Random(seed)
        for view, row in draw_rows(whole, views, draw, rows):
            seconds, origin = measure(partial(whole.why, view, row))
            if isinstance(origin, TidelineError):
                found.note_error(f"why {view} {row}", view, origin)
                continue
            found.why.setdefault(view, []).append(seconds)
            if not is_made_again(copy, list(tables), origin):
                found.failures.append(f"why {view} {row}: its rows do not make it again")
            console.print(f"why {view}: {seconds:.2f} s", style="dim")
        for view, row in draw_rows(whole, views, draw, absences):
            wanted = draw_absence(whole, view, row, draw)
            seconds, absence = measure(partial(whole.why_not, view, wanted))
            if isinstance(absence, TidelineError):
                found.note_error(f"why-not {view} {wanted}", view, absence)
                continue
            found.why_not.setdefault(view, []).append(seconds)
            console.print(f"why-not {view}: {seconds:.2f} s", style="dim")
    return found


def draw_rows(
    session: Session, views: Sequence[str], draw: random.Random, rows: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield so many rows, of one view that has any after the other."""
    content = {view: session.sql(f"SELECT * FROM {view}") for view in views}
    left = {view: some for view, some in content.items() if some is not None and some.num_rows}
    for n in range(rows if left else 0):
        view = list(left)[n % len(left)]
        at = draw.randrange(left[view].num_rows)
        yield view, left[view].slice(at, 1).to_pylist()[0]


def change_value(row: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a row with another value in one column."""
    column = draw.choice(sorted(row))
    value = row[column]
    match value:
        case bool():
            other: Any = not value
        case int() | float() | Decimal():
            other = value + 1
        case str():
            other = value + "x"
        case datetime.datetime() | datetime.date():
            other = value + datetime.timedelta(days=4_000)
        case _:
            return {**row, column: None if value is not None else "nothing"}
    return {**row, column: other}


def draw_absence(session: Session, view: str, row: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a row that the view does not have: another one with another value in one column."""
    content = session.sql(f"SELECT * FROM {view}")
    assert content is not None
    rows = content.to_pylist()
    for _ in range(MOST_DRAWS):
        wanted = change_value(row, draw)
        if not any(are_equal(one, wanted) for one in rows):
            return wanted
    raise RuntimeError(f"{view}: {MOST_DRAWS} changes of {row} are all rows of the view")


def measure(ask_session: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of an answer, and the answer, or what was raised instead."""
    started = time.perf_counter()
    try:
        answer = ask_session()
    except TidelineError as error:
        answer = error
    return time.perf_counter() - started, answer


def is_made_again(copy: Session, tables: Sequence[str], origin: RowOrigin) -> bool:
    """Tell whether the rows behind a row make it again, alone in the tables of another store."""
    for name in tables:
        copy.sql(f"DELETE FROM {name}")
    for name, rows in origin.sources.items():
        if rows.num_rows:
            copy.write(name, rows)
    copy.flush([origin.view]).raise_for_errors()
    content = copy.sql(f"SELECT * FROM {origin.view}")
    assert content is not None
    row = origin.row.to_pylist()[0]
    return any(are_equal(one, row) for one in content.to_pylist())


def describe(seconds: Sequence[float]) -> list[str]:
    """Return the count, the median, the 95th percentile and the longest of some seconds."""
    if not seconds:
        return ["0", "", "", ""]
    at = [float(np.quantile(seconds, q)) for q in (0.5, 0.95, 1.0)]
    return [str(len(seconds)), *(f"{one:.2f}" for one in at)]


def main() -> int:
    """Ask, print and judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.answers", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--absences", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(PROJECTS))
    parser.add_argument("--json")
    args = parser.parse_args()
    chosen = args.only.split(",")
    answers: dict[str, Answers] = {}
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            part = args.rows // len(chosen), args.absences // len(chosen)
            answers[name] = ask(PROJECTS[name](), folder, *part, args.seed)
    table = Table("project", "question", "asked", "median s", "95 % s", "longest s", "slowest view")
    every: list[float] = []
    for name, found in answers.items():
        for question, by_view in (("why", found.why), ("why-not", found.why_not)):
            seconds = [one for some in by_view.values() for one in some]
            slowest = max(by_view, key=lambda view: max(by_view[view]), default="")
            table.add_row(name, question, *describe(seconds), slowest)
        every += [one for some in found.why.values() for one in some]
    table.add_row("all", "why", *describe(every), "")
    console.print(table)
    failures = [f"{name}: {text}" for name, found in answers.items() for text in found.failures]
    for text in failures:
        console.print(text, style="red")
    for found in answers.values():
        for view, text in found.untraceable.items():
            console.print(f"{view} is left out: {text}", style="yellow")
    longest = float(np.quantile(every, 0.95)) if every else 0.0
    console.print(
        f"{len(failures)} wrong or without an answer; 95 of 100 within {longest:.2f} s ({MOST_SECONDS:g} demanded)"
    )
    if args.json:
        Path(args.json).write_text(
            json.dumps({name: {"why": f.why, "why-not": f.why_not} for name, f in answers.items()}, indent=1)
        )
    return int(bool(failures) or longest > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
