"""Mutated statements: whatever is asked, the answer is a result or an error of ours, in time, and a refusal leaves no trace.

`python -m tests.sql.fuzz_statements --statements 10000 --seed 1` prints what went wrong, each with the line that replays it.
With `--without-spark` what only Spark can tell counts as refused, which is a hundred times faster.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session
from tests.sql.mutations import statement

SECONDS = 2.0
_WORLD = (
    "CREATE TABLE t (id INT PRIMARY KEY, n BIGINT, s STRING, d DECIMAL(10, 2), at TIMESTAMP, ok BOOLEAN DEFAULT true)",
    "CREATE TABLE log (k STRING, x DOUBLE) APPEND ONLY",
    "INSERT INTO t VALUES (1, 10, 'a', 1.5, '2026-01-01 00:00:00', true), (2, 20, 'it\\'s', 2.5, NULL, false)",
    "INSERT INTO log VALUES ('a', 0.5), ('b', 1.5)",
    "CREATE VIEW w AS SELECT id, n + 1 AS m FROM t",
    "CREATE FUNCTION twice(a INT) RETURNS INT LANGUAGE SQL AS 'SELECT a * 2'",
)
_BUILT = "CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS c, sum(n) AS total FROM t GROUP BY s"


@dataclass(frozen=True)
class Failure:
    """A statement that went wrong: what, its number under the seed, its dialect and its text."""

    what: str
    number: int
    dialect: str
    text: str


class NeedsSpark(TidelineError):
    """The statement cannot be answered without Spark."""


class WithoutSpark(Session):
    """A session that refuses what needs Spark."""

    @property
    def spark(self) -> SparkSession:
        """Raise NeedsSpark."""
        raise NeedsSpark("this needs Spark")


class World:
    """A small store that every statement meets alike: what one has changed is put right before the next."""

    def __init__(self, folder: Path, spark: SparkSession | str | None) -> None:
        self.folder, self.spark, self.made = folder, spark, 0
        self.session = self._open()

    def _open(self) -> Session:
        self.made += 1
        kind = WithoutSpark if self.spark is None else Session
        opened = kind((self.folder / f"store{self.made}").as_uri(), self.spark)
        for text in (*_WORLD, _BUILT):
            with contextlib.suppress(NeedsSpark):
                opened.sql(text, build=False)
        self.before = _content(opened)
        return opened

    def check(self, number: int, dialect: str, text: str) -> Failure | None:
        """Run a statement; return what is wrong with how it went, or None."""
        session = self.session
        session.dialect = dialect  # type: ignore[assignment]
        start = time.monotonic()
        what = ""
        try:
            session.sql(text, build=False)
            refused = False
        except TidelineError:
            refused = True
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            refused, what = True, f"{type(error).__name__}: {str(error)[:300]}"
        took = time.monotonic() - start
        session.dialect, session.query_policy = "spark", "consistent"
        now = _content(session)
        if refused and now != self.before and not what:
            what = "a refused statement has left a trace"
        if now != self.before:
            session.close()
            self.session = self._open()
        works = re.match(r"\s*(FLUSH|WAIT)\b", text, re.IGNORECASE)  # those two build what is pending
        if took > SECONDS and not what and not works:
            what = f"it took {took:.1f} s"
        return Failure(what, number, dialect, text) if what else None

    def close(self) -> None:
        """Release the store."""
        self.session.close()


def _content(session: Session) -> object:
    """Return what a statement could have left behind: entries of the catalog, and tables with their newest epochs."""
    version = session.store.refresh()
    return dict(version.catalog), {name: table.committed_epoch for name, table in version.tables.items()}


def run(
    statements: int, seed: int, first: int = 0, *, spark: SparkSession | str | None, progress: bool = False
) -> Iterator[Failure]:
    """Give the failures among mutated statements, one after the other; without `spark` what needs it counts as refused."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), spark)
        for text in ("SELECT id + 1 FROM t", "EXPLAIN INCREMENTAL SELECT s, count(*) AS c FROM t GROUP BY s"):
            with contextlib.suppress(NeedsSpark):
                world.session.sql(text)  # what Spark does once is not counted
        for number in range(first, first + statements):
            failure = world.check(number, *statement(seed, number))
            if failure is not None:
                yield failure
            if progress and (number + 1) % 200 == 0:
                print(f"{number + 1} statements", file=sys.stderr, flush=True)
        world.close()


def main() -> int:
    """Run the command line; returns 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description="mutated statements against one session")
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first statement: replays one")
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    spark = None if given.without_spark else "local[2]"
    flag = " --without-spark" if spark is None else ""
    found: dict[str, int] = {}
    for failure in run(given.statements, given.seed, given.first, spark=spark, progress=True):
        kind = re.sub(r"\d+", "N", failure.what)[:60]
        found[kind] = found.get(kind, 0) + 1
        print(f"{failure.what}\n  {failure.dialect}: {failure.text[:400]!r}")
        print(
            f"  python -m tests.sql.fuzz_statements --seed {given.seed} --statements 1 --first {failure.number}{flag}",
            flush=True,
        )
    print(f"{given.statements} statements of seed {given.seed}: {sum(found.values())} went wrong")
    for kind, count in sorted(found.items(), key=lambda item: -item[1]):
        print(f"  {count:5d}  {kind}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
