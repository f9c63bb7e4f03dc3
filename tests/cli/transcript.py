"""`python -m tests.cli.transcript` writes what commands print into the blocks of docs/cli.md: a store in every kind of trouble.

A block is written anew where a line `<!-- runs: COMMAND -->` stands before it, or `<!-- runs at 160: COMMAND -->` for that many
columns. It takes a minute, most of it to start Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from engine.errors import TidelineError
from engine.session import Session

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"<!-- runs(?: at (?P<width>\d+))?: (?P<command>.+?) -->\n```\n.*?\n```\n", re.DOTALL)
WIDTH = "80"

VIEWS = """
CREATE MATERIALIZED VIEW sales_by_bar AS SELECT bar, count(*) AS drinks, sum(cents) AS cents FROM sales GROUP BY bar;
CREATE MATERIALIZED VIEW average_price_of_each_drink AS
SELECT drink, sum(cents) DIV min(glasses) AS cents FROM sales GROUP BY drink;
CREATE MATERIALIZED VIEW best_sellers AS SELECT drink, cents FROM average_price_of_each_drink WHERE cents > 200;
CREATE MATERIALIZED VIEW rests AS SELECT receipt, drink FROM sales WHERE bar = 'south';
CREATE MATERIALIZED VIEW takings_by_day WITH (partition_by = 'day') AS
SELECT day, sum(cents DIV glasses) AS cents FROM sales GROUP BY day;
CREATE SINK to_the_office FROM sales_by_bar WITH (connector = 'file', path = 'office', format = 'jsonl')
"""


def sales(first: int, count: int, glasses: int = 1) -> pa.Table:
    """Return rows of the table `sales`."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "receipt": pa.array(numbers, pa.int64()),
            "day": [f"2026-11-{1 + n % 20:02}" for n in numbers],
            "bar": [("north", "south")[n % 2] for n in numbers],
            "drink": [("espresso", "latte", "tea")[n % 3] for n in numbers],
            "cents": pa.array([250 + n % 200 for n in numbers], pa.int64()),
            "glasses": pa.array([glasses for _ in numbers], pa.int64()),
        }
    )


def build(url: str) -> None:
    """Make a store with a view of each state: current, failed, waiting for another, paused, in quarantine, created; a sink behind."""
    with Session(url, "local[2]", backfill_rows=1000) as session:
        session.sql(
            "CREATE TABLE sales (receipt BIGINT PRIMARY KEY, day STRING, bar STRING, drink STRING, cents BIGINT, glasses BIGINT)"
        )
        session.write("sales", sales(0, 900))
        for statement in VIEWS.split(";"):
            session.sql(statement)
        session.pause("rests")
        session.flush()
        session.write("sales", sales(900, 900))
        session.write("sales", sales(5003, 1, glasses=0))
        session.flush(["average_price_of_each_drink", "best_sellers", "rests", "takings_by_day"])
        session._runner.run(["sales_by_bar"])  # without its sink
        session.sql(
            "CREATE MATERIALIZED VIEW drinks_by_hand WITH (background = 'true', backfill_rate_limit = 300) AS "
            "SELECT receipt, upper(drink) AS drink FROM sales"
        )
        session.flush(["drinks_by_hand"], background_seconds=2, sink_seconds=0)


def run(command: str, home: Path, width: str) -> str:
    """Return what a command prints on a terminal of `width` columns, errors beside results."""
    words = re.findall(r'"([^"]*)"|(\S+)', command)
    arguments = [quoted or plain for quoted, plain in words][1:]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "engine.cli", *arguments],
        env={
            **os.environ,
            "COLUMNS": width,
            "TIDELINE_HOME": str(home),
            "TIDELINE_STORE": (home / "store").as_uri(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.rstrip()


def main() -> int:
    """Write the page's blocks."""
    with tempfile.TemporaryDirectory(prefix="tideline-transcript-") as folder:
        home = Path(folder)
        os.environ["TIDELINE_HOME"] = folder
        try:
            build((home / "store").as_uri())
        except TidelineError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

        def block(found: re.Match[str]) -> str:
            command = found["command"]
            output = run(command, home, found["width"] or WIDTH).replace(folder, "/home/you/shop")
            at = f" at {found['width']}" if found["width"] else ""
            return f"<!-- runs{at}: {command} -->\n```\n$ {command}\n{output}\n```\n"

        PAGE.write_text(BLOCK.sub(block, PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
