"""What the distance of a bucket costs: epochs of 1,000 and of 100,000 changes with 0, 20 and 80 ms added to each request.

`python -m benchmarks.latency [--epochs 5] [--delays 0 20 80]` starts an S3 server on loopback in a process of its own that holds
each request back, and keeps two views (sums by customer, a join of two tables) over 200,000 orders there. An epoch is one
`Session.write` and one `Session.flush`; both are told apart. For each size and delay it prints the median seconds, how many
requests of each kind an epoch sent, from whatever process, the most of them of which none began before the one before had
ended, and what a million epochs would cost at the prices of `engine.hummock.monitoring.prices`. The round trips that an epoch
waits for
are read from the seconds: what 80 ms a request add to them, by 80 ms. It ends with 1 if a flush of 1,000 changes waits for more
than four. The delays take turns. At the end the views are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from engine.hummock.monitoring.prices import calculate_dollars
from engine.session import Session

ORDERS = 200_000
CUSTOMERS = 5_000
SIZES = (1_000, 100_000)
DELAYS_MS = (0, 20, 80)
WARM_EPOCHS = 2
LIMIT = 4
VIEWS = {
    "total": "SELECT customer, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY customer",
    "named": "SELECT o.id, o.amount, c.name FROM orders o JOIN customer c ON o.customer = c.id",
}


class DelayedApplication:
    """A WSGI application that answers as `inner` does, `seconds` later, and keeps kind, begin and end of each request."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seconds = inner, 0.0
        self._lock = threading.Lock()
        self._log: list[tuple[str, float, float]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request; paths below /_further are for the benchmark itself."""
        if environ["PATH_INFO"].startswith("/_further/"):
            start_response("200 OK", [("Content-Type", "application/json")])
            self.seconds = float(environ["PATH_INFO"].rpartition("/")[2]) / 1000
            with self._lock:
                log, self._log = self._log, []
            return [json.dumps(log).encode()]
        began = time.monotonic()
        time.sleep(self.seconds)
        answer = list(self.inner(environ, start_response))
        with self._lock:
            self._log.append((_get_kind(environ), began, time.monotonic()))
        return answer


def _get_kind(environ: dict[str, Any]) -> str:
    match environ["REQUEST_METHOD"]:
        case "PUT":
            return "put_if_absent" if "HTTP_IF_NONE_MATCH" in environ else "put"
        case "GET":
            listing = "list-type" in environ.get("QUERY_STRING", "")
            return "list" if listing else "get_range" if "HTTP_RANGE" in environ else "get"
        case other:
            return "delete" if other in ("POST", "DELETE") else "head"


def serve(pipe: Connection) -> None:
    """Run the server until the pipe is closed; sends its address first."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *_: Any) -> None:
            pass

    app = DelayedApplication(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    pipe.send(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        pipe.recv()
    except EOFError:
        server.shutdown()


@dataclass(frozen=True)
class EpochPart:
    """One part of an epoch: its seconds, its requests by kind, and the longest row of them that did not overlap."""

    seconds: float
    requests: Counter[str]
    in_a_row: int


class Bucket:
    """The server as the benchmark steers it."""

    def __init__(self, address: str) -> None:
        self._address, self._delay = address, 0

    def set_delay(self, delay_ms: int) -> None:
        """Hold each request back from now on."""
        self._delay = delay_ms
        self._drain()

    def measure_part(self, began: float) -> EpochPart:
        """Return what was asked of the server since it was asked last, with the seconds since `began`."""
        seconds = time.perf_counter() - began
        log = self._drain()
        last, in_a_row = 0.0, 0
        for _, start, end in sorted(log, key=lambda request: request[2]):
            if start >= last:
                last, in_a_row = end, in_a_row + 1
        return EpochPart(seconds, Counter(kind for kind, _, _ in log), in_a_row)

    def _drain(self) -> list[tuple[str, float, float]]:
        with urllib.request.urlopen(f"{self._address}/_further/{self._delay}") as answer:
            log: list[tuple[str, float, float]] = json.load(answer)
        return log


def make_orders(ids: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Return orders with the given ids, amounts and customers at random."""
    amount = random.integers(1, 10_000, len(ids))
    return pa.table(
        {"id": ids, "customer": random.integers(0, CUSTOMERS, len(ids)), "amount": amount},
        schema=pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("amount", pa.int64())]),
    )


def prepare(session: Session, random: np.random.Generator) -> None:
    """Make the tables and views, and fill them."""
    session.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)")
    session.sql("CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING)")
    ids = np.arange(CUSTOMERS)
    session.write("customer", pa.table({"id": ids, "name": [f"customer {n}" for n in ids]}))
    session.write("orders", make_orders(np.arange(ORDERS), random))
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def run_epoch(session: Session, bucket: Bucket, rows: pa.Table) -> tuple[EpochPart, EpochPart]:
    """Commit a change and bring the views up to date; returns what both cost."""
    began = time.perf_counter()
    session.write("orders", rows)
    write_part = bucket.measure_part(began)
    began = time.perf_counter()
    session.flush().raise_for_errors()
    return write_part, bucket.measure_part(began)


def compare(session: Session) -> None:
    """Raise SystemExit if a view is not what DuckDB computes from the tables."""
    judge = duckdb.connect()
    for table in ("orders", "customer"):
        judge.register(table, session.sql(f"SELECT * FROM {table}"))
    for name, query in VIEWS.items():
        found = session.sql(f"SELECT * FROM {name}")
        judge.register("found", found)
        ours, theirs = f"SELECT {', '.join(found.column_names)} FROM found", query
        if judge.sql(f"({ours} EXCEPT ALL {theirs}) UNION ALL ({theirs} EXCEPT ALL {ours})").fetchall():
            raise SystemExit(f"view {name} is wrong")
    print("the views are equal to DuckDB's")


def get_median(parts: list[EpochPart]) -> EpochPart:
    """Return the part of median seconds, with the median number of requests of each kind."""
    kinds = sorted({kind for part in parts for kind in part.requests})
    requests = Counter(
        {kind: round(statistics.median(part.requests[kind] for part in parts)) for kind in kinds}
    )
    return EpochPart(
        statistics.median(part.seconds for part in parts),
        +requests,
        round(statistics.median(part.in_a_row for part in parts)),
    )


def measure_size(
    session: Session, bucket: Bucket, random: np.random.Generator, size: int, given: argparse.Namespace
) -> dict[tuple[int, str], list[EpochPart]]:
    """Return by delay and part what epochs of a size cost; the delays take turns, so that all of them meet the same machine."""
    found: dict[tuple[int, str], list[EpochPart]] = {}
    for number in range(WARM_EPOCHS + given.epochs):
        for delay in given.delays:
            bucket.set_delay(0 if number < WARM_EPOCHS else delay)
            ids = random.choice(2 * ORDERS, size, replace=False)
            write, flush = run_epoch(session, bucket, make_orders(ids, random))
            if number >= WARM_EPOCHS:
                found.setdefault((delay, "write"), []).append(write)
                found.setdefault((delay, "flush"), []).append(flush)
    return found


def report_trips(waits: Mapping[tuple[int, str], Mapping[int, float]]) -> bool:
    """Print for how many round trips each part of an epoch waits; `waits` holds by size and part the seconds at each delay.

    Returns whether a flush of SIZES[0] waits for more than LIMIT.
    """
    most = 0.0
    for (size, part), seconds in waits.items():
        low = min(seconds)
        for delay in sorted(seconds)[1:]:
            trips = (seconds[delay] - seconds[low]) / (delay - low) * 1000
            judged = part == "flush" and size == SIZES[0]
            most = max(most, trips) if judged else most
            limit = f" (limit {LIMIT})" if judged else ""
            print(f"{part} of {size:,} changes, {delay} ms: waits for {trips:.1f} round trips{limit}")
    return most > LIMIT


def main() -> int:
    """Measure each size at each delay and print the table, in Markdown; returns 1 where a flush waits for too many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--delays", type=int, nargs="+", default=list(DELAYS_MS))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    given = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True).start()
    address = here.recv()
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    bucket, random = Bucket(address), np.random.default_rng(7)
    waits: dict[tuple[int, str], dict[int, float]] = {}
    with contextlib.ExitStack() as stack:
        # before the session is opened: it and Spark's tasks, which begin later, share what is decoded
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="tideline-latency-"))
        os.environ["TIDELINE_CACHE_DIR"] = cache
        session = stack.enter_context(Session("s3://tideline/latency", "local[*]"))
        prepare(session, random)
        print(
            "| changes | added a request | part | seconds | requests | one after another | price of a million |"
        )
        print("|---|---|---|---|---|---|---|")
        for size in given.sizes:
            found = measure_size(session, bucket, random, size, given)
            for delay, part in itertools.product(given.delays, ("write", "flush")):
                typical = get_median(found[delay, part])
                waits.setdefault((size, part), {})[delay] = typical.seconds
                requests = ", ".join(f"{kind} {n}" for kind, n in sorted(typical.requests.items())) or "none"
                print(
                    f"| {size:,} | {delay} ms | {part} | {typical.seconds:.3f} | {requests} | {typical.in_a_row} | "
                    f"{calculate_dollars(typical.requests) * 1e6:,.2f} $ |",
                    flush=True,
                )
        is_over = report_trips(waits)
        bucket.set_delay(0)
        compare(session)
    here.close()
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main())
