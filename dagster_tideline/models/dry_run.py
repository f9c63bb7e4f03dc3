"""Models tried out before any run: each is made in an empty store, where the engine says what it does not take."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dagster_tideline.models.loader import Model
from dagster_tideline.sync import create_models
from engine.sql.catalog import Relation
from engine.sql.statements.options.delta_options import COPY_OPTIONS
from engine.sql.statements.options.option_text import strip_options


def find_refused_models(
    models: Sequence[Model], stored: Mapping[str, Relation], spark: str | None = None
) -> dict[str, str]:
    """Return what is wrong with models that the engine refuses, by model; starts Spark.

    Not tried are sinks and the Delta tables of views, which may reach out to others, landing folders, which a run makes,
    and models over what somebody has made in the store by hand: `stored` is what it holds.
    """
    from engine.session import Session

    excluded = {model.name for model in models if model.error is not None or model.kind == "sink"}
    excluded |= stored.keys() - {model.name for model in models}
    tried: list[Model] = []
    for model in models:  # inputs come before their readers
        if model.name in excluded or excluded.intersection(model.reads):
            excluded.add(model.name)
        else:
            bare = strip_options(model.sql, model.dialect, COPY_OPTIONS) if model.copy else model.sql
            tried.append(replace(model, sql=bare))
    errors: dict[str, str] = {}
    declared = {model.name for model in models}
    with (
        tempfile.TemporaryDirectory(prefix="tideline-check-") as folder,
        Session(Path(folder).as_uri(), spark) as session,
    ):
        session.reaches_out = False  # a run makes landing folders first
        _ = session.computing  # what the machine lacks is no fault of a model
        for function in stored.values():
            if function.kind == "function" and function.name not in declared:
                session.dialect = function.dialect
                session.sql(function.sql)
        create_models(session, tried, errors)
    reads = {model.name: model.reads for model in tried}
    return {name: error for name, error in errors.items() if not errors.keys() & set(reads[name])}
