"""How models become assets: a project overrides what its assets are to be called, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_tideline.models.loader import Model


class TidelineTranslator:
    """Says what the asset of each model is like; override what is to be otherwise.

    Each method takes a `Model`: its name, kind, statement, file, and what its header says. A table or view that models read, and
    none declares, comes as a model of the kind `undeclared`, of which only the key is asked for.
    """

    def __init__(self, key_prefix: str | Sequence[str] = ()) -> None:
        self.key_prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)

    def get_asset_key(self, model: Model) -> dg.AssetKey:
        """Return the key: the prefix and the model's name. No two models may have the same."""
        return dg.AssetKey([*self.key_prefix, model.name])

    def get_description(self, model: Model) -> str:
        """Return the text above the statement, which is shown with it."""
        return model.description

    def get_group_name(self, model: Model) -> str:
        """Return the group."""
        return model.group

    def get_tags(self, model: Model) -> Mapping[str, str]:
        """Return the tags; `tideline/kind` comes on top."""
        return model.tags

    def get_metadata(self, model: Model) -> Mapping[str, Any]:
        """Return what the asset's page shows besides the model's file and its columns."""
        return model.metadata

    def get_owners(self, model: Model) -> Sequence[str]:
        """Return the owners; what is no mail address and no `team:name` is shown as text."""
        return model.owners

    def get_freshness_policy(self, model: Model) -> dg.FreshnessPolicy | None:
        """Return how old the newest event may be."""
        return model.freshness

    def get_automation_condition(self, model: Model) -> dg.AutomationCondition[Any] | None:
        """Return when Dagster is to ask for the asset by itself; without it the sensor brings it on."""
        return model.automation

    def get_asset_spec(self, model: Model, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the asset that the other methods describe, changed as is wanted; its key and code version stay."""
        return spec
