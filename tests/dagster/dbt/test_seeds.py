"""Seeds as queries of their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_tideline.dbt.compiled_text import find_dialect
from dagster_tideline.dbt.manifest import ManifestError, read_manifest
from dagster_tideline.dbt.seeds import MOST_ROWS, build_seed_query
from tests.dagster.dbt.manifests import model, write_manifest


def build(folder: Path, text: str | None, adapter: str = "postgres", **config: object) -> str:
    """Return the query of a seed whose file has a text."""
    node = model("s", None, config=config) | {"resource_type": "seed", "original_file_path": "seeds/s.csv"}
    (folder / "seeds").mkdir(exist_ok=True)
    if text is not None:
        (folder / "seeds" / "s.csv").write_text(text)
    found = read_manifest(write_manifest(folder, node))
    return build_seed_query(found.nodes["model.shop.s"], folder, find_dialect(adapter))


def test_types_are_the_narrowest_or_those_that_are_said(tmp_path: Path) -> None:
    text = "i,d,b,t,w,zip,x\n1,1.5,true,2024-01-02,2024-01-02 03:04:05,007,\n-2,2,false,2024-01-03,2024-01-02T03:04,8,\n"
    query = build(tmp_path, text, column_types={"x": "numeric(5, 2)"})
    assert query.splitlines()[0] == (
        'SELECT CAST("i" AS bigint) AS "i", CAST("d" AS double precision) AS "d", CAST("b" AS boolean) AS "b", '
        'CAST("t" AS date) AS "t", CAST("w" AS timestamp) AS "w", CAST("zip" AS text) AS "zip", CAST("x" AS numeric(5, 2)) AS "x"'
    )
    assert "('1', '1.5', 'true', '2024-01-02', '2024-01-02 03:04:05', '007', NULL)" in query


def test_texts_are_literals_of_the_dialect(tmp_path: Path) -> None:
    assert "('it''s')" in build(tmp_path, "a\nit's\n")
    assert r"('a\\b')" in build(tmp_path, "a\na\\b\n", "spark")
    assert build(tmp_path, "a;b\n", delimiter=";").endswith("WHERE false")


def test_rows_that_differ_are_groups_so_that_another_file_is_a_difference(tmp_path: Path) -> None:
    assert build(tmp_path, "a,b\n1,x\n2,x\n").endswith("GROUP BY 1, 2\nHAVING count(*) > 0")
    for text in ("a,b\n1,x\n+1,x\n", "a\n1.0\n1\n", "a\nx\nx\n"):
        assert "GROUP BY" not in build(tmp_path, text)
    assert "GROUP BY" not in build(tmp_path, "a\n1\n2\n", column_types={"a": "boolean"})


def test_files_that_cannot_be_taken_are_told(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"seeds/s.csv is not in .*: say under `project`"):
        build(tmp_path, None)
    with pytest.raises(ManifestError, match=f"has {MOST_ROWS + 1} rows"):
        build(tmp_path, "a\n" + "1\n" * (MOST_ROWS + 1))
    with pytest.raises(ManifestError, match="row 2 has 1 fields, and the header 2"):
        build(tmp_path, "a,b\n1\n")
    with pytest.raises(ManifestError, match="has no header"):
        build(tmp_path, "")


def test_fields_are_null_where_dbt_reads_null(tmp_path: Path) -> None:
    assert "('1', NULL),\n  (NULL, 'x')" in build(tmp_path, "a,b\n1, NULL\nnull,x\n")
    assert 'CAST("a" AS bigint)' in build(tmp_path, "a,b\n1,NULL\nnull,x\n")


def test_whole_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    ends = f"{-(2**63)},{2**63}"
    assert build(tmp_path, f"a,b\n{ends}\n").startswith(
        'SELECT CAST("a" AS bigint) AS "a", CAST("b" AS decimal(38, 0)) AS "b"'
    )


def test_names_and_types_are_those_that_the_database_of_dbt_has(tmp_path: Path) -> None:
    assert 'AS t("id")' in build(tmp_path, "Id\n1\n")
    assert 'AS t("Id")' in build(tmp_path, "Id\n1\n", quote_columns=True)
    query = build(tmp_path, "a,b\n1,x\n", "bigquery", column_types={"a": "INT64", "b": "STRING"})
    assert query.startswith('SELECT CAST("a" AS BIGINT) AS "a", CAST("b" AS TEXT) AS "b"')
