"""Names and comments as nobody should write them, through every kind of statement: right, or refused with the place."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session
from tests.runtime.writes.test_dml import rows

NAMES = (
    *(
        "Orders",
        "order",
        "select",
        "my table",
        'q"u"o',
        "t`i`ck",
        "it's",
        "semi;colon",
        "dollar$$tag$$",
        "--dash",
    ),
    *(
        "/*c*/",
        "😀",
        "straße",
        "x" * 200,
        "1st",
        " lead",
        "trail ",
        "null",
        "a-b",
        "per%cent",
        "back\\slash",
        "$1",
    ),
)
COLUMNS = (
    "a.b",
    "values",
    "group",
    "{brace}",
    "ÄÖ",
    "?",
    ":x",
    "@v",
    "%s",
    "user",
    'd"q',
    "b`t",
    "--",
    "😀.😀",
    "*",
)
COMMENTS = ("", "/* it's; \"odd */ ", "-- don't; $$ stop\n", "/* $$ ' ; */", "  \t\n")
REFUSED = ("", "_tideline__under", "tab\there", "new\nline", "y" * 256)


def quoted(name: str, dialect: str) -> str:
    mark = "`" if dialect == "spark" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def batches() -> list[tuple[str, int]]:
    return [(dialect, part) for dialect in ("postgres", "spark") for part in range(2)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        (dialect, part)
        if (dialect, part) == ("postgres", 0)
        else pytest.param(dialect, part, marks=pytest.mark.long)
        for dialect, part in batches()
    ],
)
def test_any_name_goes_through_every_statement(
    session: Session, tmp_path: Path, dialect: str, part: int
) -> None:
    session.dialect = dialect  # type: ignore[assignment]
    comments = itertools.cycle(COMMENTS)
    for n, name in enumerate(NAMES):
        if n % 2 != part:
            continue
        table, view, new = (quoted(text, dialect) for text in (name, f"v {name}"[:255], f"z {name}"[:255]))
        column, other = (quoted(COLUMNS[(n + i) % len(COLUMNS)], dialect) for i in (0, 1))
        sink = quoted(f"s {name}"[:255], dialect)

        def run(sql: str) -> None:
            session.sql(sql.replace("~", next(comments)))

        run(f"CREATE TABLE ~{table} (~id BIGINT PRIMARY KEY,~ {column} BIGINT)")
        run(f"INSERT INTO ~{table} (id,~{column}) VALUES ~(1, 10), (2, 20),~ (3, NULL)")
        run(
            f"CREATE MATERIALIZED VIEW {view} AS SELECT ~{column} + 1 AS ~{table}, id FROM ~{table}~ WHERE {column} > 5"
        )
        assert sorted(rows(session, f"SELECT * FROM {view}")) == [(11, 1), (21, 2)], name
        run(f"CREATE SINK {sink} FROM ~{view} WITH (connector = 'file', path = '{tmp_path}/{n}')")
        before = session.common_epoch(name)
        run(f"UPDATE ~{table} SET ~{column} = {column} * 2 WHERE ~id = 1")
        run(f"DELETE FROM {table} WHERE ~{column} = 20 AND id = 2")
        session.flush().raise_for_all()
        assert rows(session, f"SELECT * FROM {view}") == [(21, 1)], name
        assert rows(session, f"SELECT {table}.{column} FROM {table} WHERE id = 1") == [(20,)]
        then = session.sql(f"SELECT {column} FROM {table} WHERE id = 1", policy=str(before))
        assert then is not None and then.to_pylist() == [{COLUMNS[n % len(COLUMNS)]: 10}]
        run(f"DROP SINK {sink}")
        run(f"DROP MATERIALIZED VIEW ~{view}")
        run(f"ALTER TABLE ~{table} ADD COLUMN ~{other} INT")
        run(f"ALTER TABLE {table} RENAME COLUMN {other} TO ~{quoted('r ' + name[:200], dialect)}")
        run(f"ALTER TABLE {table} RENAME TO {new}")
        run(f"INSERT INTO {new} (id, {column}) VALUES (9, 9)")
        assert sorted(rows(session, f"SELECT id FROM ~{new}".replace("~", next(comments)))) == [
            (1,),
            (3,),
            (9,),
        ]
        run(f"DROP TABLE {new}")


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_what_is_no_name_is_refused_at_its_place(session: Session, dialect: str, name: str) -> None:
    session.dialect = dialect  # type: ignore[assignment]
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
    odd = quoted(name, dialect)
    for sql in (
        f"CREATE TABLE {odd} (id BIGINT PRIMARY KEY)",
        f"CREATE TABLE u (id BIGINT PRIMARY KEY, {odd} INT)",
        f"CREATE MATERIALIZED VIEW {odd} AS SELECT id FROM t",
        f"ALTER TABLE t ADD COLUMN {odd} INT",
        f"ALTER TABLE t RENAME TO {odd}",
    ):
        with pytest.raises(SqlError) as refused:
            session.sql(sql)
        assert refused.value.line, sql
    assert list(session.catalog.relations) == ["t"]


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_a_relation_has_no_dot_in_its_name(session: Session, dialect: str) -> None:
    session.dialect = dialect  # type: ignore[assignment]
    with pytest.raises(SqlError, match="has a dot in its name"):
        session.sql(f"CREATE TABLE {quoted('a.b', dialect)} (id BIGINT PRIMARY KEY)")


def test_options_name_columns_in_quotes(session: Session) -> None:
    session.dialect = "postgres"
    session.sql('CREATE TABLE t ("My Id" BIGINT PRIMARY KEY, "a,b" BIGINT, v BIGINT)')
    session.sql("INSERT INTO t VALUES (1, 1, 2), (2, 1, 3), (3, 2, 4)")
    cut = """CREATE MATERIALIZED VIEW v WITH (partition_by = '"a,b"') AS SELECT "a,b", sum(v) AS s FROM t GROUP BY "a,b\""""
    session.sql(cut)
    assert sorted(rows(session, "SELECT * FROM v")) == [(1, 5), (2, 4)]
    session.sql(
        """CREATE MATERIALIZED VIEW w WITH (refresh_policy = 'full', key = '"My Id", v') AS SELECT * FROM t"""
    )
    assert session.catalog.get("w").primary_key == ("My Id", "v")
