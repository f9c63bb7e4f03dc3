"""Models that the engine refuses are known before any run, by the engine itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.dry_run import find_refused_models
from dagster_tideline.models.loader import load_models
from engine.session import Session

MODELS = """\
CREATE TABLE t (a INT PRIMARY KEY, n INT) WITH (connector = 'landing', path = 'landing/t');
CREATE MATERIALIZED VIEW good AS SELECT a, twice(n) AS n FROM t;
CREATE MATERIALIZED VIEW wrong AS SELECT a, m FROM t;
CREATE MATERIALIZED VIEW reader AS SELECT a FROM wrong;
-- check: z > 0
CREATE MATERIALIZED VIEW checked AS SELECT a FROM good;
CREATE MATERIALIZED VIEW nothing AS SELECT a FROM nobody;
CREATE MATERIALIZED VIEW over_by_hand AS SELECT b FROM by_hand;
CREATE SINK out FROM wrong INTO t;
-- delta: s3://nowhere/copied
CREATE MATERIALIZED VIEW copied AS SELECT a FROM good;
CREATE MATERIALIZED VIEW miscopied WITH (connector = 'delta', path = 'x') AS SELECT a, m FROM good;
"""


def test_what_the_engine_refuses_is_told_and_what_only_the_store_knows_is_not(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "m.sql").write_text(MODELS)
    url = (tmp_path / "store").as_uri()
    with Session(url, spark) as session:
        session.sql("CREATE TABLE by_hand (b INT PRIMARY KEY)")
        session.sql("CREATE FUNCTION twice(n INT) RETURNS INT LANGUAGE SQL AS 'SELECT n * 2'")
        stored = session.catalog.relations
    models = load_models(folder)
    assert all(model.error is None for model in models)
    errors = find_refused_models(models, stored)
    assert errors.keys() == {"wrong", "checked", "nothing", "miscopied"}, errors
    assert "there is no column m" in errors["miscopied"] and not (tmp_path / "x").exists()
    assert "m.sql: there is no column m\n  line 3, column 45:" in errors["wrong"]
    assert "\n  line 5, column 11:\n    -- check: z > 0\n              ^" in errors["checked"]
    assert "nobody" in errors["nothing"] and "line 7" in errors["nothing"]
    assert not (tmp_path / "landing").exists()
    with Session(url, spark) as session:
        assert session.catalog.relations.keys() == stored.keys()
