"""TPC-H and Nexmark bind unchanged in text, whatever the dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation
from engine.sql.statements.reader import CreateTable, Select, parse_statement, split_statements

FOLDER = Path(__file__).parent.parent / "oracle"
TEXTS = sorted([*FOLDER.glob("tpch/q*.sql"), *FOLDER.glob("nexmark/q*.sql")])


def catalog_of(folder: Path) -> Catalog:
    """Return the catalog of a benchmark's tables."""
    relations = {}
    for text in split_statements((folder / "schema.sql").read_text(), "postgres"):
        table = parse_statement(text, "postgres")
        assert isinstance(table, CreateTable)
        relations[table.name] = Relation(
            name=table.name,
            kind="table",
            columns=table.columns,
            primary_key=table.primary_key,
            distribution_key=table.primary_key,
        )
    return Catalog(relations)


CASES = [
    pytest.param(path, dialect, id=f"{path.parent.name} {path.stem} {dialect}")
    for path in TEXTS
    for dialect in ("postgres", "risingwave", "spark")
    if dialect != "spark" or "regexp_match(" not in path.read_text()  # Spark says regexp_extract
]


@pytest.mark.parametrize(("path", "dialect"), CASES)
def test_a_query_of_the_benchmarks_binds(path: Path, dialect: str) -> None:
    text = path.read_text()
    statement = parse_statement(text, dialect)
    assert isinstance(statement, Select)
    bound = bind(statement.query, catalog_of(path.parent), dialect=dialect, sql=text)
    assert bound.columns
