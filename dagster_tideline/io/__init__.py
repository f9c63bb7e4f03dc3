"""Resources and the I/O manager: Dagster reads tables and views of a store as frames."""
