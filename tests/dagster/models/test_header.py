"""What comment lines above a model say of its asset, and what is told of wrong ones, with file, line and caret."""

from __future__ import annotations

import datetime
from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.component import TidelineModelsComponent
from dagster_tideline.definitions import VALIDATING, build_definitions
from dagster_tideline.models.asset_spec import build_asset_spec
from dagster_tideline.models.loader import Model, load_models
from dagster_tideline.models.source_text import SourceText
from dagster_tideline.settings import Settings
from engine.errors import SqlError

VIEW = "CREATE MATERIALIZED VIEW v AS\nSELECT a, n FROM t"
HEAD = "from dagster_tideline import materialized_view\n"
FULL = (
    """-- What there is.
-- owners: ann@example.com
-- tags: layer=gold, nightly, team/area=shop.x
-- freshness: 10 min warn 90 s
-- automation: on_cron('0 6 * * *')
-- check: not_null(a, "B c")
-- check big (warn): n < 1000 AND a <> 'it''s; so'
"""
    + VIEW
)


def only(folder: Path, text: str, name: str = "v.sql", **said: str) -> Model:
    (folder / name).write_text(text)
    (model,) = load_models(folder, said)
    return model


def test_a_header_says_tags_freshness_automation_and_checks(tmp_path: Path) -> None:
    model = only(tmp_path, FULL)
    assert model.error is None and model.description == "What there is."
    assert model.checks == {"not_null_a_B_c": 'not_null(a, "B c")', "big": "n < 1000 AND a <> 'it''s; so'"}
    assert model.options["checks"].endswith("so' warn")
    assert model.sql.startswith(
        'CREATE MATERIALIZED VIEW v WITH (checks = \'not_null(a, "B c");\nbig: n < 1000'
    )
    spec = build_asset_spec(model, None)
    assert {"layer": "gold", "nightly": "", "team/area": "shop.x"}.items() <= spec.tags.items()
    minutes = datetime.timedelta(minutes=10), datetime.timedelta(seconds=90)
    assert spec.freshness_policy == dg.FreshnessPolicy.time_window(*minutes)
    assert spec.automation_condition == dg.AutomationCondition.on_cron("0 6 * * *")


def test_checks_join_the_options_that_a_view_has_and_change_its_code_version(tmp_path: Path) -> None:
    text = "CREATE MATERIALIZED VIEW v (a, n) WITH (parallelism = '2') AS WITH x AS (SELECT 1 AS a) SELECT a, a AS n FROM x"
    before = only(tmp_path, text)
    after = only(tmp_path, f"-- check: n > 0\n{text}")
    assert after.error is None and after.options == {"checks": "n > 0", "parallelism": "2"}
    assert before.code_version != after.code_version
    gated = only(tmp_path, f"-- gate: rows_changed <= 1%; changed(n) = 0\n-- check: n > 0\n{text}")
    assert gated.error is None
    assert gated.options == {
        "gate": "rows_changed <= 1%; changed(n) = 0",
        "checks": "n > 0",
        "parallelism": "2",
    }


def test_an_error_of_what_a_header_adds_is_at_its_line() -> None:
    places = {"checks": 3, "gate": 30, "connector": 60}
    text, own = "\n" * 99, "CREATE MATERIALIZED VIEW v AS SELECT 1"
    sql = own.replace(" AS ", " WITH (connector = 'delta', gate = 'g', checks = 'c') AS ")
    source = SourceText(text, 20, own, places)
    for value, place in (("'c'", 3), ("'g'", 30), ("'delta'", 60), ("SELECT", 20 + own.index("SELECT"))):
        found = source.locate_error(SqlError("wrong", sql=sql, line=1, column=sql.index(value) + 1), sql)
        assert isinstance(found, SqlError) and found.line == place + 1


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_a_check_is_the_text_of_its_line(tmp_path: Path, dialect: str) -> None:
    check = r"a LIKE '\\d''s%'"
    model = only(tmp_path, f"-- dialect: {dialect}\n-- check: {check}\n{VIEW}")
    declared = (
        f"@materialized_view(dialect={dialect!r}, checks=[{check!r}])\ndef w():\n    return 'SELECT 1 AS a'\n"
    )
    (tmp_path / "w.py").write_text(HEAD + declared)
    for one in load_models(tmp_path):
        assert one.error is None and one.checks == {"check_1": check}
    assert model.options == {"checks": check}


