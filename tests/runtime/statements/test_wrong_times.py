"""Wrong statements about watermarks, time, nearest rows, refreshes and windows: each says where it is wrong and what to write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session

WRONG = [
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR nope AS nope - INTERVAL '1 minute') APPEND ONLY",
        "nope AS nope -",
        "columns are id, ts",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 month') APPEND ONLY",
        "ts - INTERVAL ",
        "write it in days",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR ts AS now()) APPEND ONLY",
        "now()) APPEND ",
        "write WATERMARK FOR ts AS ts - INTERVAL '5 minut",
    ),
    (
        "CREATE TABLE w (id INT PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute')",
        "WATERMARK FOR ",
        "write APPEND ONLY behind the columns, or WITH TTL behind the watermark",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, u TIMESTAMP, WATERMARK FOR ts AS ts, WATERMARK FOR u AS u) APPEND ONLY",
        "WATERMARK FOR ",
        "a table has one watermark: that of the column by",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR ts) APPEND ONLY",
        "WATERMARK FOR ",
        "write WATERMARK FOR ts AS ts - INTERVAL '5 minut",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR ts AS other - INTERVAL '1 minute') APPEND ONLY",
        "other - INTERV",
        "write WATERMARK FOR ts AS ts - INTERVAL '5 minut",
    ),
    (
        "CREATE TABLE w (id INT, ts VARCHAR, WATERMARK FOR ts AS ts) APPEND ONLY",
        "ts) APPEND ONL",
        "take a column of TIMESTAMP, TIMESTAMPTZ, DATE or",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY WITH (late_rows = 'shout')",
        "late_rows = 's",
        "write late_rows = 'count' or 'keep'",
    ),
    (
        "CREATE TABLE w (id INT, ts TIMESTAMP) APPEND ONLY WITH (late_rows = 'keep')",
        "late_rows = 'k",
        "add WATERMARK FOR ts AS ts - INTERVAL '5 minutes",
    ),
    ("ALTER TABLE e DROP COLUMN ts", "ts", "make a new table and INSERT … SELECT"),
    ("UPDATE e SET n = 1", "e SET n = 1", "^"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id, n FROM e EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "show the time or the window of the rows: SELECT ",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM t EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "show the time or the window of the rows: SELECT ",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM e GROUP BY n EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "group by the window: GROUP BY window_start",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM e EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "group by the window: GROUP BY window_start",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT e.ts, t.id FROM e JOIN t ON e.n = t.n EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "join by the times or windows of both sides, each",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT date_part('hour', ts) AS h, count(*) AS c FROM e GROUP BY date_part('hour', ts) EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "group by the window: GROUP BY window_start",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM e ORDER BY ts DESC LIMIT 3 EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "take the first rows of each window: PARTITION BY",
    ),
    (
        "SELECT id, ts FROM e EMIT ON WINDOW CLOSE",
        "EMIT ON WINDOW",
        "it ends the query of a view: CREATE MATERIALIZED",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT ts FROM e EMIT ON UPDATE",
        "ON UPDATE",
        "a view's query may end with EMIT ON WINDOW CLOSE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT ts FROM e EMIT ON CLOSE",
        "ON CLOSE",
        "a view's query may end with EMIT ON WINDOW CLOSE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id, now() AS n FROM t",
        "now() AS n FRO",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE now() - ts > INTERVAL '1 hour' AND n = date_part('hour', now())",
        "n = date_part(",
        "compare a timestamp or a date: timestamp_millis(",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE ts <> now()",
        "now()",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE ts > now() OR n = 1",
        "now() OR n = 1",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE date_part('hour', now()) > 3",
        "3",
        "compare a timestamp or a date: timestamp_millis(",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) FILTER (WHERE ts > now()) AS c FROM t",
        "now()) AS c FR",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id, CASE WHEN ts > now() THEN 1 ELSE 0 END AS x FROM t",
        "now() THEN 1 E",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t LEFT JOIN u ON t.id = u.id AND t.ts > now()",
        "t.ts > now()",
        "write now() in a condition of its own in WHERE o",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT id, row_number() OVER (ORDER BY now()) AS r FROM t",
        "now()) AS r FR",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT date_trunc('hour', now()) AS h, count(*) AS c FROM t GROUP BY 1",
        "now()) AS h, c",
        "write now() on one side of <, <=, >, >= or BETWE",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t RIGHT JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON t.id = u.id",
        "u FOR SYSTEM_T",
        "only rows of the left side come and find what is",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t FULL JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON t.id = u.id",
        "u FOR SYSTEM_T",
        "only rows of the left side come and find what is",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t JOIN u FOR SYSTEM_TIME AS OF now() ON t.id = u.id",
        "now() ON t.id ",
        "a view follows the newest content of its inputs;",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t JOIN u FOR SYSTEM_TIME AS OF t.ts ON t.id = u.id",
        "t.ts ON t.id =",
        "a view follows the newest content of its inputs;",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t FOR SYSTEM_TIME AS OF PROCTIME() JOIN u ON t.id = u.id",
        "PROCTIME() JOI",
        "a view follows the newest content of its inputs;",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t JOIN (SELECT * FROM u WHERE ts > now()) q FOR SYSTEM_TIME AS OF PROCTIME() ON t.id = q.id",
        "FOR SYSTEM_TIM",
        "it follows a table's name: JOIN t FOR SYST",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS SELECT t.id FROM t JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON t.id = u.id",
        "u FOR SYSTEM_T",
        "what is computed again knows no time at which ro",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t ASOF JOIN u ON t.id = u.id",
        "u ON t.id = u.",
        "write ASOF [LEFT] JOIN b ON a.key = b.key AND a.",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t ASOF JOIN u ON t.ts >= u.ts AND t.n > u.n",
        "t.n > u.n",
        "write ASOF [LEFT] JOIN b ON a.key = b.key AND a.",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.id FROM t ASOF RIGHT JOIN u ON t.ts >= u.ts",
        "u ON t.ts >= u",
        "write ASOF JOIN or ASOF LEFT JOIN, with the othe",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS WITH c AS CHANGELOG FROM nope SELECT * FROM c",
        "nope SELECT * ",
        "SHOW TABLES and SHOW VIEWS list what exists",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT changelog_op FROM t", "changelog_op F", "columns are id, ts, n"),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'sometimes') AS SELECT id FROM t",
        "refresh = 'som",
        "it is manual, an interval such as 'every 1 hour'",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'every 0 minutes') AS SELECT id FROM t",
        "refresh = 'eve",
        "it is manual, an interval such as 'every 1 hour'",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'every 5 fortnights') AS SELECT id FROM t",
        "refresh = 'eve",
        "it is manual, an interval such as 'every 1 hour'",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = '61 * * * *') AS SELECT id FROM t",
        "refresh = '61 ",
        "it is manual, an interval such as 'every 1 hour'",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh = '* * *') AS SELECT id FROM t",
        "refresh = '* *",
        "it is manual, an interval such as 'every 1 hour'",
    ),
    ("REFRESH MATERIALIZED VIEW nope", "nope", "SHOW TABLES and SHOW VIEWS list what exists"),
    ("REFRESH MATERIALIZED VIEW t", "t", "write TABLE t"),
    ("REFRESH MATERIALIZED VIEW", "REFRESH MATERI", "statements are CREATE TABLE, CREATE [MATERIALIZE"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT sum(n) OVER (ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) AS s FROM t",
        "1 FOLLOWING AN",
        "write the ends in their order",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT lag(n, -1) OVER (ORDER BY ts) AS s FROM t",
        "1) OVER (ORDER",
        "write a whole number from 0 on; lead looks the o",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT sum(n) OVER (ORDER BY ts RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t",
        "1 PRECEDING AN",
        "write an INTERVAL beside timestamp_ntz, a consta",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT sum(n) OVER (GROUPS 1 PRECEDING) AS s FROM t",
        "1 PRECEDING) A",
        "GROUPS counts groups of rows that are level in a",
    ),
]
"""The statement, the text under the caret, and how the remedy begins."""


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    url = (tmp_path_factory.mktemp("wrong") / "store").as_uri()
    with Session(url, spark, "postgres") as opened:
        for name in ("t", "u"):
            opened.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, ts TIMESTAMP, n INT)")
        opened.sql(
            "CREATE TABLE e (id INT, ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts - INTERVAL '1 minute') APPEND ONLY"
        )
        yield opened


@pytest.mark.parametrize(("text", "under", "remedy"), WRONG, ids=[text[:70] for text, *_ in WRONG])
def test_a_wrong_statement_says_where_and_what_now(
    world: Session, text: str, under: str, remedy: str
) -> None:
    with pytest.raises(TidelineError) as refused:
        world.sql(text, build=False)
    shown = str(refused.value).splitlines()
    assert shown[2].strip() == text
    assert text[shown[3].index("^") - 4 :].startswith(under)
    assert shown[-1].strip().startswith(remedy)
    assert set(world.catalog.relations) >= {"t", "u", "e"} and not {"v", "w"} & set(world.catalog.relations)
