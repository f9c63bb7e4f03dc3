"""The log of a Delta table, read without Spark: whether a version has come, what each one did, and which schema it has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.arrow import as_values
from engine.connectors.confinement import (
    check_bucket_allowed,
    find_project_home,
    is_bucket_address,
    resolve_allowed_path,
)
from engine.connectors.delta.file_changes import DataFile, FileActions, build_actions
from engine.connectors.delta.types import parse_schema
from engine.connectors.delta.vectors import Vector
from engine.connectors.landing.folder import resolve_landing_folder
from engine.errors import PathNotAllowed, SourceError, StorageError, UnknownStore
from engine.hummock.object_store import ObjectInfo, ObjectStore, open_object_store
from engine.hummock.object_store.local import LocalObjectStore

LOG = "_delta_log/"
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
_MAPPING = "delta.columnMapping.mode"
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(parquet|json)")
_REMOTE = re.compile(r"s3a?://([^/]+)(?:/(.*))?")
_CLIMBS = re.compile(r"(?:^|/)\.\.(?:/|$)")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a Delta table is from one version on: which table, its schema and its properties."""

    id: str
    schema_string: str = ""
    configuration: dict[str, str] = {}
    partition_columns: tuple[str, ...] = ()

    @property
    def has_feed(self) -> bool:
        """Whether its commits can be read as changes of rows."""
        return self.configuration.get(FEED, "").lower() == "true"

    @property
    def is_mapped(self) -> bool:
        """Whether files hold its columns under other names than it has them."""
        return self.mapping != "none"

    @property
    def mapping(self) -> str:
        """How columns are found in files: `none` by their names, `name` by names of their own, `id` by numbers."""
        return self.configuration.get(_MAPPING, "none").lower()

    @property
    def tracks_rows(self) -> bool:
        """Whether each row has an id, and the version that changed it last."""
        return self.configuration.get(ROW_TRACKING, "").lower() == "true"

    @property
    def row_columns(self) -> tuple[str, str]:
        """The columns of files that hold ids and versions of rows which were written again; "" where there are none."""
        return (self.configuration.get(_ROW_ID, ""), self.configuration.get(_ROW_VERSION, ""))


class _Info(msgspec.Struct):
    operation: str | None = ""


class _Action(msgspec.Struct, rename="camel"):
    add: DataFile | None = None
    remove: DataFile | None = None
    cdc: DataFile | None = None
    meta_data: Metadata | None = None
    commit_info: _Info | None = None


_DECODER = msgspec.json.Decoder(_Action)
_NOT_AS_SAID = (msgspec.DecodeError, UnicodeError, KeyError, TypeError, ValueError)
"""What reading an entry raises that is no such thing: text cut in a character, a list where an object is due."""


class DeltaCommit(msgspec.Struct, frozen=True):
    """What one version did: whether rows changed, the bytes of the files that tell which, and a digest of its log entry."""

    version: int
    digest: str
    operation: str
    changes: bool
    size: int
    metadata: Metadata | None
    elsewhere: tuple[str, ...] = ()
    """The files that may lie outside of the table's folder, by their full paths."""
    files: tuple[str, ...] = ()
    """The files that tell which rows it changed, as the log names them."""
    actions: FileActions = FileActions()
    feed: tuple[DataFile, ...] = ()
    """The files of its change data feed."""


@dataclass(frozen=True)
class DeltaPlace:
    """Where a Delta table is: as the user wrote it, and as Spark reads it."""

    display_name: str
    spark: str

    @property
    def is_remote(self) -> bool:
        """Whether a look costs a request."""
        return self.spark.startswith("s3a:")

    @property
    def is_confined(self) -> bool:
        """Whether a table may name only files in places that are allowed."""
        return find_project_home() is not None

    def check_files(self, files: Iterable[str]) -> None:
        """Raise PathNotAllowed for a file, given by its full path, that this table's own folder does not allow to read."""
        home, prefix = find_project_home(), self.spark.rstrip("/") + "/"
        if home is None:
            return
        for file in files:
            address = _normalize_address(file)
            plain = unquote(address)
            if (address.startswith(prefix) or plain.startswith(prefix)) and ".." not in plain.split("/"):
                continue
            if is_bucket_address(plain):
                check_bucket_allowed(plain)
                continue
            path = plain.removeprefix("file:")
            if not path.startswith("/"):
                raise PathNotAllowed(
                    f"{file}, which the log of the Delta table at {self.display_name} names, is at a place that is not read: "
                    "copy it into the table's folder"
                )
            resolve_allowed_path(Path(path), home)

    def open_store(self) -> ObjectStore:
        """Return its files; raises StorageError where there is no such folder."""
        if self.is_remote:
            return open_object_store("s3" + self.spark.removeprefix("s3a"), create=False)
        return LocalObjectStore(self.folder, create=False)

    @property
    def folder(self) -> Path:
        """The folder of one that is not remote."""
        return Path(self.spark.removeprefix("file:"))


