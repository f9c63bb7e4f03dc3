"""The dialects as sqlglot is to read them: Spark's with the quotes in a text that Spark itself knows since version 4."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark


class SparkTexts(Spark):
    """Spark's dialect, in which a quote that stands twice in a text is one: 'it''s' is it's.

    sqlglot takes it for two texts side by side, which it puts together without the quote.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012  # as sqlglot declares it


def read_as(dialect: str) -> str | type[Spark]:
    """Return what sqlglot reads a dialect by."""
    return SparkTexts if dialect == "spark" else dialect
