"""Names in Dagster: which asset stands for which table or view, and what jobs, sensors and resources are called.

Everything below works with the names of the store. Here alone they become keys of assets, and keys become names.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_tideline.dagster_internals import INPUT_POINTER, INPUT_VERSION
from dagster_tideline.models.loader import Model
from dagster_tideline.models.translator import TidelineTranslator

UNDECLARED = "undeclared"
"""The kind of what models read and none declares."""
RESOURCES = ("hummock", "spark")
"""The resources that runs ask for."""


class Naming:
    """The names that the models of one store have in Dagster; without a translator and a name of its own those of the store."""

    def __init__(
        self, models: Sequence[Model] = (), translator: TidelineTranslator | None = None, name: str = ""
    ) -> None:
        self.translator = translator or TidelineTranslator()
        self.name = name
        self._models = {model.name: model for model in models}
        self._keys: dict[str, dg.AssetKey] = {}
        self._names: dict[dg.AssetKey, str] = {}
        for relation in {name: None for model in models for name in (model.name, *model.reads)}:
            self.get_key(relation)
        self._is_plain = all(key.path == [relation] for relation, key in self._keys.items())

    def get_key(self, relation: str) -> dg.AssetKey:
        """Return the asset that stands for a table, view or sink."""
        if relation not in self._keys:
            model = self._models.get(relation) or Model(relation, UNDECLARED, "", "")
            found: object = self.translator.get_asset_key(model)
            key = found if isinstance(found, dg.AssetKey) else dg.AssetKey(found)  # type: ignore[arg-type]
            other = self._names.setdefault(key, relation)
            if other != relation:
                raise dg.DagsterInvalidDefinitionError(
                    f"{type(self.translator).__name__}.get_asset_key gives {other} and {relation} the same key "
                    f"{key.to_user_string()}: return another one for each"
                )
            self._keys[relation] = key
        return self._keys[relation]

    def is_known(self, relation: str) -> bool:
        """Tell whether a relation can have an asset: it is declared or read here, or nothing is and all names are."""
        return not self._models or relation in self._keys

    def get_keys(self, relations: Iterable[str]) -> list[dg.AssetKey]:
        """Return the assets that stand for relations, in their order."""
        return [self.get_key(relation) for relation in relations]

    def find_name(self, key: dg.AssetKey) -> str:
        """Return the relation that an asset stands for; of an asset of somebody else a name that no relation has."""
        if key in self._names:
            return self._names[key]
        text = key.to_user_string()
        return f"/{text}" if text in self._keys else text

    def find_names(self, keys: Iterable[dg.AssetKey]) -> set[str]:
        """Return the relations that assets stand for."""
        return {self.find_name(key) for key in keys}

    def translate_event(
        self,
        event: dg.MaterializeResult[Any]
        | dg.AssetMaterialization
        | dg.AssetObservation
        | dg.AssetCheckEvaluation,
    ) -> Any:
        """Return an event of a relation as that of its asset, with the keys of the inputs that its tags name."""
        if self._is_plain or event.asset_key is None:
            return event
        key = self.get_key(event.asset_key.to_user_string())
        if isinstance(event, dg.AssetCheckEvaluation):
            return dg.AssetCheckEvaluation(
                key,
                event.check_name,
                passed=event.passed,
                metadata=event.metadata,
                severity=event.severity,
                description=event.description,
            )
        tags = {self._translate_tag(tag): value for tag, value in (event.tags or {}).items()}
        return event._replace(asset_key=key, tags=tags) if tags else event._replace(asset_key=key)

    def read_tags(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        """Return the tags of an asset's event with the names of the inputs in the place of their keys."""
        if self._is_plain:
            return tags
        return {self._read_tag(tag): value for tag, value in tags.items()}

    def _translate_tag(self, tag: str) -> str:
        for start in (INPUT_VERSION, INPUT_POINTER):
            if tag.startswith(start):
                return start + self.get_key(tag.removeprefix(start)).to_user_string()
        return tag

    def _read_tag(self, tag: str) -> str:
        for start in (INPUT_VERSION, INPUT_POINTER):
            if tag.startswith(start):
                return start + self.find_name(dg.AssetKey.from_user_string(tag.removeprefix(start)))
        return tag

    def format_name(self, what: str) -> str:
        """Return what a job, an op, a sensor, a schedule or a resource is called here."""
        return f"{self.name}_{what}" if self.name else what

    def build_upkeep_key(self, job: str) -> dg.AssetKey:
        """Return the asset whose events say what a job of maintenance did."""
        return dg.AssetKey([self.name, f"tideline_{job}"] if self.name else f"tideline_{job}")

    def bind(self, function: Callable[..., Any], **given: object) -> Callable[..., Any]:
        """Return a function for Dagster's decorators: with some arguments given, and resources asked for by their names here."""
        if not self.name and not given:
            return function
        hints, signature = typing.get_type_hints(function), inspect.signature(function)
        asked = {self.format_name(name): name for name in RESOURCES if name in signature.parameters}
        own = {name: called for called, name in asked.items()}

        def rename(named: Mapping[str, Any]) -> dict[str, Any]:
            return {asked.get(name, name): value for name, value in named.items()} | given

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            return function(*positional, **rename(named))

        @functools.wraps(function)
        def generate(*positional: Any, **named: Any) -> Any:
            yield from function(*positional, **rename(named))

        bound = generate if inspect.isgeneratorfunction(function) else call
        parameters = [
            one.replace(name=own.get(name, name), annotation=hints.get(name, one.annotation))
            for name, one in signature.parameters.items()
            if name not in given
        ]
        bound.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=hints.get("return", signature.return_annotation)
        )
        return bound
