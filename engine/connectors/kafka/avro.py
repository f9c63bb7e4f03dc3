"""Avro: records by a schema of a file or of a registry, as raw columns in the types that the schema says."""

from __future__ import annotations

import base64
import importlib
import io
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.connectors.formats.file_format import BadLine, FileOptions, FileRows, format_raw
from engine.connectors.kafka.settings import AvroSettings
from engine.connectors.named_secrets import NamedSecret
from engine.errors import SourceError
from engine.sql.column_names import match_columns

HEADER = 5
"""Bytes before a record whose schema is in a registry: a zero, and the number of the schema."""
ANSWER_SECONDS = 10.0
MOST_DIGITS = 38
INSTALL = "Avro needs fastavro: pip install 'tideline[kafka]'"
_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "null": pa.null(),
}
_TIMES: Mapping[str, tuple[pa.DataType, pa.DataType]] = {
    "date": (pa.int32(), pa.date32()),
    "time-millis": (pa.int32(), pa.time32("ms")),
    "time-micros": (pa.int64(), pa.time64("us")),
    "timestamp-millis": (pa.int64(), pa.timestamp("ms", "UTC")),
    "timestamp-micros": (pa.int64(), pa.timestamp("us", "UTC")),
    "local-timestamp-millis": (pa.int64(), pa.timestamp("ms")),
    "local-timestamp-micros": (pa.int64(), pa.timestamp("us")),
}
"""Logical types that are numbers with a meaning: how Arrow has the number, and the time."""
_MEANING = "tidelineTime"
_KEPT = ("decimal",)
"""The logical types that the library reads; the others are the numbers or texts that they are written as."""


class NotAvro(Exception):
    """What a message holds is no record of a schema."""


def load_fastavro() -> Any:
    """Return the module fastavro; raises SourceError with what to install where it is missing."""
    try:
        return importlib.import_module("fastavro")
    except ImportError as error:
        raise SourceError(INSTALL) from error


