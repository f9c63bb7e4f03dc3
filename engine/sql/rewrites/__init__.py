"""Rules that turn what a query says into the plan's few nodes, one rule a file."""
