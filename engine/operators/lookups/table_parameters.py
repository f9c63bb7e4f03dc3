"""What a task reads, named in its frame and sent with each run, so that the frame of a small epoch is planned once and run again.

Method: prepared statements. A frame's bodies hold names of tables; versions and epochs travel beside the job.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import pyarrow as pa

from engine.hummock import TableVersion
from engine.operators.lookups.row_bounds import RowBound
from engine.spark_internals import read_task_text


@dataclass(frozen=True)
class TableAt:
    """One table's version and the epochs between which, or at which, a task reads it."""

    version: TableVersion
    old: int | None
    new: int

    def now(self) -> TableAt:
        """Return itself: it was known when the frame was built."""
        return self


@dataclass(frozen=True)
class TableParameter:
    """A table that is a parameter of a frame: only its name is known when the frame is built."""

    name: str

    def now(self) -> TableAt:
        """Return what the running job says of the table, or what `bind_tables` says of it."""
        bound = _BOUND.get()
        if bound is not None:
            return bound[self.name]
        text = read_task_text()
        assert text is not None, f"a frame over {self.name} runs without its epoch"
        return _decode_arguments(text)[self.name]


class TableSource(Protocol):
    """Where a task's body finds its table, in the task."""

    def now(self) -> TableAt:
        """Return the table's version and epochs."""
        ...


@dataclass
class TableParameters:
    """The parameters of a frame under construction, with their schemas.

    It is `closed` if it holds on to an epoch after all, and `sized` if it is another one for an epoch of many changed rows. It
    counts on its `bounds`.
    """

    tables: dict[str, tuple[int, pa.Schema]] = field(default_factory=dict)
    closed: bool = False
    sized: bool = False
    bounds: set[RowBound] = field(default_factory=set)

    def add_parameter(self, version: TableVersion) -> TableParameter:
        """Return a table as a parameter of the frame."""
        self.tables[version.name] = (version.table_id, version.schema)
        return TableParameter(version.name)

    def is_reusable(self, tables: Mapping[str, TableVersion]) -> bool:
        """Tell whether the tables that were left open are the same ones now, with the same columns."""
        for name, (table_id, schema) in self.tables.items():
            found = tables.get(name)
            if found is None or found.table_id != table_id or not found.schema.equals(schema):
                return False
        return all(bound.holds(tables) for bound in self.bounds)

    def encode_arguments(self, tables: Mapping[str, TableVersion], old: int | None, new: int) -> str:
        """Return the tables as they are for one run of the frame, as a text."""
        arguments = {name: TableAt(tables[name], old, new) for name in self.tables}
        return base64.b64encode(pickle.dumps(arguments, protocol=5)).decode()


_BOUND: ContextVar[Mapping[str, TableAt] | None] = ContextVar("bound tables", default=None)


@contextmanager
def bind_tables(tables: Mapping[str, TableAt]) -> Iterator[None]:
    """Let bodies that run meanwhile find their tables here: a task that runs several fragments knows more than its job."""
    token = _BOUND.set(tables)
    try:
        yield
    finally:
        _BOUND.reset(token)


@lru_cache(maxsize=4)
def _decode_arguments(text: str) -> dict[str, TableAt]:
    found: dict[str, TableAt] = pickle.loads(base64.b64decode(text))
    return found
