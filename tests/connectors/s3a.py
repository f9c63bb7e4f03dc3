"""Tests of Spark's file system s3a, whose jars `make s3a` fetches; without them others hold what is said then."""

from __future__ import annotations

import pytest

from engine.jars import FETCH_S3A, has_s3a

WITH_S3A = pytest.mark.skipif(not has_s3a(), reason=f"Spark has no file system s3a: {FETCH_S3A}")
WITHOUT_S3A = pytest.mark.skipif(has_s3a(), reason="Spark has the file system s3a")


def as_spark_has_it(url: str) -> str:
    """Return the address of a place in a bucket as Spark takes it."""
    return url.replace("s3://", "s3a://", 1)
