"""An option or a connector that there is not is refused when a table is made, at its place, with what was probably meant."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session

REFUSED = [
    ("TABLE t (id INT PRIMARY KEY) WITH (conector = 'landing')", "conector", "did you mean connector?"),
    ("TABLE t (id INT PRIMARY KEY) WITH (connector = 'nope')", "connector", "landing, nexmark"),
    ("TABLE t (id INT PRIMARY KEY) WITH (connector = 'landig', path = 'x')", "connector", "mean landing?"),
    ("TABLE t (id INT PRIMARY KEY) WITH (path = 'x')", "path", "add connector = 'landing'"),
    ("TABLE t (id INT PRIMARY KEY) WITH (retention = '1 day')", "retention", "has no options"),
    (
        "TABLE t (id INT PRIMARY KEY) WITH (retention_seconds = 60)",
        "retention_seconds",
        "say APPEND ONLY",
    ),
    ("TABLE t (id INT PRIMARY KEY) USING parquet", "t (", "add connector = 'landing'"),
    (
        "TABLE t (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'x', delimeter = ';')",
        "delimeter",
        "did you mean delimiter?",
    ),
    ("TABLE t (id INT PRIMARY KEY) WITH (connector = 'landing')", "connector", "path = 'folder'"),
    (
        "SOURCE bid (auction BIGINT) WITH (connector = 'nexmark', even_rate = '1')",
        "even_rate",
        "did you mean event_rate?",
    ),
    (
        "SOURCE bid (auction BIGINT) WITH (connector = 'nexmark', path = 'x')",
        "path",
        "options are connector, type",
    ),
]


@pytest.mark.parametrize(("statement", "at", "hint"), REFUSED)
@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_an_unknown_option_is_refused_at_its_place(
    lake: Session, dialect: str, statement: str, at: str, hint: str
) -> None:
    lake.dialect = dialect  # type: ignore[assignment]
    text = f"CREATE {statement}"
    with pytest.raises(SqlError) as refused:
        lake.sql(text)
    assert text[refused.value.column - 1 :].startswith(at)
    assert hint in refused.value.hint
    assert not lake.catalog.relations


@pytest.mark.parametrize("rest", ["WITH (fillfactor = 70)", "WHERE n > 1"])
def test_an_index_takes_nothing_but_its_columns(lake: Session, rest: str) -> None:
    lake.dialect = "postgres"
    lake.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    with pytest.raises(SqlError, match="of an index is not offered"):
        lake.sql(f"CREATE INDEX i ON t (n) {rest}")
    assert list(lake.catalog.relations) == ["t"]
