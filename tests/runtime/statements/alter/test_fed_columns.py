"""ALTER TABLE refuses a column that the table's connector, or a sink into it, could not fill, as CREATE does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Session]:
    """A session without Spark over a table that a sink fills in part, and one that files feed in the order of a sequence."""
    (tmp_path / "in").mkdir()
    with Session((tmp_path / "store").as_uri(), dialect="risingwave") as session:
        session.sql(
            "CREATE TABLE one (id INT PRIMARY KEY, x INT); CREATE TABLE wide (k INT PRIMARY KEY, a INT, b INT);"
            "CREATE SINK fill INTO wide (k, a) FROM one;"
            f"CREATE TABLE landed (id INT PRIMARY KEY, lsn INT, v INT) WITH (connector = 'landing', "
            f"path = '{tmp_path / 'in'}', sequence = 'LSN')"
        )
        yield session


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "wide ADD COLUMN c INT DEFAULT 5",
            "column c has a DEFAULT, and the sink fill into wide brings none",
        ),
        ("wide ADD COLUMN c INT NOT NULL", "column c is NOT NULL, and the sink fill"),
        ("wide ALTER COLUMN b SET DEFAULT 3", "column b has a DEFAULT, and the sink fill"),
        ("wide ALTER COLUMN b SET NOT NULL", "column b is NOT NULL, and the sink fill"),
        ("landed ALTER COLUMN v SET DEFAULT abs(-1)", "the DEFAULT of column v is neither a literal nor the"),
        ("landed ALTER COLUMN lsn SET DEFAULT 0", "lsn is the sequence of landed: a DEFAULT is no place"),
    ],
)
def test_what_cannot_be_filled_is_refused_with_its_place(fed: Session, statement: str, says: str) -> None:
    name = statement.split()[3]
    before = fed.catalog.relations
    with pytest.raises(SqlError, match=says) as caught:
        fed.sql(f"ALTER TABLE {statement}")
    assert (caught.value.line, caught.value.column) == (
        1,
        len("ALTER TABLE ") + statement.index(f" {name} ") + 2,
    )
    assert fed.catalog.relations == before


def test_what_is_filled_is_altered(fed: Session, tmp_path: Path) -> None:
    for statement in (
        *(
            "wide ADD COLUMN c INT",
            "wide ALTER COLUMN a SET DEFAULT 3",
            "landed ALTER COLUMN v SET DEFAULT 7",
        ),
        "landed ADD COLUMN w TEXT DEFAULT 'w'",
    ):
        fed.sql(f"ALTER TABLE {statement}")
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1, "lsn": 1}\n')
    assert [report.rows for report in fed.poll()] == [1]
    fed.sql("INSERT INTO one VALUES (1, 10); FLUSH")
    found = [fed.sql(f"SELECT * FROM {name}") for name in ("wide", "landed")]
    assert [list(one.to_pylist()[0].values()) for one in found if one is not None] == [
        [1, 10, None, None],
        [1, 1, 7, "w"],
    ]
