"""Views over the tables of pgbench, kept while pgbench writes them: seconds behind, and rows beside PostgreSQL's own answers.

    python -m benchmarks.pgbench [--clients 4] [--seconds 60] [--scale 10] [--moments 10] [--rate 1000] [--warm 20]

A server of its own is started, as the tests have it; `pgbench` comes with it, and keeps the processors busy unless it has a
`--rate` of transactions a second; it runs in a session of its own, as from another terminal. Before it a slow one lets
the driver load and compile what an epoch needs, for `--warm` seconds. Four tables of one slot are followed, and two views
join three of them each and aggregate. A loop polls and flushes, as the driver of a project does. A transaction is behind from
its start, which pgbench writes into its row of history, to the end of the flush that shows it.

At some moments, and at the end, both views are compared with PostgreSQL's answer to the same text. The answer at a position in
the log is over the rows of history whose transactions had ended there, as a second slot reports them, and over balances that
are their sums. At the end it is also over the tables themselves. Ends with 1 where the median is over a second.
"""

from __future__ import annotations

import argparse
import bisect
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.connectors.contract.offsets import find_offset
from engine.connectors.postgres.positions import decode_offset, format_lsn
from engine.session import Session
from tests.connectors.postgres.server import PASSWORD, Database, PostgresProgram, get_server, stop_server

LIMIT = 1.0
WARMING_RATE = 200
WITNESS = "witness"
TABLES = {
    "pgbench_branches": "bid INT PRIMARY KEY, bbalance INT",
    "pgbench_tellers": "tid INT PRIMARY KEY, bid INT, tbalance INT",
    "pgbench_accounts": "aid INT PRIMARY KEY, bid INT, abalance INT",
    "pgbench_history": "id BIGINT PRIMARY KEY, tid INT, bid INT, aid INT, delta INT, mtime TIMESTAMP_NTZ",
}
VIEWS = {
    "balances": """SELECT b.bid AS bid, b.bbalance AS branch, t.tellers AS tellers, t.balance AS by_tellers,
a.accounts AS accounts, a.balance AS by_accounts, a.richest AS richest
FROM pgbench_branches AS b
JOIN (SELECT bid, count(*) AS tellers, sum(tbalance) AS balance FROM pgbench_tellers GROUP BY bid) AS t ON t.bid = b.bid
JOIN (
  SELECT bid, count(*) AS accounts, sum(abalance) AS balance, max(abalance) AS richest FROM pgbench_accounts GROUP BY bid
) AS a ON a.bid = b.bid""",
    "transfers": """SELECT t.tid AS tid, t.bid AS bid, count(*) AS transfers, sum(h.delta) AS moved, max(h.mtime) AS last,
sum(a.abalance) AS balances, min(a.aid) AS least
FROM pgbench_history AS h
JOIN pgbench_accounts AS a ON a.aid = h.aid
JOIN pgbench_tellers AS t ON t.tid = h.tid
GROUP BY t.tid, t.bid""",
}
AT_POSITION = """WITH pgbench_history AS (
  SELECT h.* FROM public.pgbench_history AS h JOIN ended AS e ON h.xmin::text::bigint = e.xid WHERE e.lsn <= '{lsn}'
), pgbench_branches AS (
  SELECT o.bid, coalesce(sum(h.delta), 0) AS bbalance FROM public.pgbench_branches AS o LEFT JOIN pgbench_history AS h
  ON h.bid = o.bid GROUP BY o.bid
), pgbench_tellers AS (
  SELECT o.tid, o.bid, coalesce(sum(h.delta), 0) AS tbalance FROM public.pgbench_tellers AS o LEFT JOIN pgbench_history AS h
  ON h.tid = o.tid GROUP BY o.tid, o.bid
), pgbench_accounts AS (
  SELECT o.aid, o.bid, coalesce(sum(h.delta), 0) AS abalance FROM public.pgbench_accounts AS o LEFT JOIN pgbench_history AS h
  ON h.aid = o.aid GROUP BY o.aid, o.bid
) {query}"""


@dataclass(frozen=True)
class Moment:
    """What the views held at a position in the log."""

    lsn: int
    rows: dict[str, list[tuple[Any, ...]]]


@dataclass
class Following:
    """What was seen while pgbench wrote: of each epoch its position, when it was visible, seconds of its poll and its flush."""

    positions: list[int]
    visible: list[float]
    polls: list[float]
    flushes: list[float]
    moments: list[Moment]