@dataclass(frozen=True)
class AvroColumn:
    """A field of a record: the type of its column, and of a time the number that it is written as."""

    kind: pa.DataType
    number: pa.DataType | None = None
    is_nested: bool = False

    def build(self, values: Sequence[Any]) -> pa.Array[Any]:
        """Return values as a column; what its type does not take becomes a text, which the table's type is asked about."""
        if self.is_nested:
            return pa.array(
                [None if value is None else _format_nested(value) for value in values], pa.string()
            )
        try:
            if self.number is not None:
                return pa.array(values, self.number).cast(self.kind)
            return pa.array(values, self.kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array([None if value is None else str(value) for value in values], pa.string())


@dataclass(frozen=True)
class AvroSchema:
    """A schema as values are written by it; `columns` are the fields of a record, and "" is a value that is none."""

    parsed: Any
    columns: Mapping[str, AvroColumn]
    is_record: bool
    is_endless: bool = False
    """Whether a type holds itself, so that a message says how deep it is: the quick reader's stack would end the process."""

    def read_value(self, data: bytes) -> Any:
        """Return what bytes hold; raises NotAvro if that is no value of the schema alone."""
        file = io.BytesIO(data)
        try:
            value = self._reader(file, self.parsed, None)
        except Exception as error:  # the library raises what its reading of foreign bytes runs into
            why = " ".join(str(error).split()) or type(error).__name__
            raise NotAvro(f"not a value of its Avro schema: {why[:200]}") from None
        if file.tell() < len(data):
            raise NotAvro(f"not a value of its Avro schema: {len(data) - file.tell()} bytes follow it")
        return value

    @cached_property
    def _reader(self) -> Any:
        """What reads values; that of Python stops where a value is too deep."""
        fastavro = load_fastavro()
        return importlib.import_module(
            "fastavro._read_py" if self.is_endless else fastavro.__name__
        ).schemaless_reader


def _add_names(text: str, names: dict[str, Any]) -> Any:
    """Return a schema as the library has it, and add the types that it names; raises NotAvro for a text that says none."""
    fastavro = load_fastavro()
    try:
        return fastavro.parse_schema(_drop_logical_types(json.loads(text)), named_schemas=names)
    except Exception as error:  # as above
        raise NotAvro(f"no schema of Avro: {' '.join(str(error).split())[:200]}") from None


def parse_schema(text: str, named: Mapping[str, Any] | None = None) -> AvroSchema:
    """Return the schema that a text in JSON says; raises NotAvro if it says none."""
    names = dict(named or {})
    parsed = _add_names(text, names)
    is_record = isinstance(parsed, dict) and parsed.get("type") in ("record", "error")
    if is_record:
        columns = {one["name"]: _find_column(one["type"], names) for one in parsed["fields"]}
    else:
        columns = {"": _find_column(parsed, names)}
    return AvroSchema(parsed, columns, is_record, _holds_itself(parsed, names, ()))


def read_schema_file(path: str) -> AvroSchema:
    """Return the schema in a file; raises SourceError if there is none."""
    try:
        return parse_schema(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"the schema {path} can't be read: {error}") from error
    except NotAvro as error:
        raise SourceError(f"the file {path} holds {error}") from error


_KNOWN: dict[tuple[str, int], AvroSchema | str] = {}
"""Schemas by registry and number, which never change; a text says why a number has none that is read."""
_LOCK = threading.Lock()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the password would go along to wherever an answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry of schemas as Confluent's answers."""

    settings: AvroSettings

    def find_schema(self, number: int) -> AvroSchema:
        """Return a schema; raises NotAvro if the registry has none of the number, SourceError if it does not answer."""
        key = (self.settings.registry, number)
        with _LOCK:
            if key not in _KNOWN:
                _KNOWN[key] = self._fetch_schema(number)
            found = _KNOWN[key]
            if isinstance(found, str):
                del _KNOWN[key]  # it may be registered by then
                raise NotAvro(found)
            return found

    def ask(self, path: str) -> Any:
        """Return the registry's answer, None for what it does not have; raises SourceError."""
        request = urllib.request.Request(
            self.settings.registry + path, headers={"Accept": "application/json"}
        )
        if self.settings.registry_password_variable:
            secret = NamedSecret(
                self.settings.registry_password_variable, "schema_registry_password_variable"
            ).read()
            pair = base64.b64encode(f"{self.settings.registry_username}:{secret}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        try:
            with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise SourceError(
                f"the registry {self.settings.registry} answers {error.code} {error.reason}"
            ) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise SourceError(f"the registry {self.settings.registry} does not answer: {why}") from error

    def _ask_for_schema(self, path: str) -> Any:
        """Return the registry's answer about a schema, None if it has none; raises SourceError for what is no such answer."""
        answer = self.ask(path)
        if answer is None or (isinstance(answer, dict) and isinstance(answer.get("schema"), str)):
            return answer
        raise SourceError(
            f"the registry {self.settings.registry} answers {path} without a schema: correct schema_registry"
        )

    def _fetch_schema(self, number: int) -> AvroSchema | str:
        answer = self._ask_for_schema(f"/schemas/ids/{number}")
        if answer is None:
            return f"the registry has no schema {number}"
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            return f"schema {number} of the registry is of {kind}, and no Avro"
        named: dict[str, Any] = {}
        try:
            self._collect_names(answer.get("references", ()), named)
            return parse_schema(answer["schema"], named)
        except NotAvro as error:
            return f"schema {number} of the registry is {error}"

    def _collect_names(self, references: Sequence[Mapping[str, Any]], named: dict[str, Any]) -> None:
        """Add the schemas that others name, those below first."""
        for one in references:
            subject = urllib.parse.quote(str(one["subject"]), safe="")
            answer = self._ask_for_schema(f"/subjects/{subject}/versions/{one['version']}")
            if answer is not None and one["name"] not in named:
                self._collect_names(answer.get("references", ()), named)
                _add_names(answer["schema"], named)


@dataclass
class AvroReader:
    """Reads values, or keys, of messages: by one schema, or by those that the messages name in a registry."""

    settings: AvroSettings
    of_keys: bool = False
    _schema: AvroSchema | None = field(default=None)

    def find_number(self, data: bytes) -> int:
        """Return the number of the schema of some bytes, 0 where all have one; raises NotAvro for bytes that name none."""
        if not self.settings.registry:
            return 0
        if len(data) < HEADER or data[0] != 0:
            raise NotAvro("not Avro of a registry: it does not begin with a zero and the number of a schema")
        return int.from_bytes(data[1:HEADER], "big")

    def find_schema(self, number: int) -> AvroSchema:
        """Return a schema; raises NotAvro and SourceError as a registry does."""
        if self.settings.registry:
            return SchemaRegistry(self.settings).find_schema(number)
        if self._schema is None:
            path = self.settings.key_schema_file if self.of_keys else self.settings.schema_file
            self._schema = read_schema_file(path)
        return self._schema

    def read_rows(
        self, texts: Sequence[bytes], places: Sequence[int], options: FileOptions, alone: str | None = None
    ) -> FileRows:
        """Return the rows of bytes that have one schema; a value that is no record is that of the column `alone`."""
        if not texts:
            return build_avro_rows([], [], [], AvroSchema(None, {}, True), options)
        start = HEADER if self.settings.registry else 0
        values, kept, bad = list[Any](), list[int](), list[BadLine]()
        try:
            schema = self.find_schema(self.find_number(texts[0]))
            if not schema.is_record and alone is None:
                raise NotAvro("its Avro schema is no record")
        except NotAvro as error:
            lines = [BadLine(at, str(error), format_raw(raw)) for at, raw in zip(places, texts, strict=True)]
            return build_avro_rows([], [], lines, AvroSchema(None, {}, True), options)
        for number, data in enumerate(texts):
            try:
                values.append(schema.read_value(data[start:]))
            except NotAvro as error:
                bad.append(BadLine(places[number], str(error), format_raw(data)))
            else:
                kept.append(number)
        if not schema.is_record:
            schema = AvroSchema(schema.parsed, {alone or "": schema.columns[""]}, True)
            values = [{alone: value} for value in values]
        rows = [(places[number], texts[number]) for number in kept]
        return build_avro_rows(values, rows, bad, schema, options)


def build_avro_rows(
    values: Sequence[Mapping[str, Any]],
    places: Sequence[tuple[int, bytes]],
    bad: Sequence[BadLine],
    schema: AvroSchema,
    options: FileOptions,
) -> FileRows:
    """Return records as raw columns; each has its place, and its bytes."""
    names = tuple(schema.columns)
    match = match_columns(options.columns or names, names)
    if match.twice:
        reason = f"the record names {match.describe_ambiguity()}"
        bad = [*bad, *(BadLine(at, reason, format_raw(raw)) for at, raw in places)]
        values, places = [], []
    columns = {
        column: schema.columns[names[at]].build([value[names[at]] for value in values])
        for column, at in match.found.items()
    }
    return FileRows(
        columns,
        len(values),
        lambda row: (places[row][0], format_raw(places[row][1])),
        tuple(bad),
        (*columns, *(name for at, name in enumerate(names) if at not in match.places)),
        len(values) + len(bad),
        lines=np.array([at for at, _ in places], dtype=np.int64),
        by_row=True,
    )


def _holds_itself(kind: Any, names: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    """Tell whether a type is, or holds, one that holds itself; `within` are the named types around it."""
    if isinstance(kind, str):
        return kind in within or (kind in names and _holds_itself(names[kind], names, within))
    if isinstance(kind, list):
        return any(_holds_itself(one, names, within) for one in kind)
    if not isinstance(kind, dict):
        return False
    inner = (*within, kind["name"]) if "name" in kind else within
    parts = [kind[name] for name in ("type", "items", "values") if name in kind]
    parts += [one["type"] for one in kind.get("fields", ())]
    return any(_holds_itself(part, names, inner) for part in parts)


_NESTED = AvroColumn(pa.string(), is_nested=True)


def _find_column(kind: Any, names: Mapping[str, Any]) -> AvroColumn:
    """Return how a field of a type becomes a column; `names` are the types that others name."""
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) != 1:
            return _NESTED
        return _find_column(others[0], names)
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(name, dict | list):
        return _find_column(name, names)
    if isinstance(kind, str) and kind in names:
        return _find_column(names[kind], names) if names[kind]["type"] in _PLAIN else _NESTED
    logical = str(kind.get(_MEANING) or kind.get("logicalType")) if isinstance(kind, dict) else ""
    if logical in _TIMES:
        number, time = _TIMES[logical]
        return AvroColumn(time, number)
    if logical == "decimal":
        digits, scale = kind.get("precision", 0), kind.get("scale", 0)
        fits = 0 < digits <= MOST_DIGITS and 0 <= scale <= digits
        return AvroColumn(pa.decimal128(digits, scale) if fits else pa.string())
    if name in _PLAIN:
        return AvroColumn(_PLAIN[name])
    return _NESTED


def _drop_logical_types(schema: Any) -> Any:
    """Return a schema whose times are the numbers that they are written as, which says what they mean for the fields above."""
    if isinstance(schema, list):
        return [_drop_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: _drop_logical_types(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
    }
    logical = found.get("logicalType")
    if logical is not None and logical not in _KEPT:
        del found["logicalType"]
        if logical in _TIMES:
            found[_MEANING] = logical
    return found


def _format_nested(value: Any) -> str:
    return json.dumps(value, default=_format_part, ensure_ascii=False)


def _format_part(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
