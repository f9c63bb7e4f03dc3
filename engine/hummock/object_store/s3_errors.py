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
_REFUSED = ("401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
_SET = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of ~/.aws in AWS_PROFILE"
_NO_ANSWER = (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError)


def told(error: Exception) -> str:
    """Return what an error of boto3 says, on one line and without a password."""
    return " ".join(_OF_A_USER.sub("", str(error)).split())


def unusable(bucket: str, error: Exception) -> StorageError:
    """Return the error for a bucket that cannot be opened, with the setting that is most likely wrong."""
    match error:
        case ParamValidationError():
            said, now = "that is no name of a bucket", "write s3://bucket/prefix"
        case NoCredentialsError() | PartialCredentialsError() | ProfileNotFound():
            said, now = told(error), _SET
        case InvalidRegionError():
            said, now = told(error), "correct AWS_DEFAULT_REGION"
        case ClientError() if _code(error) in _REFUSED:
            said = f"{told(error)}: the credentials are refused, or may not use it"
            now = "correct them (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE), or their rights"
        case ValueError():
            said, now = told(error), "set AWS_ENDPOINT_URL to http://host:port or https://host:port"
        case _ if isinstance(error, _NO_ANSWER):
            said, now = told(error), "look whether the service runs, and at AWS_ENDPOINT_URL"
        case _:
            said, now = told(error), "look at AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    kind = Unavailable if isinstance(error, _NO_ANSWER) else StorageError
    return kind(f"bucket {bucket} cannot be used: {said}; {now}")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
