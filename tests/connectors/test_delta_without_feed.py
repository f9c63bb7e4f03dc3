"""Random commits to Delta tables without a feed: what follows them is, again and again, what a batch reads of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.connectors.delta import source as delta_source
from engine.connectors.delta.source import DeltaSource
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable, follow, held, poll
from tests.connectors.test_delta_random import Commits

COLUMNS = "id BIGINT, k BIGINT, v STRING, n BIGINT, w INT"
FOLLOWED = "id BIGINT PRIMARY KEY, k BIGINT, v STRING, n BIGINT, w INT"
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true'"
TRACKED = f"{MAPPED}, 'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'"
PLAIN = f"{MAPPED}, 'delta.enableDeletionVectors' = 'false'"
KEPT = "CAST(id AS STRING), CAST(k AS STRING), v, CAST(n AS STRING), CAST(w AS STRING)"
VERBS = [
    *(
        "append",
        "append",
        "merge",
        "merge",
        "merge",
        "update",
        "update",
        "delete",
        "delete",
        "move",
        "optimize",
    ),
    *("overwrite", "schema", "restore", "rename", "widen", "empty", "drop", "purge"),
]


class FeedlessCommits(Commits):
    """Random commits, with those that need column mapping and type widening."""

    def __init__(self, there: DeltaTable, chance: random.Random) -> None:
        super().__init__(there, chance)
        self.verbs, self.wide = [*VERBS], False

    def commit(self) -> str:
        verb = self.chance.choice(self.verbs)
        getattr(self, verb)()
        return verb

    def schema(self) -> None:
        if "extra" in self.there.arrow().column_names:
            return self.there.sql("UPDATE {} SET extra = coalesce(extra, 0) + 1 WHERE id < 9")
        return self.there.sql("ALTER TABLE {} ADD COLUMN extra INT")

    def drop(self) -> None:
        """Let a column go that may come again under its name."""
        if "extra" in self.there.arrow().column_names:
            self.there.sql("ALTER TABLE {} DROP COLUMN extra")

    def rename(self) -> None:
        """Give a column another name, write, and give it its own again."""
        self.there.sql(
            "ALTER TABLE {} RENAME COLUMN v TO other",
            f"UPDATE {{}} SET other = 'renamed', w = 3 WHERE {self.some()}",
            "ALTER TABLE {} RENAME COLUMN other TO v",
        )

    def widen(self) -> None:
        self.there.sql(
            "ALTER TABLE {} ALTER COLUMN w TYPE BIGINT", f"UPDATE {{}} SET w = 1 WHERE {self.some()}"
        )

    def purge(self) -> None:
        self.there.sql("REORG TABLE {} APPLY (PURGE)")

    def restore(self) -> None:
        found = [version for version in self.there.versions()[1:6] if version > 1]
        try:
            self.there.sql(f"RESTORE TABLE {{}} TO VERSION AS OF {self.chance.choice(found)}")
        except PySparkException as refused:  # of a type, or of vectors, that the table has no more
            assert "DELTA_" in str(refused.getCondition()), refused
        if "v" not in self.there.arrow().column_names:
            self.there.sql("ALTER TABLE {} RENAME COLUMN other TO v")


@pytest.mark.parametrize(
    ("properties", "partitioned", "seed", "commits"),
    [
        pytest.param(TRACKED, "", 1, 8, id="tracked", marks=pytest.mark.long),
        pytest.param(TRACKED, "", 2, 100, id="tracked-100", marks=pytest.mark.long),
        pytest.param(PLAIN, "k", 3, 100, id="plain-100", marks=pytest.mark.long),
    ],
)
def test_a_table_without_a_feed_is_followed_through_random_commits(
    session: Session,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: str,
    partitioned: str,
    seed: int,
    commits: int,
) -> None:
    chance = random.Random(seed)
    there = SparkDeltaTable(spark, tmp_path / "there").make(
        COLUMNS, properties=properties, partitioned=partitioned
    )
    there.insert("SELECT id, id % 5, 'a', id, CAST(id AS INT) FROM range(60)")
    follow(session, there, FOLLOWED)
    poll(session)
    made, done = FeedlessCommits(there, chance), list[str]()
    compared = _count_comparisons(monkeypatch)
    while len(done) < commits:
        for _ in range(chance.randrange(1, 5)):
            done.append(made.commit())
        monkeypatch.setattr(delta_source, "SMALL_BYTES", chance.choice([0, 4 << 20]))
        report = poll(session)
        assert report.error is None
        assert held(session, columns=KEPT) == there.rows(KEPT.split(", ")), done
    away = done.count("rename") + done.count("restore")  # a column may be away where a step ends
    assert len(compared) <= away, done


def _count_comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets what is compared as a whole from now on."""
    found = list[str]()
    plan = DeltaSource._plan_comparison

    def note(self: DeltaSource, offset: object) -> object:
        found.append(repr(offset)[:200])
        return plan(self, offset)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaSource, "_plan_comparison", note)
    return found
