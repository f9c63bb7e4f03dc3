"""CREATE, DROP and SHOW SUBSCRIPTIONS: what is made, what is refused, and what goes with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.subscriptions.judge import told


def holds(db: Session, table: str = "t") -> set[str]:
    """Return who holds the log of a table."""
    found = db.store.refresh().tables[table]
    return {*found.acks, *found.pins}


def test_a_subscription_is_made_listed_and_dropped(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t WITH (retention = '90 minutes')")
    db.sql("CREATE SUBSCRIPTION IF NOT EXISTS s FROM t")
    db.sql("CREATE SUBSCRIPTION other FROM t")
    db.sql("UPDATE t SET v = 'x' WHERE id = 1")
    shown = db.sql("SHOW SUBSCRIPTIONS")
    assert shown is not None
    found = {row["name"]: row for row in shown.to_pylist()}
    assert found["s"]["retention"] == "90 minutes" and found["other"]["retention"] == "1 day"
    assert found["s"]["from"] == "t" and found["s"]["phase"] == "log" and found["s"]["lag_rows"] == 1
    assert found["s"]["epoch"] == found["s"]["kept_from"] and found["s"]["error"] is None
    text = db.sql("SHOW CREATE SUBSCRIPTION s").to_pylist()[0]["create_statement"]
    assert text == "CREATE SUBSCRIPTION s FROM t WITH (retention = '90 minutes')"
    status = {one.name: one for one in db.status()}
    assert status["s"].kind == "subscription" and status["s"].rows == 1 and status["s"].lagging
    db.sql("DROP SUBSCRIPTION s")
    db.sql("DROP SUBSCRIPTION IF EXISTS s")
    assert holds(db) == {"subscription/other/position", "subscription/other/history"}
    assert not [key for key in db.store.version.catalog if key.startswith("subscription/s")]


def test_what_follows_a_table_goes_with_it_or_keeps_it(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    with pytest.raises(SqlError, match="t is read by s: subscription s"):
        db.sql("DROP TABLE t")
    db.sql("DROP TABLE t CASCADE")
    assert db.sql("SHOW SUBSCRIPTIONS").num_rows == 0
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    assert holds(db) == set()
    db.sql("CREATE SUBSCRIPTION s FROM t")
    assert told(db, "s") == []


def test_columns_of_what_is_followed_may_change(db: Session) -> None:
    db.sql("CREATE SUBSCRIPTION s FROM t")
    db.sql("INSERT INTO t VALUES (3, 'c')")
    db.sql("ALTER TABLE t RENAME COLUMN v TO word")
    db.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
    assert [row["column"] for row in db.sql("DESCRIBE s").to_pylist()] == ["id", "word", "n"]
    (item,) = db.subscribe("s", acknowledge=False)
    assert item.changes.to_pylist() == [{"id": 3, "word": "c", "n": 1, "op": "Insert"}]
    db.sql("ALTER TABLE t DROP COLUMN word")
    db.sql("DELETE FROM t WHERE id = 3")
    assert told(db, "s") == [("Insert", (3, 1)), ("Delete", (3, 1))]


def test_names_with_schemas_and_in_quotes(db: Session) -> None:
    db.sql("CREATE SCHEMA shop")
    db.sql("CREATE TABLE shop.bid (id BIGINT PRIMARY KEY)")
    db.sql("CREATE SUBSCRIPTION shop.News FROM shop.bid")
    db.sql("USE shop")
    db.sql("INSERT INTO bid VALUES (1)")
    db.sql("DECLARE c SUBSCRIPTION CURSOR FOR news")
    assert db.sql("FETCH 5 FROM C").num_rows == 1
    db.sql("CLOSE c")
    db.sql("DROP SCHEMA shop CASCADE")
    assert db.sql("SHOW SUBSCRIPTIONS").num_rows == 0


def test_the_other_dialects_read_the_same_statements(tmp_path: Path) -> None:
    with Session((tmp_path / "store").as_uri(), dialect="risingwave") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
        db.sql("create subscription s from t with (retention = '1 hour');")
        db.sql("INSERT INTO t VALUES (1, 'a')")
        db.sql('declare "C" subscription cursor for s since begin()')
        assert db.sql('fetch next from "C"').num_rows == 1
        with pytest.raises(SqlError, match="there is no cursor c"):
            db.sql("fetch next from C")
        text = db.sql("SHOW CREATE SUBSCRIPTION s").to_pylist()[0]["create_statement"]
        assert text == "CREATE SUBSCRIPTION s FROM t WITH (retention = '1 hour')"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE SUBSCRIPTION s FROM nothing", "there is no table or view nothing"),
        ("CREATE SUBSCRIPTION s FROM plain", "plain is a view and keeps no changes"),
        ("CREATE SUBSCRIPTION s FROM taken", "taken has a column epoch"),
        ("CREATE SUBSCRIPTION t FROM t", "t exists already: it is a table"),
        ("CREATE SUBSCRIPTION _s FROM t", "the system's own"),
        ("CREATE SUBSCRIPTION s FROM t WITH (retention = 'ever')", 'retention "ever" is no time span'),
        ("CREATE SUBSCRIPTION s FROM t WITH (retention = 0)", 'retention "0" is no time span'),
        ("CREATE SUBSCRIPTION s FROM t WITH (format = 'x')", "option format is not offered"),
        ("CREATE SUBSCRIPTION s AS SELECT id FROM t", "this form of CREATE SUBSCRIPTION is not offered"),
        ("CREATE TABLE known (id INT); DROP TABLE sub", "sub is a subscription, not a table"),
        ("SELECT * FROM sub", "sub"),
        ("DROP SUBSCRIPTION t", "t is a table, not a subscription"),
        ("DROP SUBSCRIPTION nothing", "there is no subscription nothing"),
        ("ALTER SUBSCRIPTION sub RENAME TO x", "ALTER SUBSCRIPTION is not offered"),
        ("CREATE SINK k FROM sub WITH (connector = 'file', path = 'x')", "sub is a subscription"),
    ],
)
def test_what_cannot_be_made_says_where_and_what_to_do(db: Session, statement: str, message: str) -> None:
    db.sql("CREATE VIEW plain AS SELECT id FROM t")
    db.sql("CREATE TABLE taken (epoch INT PRIMARY KEY)")
    db.sql("CREATE SUBSCRIPTION sub FROM t")
    with pytest.raises(SqlError, match=message) as raised:
        db.sql(statement)
    assert raised.value.line == 1 and raised.value.hint
