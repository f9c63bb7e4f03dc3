"""Tables of PostgreSQL as sinks: COPY into a staging table, then by key, exactly once."""
