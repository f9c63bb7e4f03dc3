"""A dbt project as models of Tideline: its compiled texts become materialized views, its tests their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

from dagster_tideline.dbt.compiled_text import (
    AdapterDialect,
    find_dialect,
    find_tables,
    map_relations,
    strip_comments,
)
from dagster_tideline.dbt.data_tests import TestCheck, name_checks, read_test
from dagster_tideline.dbt.manifest import COMPILE, DbtNode, Manifest, ManifestError, read_manifest
from dagster_tideline.dbt.relations import RelationNames, build_names
from dagster_tideline.dbt.seeds import build_seed_query
from dagster_tideline.dbt.selection import select_nodes
from dagster_tideline.models.header import Header, HeaderLine
from dagster_tideline.models.loader import Model, as_asset_name, build_model, name_group, order_models
from dagster_tideline.models.node_readings import CHECK, NodeReading, add_upstream_reasons, refuse_nodes
from engine.errors import TidelineError
from engine.sql.parsing.table_names import build_error_at
from engine.sql.statements.options.check_list import MOST_CHECKS

VIEWS = ("incremental", "table", "materialized_view", "view", "dynamic_table")
"""What dbt keeps as a table, computes as one, or asks its database to keep: all are materialized views here."""
VIEW = "materialized view"


class DbtProject(BaseModel):
    """A dbt project as it is: where its manifest is, which of its nodes are taken, and what its sources are called here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manifest: Path
    """`target/manifest.json`, written by `dbt compile --full-refresh`."""
    project: Path | None = None
    """The project's folder, for the files of seeds; without it the one above the manifest's."""
    sources: Mapping[str, str] = {}
    """The tables that stand for sources: `raw.orders: orders`. Without one it is the one of the source's identifier."""
    select: tuple[str, ...] = ()
    """`tag:nightly`, `path:models/marts`, `+orders`; without it all nodes."""
    exclude: tuple[str, ...] = ()

    @field_validator("select", "exclude", mode="before")
    @classmethod
    def _list_words(cls, said: object) -> object:
        return (said,) if isinstance(said, str) else said

    @property
    def folder(self) -> Path:
        """The folder of the dbt project."""
        return self.project or self.manifest.resolve().parent.parent


@dataclass(frozen=True)
class DbtReading:
    """A dbt project as it was read: its models, inputs first, and what became of each of its nodes."""

    models: tuple[Model, ...]
    nodes: tuple[NodeReading, ...]


@dataclass
class _Outcome:
    models: dict[str, Model] = field(default_factory=dict)
    readings: dict[str, NodeReading] = field(default_factory=dict)

    def tell(self, node: DbtNode, reason: str, relation: str = "", taken: str = "") -> None:
        kind = node.kind if node.kind != "model" else f"model, {node.materialized or 'no materialization'}"
        name = f"{node.source_name}.{node.name}" if node.source_name else node.name
        self.readings[node.unique_id] = NodeReading(node.unique_id, kind, name, relation, taken, reason)


def read_project(project: DbtProject, said: Mapping[str, str] | None = None) -> DbtReading:
    """Return a dbt project's models and what became of its nodes; raises ManifestError where nothing of it can be read.

    `said` is what the headers of models say that do not say it themselves.
    """
    manifest = read_manifest(project.manifest)
    return _Reader(manifest, project, said or {}).read()


def add_refused(reading: DbtReading, refused: Mapping[str, str]) -> DbtReading:
    """Return a reading with nodes as not taken whose relations a store refuses, by why."""
    return replace(reading, nodes=refuse_nodes(reading.nodes, refused))


