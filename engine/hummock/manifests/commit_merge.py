"""Parts of a commit made one: each field of each part is in it, also one that is added to `Commit` later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from engine.hummock.manifests.preconditions import require_all
from engine.hummock.version import Commit


def merge_commits(*parts: Commit) -> Commit:
    """Return one commit of all that its parts ask for; raises ValueError where two of them say different things of the same.

    >>> merge_commits(Commit(acks={"t": {"a": 5}}), Commit(acks={"t": {"b": 6}}, watermarks={"t": 7})).acks
    {'t': {'a': 5, 'b': 6}}
    """
    whole: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(Commit)):
        values = [value for value in (getattr(part, name) for part in parts) if value is not None]
        if values:
            whole[name] = _merge_field(name, values)
    return Commit(**whole)


def _merge_field(name: str, values: list[Any]) -> Any:
    if all(callable(value) for value in values):
        return values[0] if len(values) == 1 else require_all(*values)
    if all(isinstance(value, Mapping) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: _merge_values(f"{name} of {key}", [v[key] for v in values if key in v]) for key in keys}
    if all(isinstance(value, Sequence) and not isinstance(value, str) for value in values):
        return tuple(one for value in values for one in value)
    return _merge_values(name, values)


def _merge_values(name: str, values: list[Any]) -> Any:
    if len(values) > 1 and all(isinstance(value, Mapping) for value in values):
        return _merge_field(name, values)
    if any(value != values[0] for value in values):
        raise ValueError(f"{name} is said twice in one commit: {values[0]}, and {values[1]}")
    return values[0]
