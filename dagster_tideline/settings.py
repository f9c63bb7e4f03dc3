"""Where a project's folders, its store and its Spark are, and how its runs work: one object, filled from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from dagster_tideline.dbt.project import DbtProject
from dagster_tideline.pipelines.project import PipelineProject
from engine.errors import EnvironmentNotReady, StorageError
from engine.hummock.object_store.branch import add_branch, split_branch_url

STORE = re.compile(r"file:///.|s3a?://[^/]")
NAME = re.compile(r"[A-Za-z0-9_]+")
WORKSPACE = "workspace.yaml"
DBT_MANIFEST = "TIDELINE_DBT_MANIFEST"
DBT_SOURCES = "TIDELINE_DBT_SOURCES"
"""The tables that stand for sources of the dbt project, beside its manifest: `raw.orders=orders, raw.items=items`."""
PIPELINE_SPEC = "TIDELINE_PIPELINE_SPEC"
PIPELINE_TABLES = "TIDELINE_PIPELINE_TABLES"
PIPELINE_LEFT_OUT = "TIDELINE_PIPELINE_LEAVE_OUT"
"""The tables that stand for what the pipeline reads: `raw.orders=orders, /data/items=items`."""
VARIABLES = {
    "home": "TIDELINE_HOME",
    "assets": "TIDELINE_ASSETS",
    "store": "TIDELINE_STORE",
    "key_prefix": "TIDELINE_KEY_PREFIX",
    "runs": "TIDELINE_RUNS",
    "driver_seconds": "TIDELINE_DRIVER_SECONDS",
    "event_seconds": "TIDELINE_EVENT_SECONDS",
    "epochs_in_flight": "TIDELINE_EPOCHS_IN_FLIGHT",
    "max_lag_seconds": "TIDELINE_MAX_LAG_SECONDS",
    "sensor_wait": "TIDELINE_SENSOR_WAIT",
    "dbt": DBT_MANIFEST,
    "pipeline": PIPELINE_SPEC,
    "oracle_share": "TIDELINE_ORACLE_SHARE",
    "backup_to": "TIDELINE_BACKUP_TO",
    "backup_keep": "TIDELINE_BACKUP_KEEP",
}
"""The environment variable of each field that has one, for messages; SPARK_REMOTE is read where Spark is started."""


class Settings(BaseModel):
    """What a project's definitions are made from; `of_environment` reads it, and a project may write it itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Path
    """The folder with `workspace.yaml`, `pyproject.toml` and the project's package."""
    home: Path
    """Landing folders are relative to it, and `.tideline/` (store, logs, Dagster's instance) lies in it."""
    assets: Path
    """The folder of the models."""
    store: str
    """`file:///path` or `s3://bucket/prefix`; with TIDELINE_BRANCH the address of that branch of it."""
    spark: str = ""
    """`local[2]`, `spark://…`, `k8s://…`, `sc://…`; empty: SPARK_REMOTE, else local[*]."""
    runs: Literal["tick", "driver"] = "tick"
    """`tick`: a run takes what is pending and ends. `driver`: one run stays and commits as it comes."""
    driver_seconds: float = Field(default=3600.0, gt=0)
    """How long a driver works before its successor takes over."""
    event_seconds: float = Field(default=30.0, ge=0)
    """How often a driver tells of each asset at most; Dagster keeps every event."""
    epochs_in_flight: int = Field(default=4, ge=1)
    """How many epochs of a driver may be on their way to the store while it computes the next."""
    max_lag_seconds: float = Field(default=900.0, gt=0)
    """How far a view may lag behind its inputs before the job `freshness` fails; those that rest by their own option may."""

    oracle_share: float = Field(default=0.01, ge=0, le=1)
    """Which share of the time samples of views may take that are computed anew and compared; 0 takes none by itself."""
    backup_to: str = ""
    """Where the store is backed up each night, `file:///path` or `s3://bucket/prefix`; empty: no schedule does it."""
    backup_keep: int = Field(default=30, ge=0)
    """How many backups stay there; 0 drops none."""
    sensor_wait: float = Field(default=4.7, ge=0)
    """For how long an evaluation of the sensor watches; Dagster evaluates it every few seconds."""

    key_prefix: tuple[str, ...] = ()
    """What keys of assets begin with; in the environment its parts stand between slashes."""
    dbt: DbtProject | None = None
    """A dbt project whose models belong to the project; in the environment its manifest, and tables of its sources."""
    pipeline: PipelineProject | None = None
    """A project of Spark Declarative Pipelines whose views belong to the project; in the environment its spec, and tables."""
    name: str = ""
    """What jobs, sensors, schedules and resources begin with, where a code location has several stores: else the prefix."""

    @field_validator("key_prefix", mode="before")
    @classmethod
    def _check_key_prefix(cls, prefix: object) -> object:
        parts = prefix.split("/") if isinstance(prefix, str) else prefix
        if not isinstance(parts, list | tuple) or not all(
            isinstance(part, str) and NAME.fullmatch(part) for part in parts
        ):
            raise PydanticCustomError(
                "key_prefix",
                "A prefix is made of letters, digits and underscores: write sales, or shop/sales",
            )
        return tuple(parts)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name and not NAME.fullmatch(name):
            raise PydanticCustomError("name", "Use letters, digits and underscores: Dagster takes no others")
        return name

    @property
    def is_of_branch(self) -> bool:
        """Whether the store's address is that of a branch: its schedules are off until somebody turns them on."""
        return bool(split_branch_url(self.store)[1])

    @property
    def unique_name(self) -> str:
        """What jobs, sensors, schedules and resources begin with; nothing without a prefix and a name."""
        return self.name or "_".join(self.key_prefix)

    @field_validator("home", "assets")
    @classmethod
    def _check_folder(cls, folder: Path) -> Path:
        if folder.is_file():
            raise PydanticCustomError("folder", "That is a file: name a folder")
        return folder

    @field_validator("store")
    @classmethod
    def _check_store(cls, store: str) -> str:
        if not STORE.match(store):
            raise PydanticCustomError(
                "store", "That is no address of a store: write file:///path or s3://bucket/prefix"
            )
        try:
            return add_branch(store, os.environ.get("TIDELINE_BRANCH", ""))
        except StorageError as error:
            raise EnvironmentNotReady(f"TIDELINE_BRANCH: {error}") from error

    @field_validator("backup_to")
    @classmethod
    def _check_backup_place(cls, place: str) -> str:
        if place and not STORE.match(place):
            raise PydanticCustomError(
                "backup_to", "That is no address of a place: write file:///path or s3://bucket/prefix"
            )
        return place

    @classmethod
    def of_environment(cls, project: Path) -> Settings:
        """Return the settings of a project in a folder; raises EnvironmentNotReady for a variable that can't be meant."""
        project = project.expanduser().resolve()
        home = _resolve_folder(os.environ.get("TIDELINE_HOME")) or project
        assets = _resolve_folder(os.environ.get("TIDELINE_ASSETS")) or home / "assets"
        if assets != home / "assets" and not assets.exists():
            raise EnvironmentNotReady(
                f"TIDELINE_ASSETS is '{assets}': there is no such folder: make it, or correct its path"
            )
        found = {
            "project": project,
            "home": home,
            "assets": assets,
            "store": os.environ.get("TIDELINE_STORE") or (home / ".tideline" / "store").as_uri(),
            "key_prefix": os.environ.get("TIDELINE_KEY_PREFIX"),
            "runs": os.environ.get("TIDELINE_RUNS"),
            "driver_seconds": os.environ.get("TIDELINE_DRIVER_SECONDS"),
            "event_seconds": os.environ.get("TIDELINE_EVENT_SECONDS"),
            "epochs_in_flight": os.environ.get("TIDELINE_EPOCHS_IN_FLIGHT"),
            "max_lag_seconds": os.environ.get("TIDELINE_MAX_LAG_SECONDS"),
            "oracle_share": os.environ.get("TIDELINE_ORACLE_SHARE"),
            "sensor_wait": os.environ.get("TIDELINE_SENSOR_WAIT"),
            "backup_to": os.environ.get("TIDELINE_BACKUP_TO"),
            "backup_keep": os.environ.get("TIDELINE_BACKUP_KEEP"),
            "dbt": _read_dbt_project(),
            "pipeline": _read_pipeline(),
        }
        return cls._validate_values({field: value for field, value in found.items() if value})

    def replace(self, **others: object) -> Settings:
        """Return the settings with other values of some; raises EnvironmentNotReady for one that can't be meant."""
        return self._validate_values({**self.model_dump(), **others})

    @classmethod
    def _validate_values(cls, found: Mapping[str, object]) -> Settings:
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise EnvironmentNotReady(
                "; ".join(_format_problem(problem) for problem in error.errors())
            ) from None


