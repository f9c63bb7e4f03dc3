"""Documents of files: jsonb is brought into its normal form, and what is no JSON is a dead letter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.connectors.landing import LandingSource
from engine.session import Session


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_document_is_normal_and_a_wrong_one_set_aside(tmp_path: Path, folder: Path, name: str) -> None:
    texts = ['{"bb":1, "a":[1.50]}', "{", "[1,2]", None]
    if name.endswith(".jsonl"):
        lines = [json.dumps({"id": n, "j": text}) for n, text in enumerate(texts)]
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


def test_an_object_in_a_line_is_a_document(tmp_path: Path, folder: Path) -> None:
    (folder / "rows.jsonl").write_text('{"id": 1, "j": {"b": 1, "a": [2]}}\n')
    with Session((tmp_path / "store").as_uri(), dialect="postgres") as lake:
        lake.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, j JSONB) WITH (connector = 'landing', path = 'landing')"
        )
        LandingSource.of_relation(lake.store, lake.catalog.get("t")).poll()
        found = lake.sql("SELECT j FROM t")
        assert found is not None
        assert found.to_pylist() == [{"j": '{"a": [2], "b": 1}'}]
