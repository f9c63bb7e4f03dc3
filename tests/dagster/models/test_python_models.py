"""Views that Python declares beside files of SQL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dagster_tideline.models.loader import Model, load_models
from tests.dagster.conftest import Project

HEAD = "from dagster_tideline import materialized_view\n"


def only(folder: Path, text: str) -> Model:
    (folder / "shop").mkdir(exist_ok=True)
    (folder / "shop" / "views.py").write_text(HEAD + text)
    (model,) = load_models(folder)
    return model


def test_a_function_is_a_model_as_a_file_of_sql_would_be(tmp_path: Path) -> None:
    declared = only(
        tmp_path,
        '@materialized_view(partition_by="shop", owners=["team:sales"])\n'
        "def totals():\n"
        '    """What each shop\n    has sold."""\n'
        '    return "SELECT shop, sum(price) AS total FROM orders GROUP BY shop"\n',
    )
    (tmp_path / "shop" / "views.py").unlink()
    (tmp_path / "shop" / "totals.sql").write_text(
        "-- owners: team:sales\n-- What each shop has sold.\n"
        "CREATE MATERIALIZED VIEW totals WITH (partition_by = 'shop') AS\n"
        "SELECT shop, sum(price) AS total FROM orders GROUP BY shop;"
    )
    (written,) = load_models(tmp_path)
    for model in (declared, written):
        assert model.error is None
    for part in ("name", "kind", "group", "owners", "description", "reads", "options", "code_version"):
        assert getattr(declared, part) == getattr(written, part), part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@materialized_view()\ndef v(): return 3\n", r"v\(\) returns int, not the text of a query"),
        ("@materialized_view()\ndef v(): return 1 / 0\n", r"v\(\) raises ZeroDivisionError"),
        ("@materialized_view()\ndef v(): return 'SELEC 1'\n", "views.py"),
        ("import no_such_module\n", "line 2: ModuleNotFoundError"),
        ("def broken(:\n", "line 2: SyntaxError"),
    ],
)
def test_what_is_wrong_is_told_on_its_own_model(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "good.sql").write_text("CREATE TABLE good (id INT PRIMARY KEY)")
    (tmp_path / "views.py").write_text(HEAD + text)
    models = {model.name: model for model in load_models(tmp_path)}
    assert models.pop("good").error is None
    (model,) = models.values()
    assert model.error is not None
    assert re.search(message, model.error)


def test_a_frame_of_the_parameters_is_a_model_that_reads_them(tmp_path: Path) -> None:
    model = only(
        tmp_path,
        "from pyspark.sql import functions as F\n"
        "@materialized_view()\n"
        "def totals(orders, shops):\n"
        "    cheap = orders.where(orders.price < 10)\n"
        '    return cheap.join(shops, "shop").groupBy("city").agg(F.sum("price").alias("total"))\n',
    )
    assert model.error is None and set(model.reads) == {"orders", "shops"}
    assert model.sql.splitlines()[-1] == (
        "SELECT `city`, sum(`price`) AS `total` FROM (SELECT * FROM `orders` AS `frame_1` WHERE (`price` < 10)) AS `frame_2` "
        "JOIN `shops` AS `frame_3` USING (`shop`) GROUP BY `city`"
    )


def test_python_without_declarations_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("raise SystemExit(1)")
    assert load_models(tmp_path) == ()


def test_it_is_kept_up_to_date(project: Project) -> None:
    project.model(
        "shop/cheap.py",
        HEAD
        + '@materialized_view()\ndef cheap():\n    return "SELECT id, price FROM orders WHERE price < 10"\n',
    )
    project.land("1.csv", "id,shop,price\n1,a,5\n2,a,50\n")
    assert project.run().success
    assert project.contents("cheap") == [{"id": 1, "price": 5}]
