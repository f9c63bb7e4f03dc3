"""S3 and what speaks its protocol, by boto3; manifests are created by one PutObject with `If-None-Match: *`."""

from __future__ import annotations

import contextlib
import email.utils
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)
from botocore.loaders import Loader, create_loader

from engine.errors import StorageError, Unavailable, UnknownStore
from engine.hummock.clock import system_clock
from engine.hummock.object_store import ObjectInfo
from engine.hummock.object_store.retrying import retry_until_answered
from engine.hummock.object_store.s3_errors import (
    ASK_AGAIN,
    Busy,
    build_bucket_error,
    explain_error,
    read_error_code,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectRequestTypeDef, ObjectIdentifierTypeDef

_MISSING = ("404", "NoSuchKey", "NotFound")
_NOT_OFFERED = ("NotImplemented", "501", "MethodNotAllowed", "405")
_NO_ANSWER = (NoConnection, HTTPClientError, ResponseStreamingError, IncompleteReadError, ReadTimeoutError)
"""There was no connection, or it broke: whether the request had an effect is unknown."""
_DELETE_AT_ONCE = 1000


class S3ObjectStore:
    """Objects below `prefix` of a bucket; endpoint, region and credentials come from where boto3 looks for
    them.

    Without `look` it is not asked whether the bucket is there, which takes a right to all of it: the first
    request tells.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        *,
        create: bool = True,
        look: bool = True,
        client: S3Client | None = None,
    ) -> None:
        self.bucket, self.prefix = bucket, f"{prefix}/" if prefix else ""
        try:
            self._client = client or _create_client()
        except (BotoCoreError, ValueError) as error:  # botocore's word for an endpoint that is no address
            raise build_bucket_error(bucket, error) from error
        self._dated: tuple[float, float] | None = None
        """What the newest answer was dated with, and a timer's second at which it came."""
        self._client.meta.events.register("after-call.s3", self._note_date)
        if look:
            # that nobody answers at an address is reported at once
            retry_until_answered(lambda: self._check_bucket(create), on=Busy)

    def _check_bucket(self, create: bool) -> None:
        """Raise StorageError if the bucket cannot be used; make it if it is not there."""
        bucket = self.bucket
        try:
            self._client.head_bucket(Bucket=bucket)
        except ClientError as error:
            if read_error_code(error) not in (*_MISSING, "NoSuchBucket"):
                raise build_bucket_error(bucket, error) from error
            if not create:
                raise UnknownStore(
                    f"no bucket {bucket}: open the store with create=True to make it"
                ) from error
            self._create_bucket()
        except BotoCoreError as error:
            raise build_bucket_error(bucket, error) from error

    def put_if_absent(self, path: str, data: bytes) -> bool | None:
        """Create an object; False if it exists, None if the answer is uncertain."""
        try:
            self._client.put_object(Bucket=self.bucket, Key=self.prefix + path, Body=data, IfNoneMatch="*")
        except ClientError as error:
            if read_error_code(error) in ("412", "PreconditionFailed"):
                # a retry inside a client of one's own of a put that had won answers so too: the caller reads back
                return None if error.response.get("ResponseMetadata", {}).get("RetryAttempts") else False
            if read_error_code(error) in ASK_AGAIN:
                return None
            raise self._build_error(path, "written", error) from error
        except _NO_ANSWER:
            return None
        except BotoCoreError as error:
            raise self._build_error(path, "written", error) from error
        return True

    def put(self, path: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""
        body = data if isinstance(data, bytes) else bytes(data)
        try:
            self._client.put_object(Bucket=self.bucket, Key=self.prefix + path, Body=body)
        except (ClientError, BotoCoreError) as error:
            raise self._build_error(path, "written", error) from error

    def check_writable(self, path: str) -> None:
        """Raise StorageError if no object may be created at a path; none is made, as an upload in parts is begun and given up.

        It takes the same right. Where that to give it up is lacking, no listing of objects shows what is left.
        """
        bucket, key = self.bucket, self.prefix + path
        try:
            upload = self._client.create_multipart_upload(Bucket=bucket, Key=key)
        except (ClientError, BotoCoreError) as error:
            if isinstance(error, ClientError) and read_error_code(error) in _NOT_OFFERED:
                return
            raise self._build_error(path, "written", error) from error
        with contextlib.suppress(ClientError, BotoCoreError):
            self._client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload["UploadId"])

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None."""
        return self._get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of an object."""
        data = self._get(path, f"bytes={offset}-{offset + length - 1}")
        if data is None:
            raise StorageError(f"s3://{self.bucket}/{self.prefix}{path} is missing")
        return data

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose path starts with `prefix`, a thousand a request."""
        under, after = self.prefix + prefix, self.prefix + start_after if start_after else ""
        try:
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=under, StartAfter=after):
                for entry in page.get("Contents", ()):
                    path = entry["Key"].removeprefix(self.prefix)
                    yield ObjectInfo(
                        path, entry["Size"], entry["LastModified"].timestamp(), entry["ETag"].strip('"')
                    )
        except (ClientError, BotoCoreError) as error:
            raise self._build_error(prefix, "listed", error) from error

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, a thousand a request."""
        rest = iter(paths)
        while some := list(itertools.islice(rest, _DELETE_AT_ONCE)):
            objects: list[ObjectIdentifierTypeDef] = [{"Key": self.prefix + path} for path in some]
            try:
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
                )
                left = [entry["Key"] for entry in answer.get("Errors", ())]
            except ClientError:  # some servers want an MD5 there that boto3 no longer sends
                left = [entry["Key"] for entry in objects]
            except BotoCoreError as error:
                raise self._build_error(some[0], "deleted with others", error) from error
            for key in left:
                self._delete_one(key)

    def _delete_one(self, key: str) -> None:
        try:
            self._client.delete_object(Bucket=self.bucket, Key=key)
        except (ClientError, BotoCoreError) as error:
            raise self._build_error(key.removeprefix(self.prefix), "deleted", error) from error

    def head(self, path: str) -> ObjectInfo | None:
        """Return an object's size and age, or None."""
        try:
            found = self._client.head_object(Bucket=self.bucket, Key=self.prefix + path)
        except ClientError as error:
            if read_error_code(error) in _MISSING:
                return None
            raise self._build_error(path, "read", error) from error
        except BotoCoreError as error:
            raise self._build_error(path, "read", error) from error
        modified, etag = found["LastModified"].timestamp(), found["ETag"].strip('"')
        return ObjectInfo(path, found["ContentLength"], modified, etag)

    def local_path(self, path: str) -> Path | None:
        """Nothing of a bucket is on this machine."""
        return None

    def now(self) -> float | None:
        """Return the time by which the service dates its answers; no request."""
        if self._dated is None:
            return None
        date, at = self._dated
        return date + system_clock.monotonic() - at

    def _note_date(self, http_response: Any = None, **_: Any) -> None:
        """Keep the date of an answer; an event of botocore, which calls it after each."""
        dated = getattr(http_response, "headers", {}).get("date")
        if dated:
            with contextlib.suppress(ValueError):
                self._dated = (
                    email.utils.parsedate_to_datetime(dated).timestamp(),
                    system_clock.monotonic(),
                )

    def _get(self, path: str, part: str | None = None) -> bytes | None:
        request: GetObjectRequestTypeDef = {"Bucket": self.bucket, "Key": self.prefix + path}
        if part is not None:
            request["Range"] = part
        try:
            answer = self._client.get_object(**request)
            return answer["Body"].read()
        except ClientError as error:
            if read_error_code(error) in _MISSING:
                return None
            raise self._build_error(path, "read", error) from error
        except BotoCoreError as error:
            raise self._build_error(path, "read", error) from error

    def _build_error(self, path: str, what: str, error: Exception) -> StorageError:
        again = isinstance(error, _NO_ANSWER) or (
            isinstance(error, ClientError) and read_error_code(error) in ASK_AGAIN
        )
        code = read_error_code(error) if isinstance(error, ClientError) else ""
        if code == "NoSuchBucket":
            return StorageError(f"there is no bucket {self.bucket}: create it, or correct the address")
        kind = Unavailable if again else StorageError
        said, now = explain_error(error)
        what_now = f"; {now}" if now else ""
        return kind(f"s3://{self.bucket}/{self.prefix}{path} cannot be {what}: {said}{what_now}")

    def _create_bucket(self) -> None:
        region = self._client.meta.region_name
        arguments: dict[str, Any] = {"Bucket": self.bucket}
        if region and region != "us-east-1":
            arguments["CreateBucketConfiguration"] = {"LocationConstraint": region}
        try:
            self._client.create_bucket(**arguments)
        except ClientError as error:
            if read_error_code(error) not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise build_bucket_error(self.bucket, error) from error
        except BotoCoreError as error:
            raise build_bucket_error(self.bucket, error) from error


def _create_client() -> S3Client:
    found = botocore.session.get_session()
    found.register_component("data_loader", _load_models(found.get_config_variable("data_path")))
    session = boto3.session.Session(botocore_session=found)
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},  # the engine retries, and counts it
        connect_timeout=10,
        read_timeout=30,
        max_pool_connections=32,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if _has_endpoint(session) else "auto"},
    )
    return session.client("s3", config=config, region_name=session.region_name or "us-east-1")


@functools.cache
def _load_models(folder: str | None) -> Loader:
    """Return what reads and keeps the descriptions of services: they are megabytes of JSON, the same for all clients."""
    return create_loader(folder)


def _has_endpoint(session: boto3.session.Session) -> bool:
    return (
        "amazonaws.com"
        not in session.client("s3", region_name=session.region_name or "us-east-1").meta.endpoint_url
    )
