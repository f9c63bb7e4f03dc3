"""Mutated statements: whatever is asked, the answer is a result or an error of ours, in time, and a refusal leaves no trace.

`python -m tests.sql.fuzz_statements --statements 10000 --seed 1` prints what went wrong, each with the line that replays it.
With `--without-spark` what only Spark can tell counts as refused, which is a hundred times faster.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import DIALECTS, Session

SECONDS = 2.0
_LONGEST = 50_000
_WORLD = (
    "CREATE TABLE t (id INT PRIMARY KEY, n BIGINT, s STRING, d DECIMAL(10, 2), at TIMESTAMP, ok BOOLEAN DEFAULT true)",
    "CREATE TABLE log (k STRING, x DOUBLE) APPEND ONLY",
    "INSERT INTO t VALUES (1, 10, 'a', 1.5, '2026-01-01 00:00:00', true), (2, 20, 'it\\'s', 2.5, NULL, false)",
    "INSERT INTO log VALUES ('a', 0.5), ('b', 1.5)",
    "CREATE VIEW w AS SELECT id, n + 1 AS m FROM t",
    "CREATE FUNCTION twice(a INT) RETURNS INT LANGUAGE SQL AS 'SELECT a * 2'",
)
_BUILT = "CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS c, sum(n) AS total FROM t GROUP BY s"
SEEDS = (
    "SELECT id, n FROM t WHERE id = 1",
    "SELECT t.id, log.x FROM t LEFT JOIN log ON t.s = log.k WHERE n > 3 ORDER BY id LIMIT 2",
    "SELECT s, count(*) AS c, sum(d) AS sd FROM t GROUP BY s HAVING count(*) > 1",
    "WITH a AS (SELECT id FROM t), b AS (SELECT id FROM a) SELECT * FROM b",
    "SELECT CASE WHEN n > 3 THEN 'x' ELSE concat(s, 'y') END AS c FROM (SELECT n, s FROM t) q -- it's",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM log WHERE k = s) AND id IN (SELECT id FROM w)",
    "SELECT twice(id) AS z, CAST(d AS INT) AS i FROM t UNION ALL SELECT 1, 2",
    "SELECT DISTINCT s FROM t EXCEPT SELECT k FROM log",
    "SELECT row_number() OVER (PARTITION BY s ORDER BY id) AS r FROM t",
    "SELECT * FROM t FOR SYSTEM_TIME AS OF now() - INTERVAL '1' MINUTE",
    "VALUES (1, 'a'), (2, 'b')",
    "EXPLAIN SELECT s FROM t GROUP BY s",
    "EXPLAIN INCREMENTAL SELECT s, max(n) AS m FROM t GROUP BY s",
    "EXPLAIN INCREMENTAL CREATE MATERIALIZED VIEW e AS SELECT a.id FROM t a JOIN t b ON a.id = b.n",
    "CREATE TABLE u (a INT PRIMARY KEY, b STRING NOT NULL DEFAULT 'x', c INT GENERATED ALWAYS AS (a + 1))",
    "CREATE TABLE u (a INT, b TIMESTAMP) APPEND ONLY WITH (connector = 'landing', path = 'inbox')",
    "CREATE TABLE IF NOT EXISTS u (a INT, b INT, PRIMARY KEY (a, b)) ON CONFLICT OVERWRITE",
    "CREATE TABLE u (PRIMARY KEY (id)) AS SELECT id, n FROM t",
    "CREATE SOURCE bid (auction BIGINT, price BIGINT) WITH (connector = 'nexmark', max_events = '10')",
    "CREATE VIEW x (a, b) AS SELECT id, s FROM t",
    "CREATE MATERIALIZED VIEW x WITH (retention = '2 days') AS SELECT id, upper(s) AS u FROM t WHERE ok",
    "CREATE MATERIALIZED VIEW x WITH (refresh_policy = 'full', key = 'id') AS SELECT id, sum(n) OVER (ORDER BY id) AS r FROM t",
    "CREATE INDEX i ON t (n, s)",
    "CREATE FUNCTION f(a INT, b STRING) RETURNS STRING LANGUAGE SQL AS 'SELECT concat(b, a)'",
    "CREATE SINK k FROM v INTO u WITH (type = 'upsert')",
    "ALTER TABLE t ADD COLUMN z INT DEFAULT 3",
    "ALTER TABLE t RENAME COLUMN d TO dd",
    "ALTER TABLE t DROP COLUMN IF EXISTS ok",
    "ALTER TABLE log RENAME TO logs",
    "ALTER MATERIALIZED VIEW v SET (backfill_rate_limit = 10, parallelism = 2)",
    "ALTER MATERIALIZED VIEW v PAUSE",
    "COMMENT ON COLUMN t.n IS 'how many'",
    "DROP TABLE IF EXISTS u",
    "DROP MATERIALIZED VIEW v CASCADE",
    "INSERT INTO t (id, n, s) VALUES (7, 1, 'x'), (8, NULL, 'y')",
    "INSERT INTO t SELECT id + 100, n, s, d, at, ok FROM t",
    "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1 RETURNING id",
    "UPDATE t SET n = n + 1, s = upper(s) WHERE id = 1 RETURNING *",
    "DELETE FROM t WHERE id > 100 AND s LIKE 'a%'",
    "SHOW TABLES LIKE 't%'",
    "SHOW CREATE TABLE t",
    "SHOW COLUMNS FROM v",
    "DESCRIBE w",
    "SET query_policy = 'latest'",
    "FLUSH",
    "WAIT FOR v WITHIN 1 SECONDS",
)
_WORDS = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "(",
        ")",
        ",",
        ".",
        ";",
        "*",
        "'",
        '"',
        "`",
        "$$",
        "--",
        "/*",
        "*/",
        "=",
        "::",
    ),
    *(
        "NULL",
        "AS",
        "WITH",
        "VALUES",
        "0",
        "-1",
        "1e999",
        "99999999999999999999",
        "''",
        "'x",
        "DEFAULT",
        "INTERVAL",
        "[",
        "]",
    ),
    *(
        "ARRAY[1]",
        "struct(1)",
        "map('a', 1)",
        "now()",
        "rand()",
        "explode(array(1))",
        "t",
        "v",
        "id",
        "_row_id",
        "CASCADE",
    ),
    *(
        "LATERAL",
        "TABLESAMPLE (1)",
        "PIVOT",
        "QUALIFY",
        "\x00",
        "\u202e",
        "é",
        "😀",
        "\ufeff",
        "\\",
        "?",
        "$1",
        ":a",
        "@",
        "#",
    ),
    *(
        "ON CONFLICT",
        "APPEND ONLY",
        "EMIT ON WINDOW CLOSE",
        "FOR SYSTEM_TIME AS OF",
        "U&'\\00'",
        "E'\\",
        "X'1'",
        "{",
        "}",
    ),
)


_NAMES = (
    *(
        "t",
        "v",
        "w",
        "log",
        "u",
        "x",
        "id",
        "n",
        "s",
        "d",
        "at",
        "ok",
        "k",
        "a",
        "b",
        "q",
        "c",
        "excluded",
        "twice",
        "f",
    ),
    *(
        "1",
        "-1",
        "0.5",
        "''",
        "'a'",
        "'1'",
        "NULL",
        "true",
        "*",
        "t.id",
        "t.*",
        "(SELECT 1)",
        "(SELECT id FROM t)",
    ),
    *(
        "count(*)",
        "sum(n)",
        "max(DISTINCT s)",
        "avg(d)",
        "twice(1)",
        "now()",
        "count",
        "sum",
        "upper",
        "first",
        "nullif",
    ),
    *(
        "INT",
        "STRING",
        "DECIMAL(38, 18)",
        "VARCHAR(2)",
        "CHAR",
        "JSON",
        "INTERVAL",
        "ARRAY<INT>",
        "DATE",
        "_row_id",
        "_state_v_1",
    ),
    *(
        '"T"',
        "`id`",
        '"Id"',
        "`a b`",
        "`it's`",
        "current_date",
        "interval '1' day",
        "array(1, 2)",
        "struct(1)",
        "CAST(s AS DATE)",
    ),
)


@dataclass(frozen=True)
class Failure:
    """A statement that went wrong: what, its number under the seed, its dialect and its text."""

    what: str
    number: int
    dialect: str
    text: str


def statement(seed: int, number: int) -> tuple[str, str]:
    """Return dialect and text of a mutated statement; they follow from the seed and the number alone."""
    chance = random.Random(f"{seed}:{number}")
    text = chance.choice(SEEDS)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 5))):
        text = chance.choice(_MUTATIONS)(chance, text)[:_LONGEST]
    return chance.choice(DIALECTS), text


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", text) or [""]


def _dropped(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    del tokens[chance.randrange(len(tokens))]
    return "".join(tokens)


def _swapped(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    one, other = (chance.randrange(len(tokens)) for _ in range(2))
    tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def _doubled(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    at = chance.randrange(len(tokens))
    return "".join([*tokens[: at + 1], " ", *tokens[at:]])


def _replaced(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    tokens[chance.randrange(len(tokens))] = f" {chance.choice(_WORDS)} "
    return "".join(tokens)


def _renamed(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    names = [
        n for n, token in enumerate(tokens) if re.fullmatch(r"\w+|'[^']*'", token) and not token.isupper()
    ]
    if names:
        tokens[chance.choice(names)] = chance.choice(_NAMES)
    return "".join(tokens)


def _crossed(chance: random.Random, text: str) -> str:
    mine, other = _tokens(text), _tokens(chance.choice(SEEDS))
    return "".join(mine[: chance.randrange(len(mine) + 1)] + other[chance.randrange(len(other)) :])


def _flipped(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    letter = chr(chance.choice((chance.randrange(1, 127), chance.randrange(1, 0xD7FF), 0x1F600)))
    return text[:at] + letter + text[at + chance.randrange(2) :]


def _cut(chance: random.Random, text: str) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _nested(chance: random.Random, text: str) -> str:
    deep = chance.choice((3, 20, 200, 2000))
    opened, closed = chance.choice(
        (("(", ")"), ("abs(", ")"), ("NOT ", ""), ("(SELECT ", ")"), ("[", "]"), ("-", ""))
    )
    tokens = _tokens(text)
    at = chance.randrange(len(tokens))
    tokens[at] = opened * deep + tokens[at] + closed * deep
    return "".join(tokens)


def _long(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    at = chance.randrange(len(tokens))
    tokens[at] = chance.choice((tokens[at] * 500, "x" * 3000, "'" + "y" * 5000 + "'", "1" * 400))
    return "".join(tokens)


def _commented(chance: random.Random, text: str) -> str:
    tokens = _tokens(text)
    note = chance.choice(
        ("/* it's */", "-- it's\n", "/* /* */", '/* " */', "-- `", "--", "/*+ BROADCAST(t) */")
    )
    tokens.insert(chance.randrange(len(tokens) + 1), f" {note} ")
    return "".join(tokens)


_MUTATIONS = (
    *(_dropped, _swapped, _doubled, _replaced, _replaced, _crossed, _renamed, _renamed, _renamed, _renamed),
    *(_flipped, _cut, _nested, _long, _commented),
)


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