def find_project_folder(start: Path | None = None) -> Path:
    """Return the folder of the project that a folder (the working one) lies in: the nearest with `workspace.yaml`."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / WORKSPACE).is_file():
            return folder
    raise EnvironmentNotReady(
        f"there is no project in {start}: go to a folder with {WORKSPACE}, or make one with `tideline init NAME`"
    )


def _resolve_folder(text: str | None) -> Path | None:
    return Path(text).expanduser().resolve() if text else None


def _read_dbt_project() -> dict[str, object] | None:
    """Return the fields of the dbt project that the environment names, None if it names none."""
    manifest = _resolve_folder(os.environ.get(DBT_MANIFEST))
    return None if manifest is None else {"manifest": manifest, "sources": read_dbt_sources()}


def _read_pipeline() -> dict[str, object] | None:
    """Return the fields of the pipeline that the environment names, None if it names none."""
    spec = _resolve_folder(os.environ.get(PIPELINE_SPEC))
    if spec is None:
        return None
    return {"spec": spec, "tables": read_pipeline_tables(), "leave_out": read_left_out_columns()}


def read_dbt_sources() -> dict[str, str]:
    """Return the tables that the environment says stand for dbt's sources, by those; raises EnvironmentNotReady."""
    return _parse_variable(DBT_SOURCES, os.environ.get(DBT_SOURCES, ""))


