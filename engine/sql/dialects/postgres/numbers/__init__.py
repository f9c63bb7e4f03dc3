"""Numbers and statistics of PostgreSQL, written for Spark."""
