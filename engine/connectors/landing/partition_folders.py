"""Values in the names of folders, as `day=2024-01-02/`: columns of all rows of the files below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from engine.arrow import Column, repeat_value
from engine.connectors.formats.file_format import MalformedFile, format_raw
from engine.connectors.formats.time_formats import Formats
from engine.hummock.rows.ordering import equal_values, one_chunk
from engine.sql.typing.column_conversion import convert_to_type

NULL = "__HIVE_DEFAULT_PARTITION__"


class FolderValue(NamedTuple):
    """What a folder's name gives a column: its name there, and the value in the column's type."""

    name: str
    value: pa.Scalar[Any]


def parse_folder_values(path: str) -> dict[str, str | None]:
    """Return the values that the folders of a path name; raises MalformedFile for two of one name, and for what is no text."""
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if not sign or not name:
            continue
        name, decoded = _decode_value(name, folder), None if value == NULL else _decode_value(value, folder)
        if found.setdefault(name, decoded) != decoded:
            raise MalformedFile(f"its folders name two values of {format_raw(name)}")
    return found


def _decode_value(part: str, folder: str) -> str:
    try:
        text = unquote(part, errors="strict")
        text.encode()
    except UnicodeError:
        raise MalformedFile(f"the name of the folder {format_raw(folder)} is not UTF-8") from None
    return text


def convert_folder_values(
    folders: Mapping[str, str | None], columns: Iterable[pa.Field[Any]], formats: Formats = Formats()
) -> dict[str, FolderValue]:
    """Return what folders give of these columns: one has the same name, else the same but for case.

    Dates and times are written as `formats` says, else as ISO 8601 has them, as Spark and Hive write them. Raises MalformedFile
    for a value that is none of the type.
    """
    lower: dict[str, str] = {}
    for name in folders:
        if lower.setdefault(name.lower(), name) != name and folders[lower[name.lower()]] != folders[name]:
            raise MalformedFile(f"its folders name two values of {format_raw(name)}")
    found = {}
    for column in columns if folders else ():
        match = column.name if column.name in folders else lower.get(column.name.lower())
        if match is not None:
            text = pa.array([folders[match]], pa.string())
            converted = convert_to_type(text, column.type, reads=formats.reads)
            if len(converted.bad):
                converted = convert_to_type(text, column.type)
            if len(converted.bad):
                folder_name = f"{match}={folders[match]}"
                raise MalformedFile(
                    f"the folder {format_raw(folder_name)} names no value that column {column.name} can have"
                )
            found[column.name] = FolderValue(match, converted.values[0])
    return found


def find_mismatches(values: Column, folder_value: pa.Scalar[Any]) -> np.ndarray:
    """Return the rows in which a column of a file has another value than the folder's name; NaN is one value."""
    array = one_chunk(values)
    return np.flatnonzero(~equal_values(array, repeat_value(folder_value, len(array))))