def read_pipeline_tables() -> dict[str, str]:
    """Return the tables that the environment says stand for a pipeline's, by those; raises EnvironmentNotReady."""
    return _parse_variable(PIPELINE_TABLES, os.environ.get(PIPELINE_TABLES, ""))


def read_left_out_columns() -> tuple[str, ...]:
    """Return the columns that the environment says a pipeline's datasets are kept without."""
    return tuple(filter(None, map(str.strip, os.environ.get(PIPELINE_LEFT_OUT, "").split(","))))


def _parse_variable(variable: str, text: str) -> dict[str, str]:
    try:
        return parse_table_pairs(text.split(","))
    except EnvironmentNotReady as error:
        raise EnvironmentNotReady(f"{variable}: {error}") from None


def parse_table_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the tables that stand for others, `raw.orders=orders`, by those; raises EnvironmentNotReady for no pair."""
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, pairs)):
        other, equal, table = (part.strip() for part in pair.rpartition("="))
        if not equal or not other or not table:
            raise EnvironmentNotReady(f"'{pair}' names no table: write raw.orders=orders")
        found[other] = table
    return found


def _format_problem(problem: object) -> str:
    field = str(problem["loc"][0])  # type: ignore[index]
    message, value = problem["msg"], problem["input"]  # type: ignore[index]
    return f"{VARIABLES.get(field, field)} is '{value}': {message[0].lower()}{message[1:]}"


def normalize_store(url: str) -> str:
    """Return the one address of a store by which two are compared."""
    return url.replace("s3a://", "s3://").rstrip("/")
