"""Rules that read, at any epoch that is readable."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.errors import EpochExpired
from tests.hummock.state_machine.handles import (
    Handles,
    a_values,
    choices,
    chosen,
    handles,
    key_rows,
    names,
    row_keys,
    rows_by_key,
)
from tests.hummock.table_model import Key


class Reads(Handles):
    """Lookups, scans and logs against the dictionary of versions."""

    @rule(who=handles, name=names, key=row_keys)
    def get(self, who: int, name: str, key: Key) -> None:
        """Look one row up."""
        if name in self.tables:
            self.step()
            found = self.store(who).get(name, {"a": key[0], "b": key[1]})
            expected = self.tables[name].at(self.newest(who, name)).get(key)
            assert found == (None if expected is None else {"a": key[0], "b": key[1], **expected})

    @rule(who=handles, name=names, keys=st.lists(row_keys, max_size=6), choice=choices)
    def multi_get(self, who: int, name: str, keys: list[Key], choice: int) -> None:
        """Look rows up at some readable epoch, absent ones and repeated ones among them."""
        if name in self.tables:
            self.step()
            store = self.store(who)
            epoch = chosen(self.readable(store, name), choice)
            expected = self.tables[name].at(epoch)
            column = next(iter(self.tables[name].columns))
            found = store.multi_get(name, key_rows(keys), epoch, [column]).column(column).to_pylist()
            assert found == [expected.get(key, {}).get(column) for key in keys]

    @rule(
        who=handles,
        name=names,
        a=a_values,
        choice=choices,
        how=choices,
        bound=st.sampled_from([0, 1 << 60, -(1 << 62)]),
    )
    def scan(self, who: int, name: str, a: int | None, choice: int, how: int, bound: int) -> None:
        """Read a table, a prefix, a key range or a hash range, at some readable epoch."""
        if name not in self.tables:
            return
        self.step()
        store, model = self.store(who), self.tables[name]
        epoch = chosen(self.readable(store, name), choice)
        rows = model.at(epoch)
        kinds = ["whole", "halves"]
        if "b" not in model.distribution:
            kinds.append("prefix")
        if not model.distribution:
            kinds.append("range")
        kind = chosen(kinds, how)
        if kind == "prefix":
            found = rows_by_key(store.iter(name, prefix={"a": a}, epoch=epoch))
            assert found == {key: row for key, row in rows.items() if key[0] == a}
        elif kind == "range":
            found = rows_by_key(store.iter(name, epoch=epoch, range=({"a": 1}, {"a": 3})))
            assert found == {key: row for key, row in rows.items() if key[0] in (1, 2)}
        elif kind == "halves":
            low, high = (-(1 << 63), bound), (bound + 1, (1 << 63) - 1)
            parts = [rows_by_key(store.iter(name, epoch=epoch, hash_range=part)) for part in (low, high)]
            assert not set(parts[0]) & set(parts[1])
            assert {**parts[0], **parts[1]} == rows
        else:
            assert rows_by_key(store.iter(name, epoch=epoch)) == rows

    @rule(who=handles, name=names, one=choices, other=choices)
    def read_log(self, who: int, name: str, one: int, other: int) -> None:
        """The log nets to the difference of two readable epochs."""
        if name not in self.tables:
            return
        self.step()
        store, model = self.store(who), self.tables[name]
        epochs = self.readable(store, name)
        after, upto = sorted([chosen(epochs, one), chosen(epochs, other)])
        old, new = model.at(after), model.at(upto)
        expected = {}
        written = model.touched(after, upto)  # a row that only hides is no change in the log
        for key in {**old, **new}:
            if key in written and old.get(key) != new.get(key):
                op = "insert" if key not in old else "delete" if key not in new else "update"
                expected[key] = (op, new.get(key), old.get(key))
        found = {}
        for batch in store.iter_log(name, after, upto):
            for row in batch.to_pylist():
                key = (row["a"], row["b"])
                assert key not in found
                now = None if row["_op"] == "delete" else {n: row[n] for n in model.columns}
                was = None if row["_op"] == "insert" else {n: row[f"_old_{n}"] for n in model.columns}
                found[key] = (row["_op"], now, was)
        assert found == expected

    @rule(who=handles, name=names)
    def read_what_has_expired(self, who: int, name: str) -> None:
        """Below the safe epoch reads and logs are refused."""
        store = self.store(who)
        if name in self.tables and (safe := store.version.tables[name].safe_epoch) > 0:
            self.step()
            with pytest.raises(EpochExpired):
                list(store.iter(name, epoch=safe - 1))
            with pytest.raises(EpochExpired):
                list(store.iter_log(name, safe - 1))
