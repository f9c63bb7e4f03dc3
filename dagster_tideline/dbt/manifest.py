"""What `manifest.json` of a dbt project says: its models, seeds, sources and tests, of the schemas v10 to v12 and Fusion's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import TidelineError

SCHEMAS = (10, 11, 12, 20)
"""The versions of the manifest's schema that are read; 20 is that of early versions of Fusion, whose later ones say 12."""
_SCHEMA = re.compile(r"/manifest/v(\d+)\.json$")
COMPILE = "run `dbt compile --full-refresh`"


class ManifestError(TidelineError):
    """A manifest cannot be read, or is not one of a compiled project."""


@dataclass(frozen=True)
class DbtTest:
    """What a generic test of dbt asks: its macro, the package that has it, and its arguments."""

    name: str
    namespace: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class DbtNode:
    """A node or a source of a manifest; `identifier` is the name of its table, `code` its compiled text, if it has one."""

    unique_id: str
    kind: str
    name: str
    package: str
    database: str
    schema: str
    identifier: str
    path: str
    fqn: tuple[str, ...] = ()
    source_name: str = ""
    relation_name: str = ""
    language: str = "sql"
    config: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    depends_on: tuple[str, ...] = ()
    raw_code: str = ""
    code: str | None = None
    root: str = ""
    model_path: str = ""
    """The file below the project's folder of models."""
    test: DbtTest | None = None
    column: str = ""
    attached: str = ""
    """The model that a generic test is written at."""

    @property
    def materialized(self) -> str:
        """How dbt builds it."""
        return str(self.config.get("materialized") or "")

    @property
    def label(self) -> str:
        """What it is called in messages: its kind and its name, of a source with that of its source."""
        return f"{self.kind} {f'{self.source_name}.' if self.source_name else ''}{self.name}"


@dataclass(frozen=True)
class Manifest:
    """The parts of a manifest that are read, nodes and sources by their unique ids."""

    path: Path
    project: str
    adapter: str
    nodes: Mapping[str, DbtNode]
    sources: Mapping[str, DbtNode]
    owners: Mapping[str, str]
    """The owner of each group, by its name."""
    exposures: Mapping[str, tuple[str, ...]]
    """What exposures say of themselves, by the node that they depend on."""
    others: tuple[tuple[str, str], ...]
    """What is no table: kind and name of metrics, semantic models, unit tests and the like."""
    is_full_refresh: bool
    """Whether the results beside it tell that it was written by a command with --full-refresh."""


def read_manifest(path: Path) -> Manifest:
    """Read a manifest of a compiled project; raises ManifestError for another file."""
    found = _read_json(path)
    metadata = _map(found, "metadata")
    version = _SCHEMA.search(str(metadata.get("dbt_schema_version") or ""))
    if version is None:
        raise ManifestError(f"{path} is no manifest of dbt: name target/manifest.json of a dbt project")
    if int(version[1]) not in SCHEMAS:
        raise ManifestError(
            f"{path} has the schema v{version[1]} of dbt {metadata.get('dbt_version')}; v10 to v12 are read: "
            f"{COMPILE} with dbt 1.6 or newer"
        )
    folder = path.resolve().parent
    nodes = {key: _read_node(node, folder) for key, node in _map(found, "nodes").items()}
    sources = {key: _read_node(node, folder) for key, node in _map(found, "sources").items()}
    _check_compiled(path, nodes.values())
    return Manifest(
        path,
        str(metadata.get("project_name") or ""),
        str(metadata.get("adapter_type") or ""),
        nodes,
        sources,
        _read_group_owners(found),
        _read_exposures(found),
        tuple(_list_others(found)),
        _is_full_refresh(folder / "run_results.json", metadata),
    )


def _check_compiled(path: Path, nodes: Iterable[DbtNode]) -> None:
    models = [node for node in nodes if node.kind == "model" and node.language == "sql"]
    if models and all(node.code is None for node in models):
        raise ManifestError(
            f"{path} has no compiled text of any model, as after `dbt parse`: {COMPILE}, which writes it"
        )


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ManifestError(
            f"{path} can't be read: {error.strerror}: {COMPILE} in the dbt project, or correct the path"
        ) from error
    except msgspec.DecodeError as error:
        raise ManifestError(f"{path} is no JSON: {error}: {COMPILE} again") from error
    if not isinstance(found, dict):
        raise ManifestError(f"{path} is no manifest of dbt: name target/manifest.json of a dbt project")
    return found


