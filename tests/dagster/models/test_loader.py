"""Models from `.sql` files, without Spark and without a store."""

from __future__ import annotations

from pathlib import Path

from dagster_tideline.models.asset_spec import build_asset_spec
from dagster_tideline.models.loader import load_models, normalize_sql


def test_the_projects_own_models_are_all_usable() -> None:
    models = load_models(Path(__file__).resolve().parents[3] / "assets")
    assert [model.error for model in models if model.error is not None] == []
    views = [model for model in models if model.kind == "materialized view"]
    names = {model.name for model in views}
    assert len(views) >= 6
    assert sum(1 for model in views if names & set(model.reads)) >= 2


def test_inputs_come_before_their_readers(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE MATERIALIZED VIEW a AS SELECT id FROM z")
    (tmp_path / "z.sql").write_text("CREATE TABLE z (id INT PRIMARY KEY)")
    assert [model.name for model in load_models(tmp_path)] == ["z", "a"]


def test_comments_at_the_top_give_group_owners_and_description(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(
        "-- Orders.\n-- group: sales\n-- owners: ann@example.com, team:shop\nCREATE TABLE a (id INT PRIMARY KEY);"
    )
    (model,) = load_models(tmp_path)
    assert (model.group, model.owners, model.description) == (
        "sales",
        ("ann@example.com", "team:shop"),
        "Orders.",
    )


def test_the_folder_is_the_group(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.sql").write_text("CREATE TABLE a (id INT PRIMARY KEY)")
    assert load_models(tmp_path)[0].group == "shop"


def test_the_code_version_ignores_white_space_comments_and_case(tmp_path: Path) -> None:
    one = normalize_sql("SELECT a,b FROM t -- why\nWHERE x = 'A'", "spark")
    assert one == normalize_sql("select a, b\nfrom T where x='A';", "spark")
    assert one != normalize_sql("select a, b from t where x='a'", "spark")


def test_a_broken_file_becomes_a_model_with_its_error_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("CREATE MATERIALIZED VIEW bad AS SELEC id FROM t")
    (tmp_path / "good.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY)")
    models = {model.name: model for model in load_models(tmp_path)}
    assert models["t"].error is None
    assert "bad.sql" in str(models["bad"].error)
    assert "can't be used" in str(build_asset_spec(models["bad"], None).description)


def test_a_name_declared_twice_names_both_files(tmp_path: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("CREATE TABLE t (id INT PRIMARY KEY)")
    (model,) = load_models(tmp_path)
    assert "a.sql" in str(model.error)
    assert "b.sql" in str(model.error)


def test_an_asset_shows_its_sql_its_kinds_and_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE a (id INT PRIMARY KEY, at TIMESTAMP)")
    spec = build_asset_spec(load_models(tmp_path)[0], None)
    assert "CREATE TABLE a" in str(spec.description)
    assert spec.kinds == {"tideline"}
    columns = spec.metadata["dagster/column_schema"].columns  # type: ignore[attr-defined]
    assert [(column.name, column.type) for column in columns] == [("id", "int"), ("at", "timestamp")]


def test_a_file_in_a_dialect_that_nobody_knows_becomes_a_model_with_its_error(tmp_path: Path) -> None:
    for number, dialect in enumerate(("postgress", "oracle")):
        (tmp_path / f"v{number}.sql").write_text(
            f"-- dialect: {dialect}\nCREATE VIEW v{number} AS SELECT 1 AS n"
        )
    models = load_models(tmp_path)
    assert [model.name for model in models] == ["v0", "v1"]
    assert 'dialect "postgress" is unknown\n  line 1, column 13' in (models[0].error or "")
    assert "use one of spark, postgres, risingwave" in (models[0].error or "")
    assert 'dialect "oracle" is unknown' in (models[1].error or "")


def test_what_no_asset_can_stand_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE SINK a INTO t AS SELECT 1 AS id")
    (tmp_path / "b.sql").write_text("CREATE MATERIALIZED VIEW s.b AS SELECT 1 AS id")
    errors = {model.path: model.error or "" for model in load_models(tmp_path)}
    assert "a sink AS SELECT is no model" in errors["a.sql"]
    assert "a model is in no schema: s.b" in errors["b.sql"]