def parse_delta_place(path: str) -> DeltaPlace:
    """Return the place that an option names; raises SourceError or PathNotAllowed for one that can't be used."""
    if found := _REMOTE.fullmatch(path):
        if "@" in found[1]:  # which the catalog would keep, and show
            raise SourceError(
                "keys have no place in an address: write s3://bucket/prefix, and set AWS_ACCESS_KEY_ID"
            )
        check_bucket_allowed(path)
        return DeltaPlace(path, f"s3a://{found[1]}/{(found[2] or '').strip('/')}")
    local = path.removeprefix("file://") if path.startswith("file:///") else path
    if found := _SCHEME.match(local):
        raise SourceError(f"{found[1]}: is no place that is read: write a folder, or s3://bucket/prefix")
    return DeltaPlace(path, f"file:{resolve_landing_folder(local)}")


class DeltaLog:
    """The log of one table. What can't be read raises StorageError; SourceError says what there is not."""

    def __init__(self, place: DeltaPlace) -> None:
        self.place = place

    @cached_property
    def _files(self) -> ObjectStore:
        try:
            return self.place.open_store()
        except UnknownStore as error:
            why = "there is no such bucket" if self.place.is_remote else _explain_missing(self.place.folder)
            raise SourceError(
                f"there is no Delta table at {self.place.display_name}: {why}: correct its path"
            ) from error
        except StorageError as error:
            raise SourceError(
                f"the Delta table at {self.place.display_name} can't be read: {error}"
            ) from error

    def stat_entry(self, version: int) -> ObjectInfo | None:
        """Return size and time of a version's entry, None if there is none; the cost is that of one look."""
        return self._files.head(entry_path(version))

    def read_commit(self, version: int) -> DeltaCommit | None:
        """Return what a version did, None if its entry is not there."""
        data = self._files.get(entry_path(version))
        if data is None:
            return None
        actions = self._decode_actions(entry_path(version), data)
        data_files = [f for a in actions for f in (a.add, a.remove) if f is not None and f.data_change]
        cdc_files = [a.cdc for a in actions if a.cdc is not None]
        every = [f for a in actions for f in (a.add, a.remove, a.cdc) if f is not None]
        vectors = [f.deletion_vector for f in every if f.deletion_vector is not None]
        names = [f.path for f in every] + [v.path_or_inline_dv for v in vectors if v.storage_type == "p"]
        operation = next((a.commit_info.operation or "" for a in actions if a.commit_info is not None), "")
        return DeltaCommit(
            version,
            _compute_digest(data),
            operation,
            bool(data_files or cdc_files),
            sum(file.size or 0 for file in cdc_files or data_files),
            self._find_metadata(entry_path(version), actions),
            tuple(self._list_elsewhere(names)),
            tuple(file.path for file in cdc_files or data_files),
            build_actions(
                version,
                operation,
                (a.add for a in actions if a.add is not None),
                (a.remove for a in actions if a.remove is not None),
            ),
            tuple(cdc_files),
        )

    def _list_elsewhere(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the full paths among names of files, and those that climb out of a folder."""
        for name in names:
            if unquote(name).startswith("/") or _SCHEME.match(name):
                yield name
            elif _CLIMBS.search(unquote(name)):
                yield f"{self.place.spark}/{name}"

    def has_file(self, name: str) -> bool:
        """Tell whether a file that the log names is there; of one that it names by its address in a bucket nothing is known."""
        parts = urlsplit(name)
        if parts.scheme or name.startswith("/"):
            return (
                parts.scheme not in ("", "file") or self.place.is_remote or Path(unquote(parts.path)).exists()
            )
        return self._files.head(unquote(name)) is not None

    def read_file(self, name: str) -> bytes | None:
        """Return the bytes of a file in the table's folder, as the log names it; None if it is not there."""
        return self._files.get(unquote(name))

    def read_vector(self, vector: Vector) -> bytes:
        """Return the bytes of a deletion vector; raises SourceError for one that is gone or damaged."""
        if vector.is_inline:
            return vector.decode_inline()
        offset, length, path = vector.offset or 0, vector.size_in_bytes + 8, vector.path
        parts = urlsplit(path)
        try:
            if parts.scheme == "file" or (not parts.scheme and path.startswith("/")):
                with Path(unquote(parts.path)).open("rb") as file:
                    file.seek(offset)
                    return vector.check_stored(file.read(length))
            prefix = self.place.spark + "/"
            normal = re.sub(r"^s3[an]?://", "s3a://", path)
            name = normal.removeprefix(prefix) if normal.startswith(prefix) else path
            return vector.check_stored(self._files.get_range(unquote(name), offset, length))
        except (OSError, StorageError) as error:
            raise SourceError(
                f"the deletion vector {path} of the Delta table at {self.place.display_name} can't be read: {error}"
            ) from error

    def compute_digest(self, version: int) -> str | None:
        """Return a digest of a version's entry, None if it is not there."""
        data = self._files.get(entry_path(version))
        return None if data is None else _compute_digest(data)

    def find_newest_version(self) -> int:
        """Return the newest version; raises SourceError where there is no table."""
        found = [int(m[1]) for name in self._list_names() if (m := _VERSION.fullmatch(name))]
        if not found:
            raise SourceError(
                f"there is no Delta table at {self.place.display_name}: its {LOG} holds no version: name "
                f"the folder that holds one"
            )
        return max(found)

    def read_metadata(self, version: int) -> Metadata:
        """Return what the table is at a version; raises SourceError if the log does not reach back to where that was said."""
        checkpoints: dict[int, list[str]] = {}
        for name in self._list_names():
            if found := _CHECKPOINT.fullmatch(name):
                checkpoints.setdefault(int(found[1]), []).append(name)
        for at in range(version, -1, -1):
            data = self._files.get(entry_path(at))
            if data is not None and b'"metaData"' in data:
                said = self._find_metadata(entry_path(at), self._decode_actions(entry_path(at), data))
                if said is not None:
                    return said
            for name in checkpoints.get(at, ()):
                said = self._read_checkpoint(name)
                if said is not None:
                    return said
            if data is None and at not in checkpoints:
                break
        raise SourceError(
            f"the log of the Delta table at {self.place.display_name} does not tell its schema at version "
            f"{version}: it is cut or "
            "damaged; restore it, or name another table"
        )

    def _read_checkpoint(self, name: str) -> Metadata | None:
        data = self._files.get(LOG + name)
        if data is None:
            return None
        if name.endswith(".json"):
            return self._find_metadata(LOG + name, self._decode_actions(LOG + name, data))
        try:
            column = pq.read_table(BytesIO(data), columns=["metaData"]).column("metaData")
            for row in as_values(column.drop_null()):
                said = {**row, "configuration": dict(row["configuration"] or ())}
                return self._check_metadata(LOG + name, msgspec.convert(said, Metadata))
        except (
            pa.ArrowException,
            OSError,
            *_NOT_AS_SAID,
        ) as error:  # a page that is cut is an OSError of Arrow's
            raise self._build_broken_error(LOG + name, error) from error
        return None

    def _list_names(self) -> list[str]:
        return [info.path.removeprefix(LOG) for info in self._files.list(LOG)]

    def _decode_actions(self, name: str, data: bytes) -> list[_Action]:
        try:
            actions = _DECODER.decode_lines(data)
        except _NOT_AS_SAID as error:
            raise self._build_broken_error(name, error) from error
        if not actions:
            raise self._build_broken_error(name, "it is empty")
        return actions

    def _find_metadata(self, name: str, actions: Iterable[_Action]) -> Metadata | None:
        said = next((a.meta_data for a in actions if a.meta_data is not None), None)
        return None if said is None else self._check_metadata(name, said)

    def _check_metadata(self, name: str, said: Metadata) -> Metadata:
        try:
            parse_schema(said.schema_string)
        except SourceError as error:
            raise self._build_broken_error(name, error) from error
        return said

    def _build_broken_error(self, name: str, why: Exception | str) -> SourceError:
        reason = " ".join(str(why).split())
        return SourceError(
            f"{name} of the Delta table at {self.place.display_name} can't be read ({reason}): it was not "
            f"written to its end, or is "
            "damaged: restore it, or have its writer repair the table"
        )


def _explain_missing(folder: Path) -> str:
    return f"{folder} is a file" if folder.is_file() else f"there is no folder {folder}"


def _normalize_address(address: str) -> str:
    """Return an address with one slash behind `file:`, and buckets as Spark names them."""
    return re.sub("^s3n?://", "s3a://", re.sub("^file:/+", "file:/", address))


def entry_path(version: int) -> str:
    """Return the path, in a Delta table, of what its log says of a version."""
    return f"{LOG}{version:020d}.json"


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
