"""Statements about subscriptions as they are read, and wrong ones with their places."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.dialect import DIALECTS, Dialect
from engine.sql.statements.ddl.subscription_statements import (
    CloseCursor,
    CreateSubscription,
    DeclareCursor,
    FetchCursor,
    ShowCursors,
    ShowSubscriptions,
    SubscriptionStatement,
)
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.relation_renaming import rename_relations
from engine.sql.statements.statement_types import Drop

DAY = 86_400.0


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE SUBSCRIPTION s FROM v", CreateSubscription("s", "v", None, False, "")),
        (
            "create subscription if not exists s from x.v with (retention = '1 day')",
            CreateSubscription("s", "x.v", DAY, True, ""),
        ),
        (
            "CREATE SUBSCRIPTION s /* of */ FROM v -- ours\n WITH (retention = '1.5 hours')",
            CreateSubscription("s", "v", 5_400.0, False, ""),
        ),
        (
            "CREATE SUBSCRIPTION s FROM v WITH (retention = '1D')",
            CreateSubscription("s", "v", DAY, False, ""),
        ),
        ("CREATE SUBSCRIPTION s FROM v WITH (retention = 90)", CreateSubscription("s", "v", 90.0, False, "")),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s", DeclareCursor("c", "s", None, "")),
        ("DECLARE C SUBSCRIPTION CURSOR FOR s SINCE NOW()", DeclareCursor("c", "s", "now", "")),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE begin()", DeclareCursor("c", "s", "begin", "")),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 17", DeclareCursor("c", "s", 17, "")),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE FULL", DeclareCursor("c", "s", "full", "")),
        ("declare c subscription cursor for s full", DeclareCursor("c", "s", "full", "")),
        ("FETCH NEXT FROM c", FetchCursor("c", 1, "")),
        ("FETCH 25 FROM c;", FetchCursor("c", 25, "")),
        ("FETCH NEXT FROM c WITH (timeout = '5s')", FetchCursor("c", 1, "", 5.0)),
        ("FETCH NEXT FROM c WITH (timeout = '500ms')", FetchCursor("c", 1, "", 0.5)),
        ("fetch 9 from c with (Timeout='2 minutes')", FetchCursor("c", 9, "", 120.0)),
        ("CLOSE c", CloseCursor("c", "")),
        ("CLOSE ALL", CloseCursor(None, "")),
        ("SHOW SUBSCRIPTIONS", ShowSubscriptions("")),
        ("SHOW CURSORS", ShowCursors("")),
        ("SHOW SUBSCRIPTION CURSORS", ShowCursors("")),
        ("DROP SUBSCRIPTION IF EXISTS s", Drop("subscription", "s", True, False, "")),
        ("DROP SUBSCRIPTION s CASCADE", Drop("subscription", "s", False, True, "")),
    ],
)
def test_statements_are_read_alike_in_all_dialects(
    dialect: Dialect, sql: str, expected: SubscriptionStatement | Drop
) -> None:
    found = parse_statement(sql, dialect)
    assert found.sql == sql.rstrip(";")
    assert type(found) is type(expected)
    assert {**vars(found), "sql": ""} == vars(expected)


@pytest.mark.parametrize(
    ("sql", "message", "column"),
    [
        ("CREATE SUBSCRIPTION s", "this form of CREATE SUBSCRIPTION is not offered", 1),
        ("CREATE SUBSCRIPTION s FROM v WITH (retention = 'x')", 'retention "x" is no time span', 36),
        ("CREATE SUBSCRIPTION s FROM v WITH (type = 'x')", "option type is not offered", 36),
        ("CREATE SUBSCRIPTION _s FROM v", "the system's own", 21),
        ("DECLARE c CURSOR FOR SELECT 1", "this form of DECLARE is not offered", 1),
        ("DECLARE c SUBSCRIPTION CURSOR FOR s SINCE then()", "this form of DECLARE is not offered", 1),
        ("FETCH ALL FROM c", "this form of FETCH is not offered", 1),
        ("FETCH 0 FROM c", "FETCH 0 is not offered", 1),
        ("FETCH 1000001 FROM c", "FETCH 1000001 is not offered", 1),
        ("FETCH 1 FROM c WITH (timeout = 'long')", '"long" is no time for which FETCH waits', 32),
        ("FETCH 1 FROM c WITH (timeout = '2 days')", '"2 days" is no time for which FETCH waits', 32),
        ("FETCH 1 FROM c WITH (wait = '1s')", "this form of FETCH is not offered", 1),
        (f"CREATE SUBSCRIPTION s FROM v WITH (retention = '{'9' * 400} days')", "is no time span", 36),
        ("CREATE SUBSCRIPTION s FROM v WITH (retention = '36501 days')", "is no time span", 36),
        (f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {'9' * 5_000}", "9 is no time", 43),
        (f"FETCH {'9' * 5_000} FROM c", "9 is not offered", 1),
        ("CLOSE", "this form of CLOSE is not offered", 1),
        ("ALTER SUBSCRIPTION s RENAME TO x", "ALTER SUBSCRIPTION is not offered", 1),
    ],
)
def test_wrong_ones_say_where_and_what_to_write(sql: str, message: str, column: int) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        parse_statement(sql, "spark")
    assert (raised.value.line, raised.value.column) == (1, column) and raised.value.hint


def test_names_in_quotes_are_exact_but_in_spark() -> None:
    exact = parse_statement('DECLARE "C" SUBSCRIPTION CURSOR FOR "S"', "postgres")
    assert isinstance(exact, DeclareCursor) and (exact.name, exact.source) == ("C", "S")
    folded = parse_statement("DECLARE `C` SUBSCRIPTION CURSOR FOR s", "spark")
    assert isinstance(folded, DeclareCursor) and folded.name == "c"


def test_what_it_follows_gets_another_name_in_its_text() -> None:
    text = "CREATE SUBSCRIPTION v FROM v WITH (retention = '1 day')"
    assert rename_relations(text, "spark", {"v": "a.w"}) == text.replace("FROM v", "FROM a.w")
