"""Options of CREATE SINK, checked one by one; a wrong one is an error with its place."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from engine.connectors.landing.bucket import PATIENCE_SECONDS
from engine.connectors.landing.folder import resolve_project_path
from engine.connectors.sinks.address import check_reachable, find_obstacle
from engine.connectors.sinks.options import FORMATS, RETENTION_SECONDS
from engine.errors import PathNotAllowed, SqlError, StorageError, UnknownStore
from engine.hummock.object_store import open_object_store
from engine.hummock.object_store.retrying import retry_until_answered
from engine.sql.parsing.statement_errors import locate_character
from engine.sql.statements.ddl.sink_statements import CreateSink

_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}


def parse_address(statement: CreateSink) -> str:
    """Return the address that path or url names, which the sink may reach."""
    path, url = statement.options.get("path"), statement.options.get("url")
    if bool(path) == bool(url):
        hint = "path = 'folder' (relative to TIDELINE_HOME), or url = 'file:///…' or 's3://bucket/prefix'"
        said = "goes to one place, not to a path and a url" if path else "needs a path or a url"
        raise build_option_error(statement, "url", f"a {statement.options['connector']} sink {said}", hint)
    if path and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        hint = f"write url = '{path}', or path = 'folder'"
        raise build_option_error(statement, "path", f'the path "{path}" is an address', hint)
    if path:
        url = resolve_project_path(path).as_uri()
    assert url is not None
    if not re.match(r"(file:///|s3a?://[^/]+)", url):
        raise build_option_error(
            statement, "url", f'"{url}" is no address for files', "write file:///… or s3://bucket/prefix"
        )
    if re.match(r"s3a?://[^/]*@", url):  # which the catalog would keep, and show
        hint = "write s3://bucket/prefix, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise build_option_error(statement, "url", "keys have no place in an address", hint)
    try:
        check_reachable(url)
    except PathNotAllowed as error:
        where = "path" if path else "url"
        raise build_option_error(statement, where, f"the sink may not write there: {error}", "") from error
    return url.rstrip("/")


def check_place(statement: CreateSink, url: str, *, delta: bool = False) -> None:
    """Raise SqlError if something stands in the way of a new sink's files; a bucket is asked, and has to take them."""
    where = "path" if "path" in statement.options else "url"
    if wrong := find_obstacle(url, delta=delta):
        raise build_option_error(statement, where, *wrong)
    if not delta and not url.startswith(
        "file:"
    ):  # a Delta table on S3 is Spark's affair, which looks at it itself
        try:
            _check_bucket(statement, url)
        except UnknownStore as error:
            bucket = urlsplit(url).netloc
            hint = "make the bucket, or correct its name"
            raise build_option_error(statement, where, f"there is no bucket {bucket}", hint) from error
        except StorageError as error:
            raise build_option_error(statement, where, f"the sink can't write there: {error}", "") from error


def _check_bucket(statement: CreateSink, url: str) -> None:
    """Raise StorageError if a bucket is not there, or takes no file under a name as this sink's have."""
    from engine.hummock.object_store.s3 import S3ObjectStore  # boto3 is loaded where it is needed

    objects = open_object_store(url, create=False)
    if isinstance(objects, S3ObjectStore):
        probe = f"{statement.name}-probe.{statement.options.get('format', FORMATS[0])}"
        retry_until_answered(lambda: objects.check_writable(probe), seconds=PATIENCE_SECONDS)


def parse_boolean(statement: CreateSink, name: str, default: str) -> str:
    """Return an option that is true or false."""
    value = statement.options.get(name, default).lower()
    if value not in ("true", "false"):
        raise build_option_error(statement, name, f"{name} is true or false", f"write {name} = true")
    return value


def parse_count(statement: CreateSink, name: str, default: int, most: int) -> int:
    """Return an option that is a number from 1 to `most`."""
    text = statement.options.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,18}", text) or not 1 <= int(text) <= most:
        raise build_option_error(
            statement, name, f"{name} is a number from 1 to {most}", f"write {name} = {default}"
        )
    return int(text)


def parse_retention(statement: CreateSink) -> float:
    """Return the retention of a sink."""
    text = statement.options.get("retention", str(RETENTION_SECONDS))
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)s?\s*", text.lower())
    if found is None or found[2] not in ("", *_UNITS) or float(found[1]) <= 0:
        hint = "write retention = '7 days', or a number of seconds"
        raise build_option_error(statement, "retention", f'retention "{text}" is no time span', hint)
    return float(found[1]) * _UNITS.get(found[2], 1)


def build_option_error(statement: CreateSink, option: str, message: str, hint: str) -> SqlError:
    """Return the error for an option, at its place."""
    line, column = locate_character(statement.sql, statement.places.get(option, 0))
    return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