def _is_full_refresh(results: Path, metadata: Mapping[str, Any]) -> bool:
    """Tell whether the same command that has written the manifest says that it was given --full-refresh."""
    try:
        found = msgspec.json.decode(results.read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    said = _map(found, "metadata") if isinstance(found, dict) else {}
    same = said.get("invocation_id") == metadata.get("invocation_id") is not None
    return same and bool(_map(found, "args").get("full_refresh"))


def _read_node(node: Mapping[str, Any], folder: Path) -> DbtNode:
    config = _map(node, "config")
    metadata = _map(node, "test_metadata")
    kind, name = _text(node, "resource_type"), _text(node, "name")
    file = Path(_text(node, "path"))
    test = None
    if metadata:
        arguments = _map(metadata, "kwargs")
        test = DbtTest(_text(metadata, "name"), _find_namespace(node, metadata), arguments)
    return DbtNode(
        _text(node, "unique_id"),
        kind,
        name,
        _text(node, "package_name"),
        _text(node, "database"),
        _text(node, "schema"),
        _text(node, "identifier") or _text(node, "alias") or name,
        _text(node, "original_file_path"),
        tuple(map(str, _list(node, "fqn"))),
        _text(node, "source_name"),
        _text(node, "relation_name"),
        _text(node, "language") or "sql",
        config,
        {**_map(config, "meta"), **_map(node, "meta")},
        tuple(dict.fromkeys(map(str, (*_list(node, "tags"), *_list(config, "tags"))))),
        _text(node, "description").strip(),
        {
            _text(column, "name") or key: _text(column, "description").strip()
            for key, column in _map(node, "columns").items()
        },
        _text(node, "group") or _text(config, "group"),
        tuple(map(str, _list(_map(node, "depends_on"), "nodes"))),
        _text(node, "raw_code"),
        _find_code(node, folder),
        _text(node, "root_path"),
        file.as_posix(),
        test,
        _text(node, "column_name"),
        _text(node, "attached_node"),
    )


def _find_namespace(node: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return the package whose macro a generic test is: a project may have one of its own under the name of dbt's."""
    said, macro = _text(metadata, "namespace"), f"test_{_text(metadata, 'name')}"
    found = [str(name).split(".") for name in _list(_map(node, "depends_on"), "macros")]
    packages = [parts[1] for parts in found if len(parts) == 3 and parts[2] == macro]
    return said if not packages or (said or "dbt") in packages else packages[0]


def _find_code(node: Mapping[str, Any], folder: Path) -> str | None:
    """Return the compiled text of a node, which Fusion may leave in the file that it names."""
    code = node.get("compiled_code")
    if isinstance(code, str):
        return code
    file, project = _text(node, "compiled_path"), folder.parent
    if not file or node.get("compiled") is False:
        return None
    place = (project / file).resolve()
    return place.read_text(encoding="utf-8") if place.is_relative_to(project) and place.is_file() else None


def _read_group_owners(found: Mapping[str, Any]) -> dict[str, str]:
    owners = {}
    for group in _map(found, "groups").values():
        owner = _map(group, "owner")
        email = owner.get("email")
        first = email[0] if isinstance(email, list) and email else email
        said = str(first or owner.get("name") or "")
        if said:
            owners[_text(group, "name")] = said
    return owners


def _read_exposures(found: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    exposures: dict[str, tuple[str, ...]] = {}
    for exposure in _map(found, "exposures").values():
        owner = _map(exposure, "owner")
        parts = (
            _text(exposure, "label") or _text(exposure, "name"),
            _text(exposure, "type"),
            _text(exposure, "url"),
            str(owner.get("email") or owner.get("name") or ""),
        )
        said = ", ".join(part for part in parts if part)
        for node in _list(_map(exposure, "depends_on"), "nodes"):
            exposures[str(node)] = (*exposures.get(str(node), ()), said)
    return exposures


def _list_others(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    words = {
        "semantic_models": "semantic model",
        "metrics": "metric",
        "saved_queries": "saved query",
        "unit_tests": "unit test",
        "functions": "function",
    }
    return [
        (word, _text(node, "name") or key)
        for part, word in words.items()
        for key, node in _map(found, part).items()
    ]


def _map(found: object, key: str) -> Mapping[str, Any]:
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, dict) else {}


def _list(found: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = found.get(key)
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


def _text(found: object, key: str) -> str:
    value = found.get(key) if isinstance(found, dict) else None
    return "" if value is None else str(value)
