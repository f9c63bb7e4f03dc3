"""Rows are joined with what stood when they came: a function of the history, whoever runs it and in how many steps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.runtime.temporal_joins.worlds import VIEWS, Judge, create_tables, random_commit
from tests.session_rows import rows

SEEDS = [
    (1, 14, ("matched", "two", "of_view", "grown")),
    *(pytest.param(seed, 40, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 8)),
]


@pytest.mark.parametrize(("seed", "commits", "names"), SEEDS)
def test_epochs_run_together_or_one_by_one_give_what_a_plain_judge_says(
    tmp_path: Path, spark: SparkSession, seed: int, commits: int, names: tuple[str, ...]
) -> None:
    chance, judge = random.Random(seed), Judge(names)
    stores = [(tmp_path / name).as_uri() for name in ("by_one", "together")]
    with Session(stores[0], spark) as by_one, Session(stores[1], spark) as together:
        for session in (by_one, together):
            create_tables(session)
        for _ in range(chance.randrange(4)):
            text = random_commit(chance, judge)
            by_one.sql(text)
            together.sql(text)
        judge.joined = {}
        judge.committed(
            "w", judge.tables["w"]
        )  # what stood when the views were made meets what stood with it
        for session in (by_one, together):
            for name in names:
                session.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].query}", build=False)
            session.flush().raise_for_errors()
        for n in range(commits):
            text = random_commit(chance, judge)
            by_one.sql(text)
            by_one.flush().raise_for_errors()
            together.sql(text)
            if chance.random() < 0.1 or n == commits - 1:
                together.flush().raise_for_errors()
                for session in (by_one, together):
                    for name in names:
                        assert rows(session, f"SELECT * FROM {name}") == judge.rows(name), (n, text, name)
