"""What statements with bad settings are tried over: a home with folders of all kinds, and a store with tables and views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.errors import SqlError
from engine.session import Session

TABLES = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)",
    "CREATE TABLE narrow (id BIGINT PRIMARY KEY, n INT)",
    "CREATE TABLE other (id BIGINT PRIMARY KEY, v INT)",
    "CREATE TABLE keyless (id BIGINT, v STRING)",
    "CREATE TABLE timed (id BIGINT PRIMARY KEY, at TIME)",
    "CREATE TABLE seen (id BIGINT, v STRING) APPEND ONLY",
    "CREATE VIEW plain AS SELECT id FROM t",
)


class Bad(NamedTuple):
    """A statement that is to be refused: at which of its words, what is wrong, and what is to be done."""

    sql: str
    at: str
    what: str
    now: str


def written_log(folder: Path, *columns: tuple[str, str], version: int = 0) -> None:
    """Write the log of an empty Delta table with these columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": folder.name, "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    metadata |= {"partitionColumns": [], "configuration": {}, "createdTime": 0}
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(line) for line in lines))


def furnished(home: Path) -> None:
    """Put into a home what statements name: a landing folder, a file, a folder with others' files, Delta tables."""
    (home / "landing").mkdir(parents=True)
    (home / "empty").mkdir()
    (home / "notes").mkdir()
    (home / "notes" / "notes.txt").write_text("not ours")
    (home / "file").write_text("a file")
    written_log(home / "lake", ("id", "long"), ("v", "string"))
    written_log(home / "variant", ("id", "long"), ("v", "variant"))
    written_log(home / "interval", ("id", "long"), ("v", "interval day to second"))
    (home / "cut" / "_delta_log").mkdir(parents=True)
    (home / "cut" / "_delta_log" / f"{7:020d}.json").write_text('{"commitInfo": {"operation": "WRITE"}}')
    (home / "damaged" / "_delta_log").mkdir(parents=True)
    (home / "damaged" / "_delta_log" / f"{0:020d}.json").write_text('{"metaData" not JSON')


@contextmanager
def nothing_made(session: Session, home: Path) -> Iterator[None]:
    """Fail if the block changes the store, or makes or changes a file."""
    before = session.store.refresh()
    names, tables, files = set(session.catalog.relations), set(before.tables), found(home)
    yield
    after = session.store.refresh()
    assert after.number == before.number, f"{before.number} became {after.number}"
    assert after.catalog == before.catalog
    assert set(session.catalog.relations) == names and set(after.tables) == tables
    assert found(home) == files


def found(home: Path) -> dict[str, float]:
    """Return what lies in a folder, with when it was changed."""
    return {str(path): path.stat().st_mtime for path in home.rglob("*")}


def check_refused(session: Session, home: Path, bad: Bad) -> str:
    """Run a bad statement; it has to be refused at its place, in words, before anything is made. Returns what was told."""
    with nothing_made(session, home), pytest.raises(SqlError) as refused:
        session.sql(bad.sql)
    error, message = refused.value, str(refused.value)
    assert error.line == 1 and bad.sql[error.column - 1 :].startswith(bad.at), message
    assert bad.what in error.message and bad.now in message.replace(bad.sql, ""), message
    assert "Traceback" not in message and "Exception" not in message and "Error:" not in message, message
    return message
