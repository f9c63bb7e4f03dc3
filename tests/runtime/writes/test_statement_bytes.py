"""What statements pass through the process is counted: rows that it is given, reads or answers; of large ones little."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.runtime.writes.driver_rows import SETTING
from engine.session import Session

ROWS = 20_000
ANSWERS = 20_000


def filled(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    session.write("t", pa.table({"id": range(ROWS), "n": [0] * ROWS}))


def passed(session: Session, text: str) -> dict[str, int]:
    """Return what has passed for a statement."""
    before = session.store.metrics()
    session.sql(text)
    return dict(session.store.metrics().since(before).driver_bytes)


def test_rows_that_are_handed_over_are_counted(session: Session) -> None:
    before = session.store.metrics()
    filled(session)
    assert session.store.metrics().since(before).driver_bytes == {"statement t": ROWS * 2 * 8}


def test_values_of_an_insert_are_counted(session: Session) -> None:
    filled(session)
    found = passed(session, "INSERT INTO t VALUES (-1, 1), (-2, 2)")
    assert set(found) == {"statement t"} and 2 * 2 * 8 <= found["statement t"] < 100


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET n = 1",  # the store alone reads it
        "UPDATE t SET n = n + id",
        "DELETE FROM t",
        "INSERT INTO t SELECT id + 1000000, n FROM t",
        "CREATE TABLE u AS SELECT id, n FROM t",
    ],
)
def test_rows_of_a_small_statement_pass_and_of_a_large_one_answers(
    session: Session, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    filled(session)
    name = "u" if " u " in text else "t"
    monkeypatch.setenv(SETTING, "0")
    few = passed(session, text.replace(" u ", " large "))
    assert 0 < few["statement large" if name == "u" else "statement t"] < ANSWERS
    session.write("t", pa.table({"id": range(ROWS), "n": [0] * ROWS}))
    session.sql("DELETE FROM t WHERE id >= 1000000")
    monkeypatch.delenv(SETTING)
    assert passed(session, text)[f"statement {name}"] >= ROWS * 8


def test_the_answer_of_a_query_is_counted(session: Session) -> None:
    filled(session)
    assert passed(session, "SELECT id FROM t WHERE id < 100") == {"query": 800}  # the store alone
    found = passed(session, "SELECT n, count(*) AS c FROM t GROUP BY n")
    assert found == {"query": 16}