def run_pgbench(program: PostgresProgram, database: Database, *options: str) -> subprocess.Popen[str]:
    """Start pgbench over a database."""
    words = [str(program.programs / "pgbench"), "-h", "127.0.0.1", "-p", str(program.port), "-U", "tideline"]
    own = {**os.environ, "PGPASSWORD": PASSWORD}
    return subprocess.Popen(
        [*words, *options, database.name],
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def prepare(program: PostgresProgram, database: Database, session: Session, scale: int) -> None:
    """Make pgbench's tables, those that follow them, and the views; all of them hold the first rows."""
    with run_pgbench(program, database, "-i", "-s", str(scale), "-q") as filling:
        if filling.wait():
            raise SystemExit(f"pgbench -i ended with {filling.returncode}")
    database.run(
        "ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY",
        f"CREATE PUBLICATION tideline FOR TABLE {', '.join(TABLES)}",
        f"SELECT pg_create_logical_replication_slot('{WITNESS}', 'test_decoding')",
    )
    for name, columns in TABLES.items():
        session.sql(f"CREATE TABLE {name} ({columns}) WITH ({database.options(f'public.{name}')})")
    poll(session)
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.flush().raise_for_errors()


def poll(session: Session) -> None:
    """Take what has been written."""
    errors = [report.error for report in session.poll() if report.error]
    if errors:
        raise SystemExit(errors[0])


def follow(session: Session, writing: subprocess.Popen[str], seconds: float, moments: int) -> Following:
    """Poll and flush until pgbench has ended and all that it wrote is taken."""
    found = Following([], [], [], [], [])
    started = time.monotonic()
    while True:
        is_last = writing.poll() is not None
        began = time.monotonic()
        poll(session)
        polled = time.monotonic()
        session.flush().raise_for_errors()
        ended, position = time.monotonic(), find_position(session)
        if not found.positions or position > found.positions[-1]:
            found.positions.append(position)
            found.visible.append(time.time())
            found.polls.append(polled - began)
            found.flushes.append(ended - polled)
        elif is_last:
            found.moments.append(read_moment(session))
            return found
        if ended - started > seconds * (len(found.moments) + 1) / (moments + 1) and not is_last:
            found.moments.append(read_moment(session))


def find_position(session: Session) -> int:
    """Return the position in the log up to which all tables are taken; they have it in common.

    The snapshot of the first poll saw all there was: nothing else wrote.
    """
    version = session.store.refresh()
    offsets = [find_offset(session.store, version, version.tables[name]) for name in TABLES]
    positions = {decode_offset(offset.text).position for offset in offsets if offset is not None}
    assert len(positions) == 1, positions
    (position,) = positions
    return position.lsn if position.seen is None else position.seen.upto


def read_moment(session: Session) -> Moment:
    """Return what the views hold."""
    return Moment(find_position(session), {name: list_rows(session, name) for name in VIEWS})


def list_rows(session: Session, view: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in session.sql(f"SELECT * FROM {view}").to_pylist())


def note_ends(database: Database) -> None:
    """Write for each transaction where in the log its end is, as the second slot reports it, into a table."""
    database.run(
        "CREATE TABLE ended AS SELECT xid::text::bigint AS xid, lsn FROM "
        f"pg_logical_slot_get_changes('{WITNESS}', NULL, NULL) WHERE data LIKE 'COMMIT%'",
        "ALTER TABLE ended ADD PRIMARY KEY (xid)",
        "ANALYZE",
    )


def compare(database: Database, moment: Moment, *, is_last: bool) -> None:
    """Raise AssertionError unless the views held PostgreSQL's answers at the position."""
    for name, query in VIEWS.items():
        texts = [AT_POSITION.format(lsn=format_lsn(moment.lsn), query=query)] + [query] * is_last
        for text in texts:
            expected = sorted(database.ask(text))
            assert moment.rows[name] == expected, f"{name} differs at {format_lsn(moment.lsn)}"


def list_delays(database: Database, found: Following, since: float) -> list[float]:
    """Return of each transaction that began after a moment the seconds from its start to the first epoch that shows it."""
    text = (
        "SELECT extract(epoch FROM h.mtime::timestamptz)::float8, (e.lsn - '0/0'::pg_lsn)::bigint FROM pgbench_history AS h "
        f"JOIN ended AS e ON h.xmin::text::bigint = e.xid WHERE h.mtime::timestamptz >= to_timestamp({since})"
    )
    return [
        found.visible[bisect.bisect_left(found.positions, lsn)] - began for began, lsn in database.ask(text)
    ]


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--warm", type=int, default=20)
    return parser.parse_args()


def main() -> int:
    """Follow pgbench and print how far the views were behind, and how many comparisons there were."""
    given = parse_arguments()
    program = get_server()
    database = program.create_database()
    with tempfile.TemporaryDirectory() as folder, Session((Path(folder) / "store").as_uri()) as session:
        prepare(program, database, session, given.scale)

        def run(seconds: int, rate: int, moments: int) -> Following:
            options = [*f"-n -c {given.clients} -T {seconds}".split(), *(["-R", str(rate)] if rate else [])]
            with run_pgbench(program, database, *options) as writing:
                found = follow(session, writing, seconds, moments)
                if writing.returncode:
                    raise SystemExit(f"pgbench ended with {writing.returncode}")
            return found

        if given.warm:
            run(given.warm, WARMING_RATE, 0)
        since = time.time()
        found = run(given.seconds, given.rate, given.moments)
    note_ends(database)
    for moment in found.moments:
        compare(database, moment, is_last=moment is found.moments[-1])
    delays = sorted(list_delays(database, found, since))
    median = statistics.median(delays)
    print(
        f"{len(delays):,} transactions of {given.clients} clients, {len(delays) / given.seconds:,.0f} a second"
    )
    parts = (("polls", found.polls), ("flushes", found.flushes))
    took = ", ".join(f"{name} of {statistics.median(seconds):.2f} s" for name, seconds in parts)
    print(f"{len(found.positions)} epochs: {took}")
    print(
        f"seconds behind: median {median:.2f}, 95 % {delays[len(delays) * 95 // 100]:.2f}, most {delays[-1]:.2f}"
    )
    print(f"views equal PostgreSQL's answers at {len(found.moments)} positions, the last of them the end")
    return int(median > LIMIT)


if __name__ == "__main__":
    try:
        code = main()
    finally:
        stop_server()
    sys.exit(code)
