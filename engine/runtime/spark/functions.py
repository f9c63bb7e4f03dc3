"""The engine's own functions in a Spark session: those over json and jsonb, which Spark has in no exact form."""

from __future__ import annotations

import hashlib
import warnings
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from engine import jsonb
from engine.jsonb.functions import FUNCTIONS
from engine.spark_internals import derive_spark_schema


def register_functions(session: SparkSession) -> None:
    """Give a session the functions, under names that no function of Spark's has."""
    with warnings.catch_warnings():
        # Spark prefers to read from type hints what is said here.
        warnings.filterwarnings("ignore", "It is preferred to specify type hints for arrow UDF", UserWarning)
        for function in FUNCTIONS:
            session.udf.register(
                function.name,
                F.arrow_udf(  # type: ignore[attr-defined]  # which the stubs do not list
                    function.body,
                    _to_spark_type(function.type),
                    F.ArrowUDFType.SCALAR,  # type: ignore[attr-defined]
                ),
            )


@lru_cache(maxsize=1)
def compute_functions_digest() -> str:
    """Return a text that is another one when the functions have changed."""
    sources = sorted(Path(jsonb.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def _to_spark_type(kind: pa.DataType) -> DataType:
    """Return a type without asking Spark, which a client of Spark Connect does not have beside it."""
    return derive_spark_schema(pa.schema([pa.field("result", kind)])).fields[0].dataType
