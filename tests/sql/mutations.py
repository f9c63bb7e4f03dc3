"""Mutated statements: tokens and characters of known ones dropped, swapped, doubled, replaced, nested, commented."""

from __future__ import annotations

import random
import re

from engine.session import DIALECTS

_LONGEST = 50_000
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
