"""Arrays, rows and other nested values of PostgreSQL, written for Spark."""
