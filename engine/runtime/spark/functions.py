"""The engine's own functions in a Spark session: those over json and jsonb, which Spark has in no exact form."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from engine import jsonb
from engine.jsonb.functions import FUNCTIONS
from engine.python_functions.calls import build_result_type, call_columns
from engine.python_functions.definition import PythonFunction
from engine.spark_internals import derive_spark_schema
from engine.sql.typing.types import to_arrow


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


def register_python_functions(session: SparkSession, functions: Iterable[PythonFunction]) -> None:
    """Give a session functions of users, under the names that plans have for them; their texts go to the tasks that call them."""
    for function in functions:
        kind = to_arrow(function.returns)
        result = _to_spark_type(build_result_type(kind))
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "It is preferred to specify type hints for arrow UDF", UserWarning
            )
            made = F.arrow_udf(  # type: ignore[attr-defined]  # which the stubs do not list
                partial(call_columns, function, kind),
                result,
                F.ArrowUDFType.SCALAR,  # type: ignore[attr-defined]
            )
        session.udf.register(
            function.call_name, made if function.deterministic else made.asNondeterministic()
        )


@lru_cache(maxsize=1)
def compute_functions_digest() -> str:
    """Return a text that is another one when the functions have changed."""
    sources = sorted(Path(jsonb.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def _to_spark_type(kind: pa.DataType) -> DataType:
    """Return a type without asking Spark, which a client of Spark Connect does not have beside it."""
    return derive_spark_schema(pa.schema([pa.field("result", kind)])).fields[0].dataType
