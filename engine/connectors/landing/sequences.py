"""Sequences of landing tables: of the changes of a key the one with the highest sequence counts, in whatever order they come.

A table of its own beside the landing table holds, for each key that ever came, the highest sequence that was taken, also of keys
whose rows are gone: an older change that comes later does not bring a row back. It is written in the commit of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import Column as Values
from engine.arrow import to_positions
from engine.connectors.contract.connector import StatementProblem, source_options
from engine.connectors.formats.debezium import ENVELOPES, SEQUENCE, is_order
from engine.connectors.landing.rows import SequenceColumn
from engine.errors import SourceError
from engine.hummock import Put, Reader, TableVersion, Version
from engine.hummock.rows.key_numbers import number_keys
from engine.sql.catalog import Relation, RelationColumn, sequences_name
from engine.sql.statements.statement_types import CreateTable
from engine.sql.typing.json_documents import is_document

OPTION = "sequence"
NUMBER = "decimal(38,0)"
"""The type of a sequence that is no column of the table."""
_NO_ORDER = ("boolean", "binary", "array", "map", "struct", "interval")


def build_sequence_relation(relation: Relation) -> Relation | None:
    """Return the relation of the sequences that a landing table has taken, None if it goes by the order of its files."""
    name = source_options(relation).get(OPTION)
    if name is None:
        return None
    known = {column.storage_name: column for column in relation.columns}
    own = _find_column(relation.columns, source_options(relation))
    kind = NUMBER if own is None else own.type
    columns = tuple(known[name] for name in relation.primary_key)
    return Relation(
        name=sequences_name(relation.name),
        kind="table",
        columns=(*columns, RelationColumn(SEQUENCE, kind, False)),
        primary_key=relation.primary_key,
        distribution_key=relation.distribution_key,
        null_keys=relation.null_keys,
    )


def find_sequence(relation: Relation | None, version: Version) -> SequenceColumn | None:
    """Return what orders the changes of a table; raises SourceError if it has been dropped."""
    options = {} if relation is None else source_options(relation)
    if relation is None or OPTION not in options:
        return None
    name, own = options[OPTION].strip(), _find_column(relation.columns, options)
    column = SEQUENCE if "envelope" in options else name if own is None else own.name
    return SequenceColumn(column, name, find_sequence_table(relation, version).schema.field(SEQUENCE).type)


def find_sequence_table(relation: Relation, version: Version) -> TableVersion:
    """Return the table of sequences of a table; raises SourceError if both have been dropped."""
    found = version.tables.get(sequences_name(relation.name))
    if found is None:
        raise SourceError(f"table {relation.name} was dropped while its folder was polled")
    return found


def validate_sequence(statement: CreateTable) -> StatementProblem | None:
    """Return why a table can't have the sequence that its options name, None if it can."""
    if OPTION not in statement.options:
        return None
    name = statement.options[OPTION].strip()
    if not statement.primary_key or statement.append_only:
        what = "is APPEND ONLY: a key of it comes once" if statement.primary_key else "has no PRIMARY KEY"
        message = f"a sequence orders the changes of a key, and {statement.name} {what}"
        return StatementProblem(
            OPTION, message, f"leave {OPTION} out, or make it a table with a key whose rows change"
        )
    if "envelope" in statement.options and statement.options["envelope"] in ENVELOPES:
        return None
    column = _find_column(statement.columns, statement.options)
    if column is None:
        return None
    if column.name in statement.primary_key:
        hint = "name a column that rises with each change of a key"
        return StatementProblem(
            OPTION, f"the sequence {name} is of the key, so that no two changes of one have it", hint
        )
    if column.default is not None:
        hint = f"leave its DEFAULT out: a row without {name} is set aside"
        return StatementProblem(
            OPTION, f"the sequence {name} has a DEFAULT, which is no place among changes", hint
        )
    if is_document(column) or column.type.startswith(_NO_ORDER):
        message = f"the sequence {name} is {column.sql_type or column.type}, which gives changes no order"
        return StatementProblem(OPTION, message, "take a number, a text, a date or a time")
    return None


def validate_name(options: Mapping[str, str], operation: str) -> StatementProblem | None:
    """Return what is wrong with the name of a sequence, None if nothing is."""
    if OPTION not in options:
        return None
    name = options[OPTION].strip()
    if not name:
        return StatementProblem(OPTION, "the column of the sequence has no name", f"write {OPTION} = 'seq'")
    if "envelope" in options:
        hint = "name what stands in the envelope, as source.lsn, source.ts_ms or ts_ms"
        message = f"{name} of an envelope is not what orders changes: of some of them there is none"
        return None if is_order(name) else StatementProblem(OPTION, message, hint)
    if name.lower() == operation.lower():
        return StatementProblem(
            OPTION, f"{name} tells the operation", f"name another column, or leave {OPTION} out"
        )
    return None


def _find_column(columns: tuple[RelationColumn, ...], options: Mapping[str, str]) -> RelationColumn | None:
    """Return the column of a table that is its sequence: that of the name, exactly or else but for case."""
    if "envelope" in options:
        return None
    name = options[OPTION].strip()
    shown = [column for column in columns if not column.hidden]
    exact = [column for column in shown if column.name == name]
    close = [column for column in shown if column.name.lower() == name.lower()]
    return exact[0] if exact else close[0] if len(close) == 1 else None


class NewestRows(NamedTuple):
    """The rows that are to be taken, by their places, and what is to be written of their sequences."""

    places: np.ndarray
    operation: Put


def select_newest(reader: Reader, sequences: TableVersion, rows: pa.Table, order: Values) -> NewestRows:
    """Return, of rows with sequences, one a key: that of the highest sequence, unless the key has taken a higher one.

    Of equal ones the last row counts, and one that comes after what was taken.
    """
    key = list(sequences.primary_key)
    keys = rows.select(key)
    top = _select_highest(number_keys(keys), _rank(order))
    index, known = reader.lookup(
        sequences, keys.take(to_positions(top)), sequences.committed_epoch, columns=[SEQUENCE], null_safe=True
    )
    before = known.column(SEQUENCE)
    ranks = _rank(
        pa.chunked_array([*_list_chunks(order.take(to_positions(top))), *_list_chunks(before)], order.type)
    )
    fresh = np.ones(len(top), dtype=bool)
    fresh[index] = ranks[: len(top)][index] >= ranks[len(top) :]
    top = top[fresh]
    written = keys.take(to_positions(top)).append_column(
        pa.field(SEQUENCE, order.type), order.take(to_positions(top))
    )
    return NewestRows(top, Put(written))


def _select_highest(numbers: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the place of each key's highest rank, the last one of equal ones, in the order of places."""
    by_key = np.lexsort((np.arange(len(numbers)), ranks, numbers))
    ends = np.append(numbers[by_key][1:] != numbers[by_key][:-1], True)[: len(by_key)]
    found: np.ndarray = np.sort(by_key[ends])
    return found


def _rank(values: Values) -> np.ndarray:
    """Return numbers in the order of values, the same for equal ones; NaN is above all others."""
    ranks: Any = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    found: np.ndarray = ranks.to_numpy(zero_copy_only=False)
    return found


def _list_chunks(values: Values) -> list[pa.Array[Any]]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
