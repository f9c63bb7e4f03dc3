"""Manifests of small dbt projects, built in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATABASE = "shopdb"


def relation(identifier: str, schema: str = "main", mark: str = '"') -> str:
    """Return a table's name as dbt compiles it."""
    return ".".join(f"{mark}{part}{mark}" for part in (DATABASE, schema, identifier))


def model(name: str, code: str | None, *reads: str, **others: Any) -> dict[str, Any]:
    """Return a model's node; `reads` are unique ids, `materialized` and other fields come by name."""
    config = {"materialized": others.pop("materialized", "table"), **others.pop("config", {})}
    schema = others.pop("schema", "main")
    node = {
        "unique_id": f"model.shop.{name}",
        "resource_type": "model",
        "name": name,
        "alias": others.get("alias", name),
        "package_name": "shop",
        "database": DATABASE,
        "schema": schema,
        "relation_name": relation(others.get("alias", name), schema),
        "original_file_path": f"models/{others.get('path', f'{name}.sql')}",
        "path": f"{name}.sql",
        "fqn": ["shop", name],
        "language": "sql",
        "raw_code": code or "",
        "compiled": code is not None,
        "compiled_code": code,
        "depends_on": {"nodes": list(reads), "macros": []},
    }
    return node | others | {"config": config}


def source(name: str, identifier: str = "", source_name: str = "raw", schema: str = "raw") -> dict[str, Any]:
    """Return a table of a source."""
    identifier = identifier or name
    return {
        "unique_id": f"source.shop.{source_name}.{name}",
        "resource_type": "source",
        "name": name,
        "source_name": source_name,
        "identifier": identifier,
        "package_name": "shop",
        "database": DATABASE,
        "schema": schema,
        "relation_name": relation(identifier, schema),
        "original_file_path": "models/sources.yml",
    }


def data_test(name: str, code: str, *reads: str, **others: Any) -> dict[str, Any]:
    """Return a test's node; `macro`, `arguments` and `namespace` make it a generic one."""
    macro = others.pop("macro", None)
    metadata = {
        "name": macro,
        "kwargs": others.pop("arguments", {}),
        "namespace": others.pop("namespace", None),
    }
    node = model(name, code, *reads, materialized="test", **others)
    node |= {"unique_id": f"test.shop.{name}", "resource_type": "test", "relation_name": None}
    return node | ({"test_metadata": metadata} if macro else {})


def write_manifest(folder: Path, *nodes: dict[str, Any], adapter: str = "duckdb", **parts: Any) -> Path:
    """Write `target/manifest.json` of a project with nodes and sources; `version`, `refresh` and other parts by name."""
    target = folder / "target"
    target.mkdir(parents=True, exist_ok=True)
    version, refresh = parts.pop("version", 12), parts.pop("refresh", True)
    of_sources = [node for node in nodes if node["resource_type"] == "source"]
    metadata = {
        "dbt_schema_version": f"https://schemas.getdbt.com/dbt/manifest/v{version}.json",
        "dbt_version": "1.10.0",
        "adapter_type": adapter,
        "project_name": "shop",
        "invocation_id": "one",
    }
    manifest = {
        "metadata": metadata,
        "nodes": {node["unique_id"]: node for node in nodes if node not in of_sources},
        "sources": {node["unique_id"]: node for node in of_sources},
        **parts,
    }
    (target / "manifest.json").write_text(json.dumps(manifest))
    results = {"metadata": {"invocation_id": "one"}, "args": {"full_refresh": refresh}}
    (target / "run_results.json").write_text(json.dumps(results))
    return target / "manifest.json"
