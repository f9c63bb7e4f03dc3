"""Documents of files: jsonb is brought into its normal form, and what is no JSON is a dead letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.connectors.landing.source import LandingSource
from engine.session import Session


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_document_is_normal_and_a_wrong_one_set_aside(tmp_path: Path, folder: Path, name: str) -> None:
    texts = ['{"bb":1, "a":[1.50]}', "{", "[1,2]", None]
    if name.endswith(".jsonl"):
        lines = [f'{{"id": {n}, "j": {text or "null"}}}' for n, text in enumerate(texts)]
    else:
        doubled = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in texts]
        lines = ["id,j", *(f"{n},{text}" for n, text in enumerate(doubled))]
    (folder / name).write_text("\n".join(lines) + "\n")
    with Session((tmp_path / "store").as_uri(), dialect="postgres") as lake:
        lake.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, j JSONB) WITH (connector = 'landing', path = 'landing')"
        )
        report = LandingSource.of_relation(lake.store, lake.catalog.get("t")).poll()
        found = lake.sql("SELECT id, j FROM t ORDER BY id")
        assert found is not None
        assert found.to_pylist() == [
            {"id": 0, "j": '{"a": [1.50], "bb": 1}'},
            {"id": 2, "j": "[1, 2]"},
            {"id": 3, "j": None},
        ]
        assert report.dead_rows == 1


def test_each_value_of_json_is_a_document(tmp_path: Path, folder: Path) -> None:
    values = (
        '{"b": 1, "a": [2]}',
        '"asd"',
        '"5"',
        "5",
        '"null"',
        "null",
        "true",
        '["x", 1e2]',
        "1e99999999999999999999",
    )
    lines = (f'{{"id": {n}, "j": {value}}}\n' for n, value in enumerate(values))
    (folder / "rows.jsonl").write_text("".join(lines))
    with Session((tmp_path / "store").as_uri(), dialect="postgres") as lake:
        lake.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, j JSONB) WITH (connector = 'landing', path = 'landing')"
        )
        report = LandingSource.of_relation(lake.store, lake.catalog.get("t")).poll()
        found = lake.sql("SELECT j FROM t ORDER BY id")
        assert found is not None
        kept = ['{"a": [2], "b": 1}', '"asd"', '"5"', "5", '"null"', None, "true", '["x", 100]']
        assert [row["j"] for row in found.to_pylist()] == kept
        assert report.dead_rows == 1
