"""The engine's own functions in a Spark session: those over json and jsonb, which Spark has in no exact form."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from engine.jsonb.functions import FUNCTIONS


def register_functions(session: SparkSession) -> None:
    """Give a session the functions, under names that no function of Spark's has."""
    for function in FUNCTIONS:
        body = arrow_udf(function.body, function.type, ArrowUDFType.SCALAR)
        session.udf.register(function.name, body)
