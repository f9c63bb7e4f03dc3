"""The component of Dagster's `dg`: a folder of models in `defs/`, kept up to date by Tideline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import dagster as dg

from dagster_tideline.dagster_internals import TranslationFn, TranslationFnResolver
from dagster_tideline.definitions import build_definitions
from dagster_tideline.models.asset_spec import normalize_group
from dagster_tideline.models.header import build_header_lines
from dagster_tideline.models.loader import Model
from dagster_tideline.models.translator import TidelineTranslator
from dagster_tideline.settings import Settings, normalize_store


class TidelineModelsComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL files, and Python files with `@materialized_view`, whose tables, views and sinks are kept up to date."""

    models: str = "."
    """The folder of the models, relative to that of `defs.yaml`."""
    store: str | None = None
    """`file:///path` or `s3://bucket/prefix`; without it TIDELINE_STORE, else `.tideline/store` of the project."""
    spark: str = ""
    """`local[2]`, `spark://…`, `k8s://…`, `sc://…`; without it SPARK_REMOTE, else local[*]."""
    runs: Literal["tick", "driver"] | None = None
    """`tick`: a run takes what is pending and ends. `driver`: one run stays. Without it TIDELINE_RUNS, else `tick`."""
    key_prefix: str | Sequence[str] | None = None
    """What the keys of the assets begin with: `sales`, or `[shop, sales]`. Without it TIDELINE_KEY_PREFIX, else nothing."""
    name: str | None = None
    """What jobs, sensors, schedules and resources begin with; without it the prefix. Components of a project differ in it."""
    translation: (
        Annotated[
            TranslationFn[Model],
            TranslationFnResolver[Model](template_vars_for_translation_fn=lambda model: {"model": model}),
        ]
        | None
    ) = None
    """What is said of each asset: `group_name: "{{ model.kind }}"`, `key`, `owners`, `tags`, `metadata`, as Dagster has them."""
    group: str | None = None
    """What the headers of models say that do not say it themselves; so are all below."""
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = {}
    freshness: str | None = None
    """`10 min warn 5 min`."""
    automation: str | None = None
    """`eager`, `on_cron('0 6 * * *')` or `none`."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the assets, the sensor, the jobs and the schedules of the models."""
        project = Path(context.project_root)
        settings = self.build_settings(project, context.path)
        found = context.component_tree.get_all_components(TidelineModelsComponent)
        others = [one for one in found if one is not self]
        _check_apart(settings, [one.build_settings(project, context.path) for one in others])
        return self._build_definitions(settings)

    def build_project_defs(self, project: Path, place: Path) -> dg.Definitions:
        """Return the definitions of the models below the folder `place` of a project."""
        return self._build_definitions(self.build_settings(project, place))

    def build_settings(self, project: Path, place: Path) -> Settings:
        """Return the settings of the models below the folder `place` of a project."""
        settings = Settings.of_environment(project)
        options = {
            "store": self.store,
            "runs": self.runs,
            "spark": self.spark or settings.spark,
            "key_prefix": self.key_prefix,
            "name": self.name,
        }
        changed = {name: value for name, value in options.items() if value is not None}
        return settings.replace(**changed, assets=(place / self.models).resolve())

    def build_translator(self, settings: Settings) -> TidelineTranslator:
        """Return what says what the assets are like; a component of a project may return one of its own."""
        usual = TidelineTranslator(settings.key_prefix)
        return usual if self.translation is None else _SpecTranslator(usual, self.translation)

    def _build_definitions(self, settings: Settings) -> dg.Definitions:
        texts = {"group": self.group, "freshness": self.freshness, "automation": self.automation}
        said = build_header_lines(self.owners, self.tags, texts)
        return build_definitions(settings, said=said, translator=self.build_translator(settings))


class _SpecTranslator(TidelineTranslator):
    """Says of assets what the function `translation` makes of what another translator says."""

    def __init__(self, usual: TidelineTranslator, translation: TranslationFn[Model]) -> None:
        super().__init__(usual.key_prefix)
        self._usual, self._translation = usual, translation

    def get_asset_key(self, model: Model) -> dg.AssetKey:
        plain = dg.AssetSpec(self._usual.get_asset_key(model), group_name=normalize_group(model.group))
        return self._translation(plain, model).key

    def get_asset_spec(self, model: Model, spec: dg.AssetSpec) -> dg.AssetSpec:
        usual = spec.replace_attributes(key=self._usual.get_asset_key(model))
        return self._translation(usual, model).replace_attributes(key=spec.key)


def _check_apart(own: Settings, others: Sequence[Settings]) -> None:
    """Raise an error where another component of the project has the same store, or the same name."""
    for other in others:
        if normalize_store(own.store) == normalize_store(other.store):
            raise dg.DagsterInvalidDefinitionError(
                f"two components have the store {own.store}, and one brings all of a store on: give each a `store` of its own, "
                "or put the folders of both below one component, whose `translation` gives them keys and groups"
            )
        if own.unique_name == other.unique_name:
            called = f"are called {own.unique_name}" if own.unique_name else "have no name"
            raise dg.DagsterInvalidDefinitionError(
                f"two components {called}, and so would their jobs be called alike: give one a `key_prefix`, or a `name`"
            )
