"""A connector that follows a journal in an SQLite file: each row of it is one change of a key."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from engine.connectors.contract.connector import Connector, Spark, StatementProblem, source_options
from engine.connectors.contract.row_source import RowSource
from engine.connectors.contract.signed_rows import SignedRows
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import Relation
from engine.sql.statements.statement_types import CreateTable

MOST = 10_000
OPTIONS = {"connector": "'journal': rows follow a journal in SQLite", "path": "the file"}


class JournalSource(RowSource):
    """Rows (seq, op, …) of the table `journal`; an offset is the seq of the last row that was read."""

    def find_newest(self, split: str, after: str | None) -> str | None:
        """Return the seq of the journal's last row."""
        (last,) = self.query("SELECT coalesce(max(seq), 0) FROM journal")[0]
        return str(last) if last > int(after or 0) else None

    def choose_end(self, split: str, after: str | None, newest: str) -> str:
        """Return the last seq of one commit."""
        return str(min(int(newest), int(after or 0) + MOST))

    def read(self, split: str, after: str | None, upto: str) -> SignedRows:
        """Read the rows between two offsets; a deletion removes its row."""
        names = [name for _, name, *_ in self.query("PRAGMA table_info(journal)")]
        text = "SELECT * FROM journal WHERE seq > ? AND seq <= ? ORDER BY seq"
        found = self.query(text, int(after or 0), int(upto))
        columns = {name: [row[n] for row in found] for n, name in enumerate(names)}
        gone = np.array([op == "delete" for op in columns["op"]], dtype=bool)
        rows = pa.table({name: columns[name] for name in names if name not in ("seq", "op")})
        return SignedRows(rows, gone)

    def query(self, text: str, *values: int) -> list[tuple]:
        """Return the answer of the file."""
        path = source_options(self.relation)["path"]
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
                return file.execute(text, values).fetchall()
        except sqlite3.Error as error:
            raise SourceError(f"table {self.relation.name}: {path} can't be read: {error}") from error


class JournalConnector(Connector):
    """Journals in SQLite files."""

    name = "journal"
    options = OPTIONS
    statement = "CREATE TABLE t (…, PRIMARY KEY (…)) WITH (connector = 'journal', path = 'file')"

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return what a table that follows a journal lacks."""
        if "path" not in statement.options:
            return StatementProblem("", "a journal is a file", "write path = 'file'")
        if not statement.primary_key:
            return StatementProblem("", "a journal deletes rows by their key", "write PRIMARY KEY (…)")
        return None

    def open_source(self, store: Hummock, relation: Relation) -> JournalSource:
        """Return the source of a table."""
        return JournalSource(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Report that the file can be read, and where the source continues."""
        source = self.open_source(store, relation)
        rows = source.query("SELECT count(*) FROM journal")[0][0]
        yield f"{source_options(relation)['path']} can be opened"
        yield f"its journal has {rows} rows"
        offset = source.find_offset() if relation.name in store.version.tables else None
        yield "it would begin with the first row" if offset is None else f"it goes on after {offset.text}"
