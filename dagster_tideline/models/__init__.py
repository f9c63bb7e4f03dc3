"""Models: files of SQL and Python declarations, read, checked and made into asset specs."""

from dagster_tideline.models.loader import Model, load_models

__all__ = ["Model", "load_models"]
