"""SHOW CREATE in RisingWave's dialect: one line, words of SQL in capitals, names and literals as they were written."""

from __future__ import annotations

import pytest

from engine.sql.statements.risingwave_text import render_statement


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "create table ttl (\n  k int primary key,\n  ts int, v varchar,\n  watermark for ts as ts - 10 with ttl\n);",
            "CREATE TABLE ttl (k INT PRIMARY KEY, ts INT, v CHARACTER VARYING, WATERMARK FOR ts AS ts - 10 WITH TTL)",
        ),
        (
            "create materialized view MV as select n,a from t -- all\nwhere a >= 16 and b = 'From  Ü';",
            "CREATE MATERIALIZED VIEW MV AS SELECT n, a FROM t WHERE a >= 16 AND b = 'From  Ü'",
        ),
        (
            'create table "Select" (ttl integer, "for" bool) append only with (x = \'y\')',
            'CREATE TABLE "Select" (ttl INT, "for" BOOLEAN) APPEND ONLY WITH (x = \'y\')',
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT s.window_start, count(*) FROM tumble(s, ts, interval '1 hour') s "
            "GROUP BY 1 emit on window close",
            "CREATE MATERIALIZED VIEW v AS SELECT s.window_start, count(*) FROM tumble(s, ts, INTERVAL '1 hour') s "
            "GROUP BY 1 EMIT ON WINDOW CLOSE",
        ),
    ],
)
def test_a_statement_is_shown_on_one_line(written: str, shown: str) -> None:
    assert render_statement(written, "risingwave") == shown
