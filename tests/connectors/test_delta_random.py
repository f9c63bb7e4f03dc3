"""Random commits to Delta tables with and without a feed: a view over both is what a batch run over the Delta tables gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from engine.connectors.delta import source as delta_source
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.session import Session
from tests.connectors.delta_tables import FEED, DeltaTable, SparkDeltaTable, follow, held

JOIN = "SELECT a.id AS id, a.v AS v, b.v AS w, b.n AS n FROM fed a JOIN plain b ON a.k = b.id"
SUM = "SELECT k, count(*) AS c, sum(n) AS s, max(v) AS m FROM fed GROUP BY k"
KEYS = 60
VERBS = [
    *("append", "append", "merge", "merge", "update", "delete", "move", "optimize", "empty", "overwrite"),
    *("schema", "restore"),
]
VECTORS = ["vectors"]


class Commits:
    """Random commits to one table; keys stay unique, as a table's PRIMARY KEY says."""

    def __init__(self, there: DeltaTable, chance: random.Random) -> None:
        self.there, self.chance, self.extra = there, chance, False

    def commit(self) -> str:
        verb = self.chance.choice(VERBS + VECTORS * isinstance(self.there, SparkDeltaTable))
        getattr(self, verb)()
        return verb

    def some(self) -> str:
        low = self.chance.randrange(KEYS)
        return f"id BETWEEN {low} AND {low + self.chance.randrange(1, 15)}"

    def row(self, key: int) -> str:
        value = self.chance.choice(["NULL", "'a'", "'bb'", "'ü'"])
        number = self.chance.choice(["NULL", "0", "-1", "7", str(self.chance.randrange(1000))])
        return f"({key}, {self.chance.randrange(KEYS)}, {value}, {number})"

    def values(self, keys: list[int]) -> str:
        return ", ".join(self.row(key) for key in keys)

    def keys(self) -> list[int]:
        return self.chance.sample(range(KEYS), self.chance.randrange(1, 12))

    def append(self) -> None:
        known = {row[0] for row in self.there.rows(["id"])}
        new = [key for key in self.keys() if key not in known] or [max(known, default=0) + 1]
        self.there.sql(f"INSERT INTO {{}} (id, k, v, n) VALUES {self.values(new)}")

    def merge(self) -> None:
        rows = self.values(self.keys())
        self.there.sql(
            f"MERGE INTO {{}} t USING (SELECT * FROM VALUES {rows} AS s(id, k, v, n)) s ON t.id = s.id "
            f"WHEN MATCHED AND s.n = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k, v = s.v, n = s.n "
            "WHEN NOT MATCHED THEN INSERT (id, k, v, n) VALUES (s.id, s.k, s.v, s.n)"
        )

    def update(self) -> None:
        self.there.sql(f"UPDATE {{}} SET v = concat(v, 'x'), n = n + 1 WHERE {self.some()}")

    def delete(self) -> None:
        self.there.sql(f"DELETE FROM {{}} WHERE {self.some()}")

    def move(self) -> None:
        """Let rows change their keys."""
        self.there.sql(f"UPDATE {{}} SET id = {KEYS} - 1 - id WHERE id < {KEYS}")

    def optimize(self) -> None:
        self.there.sql("OPTIMIZE {}")

    def empty(self) -> None:
        self.there.sql("INSERT INTO {} (id, k, v, n) SELECT id, id, 'a', id FROM range(0)")

    def overwrite(self) -> None:
        keys = range(0, KEYS, 2)
        self.there.sql(f"INSERT OVERWRITE {{}} (id, k, v, n) VALUES {self.values(list(keys))}")

    def schema(self) -> None:
        if not self.extra:
            self.there.sql("ALTER TABLE {} ADD COLUMN extra INT")
            self.extra = True
        self.there.sql("ALTER TABLE {} SET TBLPROPERTIES ('mine' = 'x')")

    def restore(self) -> None:
        found = [version for version in self.there.versions()[1:4] if version > 0]
        if not found:
            return self.update()
        try:
            self.there.sql(f"RESTORE TABLE {{}} TO VERSION AS OF {self.chance.choice(found)}")
        except (
            UnsupportedOperationException
        ) as refused:  # a version without vectors, whose files have some yet
            assert refused.getCondition() == "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"
        self.extra = "extra" in self.there.arrow().column_names

    def vectors(self) -> None:
        on = self.chance.choice(["true", "false"])
        self.there.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{on}')")


def by_batch(tables: dict[str, DeltaTable], query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, there in tables.items():
            connection.register(name, there.arrow().select(["id", "k", "v", "n"]))
        return sorted(connection.sql(query).fetchall(), key=repr)


@pytest.mark.parametrize(
    ("kind", "seed", "rounds"),
    [
        pytest.param(DeltaTable, 0, 5, id="short-0", marks=pytest.mark.long),
        *(
            pytest.param(SparkDeltaTable, n, 40, id=f"long-{n}", marks=pytest.mark.oracle)
            for n in range(10, 14)
        ),
    ],
)
def test_views_over_random_delta_tables(
    session: Session,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[DeltaTable],
    seed: int,
    rounds: int,
) -> None:
    chance = random.Random(seed)
    columns = "id BIGINT, k BIGINT, v STRING, n BIGINT"
    tables = {
        name: kind(spark, tmp_path / name).make(columns, properties=said)
        for name, said in (("fed", FEED), ("plain", ""))
    }
    for name, there in tables.items():
        Commits(there, chance).append()
        follow(session, there, "id BIGINT PRIMARY KEY, k BIGINT, v STRING, n BIGINT", name)
    session.sql(f"CREATE MATERIALIZED VIEW joined AS {JOIN}")
    session.sql(f"CREATE MATERIALIZED VIEW summed AS {SUM}")
    commits = {name: Commits(there, chance) for name, there in tables.items()}
    done = []
    for _ in range(rounds):
        done.append(
            [
                (name, commits[name].commit())
                for name in chance.choices(list(tables), k=chance.randrange(1, 6))
            ]
        )
        monkeypatch.setattr(delta_source, "SMALL_BYTES", chance.choice([0, 4 << 20]))
        for _ in range(len(done[-1]) + 1):
            failed = [
                one
                for one in poll_all(session.catalog, session.store, None, lambda: session.computing)
                if one.error
            ]
            for report in failed:
                assert report.error is not None and "restored an earlier one" in report.error, (
                    report.error,
                    done,
                )
                session.sql(f"ALTER TABLE {report.table} RESYNC")
            if not failed:
                break
        assert compute_pending_digest(session.catalog, session.store) == (0, ""), done
        for name, there in tables.items():
            assert held(session, name, "id, k, v, n") == there.rows(["id", "k", "v", "n"]), (name, done)
        session.flush().raise_for_all()
        assert held(session, "joined") == by_batch(tables, JOIN), done
        assert held(session, "summed") == by_batch(tables, SUM), done
