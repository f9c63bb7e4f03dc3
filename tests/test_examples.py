"""The examples in docstrings run and give what they say; each operator, and each verb of the public classes, has one."""

from __future__ import annotations

import doctest
import importlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Delete, Hummock, Put
from engine.session import Session

OPERATORS = [
    "changelog",
    "constant_rows",
    "full_refresh",
    "grouping.aggregate",
    "grouping.recompute",
    "grouping.top_n",
    "grouping.touched_groups",
    "grouping.windows",
    "joins.asof_join",
    "joins.cross_join",
    "joins.few_rows",
    "joins.join",
    "joins.semi_join",
    "joins.temporal_join",
    "linear",
    "temporal_filter",
    "union_all",
    "unnest",
]
VERBS = [
    "sql",
    "write",
    "flush",
    "explain_flush",
    "why",
    "why_not",
    "diff",
    "blame",
    "materialize",
    "partitions",
    "waits",
    "status",
    "common_epoch",
    "compact",
]
TABLES = (
    "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)",
    "CREATE TABLE auction (id BIGINT PRIMARY KEY, category STRING)",
    "INSERT INTO bid VALUES (1, 7, 30), (2, 7, 50), (3, 8, 20)",
    "INSERT INTO auction VALUES (7, 'art'), (9, 'books')",
)
EPOCH = ("INSERT INTO bid VALUES (4, 9, 10)", "DELETE FROM bid WHERE id = 2")


def examples(module: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder().find(importlib.import_module(module), module)
    return [one for one in found if one.examples]


def check(test: doctest.DocTest, **names: object) -> None:
    """Run an example with these names known beside those of its module."""
    test.globs.update(names)
    reports: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=reports.append)
    assert outcome.attempted and not outcome.failed, "".join(reports)


OF_OPERATORS = [
    test
    for name in [*OPERATORS, "lookups.scan", "materialize"]
    for test in examples(f"engine.operators.{name}")
]
OF_SESSIONS = examples("engine.session")
OF_STORES = [*examples("engine.hummock"), *examples("engine.hummock.store")]


@pytest.fixture(scope="module")
def change(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """`change(query)` of the operators' examples: all their views go through one epoch together."""
    asked: list[tuple[str, Mapping[str, str]]] = []

    def ask(query: str, **options: str) -> None:
        asked.append((query, options))

    for test in OF_OPERATORS:
        for example in test.examples:
            if example.source.startswith("change("):
                eval(example.source, {"change": ask})
    with Session((tmp_path_factory.mktemp("operators") / "store").as_uri(), spark) as session:
        changes = _changes(session, asked)

    def tell(query: str, **_: str) -> None:
        print("\n".join(changes[query]))

    yield tell


def _changes(session: Session, asked: list[tuple[str, Mapping[str, str]]]) -> dict[str, list[str]]:
    for statement in TABLES:
        session.sql(statement)
    for number, (query, options) in enumerate(asked):
        given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
        text = f"CREATE MATERIALIZED VIEW v{number} {f'WITH ({given})' if given else ''} AS {query}"
        session.sql(text, build=False)
    session.flush().raise_for_errors()
    before = [_rows(session, f"v{number}") for number in range(len(asked))]
    for statement in EPOCH:
        session.sql(statement)
    session.flush().raise_for_errors()
    after = [_rows(session, f"v{number}") for number in range(len(asked))]
    return {
        query: [f"- {row}" for row in sorted((old - new).elements())]
        + [f"+ {row}" for row in sorted((new - old).elements())]
        for (query, _), old, new in zip(asked, before, after, strict=True)
    }


def _rows(session: Session, view: str) -> Counter[str]:
    found = session.sql(f"SELECT * FROM {view}")
    assert found is not None
    return Counter(" ".join(f"{name}={value}" for name, value in row.items()) for row in found.to_pylist())


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two tables, a view over one of them, and a view that is cut into partitions."""
    folder = tmp_path_factory.mktemp("sessions") / "store"
    with Session(folder.as_uri(), spark) as session:
        for statement in TABLES:
            session.sql(statement)
        query = "SELECT auction, max(price) AS best FROM bid GROUP BY auction"
        session.sql(f"CREATE MATERIALIZED VIEW top AS {query}", build=False)
        session.sql(f"CREATE MATERIALIZED VIEW cut WITH (partition_by = 'auction') AS {query}", build=False)
        session.flush().raise_for_errors()
    return folder


@pytest.mark.parametrize("test", OF_OPERATORS, ids=lambda test: test.name)
def test_an_operators_example_is_true(test: doctest.DocTest, change: Callable[..., None]) -> None:
    check(test, change=change)


@pytest.mark.parametrize("test", OF_SESSIONS, ids=lambda test: test.name)
def test_a_sessions_example_is_true(
    test: doctest.DocTest, prepared: Path, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(prepared, tmp_path / "store")
    with Session((tmp_path / "store").as_uri(), spark) as session:
        check(test, s=session, pa=pa)


@pytest.mark.parametrize("test", OF_STORES, ids=lambda test: test.name)
def test_a_stores_example_is_true(test: doctest.DocTest, tmp_path: Path) -> None:
    known: dict[str, Any] = {"Put": Put, "Delete": Delete, "pa": pa, "folder": tmp_path.as_uri()}
    check(test, **known)


def test_each_operator_and_each_verb_has_an_example() -> None:
    assert {test.name.removeprefix("engine.operators.") for test in OF_OPERATORS} >= set(OPERATORS)
    assert {test.name.rpartition(".")[2] for test in OF_SESSIONS} >= set(VERBS)
    assert "engine.hummock.store.Hummock" in {test.name for test in OF_STORES}
    assert Hummock.__doc__
