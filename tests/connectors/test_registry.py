"""A connector of one file: the example of the documentation, registered by the public way, is one as any other."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.connectors import registry
from engine.connectors.source_trial import try_source
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import SourceError, SqlError
from engine.session import Session
from tests.connectors import sqlite_connector
from tests.connectors.sqlite_connector import JournalConnector

MADE = "CREATE TABLE stock (item BIGINT PRIMARY KEY, n BIGINT) WITH (connector = 'journal', path = '{}')"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    monkeypatch.setattr(registry.CONNECTORS, "_known", None)
    registry.register(JournalConnector())
    with sqlite3.connect(tmp_path / "stock.db", isolation_level=None) as file:
        file.execute("CREATE TABLE journal (seq INTEGER PRIMARY KEY, op TEXT, item BIGINT, n BIGINT)")
        yield file


def write(journal: sqlite3.Connection, *rows: tuple[str, int | None, float | None]) -> None:
    journal.executemany("INSERT INTO journal (op, item, n) VALUES (?, ?, ?)", rows)


def rows(lake: Session) -> list[tuple[int, int]]:
    lake.store.refresh()
    found = (tuple(row.values()) for batch in lake.store.iter("stock") for row in batch.to_pylist())
    return sorted(found)


def test_a_row_with_a_value_that_its_column_does_not_take_is_set_aside_alone(
    lake: Session, tmp_path: Path, journal: sqlite3.Connection
) -> None:
    lake.sql(MADE.format(tmp_path / "stock.db"))
    write(journal, ("put", 1, 10), ("put", 2, 2.5), ("put", 3, 2.0**70), ("delete", 1, 0.5), ("put", 4, None))
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.rows, report.dead_rows, report.error) == (3, 2, None)
    assert rows(lake) == [(4, None)]
    assert lake.sql("SELECT reason, raw FROM _dead_letter ORDER BY line").to_pylist() == [
        {"reason": 'column n: "2.5" is no BIGINT', "raw": "item = 2, n = 2.5"},
        {"reason": f'column n: "{2.0**70}" is no BIGINT', "raw": f"item = 3, n = {2.0**70}"},
    ]


def test_a_connector_of_one_file_follows_its_source(
    lake: Session, tmp_path: Path, journal: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(MADE.format(tmp_path / "stock.db"))
    write(journal, ("put", 1, 10), ("put", 2, 20), ("put", 1, 11), ("put", None, 5))
    assert compute_pending_digest(lake.catalog, lake.store)[0] == 1
    monkeypatch.setattr(sqlite_connector, "MOST", 2)
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.rows, report.dead_rows, report.error) == (3, 1, None)
    assert rows(lake) == [(1, 11), (2, 20)]
    assert compute_pending_digest(lake.catalog, lake.store) == (0, "")
    write(journal, ("delete", 2, None), ("put", 3, 30), ("put", 3, None), ("delete", 9, None))
    poll_all(lake.catalog, lake.store)
    assert rows(lake) == [(1, 11), (3, None)]
    assert lake.sql("SELECT reason FROM _dead_letter")["reason"].to_pylist() == [
        "column item is part of the key and has no value"
    ]


def test_it_is_refused_offered_and_tried_as_others_are(
    lake: Session, tmp_path: Path, journal: sqlite3.Connection
) -> None:
    for statement, words in {
        "(item BIGINT PRIMARY KEY) WITH (connector = 'journl', path = 'x')": "did you mean journal?",
        "(item BIGINT PRIMARY KEY) WITH (connector = 'journal', pth = 'x')": "did you mean path?",
        "(item BIGINT PRIMARY KEY) WITH (connector = 'journal')": "a journal is a file",
        "(item BIGINT) WITH (connector = 'journal', path = 'x')": "deletes rows by their key",
        "(PRIMARY KEY (item)) WITH (connector = 'journal', path = 'x')": "does not know the columns",
    }.items():
        with pytest.raises(SqlError, match=re.escape(words)):
            lake.sql(f"CREATE TABLE stock {statement}")
    lake.sql(MADE.format(tmp_path / "stock.db"))
    write(journal, ("put", 1, 10))
    poll_all(lake.catalog, lake.store)
    tried = try_source(lake.store, lake.catalog.get("stock"), lambda: lake.computing)
    assert [each.words for each in tried][1:] == ["its journal has 1 rows", "it goes on after 1"]
    with pytest.raises(SqlError, match="can repeat all its rows"):
        lake.sql("ALTER TABLE stock RESYNC")


def test_a_source_whose_connector_this_process_lacks_says_so_and_stops_no_other(
    lake: Session, tmp_path: Path, journal: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(MADE.format(tmp_path / "stock.db"))
    monkeypatch.setattr(registry.CONNECTORS, "_known", None)
    assert compute_pending_digest(lake.catalog, lake.store) == (0, "")
    (report,) = poll_all(lake.catalog, lake.store)
    assert "there is no connector 'journal' in this process" in (report.error or "")


def test_why_a_source_does_not_go_on_is_told_as_long_as_it_does_not(
    lake: Session, tmp_path: Path, journal: sqlite3.Connection
) -> None:
    def read_error() -> str | None:
        return {row.name: row for row in lake.status()}["stock"].last_error

    lake.sql(MADE.format(tmp_path / "stock.db"))
    write(journal, ("put", 1, 10))
    poll_all(lake.catalog, lake.store)
    assert read_error() is None
    (tmp_path / "stock.db").rename(tmp_path / "away.db")
    (report,) = poll_all(lake.catalog, lake.store)
    assert "can't be read" in (report.error or "") and report.error == read_error()
    (tmp_path / "away.db").rename(tmp_path / "stock.db")
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.error, read_error()) == (None, None)


def test_a_name_is_one_connectors(journal: sqlite3.Connection) -> None:
    class Other(JournalConnector):
        name = "landing"

    registry.register(JournalConnector())
    with pytest.raises(SourceError, match="landing\.connector's already"):
        registry.register(Other())


def test_an_installed_package_offers_its_connectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = tmp_path / "offers-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text(
        "[tideline.connectors]\njournal = tests.connectors.sqlite_connector:JournalConnector\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry.CONNECTORS, "_known", None)
    assert set(registry.CONNECTORS.list_plugins()) == {
        "landing",
        "nexmark",
        "delta",
        "postgres-cdc",
        "kafka",
        "journal",
    }


def test_the_documentation_shows_the_connector_that_is_tested() -> None:
    root = Path(__file__).resolve().parent
    code = (root / "sqlite_connector.py").read_text()
    assert (
        code[code.index("class JournalSource") :] in (root.parents[1] / "docs" / "connectors.md").read_text()
    )
