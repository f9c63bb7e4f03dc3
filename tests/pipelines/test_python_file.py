"""Python files of a pipeline: run without a Spark, as Spark's own command runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipelines.elements import Elements
from engine.pipelines.python_file import read_python_files
from engine.pipelines.spec import PipelineSpec

HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession, functions as F\n"


def read(folder: Path, **texts: str) -> Elements:
    """Return what files of Python define."""
    files = []
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
        files.append(folder / f"{name}.py")
    found = Elements()
    read_python_files(PipelineSpec("p", folder, tuple(files), configuration={"my.key": "v"}), found)
    return found


def test_decorators_register_datasets_and_trees(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        a=HEAD
        + """
session = SparkSession.builder.appName("x").getOrCreate()
assert session is spark and SparkSession.active() is spark and SparkSession.getActiveSession() is spark
assert spark.conf.get("my.key") == "v" and spark.conf.get("other", "d") == "d"

@dp.materialized_view(name="db.v", comment="c", schema="a INT, b STRING", spark_conf={"x": "y"})
def function():
    return spark.table("t").where(F.col("a") > 1)

dp.create_sink("k", "kafka", {})
""",
    )
    assert not found.others
    (view, sink) = found.datasets
    assert (view.name, view.kind, view.comment, view.schema) == (
        ("db", "v"),
        "materialized view",
        "c",
        ("a", "b"),
    )
    assert view.place == "a.py:8" and sink.kind == "sink"
    (flow,) = found.flows
    assert flow.target == ("db", "v") and flow.conf == {"x": "y"}
    assert flow.relation.WhichOneof("rel_type") == "filter"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return spark.table('t').count()", "asks Spark for rows, types or columns"),
        ("return spark.createDataFrame([(1,)], 'a INT')", "rows of its own"),
        ("return 1", "returns int, and no frame"),
        ("raise ValueError('odd')", "raises ValueError: odd"),
        ("spark.conf.set('a', 'b')", "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"),
        ("spark.table('t').createTempView('v')", "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"),
        ("spark.udf.register('f', lambda x: x)", "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"),
        ("return spark.sql('SELECT :a', {'a': 1})", "spark.sql has arguments"),
        ("return spark.conf.get('no.key')", "spark.conf has no no.key"),
        (
            "SparkSession.builder.config('spark.sql.a', 'b').getOrCreate()",
            "the builder of a session sets spark.sql.a",
        ),
        ("return spark.table('t').select(F.udf(lambda x: x, 'int')('a'))", "a Python function"),
        ("return spark.catalog.listTables()", "asks Spark for"),
    ],
)
def test_what_a_function_may_not_do_costs_its_dataset_alone(body: str, reason: str, tmp_path: Path) -> None:
    found = read(
        tmp_path,
        a=f"{HEAD}\n@dp.materialized_view\ndef v():\n    {body}\n\n@dp.temporary_view\ndef w():\n    return spark.range(3)\n",
    )
    assert [bool(flow.error) for flow in found.flows] == [True, False]
    assert reason in found.flows[0].error


def test_a_file_that_fails_is_told_with_its_line_and_others_go_on(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        a=HEAD + "@dp.table\n@dp.expect('a', 'b')\ndef v(): ...\n",
        b="import no_such_module\n",
        c="def (\n",
        d="raise SystemExit(3)\n",
        e=HEAD + "@dp.temporary_view\ndef w():\n    return spark.range(3)\n",
    )
    assert [(one.place, one.reason.partition(":")[0]) for one in found.others] == [
        ("a.py:4", "AttributeError"),
        ("b.py:1", "ModuleNotFoundError"),
        ("c.py:1", "SyntaxError"),
        ("d.py:1", "SystemExit"),
    ]
    assert [one.name for one in found.datasets] == [("w",)]


def test_the_working_folder_is_the_specs_and_the_process_is_as_before(tmp_path: Path) -> None:
    from pyspark.sql.connect.conf import RuntimeConf

    before, blocked = Path.cwd(), RuntimeConf.set
    (tmp_path / "name.txt").write_text("v")
    found = read(
        tmp_path,
        a=HEAD + "@dp.temporary_view(name=open('name.txt').read())\ndef f():\n    return spark.range(1)\n",
    )
    assert [one.name for one in found.datasets] == [("v",)]
    assert Path.cwd() == before and RuntimeConf.set is blocked
