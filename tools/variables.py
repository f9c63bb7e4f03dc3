"""The environment variables that are read: what each means, and where the code reads one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
READERS = (
    "engine",
    "dagster_tideline",
    "tideline",
    "dagster_project",
    "resources",
    "assets",
    "demo",
    "benchmarks",
    "tests",
)
OF_THE_SYSTEM = {"PATH", "PYTHONPATH", "USERNAME"}
READ_BY_SPARK = {"SPARK_CONNECT_AUTHENTICATE_TOKEN"}


class EnvironmentVariable(NamedTuple):
    """What an environment variable means, and what holds where it is not set."""

    meaning: str
    default: str


OF_A_PROJECT: Mapping[str, EnvironmentVariable] = {
    "TIDELINE_HOME": EnvironmentVariable(
        "where landing folders and `.tideline/` are", "the project's folder"
    ),
    "TIDELINE_STORE": EnvironmentVariable(
        "the store's address, `file:///…` or `s3://bucket/prefix`", "`.tideline/store` of the home"
    ),
    "TIDELINE_BRANCH": EnvironmentVariable(
        "the [branch](storage.md#branches) of that store to work on; `outer/inner` is one of a branch", "none"
    ),
    "TIDELINE_ASSETS": EnvironmentVariable("the folder of the models", "`assets/` of the home"),
    "TIDELINE_ALLOWED_PATHS": EnvironmentVariable(
        "folders outside of the home, and buckets or prefixes (`s3://bucket/prefix`), that landing and Delta tables and sinks "
        "may name too, separated by `:`",
        "none",
    ),
    "TIDELINE_SECRETS": EnvironmentVariable(
        "the folder whose files are [secrets](security.md#secrets) that statements name, each under its name",
        "none",
    ),
    "TIDELINE_ALLOWED_MODULES": EnvironmentVariable(
        "modules outside of the home from which a view's pandera schema may be imported, by comma; "
        "a package stands for all in it",
        "none",
    ),
    "TIDELINE_KEY_PREFIX": EnvironmentVariable(
        "what keys of assets begin with in Dagster, its parts between slashes", "none"
    ),
    "TIDELINE_RUNS": EnvironmentVariable(
        "`tick`: a run takes what is pending and ends; `driver`: one run stays and commits as rows come in",
        "`tick`",
    ),
    "TIDELINE_DRIVER_SECONDS": EnvironmentVariable(
        "seconds that a driver works before its successor takes over", "`3600`"
    ),
    "TIDELINE_EVENT_SECONDS": EnvironmentVariable(
        "seconds between two events of an asset that a driver tells of", "`30`"
    ),
    "TIDELINE_EPOCHS_IN_FLIGHT": EnvironmentVariable(
        "epochs of a driver that may be on their way to the store while it computes the next", "`4`"
    ),
    "TIDELINE_MAX_LAG_SECONDS": EnvironmentVariable(
        "seconds that a view may lag before the job `freshness` fails with its name", "`900`"
    ),
    "TIDELINE_ORACLE_SHARE": EnvironmentVariable(
        "share of the time that samples of views take at most, which are computed anew and compared; 0: none by themselves",
        "`0.01`",
    ),
    "TIDELINE_BACKUP_TO": EnvironmentVariable(
        "where the store is [backed up](backup.md) each night: `file:///path` or `s3://bucket/prefix`", "none"
    ),
    "TIDELINE_BACKUP_KEEP": EnvironmentVariable("backups that stay there; 0: all", "`30`"),
    "TIDELINE_SENSOR_WAIT": EnvironmentVariable(
        "seconds for which the sensor watches at each evaluation", "`4.7`"
    ),
    "TIDELINE_DBT_MANIFEST": EnvironmentVariable(
        "`target/manifest.json` of a [dbt project](dbt.md) whose models belong to the project", "none"
    ),
    "TIDELINE_DBT_SOURCES": EnvironmentVariable(
        "the tables that stand for its sources: `raw.orders=orders, raw.items=items`",
        "those of their identifiers",
    ),
    "TIDELINE_PIPELINE_SPEC": EnvironmentVariable(
        "the spec of a [Spark Declarative Pipeline](pipelines.md) whose views belong to the project", "none"
    ),
    "TIDELINE_PIPELINE_TABLES": EnvironmentVariable(
        "the tables that stand for what it reads: `raw.orders=orders, /data/items=items`",
        "those of the last parts of their names",
    ),
    "TIDELINE_PIPELINE_LEAVE_OUT": EnvironmentVariable(
        "columns that its datasets are kept without: `silver_orders.processed_at, …`", "none"
    ),
}
OF_A_PROCESS: Mapping[str, EnvironmentVariable] = {
    "TIDELINE_STORE_DELAY_MS": EnvironmentVariable(
        "milliseconds that each request to the store takes longer, to measure what a bucket's latency costs",
        "`0`",
    ),
    "TIDELINE_CACHE_DIR": EnvironmentVariable(
        "where decoded files are kept, a folder that is its user's alone: 8 GiB for all stores together, least recently used "
        "first out; those of a store to which nothing was added for 14 days go",
        "`tideline-cache-<user>` of the temporary folder",
    ),
    "TIDELINE_SPARK_UI": EnvironmentVariable(
        "`1`: a Spark that is started here shows its page on loopback, which each run names in its log",
        "`1` in `tideline up`, else `0`",
    ),
    "TIDELINE_DRIVER_HOST": EnvironmentVariable(
        "the address of this machine at which executors of a cluster reach a driver that is started here",
        "none: only a master on loopback needs none",
    ),
    "TIDELINE_DRIVER_BIND": EnvironmentVariable(
        "the address that such a driver binds to, where it is another one", "that of TIDELINE_DRIVER_HOST"
    ),
    "TIDELINE_PACKED": EnvironmentVariable(
        "an archive of `tideline cluster pack`, a path or an address that Spark fetches, for executors to unpack",
        "none: they have Python and engine",
    ),
    "TIDELINE_EXECUTOR_SECONDS": EnvironmentVariable(
        "seconds within which an executor of a cluster has to run a first task", "`120`"
    ),
    "TIDELINE_DRIVER_MEMORY": EnvironmentVariable("memory of a Spark that is started here", "`4g`"),
    "TIDELINE_DRIVER_ROWS_MB": EnvironmentVariable(
        "MiB of rows of one UPDATE, DELETE, INSERT … SELECT or CREATE TABLE AS that the process holds; "
        "Spark's tasks write those of larger statements",
        "`64`",
    ),
    "TIDELINE_LANDING_MEMORY": EnvironmentVariable(
        "MiB of a landing file that are held before they are committed", "`256`"
    ),
    "TIDELINE_LANDING_TASKS_MB": EnvironmentVariable(
        "MiB of files that are pending of a landing table from which on Spark's tasks read them, not the process that polls",
        "`1024`",
    ),
    "TIDELINE_COMPACTION_TASKS_MB": EnvironmentVariable(
        "MiB of rows, as they are in memory, that one compaction merges from which on Spark's tasks do it, where a Spark is at "
        "hand that runs several at once",
        "`512`",
    ),
    "TIDELINE_VERIFY": EnvironmentVariable(
        "the share of claims that are checked against the data, 0 to 1", "`0`"
    ),
    "TIDELINE_TRACE_REQUESTS": EnvironmentVariable(
        "`1`: where traces are on, each request to the object store that a span's own thread makes gets a span",
        "`0`",
    ),
    "TIDELINE_CLASS_ARCHIVE": EnvironmentVariable(
        "a file to which Spark's Java writes the classes that it has loaded", "none"
    ),
    "TIDELINE_JARS": EnvironmentVariable(
        "the folder of the jars of Delta and s3a", "`jars/` of the home, else beside the engine"
    ),
    "TIDELINE_KAFKA_JARS": EnvironmentVariable(
        "the folder of the jars of a broker of Kafka, for tests and `tideline dev kafka`", "`kafka/` of those"
    ),
}
OF_OTHERS: Mapping[str, EnvironmentVariable] = {
    "SPARK_REMOTE": EnvironmentVariable(
        "the Spark to run on: a Spark Connect server, `sc://host:port`, or a master, `spark://host:port`, `k8s://…`",
        "`make up` starts a server, and `tideline` finds it",
    ),
    "PYSPARK_PYTHON": EnvironmentVariable(
        "the Python of a cluster's executors",
        "that of the archive in TIDELINE_PACKED, else the same path as here",
    ),
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": EnvironmentVariable(
        "the token that this server wants", "made by `make up`"
    ),
    "SPARK_LOCAL_IP": EnvironmentVariable("the address that a Spark started here binds to", "`127.0.0.1`"),
    "DAGSTER_IS_DEFS_VALIDATION_CLI": EnvironmentVariable(
        "wrong models stop the loading of definitions, instead of being assets that say why",
        "set by `dg check defs` and `dagster definitions validate`",
    ),
    "JAVA_HOME": EnvironmentVariable("the Java that Spark runs on", "the one on PATH"),
    "JDK_JAVA_OPTIONS": EnvironmentVariable(
        "options of that Java; tests set those that start it fast", "none"
    ),
    "JAVA_TOOL_OPTIONS": EnvironmentVariable(
        "the same of any Java; a garbage collector named here or there is kept", "none"
    ),
    "SPARK_SUBMIT_OPTS": EnvironmentVariable("the same of Spark's Java alone", "none"),
    "DEFAULT_ARTIFACT_REPOSITORY": EnvironmentVariable(
        "a mirror of Maven's repository, for `make setup`", "Maven's own"
    ),
    "grpc_proxy": EnvironmentVariable(
        "the proxy through which gRPC reaches a Spark Connect server elsewhere", "none"
    ),
    "https_proxy": EnvironmentVariable("the same, taken after that", "none"),
    "http_proxy": EnvironmentVariable("the same, taken last", "none"),
    "COLUMNS": EnvironmentVariable(
        "how many columns printed tables may take", "the terminal's; 160 in a pipe"
    ),
    "LESS": EnvironmentVariable("how `less` shows results that are longer than the screen", "`-FRSX`"),
    "AWS_ACCESS_KEY_ID": EnvironmentVariable("the key to a bucket", "as boto3 finds one"),
    "AWS_SECRET_ACCESS_KEY": EnvironmentVariable("what belongs to that key", "as boto3 finds it"),
    "AWS_SESSION_TOKEN": EnvironmentVariable("what belongs to a key that is lent for some time", "none"),
    "OTEL_EXPORTER_OTLP_ENDPOINT": EnvironmentVariable(
        "the collector of OpenTelemetry that gets traces and metrics, `http://host:4318`; see monitoring.md",
        "none",
    ),
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": EnvironmentVariable(
        "where traces go instead, `http://host:4318/v1/traces`", "none"
    ),
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": EnvironmentVariable(
        "where metrics go instead, `http://host:4318/v1/metrics`", "none"
    ),
    "OTEL_EXPORTER_OTLP_PROTOCOL": EnvironmentVariable(
        "the protocol of both; there is no other than the default", "`http/protobuf`"
    ),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": EnvironmentVariable("that of traces", "the same"),
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": EnvironmentVariable("that of metrics", "the same"),
    "OTEL_TRACES_EXPORTER": EnvironmentVariable(
        "where traces go: `otlp`, `console` or `none`", "`otlp` where an address is set, else none"
    ),
    "OTEL_METRICS_EXPORTER": EnvironmentVariable(
        "where metrics go: `otlp`, `console`, `prometheus` or `none`", "the same"
    ),
    "OTEL_EXPORTER_PROMETHEUS_HOST": EnvironmentVariable(
        "the address at which Prometheus scrapes a process's own metrics", "`127.0.0.1`"
    ),
    "OTEL_EXPORTER_PROMETHEUS_PORT": EnvironmentVariable("the port there", "`9464`"),
    "OTEL_SERVICE_NAME": EnvironmentVariable("who tells, for OpenTelemetry", "`tideline`"),
    "OTEL_RESOURCE_ATTRIBUTES": EnvironmentVariable("more of who tells, `name=value,…`", "none"),
    "OTEL_SDK_DISABLED": EnvironmentVariable("`true`: no traces and metrics, whatever else is set", "none"),
    "MIMALLOC_PURGE_DELAY": EnvironmentVariable(
        "milliseconds after which Arrow's allocator gives memory back, of Python workers", "`-1`: never"
    ),
    "XDG_STATE_HOME": EnvironmentVariable("where the prompt keeps its history", "`~/.local/state`"),
}
OF_TESTS: Mapping[str, EnvironmentVariable] = {
    "TIDELINE_SEEDS": EnvironmentVariable("how many random programs with crashes run", "1000"),
    "TIDELINE_SHARED_SEEDS": EnvironmentVariable(
        "how many random programs run with the fragments of a run in one task, and how many one by one", "6"
    ),
    "TIDELINE_SPARK_SEEDS": EnvironmentVariable(
        "how many of them run on Spark, in processes that are killed", "50"
    ),
    "TIDELINE_RANDOM_VIEWS": EnvironmentVariable("how many random views are kept on a cluster", "200"),
    "TIDELINE_TPCH_SCALE": EnvironmentVariable("the scale of TPC-H on a cluster", "0.2"),
    "TIDELINE_SINK_SEEDS": EnvironmentVariable("how many races of sinks are run", "100"),
    "TIDELINE_TESTS_COMPILED": EnvironmentVariable(
        "1: Spark compiles the plans of all tests, as it does for users; else it interprets most of them",
        "none",
    ),
    "PGHOST": EnvironmentVariable(
        "a PostgreSQL that `pytest -m oracle tests/oracle/postgres` asks anew", "none"
    ),
    "TPCDS": EnvironmentVariable(
        "a folder with TPC-DS's schema and queries, which `python -m benchmarks.project --of tpcds` reads",
        "none",
    ),
    "TIDELINE_QUERIES": EnvironmentVariable("which queries of `tests/sql/queries.sql` are run", "all"),
}
GROUPS: Mapping[str, Mapping[str, EnvironmentVariable]] = {
    "Of a project": OF_A_PROJECT,
    "Of each process": OF_A_PROCESS,
    "Of what it stands on": OF_OTHERS,
    "Of the tests": OF_TESTS,
}

SETTING_CLASS = "MebibyteSetting"
"""What reads a variable that is named where one is made."""


def read_variables() -> dict[str, str]:
    """Return the names of all variables that the code reads, each with a module that does, by its path."""
    found: dict[str, str] = {}
    for folder in READERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in find_reads(path):
                found.setdefault(name, path.relative_to(ROOT).as_posix())
    return {name: where for name, where in found.items() if name not in OF_THE_SYSTEM}


def find_reads(path: Path) -> Iterator[str]:
    """Yield the names of the variables that a module reads; raises ValueError where a name is none of its constants."""
    text = path.read_text()
    if "environ" not in text and SETTING_CLASS not in text:
        return
    tree = ast.parse(text)
    names = _collect_constants(tree)
    for node in ast.walk(tree):
        if (name_node := _find_asked_name(node)) is not None:
            if isinstance(name_node, ast.Constant) and isinstance(name_node.value, str):
                yield name_node.value
            elif isinstance(name_node, ast.Name) and name_node.id in names:
                yield from names[name_node.id]
            elif not _is_own_variable(name_node):
                raise ValueError(f"{path}:{node.lineno}: which variable is read? Name it by a constant")  # type: ignore[attr-defined]


def _find_asked_name(node: ast.AST) -> ast.expr | None:
    """Return the name in `environ[name]`, `environ.get(name)`, `environ.setdefault(name, …)`, `name in environ` or a setting."""
    if isinstance(node, ast.Subscript) and _is_environment(node.value) and isinstance(node.ctx, ast.Load):
        return node.slice
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _is_environment(node.func.value)
    ):
        return node.args[0] if node.func.attr in ("get", "setdefault", "pop") else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == SETTING_CLASS:
        return node.args[0]
    if isinstance(node, ast.Compare) and any(_is_environment(right) for right in node.comparators):
        return node.left
    return None


def _is_own_variable(node: ast.expr) -> bool:
    """Tell whether it is the variable that a setting was made of, which is found where it was made."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ" and isinstance(node.value, ast.Name)


@cache
def _read_constants(path: Path) -> dict[str, tuple[str, ...]]:
    return _collect_constants(ast.parse(path.read_text()))


def _collect_constants(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return the texts that names of a module stand for: constants, imported ones, and names that run over a tuple of texts."""
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            texts = [
                one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            if len(texts) == len(values):
                found[node.targets[0].id] = tuple(texts)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            source = ROOT / f"{node.module.replace('.', '/')}.py"
            imported = {
                alias.name: alias.asname or alias.name for alias in node.names if alias.name.isupper()
            }
            if imported and source.exists():
                theirs = _read_constants(source)
                found |= {own: theirs[name] for name, own in imported.items() if name in theirs}
    for inner in ast.walk(tree):
        if not isinstance(inner, ast.comprehension | ast.For) or not isinstance(inner.target, ast.Name):
            continue
        if isinstance(inner.iter, ast.Name) and inner.iter.id in found:
            found[inner.target.id] = found[inner.iter.id]
    return found
