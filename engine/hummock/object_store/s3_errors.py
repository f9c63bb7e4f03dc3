"""What keeps a bucket from being used, in words that say which setting to look at and show no secret."""

from __future__ import annotations

import re

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidRegionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)

from engine.errors import StorageError, Unavailable

_OF_A_USER = re.compile(r"(?<=//)[^/@\s]+@")
"""Name and password in an address."""
_REFUSED = (
    "401",
    "403",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "AllAccessDisabled",
)
ASK_AGAIN = (
    "409",
    "ConditionalRequestConflict",
    "OperationAborted",
    "InternalError",
    "RequestTimeout",
    "RequestTimeTooSkewed",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "TooManyRequestsException",
    "429",
    "500",
    "502",
    "503",
    "504",
)
"""The answers of a service that is busy: the same request may succeed soon."""
_SET = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of ~/.aws in AWS_PROFILE"
_CORRECT = "correct them (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE), or their rights"
_NO_NAME = "that is no name of a bucket", "write s3://bucket/prefix"
_NO_ANSWER = (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError)


class Busy(Unavailable):
    """The service answered that it has too much to do."""


def format_error(error: Exception) -> str:
    """Return what an error of boto3 says, on one line and without a password."""
    return " ".join(_OF_A_USER.sub("", str(error)).split())


def build_bucket_error(bucket: str, error: Exception) -> StorageError:
    """Return the error for a bucket that cannot be opened, with the setting that is most likely wrong."""
    said, now = explain_error(error)
    kind = Unavailable if isinstance(error, _NO_ANSWER) else StorageError
    if isinstance(error, ClientError) and read_error_code(error) in ASK_AGAIN:
        kind, now = Busy, now or "it has too much to do"
    now = now or "look at AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    return kind(f"bucket {bucket} cannot be used: {said}; {now}")


def explain_error(error: Exception) -> tuple[str, str]:
    """Return what is wrong, and the setting to look at, "" if that is not known."""
    match error:
        case ParamValidationError() if "bucket name" in str(error).lower():
            return _NO_NAME
        case ClientError() if read_error_code(error) == "InvalidBucketName":
            return _NO_NAME
        case NoCredentialsError() | PartialCredentialsError() | ProfileNotFound():
            return format_error(error), _SET
        case InvalidRegionError():
            return format_error(error), "correct AWS_DEFAULT_REGION"
        case ClientError() if read_error_code(error) in _REFUSED:
            return f"{format_error(error)}: the credentials are refused, or have no right to it", _CORRECT
        case ValueError():
            return format_error(error), "set AWS_ENDPOINT_URL to http://host:port or https://host:port"
        case _ if isinstance(error, _NO_ANSWER):
            return format_error(error), "look whether the service runs, and at AWS_ENDPOINT_URL"
        case _:
            return format_error(error), ""


def read_error_code(error: ClientError) -> str:
    """Return the code by which S3 names what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))