def test_python_and_a_component_say_the_same(tmp_path: Path) -> None:
    written = only(tmp_path, FULL)
    (tmp_path / "v.sql").unlink()
    declared = only(
        tmp_path,
        HEAD
        + "@materialized_view(owners=['ann@example.com'], tags={'layer': 'gold', 'nightly': '', 'team/area': 'shop.x'},\n"
        "    freshness='10 min warn 90 s', automation=\"on_cron('0 6 * * *')\",\n"
        "    checks=['not_null(a, \"B c\")', \"big: n < 1000 AND a <> 'it''s; so' warn\"])\n"
        "def v():\n    'What there is.'\n    return 'SELECT a, n FROM t'\n",
        "v.py",
    )
    assert declared.error is None, declared.error
    for part in ("owners", "tags", "freshness", "automation", "checks", "description"):
        assert getattr(declared, part) == getattr(written, part), part
    (tmp_path / "v.py").unlink()
    said = {
        "tags": "layer=raw",
        "freshness": "2 h",
        "automation": "eager",
        "group": "shop",
        "owners": "team:a",
    }
    usual, own = (
        only(tmp_path, VIEW, **said),
        only(tmp_path, "-- automation: none\n-- tags: x\n" + VIEW, **said),
    )
    assert (usual.tags, usual.group, usual.owners) == ({"layer": "raw"}, "shop", ("team:a",))
    assert usual.automation == dg.AutomationCondition.eager() and usual.freshness == own.freshness
    assert (own.tags, own.automation) == ({"x": ""}, None)


def test_the_component_hands_on_what_headers_are_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.sql").write_text("-- check: a > 0\nCREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    monkeypatch.setenv("TIDELINE_STORE", (tmp_path / "store").as_uri())
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    component = TidelineModelsComponent(
        group="shop", tags={"layer": "raw"}, freshness="1 h", automation="eager"
    )
    definitions = component.build_project_defs(tmp_path, tmp_path)
    assets = [one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)]
    spec = next(spec for one in assets for spec in one.specs if spec.key == dg.AssetKey("v"))
    assert spec.group_name == "shop" and spec.tags["layer"] == "raw"
    assert spec.automation_condition == dg.AutomationCondition.eager()


WRONG = [
    ("-- tags: a=b, c d\n" + VIEW, '"c d" is no tag', 1, 15),
    ("-- Told.\n-- tags: dagster/x=1\n" + VIEW, '"dagster/x=1" is no tag', 2, 10),
    ("-- freshness: soon\n" + VIEW, '"soon" is no time', 1, 15),
    ("-- freshness: 59 s\n" + VIEW, "too short a time", 1, 15),
    ("-- freshness: 60 s warn 2 min\n" + VIEW, "the warning comes no sooner", 1, 25),
    ("-- automation: often\n" + VIEW, '"often" is no automation', 1, 16),
    ("-- automation: on_cron('6 pm')\n" + VIEW, "'6 pm' is no schedule", 1, 25),
    ("-- owner: ann\n" + VIEW, "there is no owner of a model", 1, 4),
    ("-- dialect: oracle\n" + VIEW, 'dialect "oracle" is unknown', 1, 13),
    ("-- check:\n" + VIEW, "this check says nothing", 1, 4),
    ("-- check (loud): n > 0\n" + VIEW, "a check cannot be loud", 1, 4),
    ("-- check: n > 0; n < 9\n" + VIEW, "a line says one check", 1, 11),
    ("-- check: not_nul(a)\n" + VIEW, "there is no check not_nul", 1, 11),
    (
        "-- check: n > 0\n-- check: unique(a)\n-- check: unique(a)\n" + VIEW,
        "two checks are named unique_a",
        1,
        11,
    ),
    ("-- check: n > 0\nCREATE TABLE v (n INT PRIMARY KEY)", "checks are of a materialized view", 1, 11),
    (
        "-- check: n > 0\nCREATE MATERIALIZED VIEW v WITH (checks = 'n > 1') AS SELECT 1 AS n",
        "checks are in the header and in WITH",
        1,
        11,
    ),
    ("-- gate: rows_lost = 0\n" + VIEW, "a gate cannot be bounded by rows_lost = 0", 1, 10),
    (
        "-- gate: rows_changed = 0\nCREATE TABLE v (n INT PRIMARY KEY)",
        "a gate is of a materialized view",
        1,
        10,
    ),
    (
        "-- gate: rows_changed = 0\nCREATE MATERIALIZED VIEW v WITH (gate = 'rows_changed = 0') AS SELECT 1 AS n",
        "a gate is in the header and in WITH",
        1,
        10,
    ),
    ("-- Told.\n\nCREATE MATERIALIZED VIEW v AS\nSELECT a FROM (t", "parse", 4, 16),
]


@pytest.mark.parametrize(("text", "says", "line", "column"), WRONG)
def test_a_wrong_line_is_told_with_file_line_and_caret(
    tmp_path: Path, text: str, says: str, line: int, column: int
) -> None:
    error = only(tmp_path, text).error or ""
    assert error.startswith("v.sql: ") and says in error, error
    shown = text.splitlines()[line - 1]
    caret = " " * (column - 1) + "^"
    assert f"line {line}, column {column}:\n    {shown}\n    {caret}" in error, error


def test_an_error_of_a_later_statement_is_at_its_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text(
        "CREATE TABLE t (n INT PRIMARY KEY);\n\n-- tags: no good\nCREATE MATERIALIZED VIEW v AS SELECT n FROM t;\n"
    )
    models = load_models(tmp_path)
    (error,) = [model.error for model in models if model.error]
    assert "line 3, column 10:\n    -- tags: no good\n             ^" in error
    assert [model.name for model in models if model.error is None] == ["t"]


