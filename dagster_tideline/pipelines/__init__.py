"""Projects of Spark Declarative Pipelines, as they are, as models of Tideline."""