class _Reader:
    """Reads the nodes of one manifest; a node that cannot be taken costs itself and what reads it."""

    def __init__(self, manifest: Manifest, project: DbtProject, said: Mapping[str, str]) -> None:
        self.manifest, self.project, self.said = manifest, project, said
        self.dialect: AdapterDialect = find_dialect(manifest.adapter)
        self.names: RelationNames = build_names(manifest, project.sources)
        self.selected = select_nodes(
            {key: node for key, node in manifest.nodes.items() if node.kind != "test"}, project.select, ()
        )
        excluded = select_nodes(manifest.nodes, (), project.exclude)
        self.selected &= excluded
        self.tests = [node for key, node in manifest.nodes.items() if node.kind == "test" and key in excluded]
        self.outcome = _Outcome()

    def read(self) -> DbtReading:
        """Return the reading of all nodes."""
        seeds = [node for node in self._list_selected() if node.kind == "seed"]
        for node in seeds:
            self._try(node, self._build_seed)
        checks = self._read_tests()
        for node in self._list_selected():
            if node.kind != "seed":
                self._try(node, lambda one: self._build_node(one, checks.get(one.unique_id, ())))
        for test, check in self._failing_rows:
            self._try(test, lambda one, check=check: self._build_test_view(one, check))  # type: ignore[misc]
        self._tell_others()
        models = order_models(list(self.outcome.models.values()))
        order = [*self.manifest.nodes, *self.manifest.sources]
        readings = [self.outcome.readings[key] for key in order if key in self.outcome.readings]
        others = [
            NodeReading("", kind, name, "", "", f"a {kind} is no table")
            for kind, name in self.manifest.others
        ]
        return DbtReading(models, (*add_upstream_reasons(readings, models), *others))

    def _list_selected(self) -> list[DbtNode]:
        return [node for key, node in self.manifest.nodes.items() if key in self.selected]

    def _try(self, node: DbtNode, build: Callable[[DbtNode], None]) -> None:
        """Build what a node becomes, or a model that shows why it cannot be."""
        try:
            build(node)
        except (TidelineError, RecursionError) as error:
            name = self.names.names.get(node.unique_id, "")
            reason = str(error) or type(error).__name__
            self.outcome.tell(node, reason, name)
            usable = node.kind == "model" and node.unique_id not in self.names.errors
            if usable and name == as_asset_name(name):
                self.outcome.models[node.unique_id] = Model(
                    name,
                    VIEW,
                    node.code or "",
                    self._find_path(node),
                    self.dialect.target,
                    group=self._find_group(node),
                    description=node.description,
                    error=f"{self._find_path(node)}: {reason}",
                )

    def _build_node(self, node: DbtNode, checks: Sequence[TestCheck]) -> None:
        """Add the model of a node, or tell in a line why none stands for it."""
        if node.kind != "model":
            reasons = {
                "snapshot": "snapshots are not taken: land its table, or keep it with dbt",
                "operation": "operations are not run",
                "analysis": "an analysis is no table",
            }
            self.outcome.tell(node, reasons.get(node.kind, f"a {node.kind} is no table"))
        elif node.language != "sql":
            raise ManifestError(
                f"a model in {node.language} is not taken: land its table, or write it in SQL"
            )
        elif node.materialized == "ephemeral":
            self.outcome.tell(node, "dbt writes it into the texts of its readers", "", "in its readers")
        elif node.materialized not in VIEWS:
            raise ManifestError(
                f"the materialization {node.materialized} is not taken: use table, view, incremental or materialized_view"
            )
        else:
            self._build_view(node, checks)

    def _build_view(self, node: DbtNode, checks: Sequence[TestCheck]) -> None:
        if node.unique_id in self.names.errors:
            raise ManifestError(self.names.errors[node.unique_id])
        if node.code is None:
            raise ManifestError(f"it has no compiled text: {COMPILE} without a selection")
        query, inputs = self._map_text(node, node.code)
        self._add_model(node, query, checks, inputs)
        notes = [*_list_notes(node, self.manifest)]
        from_adapter = "" if self.dialect.is_plain else f", from {self.dialect.adapter}"
        self.outcome.tell(node, "; ".join(notes), self.names.names[node.unique_id], f"{VIEW}{from_adapter}")

    def _build_seed(self, node: DbtNode) -> None:
        if node.unique_id in self.names.errors:
            raise ManifestError(self.names.errors[node.unique_id])
        query = build_seed_query(node, self.project.folder, self.dialect)
        self._add_model(node, query, (), {})
        self.outcome.tell(node, "", self.names.names[node.unique_id], f"{VIEW} of its rows")

    def _build_test_view(self, node: DbtNode, check: TestCheck) -> None:
        """Add the view of the rows that fail a test, with the check that it has none."""
        if node.code is None:
            raise ManifestError(f"it has no compiled text: {COMPILE} without a selection")
        query, inputs = self._map_text(node, node.code)
        name = self._name_test(node)
        own = replace(check, condition=f"SELECT * FROM {self._quote(name)}")
        self._add_model(node, query, (own,), inputs, name)
        self.outcome.tell(node, "", name, "view of the rows that fail, with a check")

    def _name_test(self, node: DbtNode) -> str:
        name = as_asset_name(node.identifier.lower())
        return f"{name}_test" if name in self._taken_names else name

    @cached_property
    def _taken_names(self) -> frozenset[str]:
        return frozenset(self.names.names.values())

    def _read_tests(self) -> dict[str, list[TestCheck]]:
        """Return the checks of models by their unique ids; tests that query several relations are left for views of their own."""
        found: dict[str, list[TestCheck]] = {}
        self._failing_rows: list[tuple[DbtNode, TestCheck]] = []
        for node in self.tests:
            missing = [
                key for key in node.depends_on if key in self.manifest.nodes and key not in self.selected
            ]
            if missing and len(missing) == len(node.depends_on):
                continue  # nothing of it is selected
            try:
                self._place_test(node, found)
            except TidelineError as error:
                self.outcome.tell(node, str(error))
        return {key: name_checks(checks) for key, checks in found.items()}

    def _place_test(self, node: DbtNode, found: dict[str, list[TestCheck]]) -> None:
        """Add a test to the checks of the one model that it asks, else to those that get a view."""
        check = read_test(node, self.dialect)
        if isinstance(check, str):
            self.outcome.tell(node, check)
            return
        read = {key for key in node.depends_on if not key.startswith("macro.")}
        model = self.manifest.nodes.get(next(iter(read))) if len(read) == 1 else None
        if model is None or model.unique_id not in self.selected or not _is_view(model):
            self._failing_rows.append((node, check))
            return
        if not check.condition:
            text = self._build_check_query(node, model)
            if text is None:
                self._failing_rows.append((node, check))
                return
            check = replace(check, condition=text)
        checks = found.setdefault(model.unique_id, [])
        if len(checks) == MOST_CHECKS:
            self.outcome.tell(node, f"a view has {MOST_CHECKS} checks at most")
            return
        checks.append(check)
        self.outcome.tell(node, "", self.names.names[model.unique_id], CHECK)

    def _build_check_query(self, node: DbtNode, model: DbtNode) -> str | None:
        """Return the query of a test's failing rows as a check of the model, None if it reads something else."""
        if node.code is None:
            raise ManifestError(f"it has no compiled text: {COMPILE} without a selection")
        for parts, _ in find_tables(node.code, self.dialect):
            if self.names.find(parts) is not model:
                return None
        query, _ = self._map_text(node, node.code)
        text = strip_comments(query, self.dialect.target)
        return text if re.match(r"(SELECT|WITH)\b", text, re.IGNORECASE) else None

    def _map_text(self, node: DbtNode, code: str) -> tuple[str, dict[str, str]]:
        """Return a compiled text over relations of the store, and what it reads that no node here makes."""
        inputs: dict[str, str] = {}
        for parts, at in find_tables(code, self.dialect):
            self._check_table(node, code, parts, at)
            name, words = self._name_table(parts)
            if words:
                inputs[name] = words
        query = map_relations(
            code, self.dialect, lambda parts: self._name_table(parts)[0] if len(parts) > 1 else None
        )
        return query, inputs

    def _check_table(self, node: DbtNode, code: str, parts: tuple[str, ...], at: int) -> None:
        """Raise SqlError for a table that a text cannot read."""
        if len(parts) == 1:
            return
        other = self.names.find(parts)
        if other is node:
            raise build_error_at(
                f"its compiled text reads {node.name} itself: it is that of an incremental run, not of all rows",
                code,
                at,
                f"{COMPILE}, which compiles {{% if is_incremental() %}} as false",
            )
        if other is None and self.names.find_plain(parts) is None:
            table = ".".join(parts)
            hint = f"use source() or ref(), or say which table it is under `sources`: {table.lower()}: name"
            raise build_error_at(f"{table} is no model, seed or source of the manifest", code, at, hint)
        if other is not None and other.unique_id in self.names.errors:
            raise build_error_at(
                f"{other.label} is not taken: {self.names.errors[other.unique_id]}",
                code,
                at,
                "correct that first",
            )

    def _name_table(self, parts: tuple[str, ...]) -> tuple[str, str]:
        """Return the relation that stands for a table, and what dbt calls it if no model here makes it."""
        if len(parts) == 1:
            return parts[0].lower(), f"{parts[0]}, which is no ref() and no source()"
        other = self.names.find(parts)
        if other is None:
            plain = self.names.find_plain(parts)
            return plain or parts[-1].lower(), f"{'.'.join(parts)}, which is no ref() and no source()"
        name = self.names.names[other.unique_id]
        if other.kind == "source":
            return name, f"the {other.label}"
        if other.unique_id not in self.selected:
            return name, f"the {other.label}, which is not selected"
        if other.kind == "snapshot" or (other.kind == "seed" and other.unique_id not in self.outcome.models):
            return name, f"the {other.label}, which is not taken"
        return name, ""

    def _add_model(
        self,
        node: DbtNode,
        query: str,
        checks: Sequence[TestCheck],
        inputs: Mapping[str, str],
        name: str = "",
    ) -> None:
        name = name or self.names.names[node.unique_id]
        text = f"CREATE MATERIALIZED VIEW {self._quote(name)} AS\n{query.strip()}"
        lines = {key: HeaderLine(value) for key, value in {**self.said, **self._list_header(node)}.items()}
        header = Header(lines, [HeaderLine(check.build_text(check.condition)) for check in checks])
        model = build_model(text, self._find_path(node), self.dialect.target, header, "")
        self.outcome.models[node.unique_id] = replace(
            model,
            metadata=self._list_metadata(node),
            column_descriptions={column: text for column, text in node.columns.items() if text},
            foreign_inputs=inputs,
        )

    def _quote(self, name: str) -> str:
        return f"`{name}`" if self.dialect.target == "spark" else f'"{name}"'

    def _list_header(self, node: DbtNode) -> dict[str, str]:
        """Return what dbt says of a node as the lines of a header say it."""
        found = {"group": self._find_group(node), "description": node.description}
        owners = [*_list_owners(node.meta.get("owner")), *_list_owners(self.manifest.owners.get(node.group))]
        if owners:
            found["owners"] = ", ".join(dict.fromkeys(owners))
        tags = [re.sub(r"[^\w.-]", "_", tag, flags=re.ASCII)[:63] for tag in node.tags if tag.strip()]
        if tags:
            found["tags"] = ", ".join(dict.fromkeys(tags))
        return {key: value for key, value in found.items() if value}

    def _list_metadata(self, node: DbtNode) -> dict[str, str]:
        found = {
            "dbt/unique_id": node.unique_id,
            "dbt/materialized": node.materialized,
            "dbt/exposures": "; ".join(self.manifest.exposures.get(node.unique_id, ())),
        }
        return {key: value for key, value in found.items() if value}

    def _find_group(self, node: DbtNode) -> str:
        if node.group:
            return node.group
        if node.kind in ("seed", "test"):
            return f"{node.kind}s"
        return name_group(Path(node.model_path))

    def _find_path(self, node: DbtNode) -> str:
        own = not self.manifest.project or node.package == self.manifest.project
        return node.path if own else f"{node.package}: {node.path}"

    def _tell_others(self) -> None:
        """Tell which relations stand for sources that are read."""
        read = {name for model in self.outcome.models.values() for name in model.foreign_inputs}
        for key, source in self.manifest.sources.items():
            name = self.names.names.get(key, "")
            if name in read:
                self.outcome.tell(source, self.names.errors.get(key, ""), name, "table that you land")


def _is_view(node: DbtNode) -> bool:
    return node.kind == "model" and node.language == "sql" and node.materialized in VIEWS


def _list_owners(said: object) -> list[str]:
    if isinstance(said, dict):
        return _list_owners(said.get("email") or said.get("name"))
    if isinstance(said, list):
        return [owner for one in said for owner in _list_owners(one)]
    return [" ".join(str(said).replace(",", " ").split())] if said else []


def _list_notes(node: DbtNode, manifest: Manifest) -> Iterator[str]:
    if node.materialized == "incremental":
        branches = (
            "is_incremental" in node.raw_code or node.config.get("incremental_strategy") == "microbatch"
        )
        sure = manifest.is_full_refresh and node.config.get("full_refresh") is not False
        if branches and not sure:
            yield f"whether its text is that of all rows is not known: {COMPILE}, and keep run_results.json beside"
    for hook in ("pre-hook", "post-hook"):
        if node.config.get(hook):
            yield f"its {hook} is not run"
