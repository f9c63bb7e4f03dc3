"""Models that had another name: which relations of the store get new names, and which of these cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagster_tideline.models.loader import Model
from engine.errors import SqlError
from engine.sql.catalog import Relation

UNNAMEABLE = ("sink", "source", "function")
"""The kinds that are known to others by their names."""


@dataclass(frozen=True)
class Renames:
    """The old names of the store's relations that get those of models, by their new names; `errors` are by model."""

    old_names: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def find_renames(stored: Mapping[str, Relation], models: Sequence[Model]) -> Renames:
    """Return what is renamed: where the store has a model's former name, of its kind, and not its name.

    A line that says a former name has no effect once the store has no relation of that name.
    """
    found: dict[str, str] = {}
    errors: dict[str, str] = {}
    for model in models:
        old = model.renamed_from
        if not old or model.error is not None or old not in stored:
            continue
        declared = next((one for one in models if one.name == old), None)
        if model.name in stored and (declared is not None or stored[old].kind != model.kind):
            continue  # it has been renamed, and what has the old name now is something else
        error = _find_fault(model, declared, stored, models)
        if error is None:
            found[model.name] = old
        else:
            errors[model.name] = f"{model.path}: {error}"
    return Renames(found, errors)


def _find_fault(
    model: Model, declared: Model | None, stored: Mapping[str, Relation], models: Sequence[Model]
) -> SqlError | None:
    """Return why a relation of the store, which a model may declare, cannot get the name of another model."""
    old = model.renamed_from
    if model.kind in UNNAMEABLE:
        hint = f"take this line out: {model.name} is made beside {old}, and begins anew"
        return model.build_rename_error(f"a {model.kind} keeps its name", hint)
    claims = [one.name for one in models if one.renamed_from == old and one.error is None]
    if declared is not None:
        hint = f"take {old} out of {declared.path}, or take this line out"
        return model.build_rename_error(f"{old} is declared by {declared.path}, and keeps its name", hint)
    if len(claims) > 1:
        hint = "leave the line in one of them: a relation has one name"
        return model.build_rename_error(f"{' and '.join(claims)} both say that they were {old}", hint)
    if stored[old].kind != model.kind:
        hint = f"take this line out, and {model.name} is made anew beside it"
        message = f"{old} is a {stored[old].kind} in the store, and {model.name} a {model.kind}"
        return model.build_rename_error(message, hint)
    if model.name in stored:
        hint = f"take this line out, or drop one of the two with `tideline sql`: {old}, or {model.name}"
        return model.build_rename_error(f"the store has {old} and {model.name}", hint)
    return None
