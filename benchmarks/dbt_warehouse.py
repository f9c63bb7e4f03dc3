"""A dbt project in a copy, with a DuckDB database of its own, and the tables that its models read."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
import yaml
from sqlglot import exp

from benchmarks.changing_tables import SourceTable, build_table, make_rows


class Warehouse:
    """A copy of a dbt project with a DuckDB database of its own."""

    def __init__(self, project: Path, folder: Path, arguments: argparse.Namespace) -> None:
        self.project, self.database, self.arguments = (
            folder / project.name,
            folder / "warehouse.duckdb",
            arguments,
        )
        ignore = shutil.ignore_patterns(".git", "target", "dbt_packages", "logs")
        shutil.copytree(project, self.project, ignore=ignore)
        if arguments.packages is not None and (self.project / "packages.yml").is_file():
            for package in sorted(arguments.packages.iterdir()):
                shutil.copytree(package, self.project / "dbt_packages" / package.name, ignore=ignore)
        said = yaml.safe_load((self.project / "dbt_project.yml").read_text())
        output = {"type": "duckdb", "path": str(self.database), "schema": "main", "threads": 2}
        profile = {said.get("profile", "default"): {"target": "dev", "outputs": {"dev": output}}}
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
        self.call("parse")
        self.manifest = self.project / "target" / "manifest.json"
        self.failed: dict[str, str] = {}

    def call(self, command: str, *words: str) -> None:
        """Run a command of dbt; models that fail are found in its results, and anything else ends the program."""
        call = [str(self.arguments.dbt), "--quiet", command, f"--project-dir={self.project}", *words]
        environment = {**os.environ, "DBT_PROFILES_DIR": str(self.database.parent), "DBT_VERSION_CHECK": "0"}
        environment |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "0", "DO_NOT_TRACK": "1", "TZ": "UTC"}
        done = subprocess.run(
            call, env=environment, cwd=self.project, capture_output=True, text=True, check=False
        )
        has_results = command != "parse" and (self.project / "target" / "run_results.json").is_file()
        if done.returncode and not has_results:
            raise SystemExit(f"dbt {command} of {self.project.name} fails:\n{done.stdout}{done.stderr}")

    def run(self) -> None:
        """Compute all chosen models again."""
        results = self.project / "target" / "run_results.json"
        results.unlink(missing_ok=True)
        self.call(
            "run", "--full-refresh", *(["--select", *self.arguments.select] if self.arguments.select else [])
        )
        for one in json.loads(results.read_text())["results"]:
            if one["status"] != "success":
                self.failed[one["unique_id"]] = " ".join(str(one.get("message")).split())[:200]

    def compile(self) -> Path:
        """Compile the project over the database in which it is built, and return where its manifest is kept."""
        self.call("compile", "--full-refresh")
        kept = self.database.parent / "compiled"
        kept.mkdir()
        for name in ("manifest.json", "run_results.json"):
            shutil.copy(self.manifest.with_name(name), kept)
        return kept / "manifest.json"

    def write(self, tables: Sequence[SourceTable], draw: random.Random | None = None) -> None:
        """Write the rows of all tables, with `draw` in a random order."""
        with duckdb.connect(str(self.database)) as db:
            for table in tables:
                rows = draw.sample(table.rows, len(table.rows)) if draw else table.rows
                db.register("given", table.as_arrow(rows))
                schema, name = table.place
                db.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
                db.execute(f'CREATE OR REPLACE TABLE "{schema}"."{name}" AS SELECT * FROM given')
                db.unregister("given")

    def read(self, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, pa.Table]:
        """Return the rows of models, but of those that dbt itself failed to compute."""
        with duckdb.connect(str(self.database), read_only=True) as db:
            db.execute("SET TimeZone = 'UTC'")
            return {
                key: db.sql(f'SELECT * FROM "{node["schema"]}"."{node["alias"]}"').to_arrow_table()
                for key, node in nodes.items()
                if key not in self.failed
            }


def load_tables(warehouse: Warehouse, draw: random.Random) -> list[SourceTable]:
    """Return the tables of the sources and seeds that models read, with their first rows; their names are their unique ids."""
    said = json.loads(warehouse.manifest.read_text())
    read = {key for node in said["nodes"].values() for key in node.get("depends_on", {}).get("nodes", ())}
    given = {**said["sources"], **{key: one for key, one in said["nodes"].items() if key.startswith("seed.")}}
    texts = sqlglot.parse(warehouse.arguments.tables.read_text(), read="duckdb")
    made = {text.find(exp.Table).name: text for text in texts if isinstance(text, exp.Create)}  # type: ignore[union-attr]
    found: dict[str, SourceTable] = {}
    later = []
    for key, node in given.items():
        identifier = str(node.get("identifier") or node.get("alias"))
        file = find_file(warehouse.project, identifier)
        if key not in read:
            continue
        if file is None:
            later.append((key, node, identifier))
            continue
        with duckdb.connect() as db:
            rows = db.read_csv(str(file), sample_size=-1, ignore_errors=True).to_arrow_table()
        found[identifier] = build_table((node["schema"], identifier), key, rows)
    missing = [identifier for _, _, identifier in later if identifier not in made]
    if missing:
        raise SystemExit(
            f"no rows for {', '.join(missing)}: write their CREATE TABLE into a file for --tables"
        )
    for key, node, identifier in sorted(later, key=lambda one: list(made).index(one[2])):
        rows = make_rows(made[identifier], found, warehouse.arguments.rows, draw)
        found[identifier] = build_table((node["schema"], identifier), key, rows)
    tables = list(found.values())
    for table in tables:
        table.find_parents(tables)
    return tables


def find_file(project: Path, identifier: str) -> Path | None:
    """Return the CSV file of a table: one of its name, else the one with the shortest name that has it as words."""
    files = [file for file in project.rglob("*.csv") if "dbt_packages" not in file.parts]
    fits = [file for file in files if f"_{identifier.lower()}_" in f"_{file.stem.lower()}_"]
    return min(fits, key=lambda file: (len(file.stem), str(file)), default=None)
