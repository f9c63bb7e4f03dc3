"""Tables that are fed in one order commit together, whoever polls, and whatever fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from engine.connectors import registry
from engine.connectors.contract.connector import (
    Connector,
    PendingSplit,
    Source,
    Spark,
    source_options,
)
from engine.connectors.contract.group_source import GroupSource, Members, Steps
from engine.connectors.contract.offset_source import StepResult
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import SourceError
from engine.hummock import Commit, Hummock, Put, Version
from engine.session import Session
from engine.sql.catalog import Relation

Transaction = Mapping[str, int]
"""The row that a transaction brings to each table."""
TRANSACTIONS: dict[str, list[Transaction]] = {}


class LedgerGroup(GroupSource[int]):
    """Transactions of one ledger; an offset is the number of those that are taken."""

    connector = "ledger"

    def is_member(self, relation: Relation) -> bool:
        return source_options(relation).get("ledger") == self.group

    def list_pending(self) -> Sequence[PendingSplit]:
        members = self.list_members(self.store.version)
        least = min((0 if one.offset is None else int(one.offset.text) for one in members), default=0)
        return () if least == len(TRANSACTIONS[self.group]) else (PendingSplit("", str(least)),)

    def plan_steps(self, members: Members) -> Steps[int]:
        taken = [int(one.offset.text) for one in members if one.offset is not None]
        if len(taken) < len(members):  # those that come later begin with all there is
            yield max(taken, default=0) or len(TRANSACTIONS[self.group])
        yield from range(max(taken, default=0) + 1, len(TRANSACTIONS[self.group]) + 1)

    def ingest_step(
        self, step: int, members: Members, version: Version, spark: Spark
    ) -> Mapping[str, StepResult]:
        results = {}
        for member in members:
            first = 0 if member.offset is None else int(member.offset.text)
            bring = [one[member.name] for one in TRANSACTIONS[self.group][first:step] if member.name in one]
            if -1 in bring:
                raise SourceError(f"table {member.name}: the ledger is torn")
            puts = [Put(pa.table({"id": pa.array(bring, pa.int64())}))] if bring else []
            results[member.name] = StepResult(str(step), operations=puts, rows=len(bring))
        return results


class LedgerConnector(Connector):
    """Ledgers in the memory of this process."""

    name = "ledger"
    options: Mapping[str, str] = {"connector": "'ledger'", "ledger": "its name"}
    statement = "CREATE TABLE t (id BIGINT PRIMARY KEY) WITH (connector = 'ledger', ledger = 'name')"

    def find_group(self, relation: Relation) -> str:
        return source_options(relation).get("ledger", "")

    def open_group(self, store: Hummock, group: str) -> LedgerGroup:
        return LedgerGroup(store, group)

    def open_source(self, store: Hummock, relation: Relation) -> Source:
        raise AssertionError("a table of a group is polled with it")

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        yield "it is in this process"


@pytest.fixture
def ledger(lake: Session, monkeypatch: pytest.MonkeyPatch) -> list[Transaction]:
    """The ledger one, of which tables a and b are."""
    monkeypatch.setattr(registry.CONNECTORS, "_known", dict(registry.CONNECTORS.list_plugins()))
    registry.register(LedgerConnector())
    monkeypatch.setitem(TRANSACTIONS, "one", [])
    monkeypatch.setitem(TRANSACTIONS, "two", [{"c": 1}])
    for name, group in (("a", "one"), ("b", "one"), ("c", "two")):
        create(lake, name, group)
    return TRANSACTIONS["one"]


def create(lake: Session, name: str, group: str) -> None:
    lake.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY) WITH (connector = 'ledger', ledger = '{group}')")


def held(lake: Session, name: str) -> list[int]:
    lake.store.refresh()
    return sorted(row["id"] for batch in lake.store.iter(name) for row in batch.to_pylist())


def epochs(lake: Session, name: str) -> list[int]:
    return [entry.epoch for entry in lake.store.refresh().tables[name].log if entry.rows]


def test_each_step_is_one_commit_of_all_tables(lake: Session, ledger: list[Transaction]) -> None:
    ledger += [{"a": 1, "b": 1}]
    assert compute_pending_digest(lake.catalog, lake.store)[0] == 2  # of two groups
    assert [(one.table, one.rows) for one in lake.poll()] == [("a", 1), ("b", 1), ("c", 1)]
    ledger += [{"a": 2, "b": 2}, {"a": 3}, {"a": 4, "b": 4}]
    assert [(one.table, one.rows) for one in lake.poll(["b"])] == [("a", 3), ("b", 2)]
    assert (held(lake, "a"), held(lake, "b")) == ([1, 2, 3, 4], [1, 2, 4])
    assert set(epochs(lake, "b")) < set(epochs(lake, "a"))
    assert not compute_pending_digest(lake.catalog, lake.store)[0]


def test_what_stops_one_table_stops_its_group_alone(lake: Session, ledger: list[Transaction]) -> None:
    ledger += [{"a": 1, "b": 1}, {"a": 2, "b": -1}]
    errors = {one.table: one.error for one in lake.poll()}
    assert errors == {"a": "table b: the ledger is torn", "b": "table b: the ledger is torn", "c": None}
    assert (held(lake, "a"), held(lake, "b"), held(lake, "c")) == ([], [], [1])
    ledger[1:] = []
    lake.poll()
    ledger += [{"a": 2, "b": -1}]
    lake.poll()
    assert {one.name: one.last_error for one in lake.status() if one.name in "ab"} == {
        "a": "table b: the ledger is torn",
        "b": "table b: the ledger is torn",
    }
    ledger[1] = {"a": 2, "b": 2}
    lake.poll()
    assert (held(lake, "a"), held(lake, "b")) == ([1, 2], [1, 2])
    assert not [one.last_error for one in lake.status() if one.last_error]


def test_a_table_that_comes_later_is_brought_to_where_the_others_are(
    lake: Session, ledger: list[Transaction]
) -> None:
    ledger += [{"a": 1, "b": 1, "d": 1}, {"a": 2, "d": 2}]
    lake.poll()
    create(lake, "d", "one")
    ledger += [{"a": 3, "d": 3}]
    lake.poll()
    assert held(lake, "a") == held(lake, "d") == [1, 2, 3]
    assert epochs(lake, "a")[-1] == epochs(lake, "d")[-1]


def test_of_two_that_poll_at_once_one_reads_again(
    lake: Session, ledger: list[Transaction], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger += [{"a": 1, "b": 1}]
    lake.poll()
    ledger += [{"a": 2, "b": 2}]
    commit, done = Hummock.commit, []

    def be_late(store: Hummock, asked: Commit) -> Version:
        if "a" in asked.writes and not done:
            done.append(True)
            with Hummock.open(lake.url) as other:
                poll_all(lake.catalog, other)
            ledger.append({"a": 3, "b": 3})
        return commit(store, asked)

    monkeypatch.setattr(Hummock, "commit", be_late)
    assert not [one.error for one in lake.poll() if one.error]
    assert held(lake, "a") == held(lake, "b") == [1, 2, 3]
    assert len(epochs(lake, "a")) == len(epochs(lake, "b")) == 3


def test_a_table_that_is_dropped_leaves_its_group(lake: Session, ledger: list[Transaction]) -> None:
    ledger += [{"a": 1, "b": 1}]
    lake.poll()
    lake.sql("DROP TABLE b")
    ledger += [{"a": 2, "b": 2}]
    assert [(one.table, one.rows) for one in lake.poll()] == [("a", 1), ("c", 0)]