def test_models_keep_name_kind_and_inputs_under_a_wrong_header(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text(
        "-- owner: ann\n-- group: shop\nCREATE TABLE t (n INT PRIMARY KEY) WITH (connector = 'landing', path = 'l');\n"
        "-- check: not_nul(n)\nCREATE MATERIALIZED VIEW v AS SELECT n FROM t;\n"
        "CREATE SINK s FROM v INTO t WITH (;\nCREATE VIEW w AS SELECT n FROM v;"
    )
    (tmp_path / "open.sql").write_text(
        "CREATE MATERIALIZED VIEW a AS SELECT 'x;\ncreate view b as SELECT 1 AS n;\n"
    )
    models = {model.name: model for model in load_models(tmp_path)}
    found = {
        name: (model.kind, model.reads, (model.error or "").partition("\n")[0])
        for name, model in models.items()
    }
    assert found == {
        "a": ("materialized view", (), "open.sql: a string is not closed"),
        "b": ("view", (), "open.sql: a string is not closed"),
        "t": ("table", (), "two.sql: there is no owner of a model"),
        "v": ("materialized view", ("t",), "two.sql: there is no check not_nul"),
        "s": ("sink", (), "two.sql: an option needs a name and a value"),
        "w": ("view", ("v",), ""),
    }
    assert models["t"].options["path"] == "l" and {models[name].group for name in "tvw"} == {"shop"}


def asset_keys(definitions: dg.Definitions) -> set[dg.AssetKey]:
    """Return the keys of what definitions hold; Dagster's own way asks an instance that another test may have ended."""
    return {
        key
        for asset in definitions.assets or ()
        for key in (asset.keys if isinstance(asset, dg.AssetsDefinition) else [asset.key])  # type: ignore[union-attr]
    }


def test_a_code_server_loads_what_is_well_and_a_check_of_definitions_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))  # which definitions set where it is not
    (tmp_path / "t.sql").write_text("CREATE TABLE t (a INT, n INT PRIMARY KEY)")
    (tmp_path / "v.sql").write_text("-- tags: no good\n" + VIEW)
    settings = Settings(project=tmp_path, home=tmp_path, assets=tmp_path, store=(tmp_path / "store").as_uri())
    loaded = build_definitions(settings)
    assert {dg.AssetKey("t"), dg.AssetKey("v")} <= asset_keys(loaded)
    monkeypatch.setenv(VALIDATING, "1")
    with pytest.raises(dg.DagsterInvalidDefinitionError) as caught:
        build_definitions(settings)
    assert "one model of 2 can't be used" in str(caught.value)
    assert 'v.sql: "no good" is no tag\n  line 1, column 10:\n    -- tags: no good\n             ^' in str(
        caught.value
    )
    (tmp_path / "v.sql").write_text(VIEW)
    assert dg.AssetKey("v") in asset_keys(build_definitions(settings))


def test_a_wrong_argument_of_a_decorator_is_told_with_its_function(tmp_path: Path) -> None:
    model = only(
        tmp_path,
        HEAD + "\n\n@materialized_view(freshness='1 s')\ndef v():\n    return 'SELECT 1 AS a'\n",
        "v.py",
    )
    assert "v.py, line 4, v: 1 s is too short a time" in (model.error or "")


def test_a_former_name_is_of_one_statement_and_changes_no_code_version(tmp_path: Path) -> None:
    plain = only(tmp_path, VIEW)
    found = only(tmp_path, f"-- renamed from: `Old`\n{VIEW}")
    assert (found.renamed_from, found.error) == ("Old", None) and found.code_version == plain.code_version
    (tmp_path / "v.sql").write_text(f"-- Renamed  From: old\n{VIEW};\n{VIEW.replace(' v ', ' w ')};")
    assert {one.name: one.renamed_from for one in load_models(tmp_path)} == {"v": "old", "w": ""}


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("-- renamed from: 9 lives", '"9 lives" is no name of a relation', 18),
        ("-- renamed from:", '"" is no name of a relation', 17),
        ("-- renamed from: V", "v is its name now", 18),
        ("-- renamed_from: w", "there is no renamed_from of a model", 4),
        ("-- rename from: w", "there is no rename from of a model", 4),
    ],
)
def test_a_former_name_that_is_none_is_told(tmp_path: Path, line: str, message: str, column: int) -> None:
    model = only(tmp_path, f"{line}\n{VIEW}")
    assert model.error is not None and message in model.error
    assert f"line 1, column {column}:" in model.error and "renamed from: " in model.error


def test_python_says_a_former_name_in_the_decorator_alone(tmp_path: Path) -> None:
    body = "def v() -> str:\n    return '{}SELECT a FROM t'\n"
    model = only(tmp_path, f"{HEAD}@materialized_view(renamed_from='old')\n{body.format('')}", "v.py")
    assert (model.renamed_from, model.error, model.options) == ("old", None, {})
    wrong = only(
        tmp_path, f"{HEAD}@materialized_view()\n{body.format('-- renamed from: old' + chr(92) + 'n')}", "v.py"
    )
    assert wrong.error is not None and 'renamed_from="…"' in wrong.error
