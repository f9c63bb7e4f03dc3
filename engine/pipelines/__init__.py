"""Projects of Spark Declarative Pipelines, read as queries: nothing of them is computed, and no Spark is started."""
